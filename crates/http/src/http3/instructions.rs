//! Checks the instructions on the QPACK streams (RFC 9204 §4.3, §4.4) of a peer, when neither endpoint has a dynamic
//! table.

use super::code::{Code, Error};
use anabranch_wire::qpack::{DYNAMIC, Partial, partial_integer};

/// Parses the instructions on the peer's encoder stream (RFC 9204 §4.3).
#[derive(Default, Debug)]
pub(super) struct EncoderInstructions(PartialInstruction);

/// Parses the instructions on the peer's decoder stream (RFC 9204 §4.4).
#[derive(Default, Debug)]
pub(super) struct DecoderInstructions(PartialInstruction);

/// The part of an instruction that has been received. An incomplete instruction is kept only if it is a single integer,
/// so the size is bounded.
#[derive(Default, Debug)]
struct PartialInstruction(Vec<u8>);

impl PartialInstruction {
    fn read(
        &mut self,
        bytes: &[u8],
        mut instruction: impl FnMut(&mut &[u8]) -> Partial<()>,
    ) -> Result<(), &'static str> {
        self.0.extend_from_slice(bytes);
        let mut rest = &self.0[..];
        while !rest.is_empty() && instruction(&mut rest)?.is_some() {}
        let used = self.0.len() - rest.len();
        self.0.drain(..used);
        Ok(())
    }
}

impl EncoderInstructions {
    /// Processes data received on the encoder stream.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let read = self.0.read(bytes, |rest| match rest[0] {
            // RFC 9204 §4.3.1: Set Dynamic Table Capacity, which must not exceed this endpoint's limit of 0.
            0x20..0x40 => match partial_integer(rest, 5)? {
                Some(0) => Ok(Some(())),
                Some(_) => Err("the encoder sets a dynamic table capacity beyond 0"),
                None => Ok(None),
            },
            // RFC 9204 §4.3.4: this is Duplicate, which refers to the dynamic table.
            0x00..0x20 => Err(DYNAMIC),
            // RFC 9204 §4.3.2, §4.3.3, §3.2.2: this is an insertion, which always exceeds the capacity of 0.
            0x40.. => Err("the encoder inserts into a dynamic table of capacity 0"),
        });
        read.map_err(|reason| Error::connection(Code::QPACK_ENCODER_STREAM_ERROR, reason))
    }
}

impl DecoderInstructions {
    /// Processes data received on the decoder stream.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let read = self.0.read(bytes, |rest| match rest[0] {
            // RFC 9204 §4.4.1: this is Section Acknowledgment, which is an error because no field section that was sent
            // refers to the dynamic table.
            0x80.. => Err("the decoder acknowledges a field section that refers to no dynamic table"),
            // RFC 9204 §4.4.2, §2.2.2.2: this is Stream Cancellation, which is allowed even without references to a
            // dynamic table.
            0x40..0x80 => Ok(partial_integer(rest, 6)?.map(|_| ())),
            // RFC 9204 §4.4.3: this is Insert Count Increment. An increment of 0 is an error, and any other increment
            // exceeds the number of inserts sent, which is 0.
            0x00..0x40 => Err("the decoder counts inserts, of which there are none"),
        });
        read.map_err(|reason| Error::connection(Code::QPACK_DECODER_STREAM_ERROR, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_without_a_dynamic_table_are_accepted() {
        let (mut encoder, mut decoder) = (EncoderInstructions::default(), DecoderInstructions::default());
        for bytes in [&[0x20][..], &[], &[0x20, 0x20]] {
            assert_eq!(encoder.read(bytes), Ok(()));
        }
        // Cancellations of the streams 4 and 300. The second one arrives in pieces.
        for bytes in [&[0x44, 0x7f][..], &[0xed], &[0x01]] {
            assert_eq!(decoder.read(bytes), Ok(()));
        }
        assert!(encoder.0.0.is_empty() && decoder.0.0.is_empty());
        // The decoder must detect an integer that never ends.
        assert!((0..12).any(|_| decoder.read(&[0x7f, 0xff]).is_err()));
    }

    #[test]
    fn instructions_that_change_the_dynamic_table_are_errors() {
        for bytes in [&[0x21][..], &[0x3f, 0x01], &[0x00], &[0x1f, 0x00], &[0xc0], &[0x80], &[0x41]] {
            let read = EncoderInstructions::default().read(bytes);
            assert!(matches!(read, Err(Error::Connection(Code::QPACK_ENCODER_STREAM_ERROR, _))), "{bytes:?}");
        }
        for bytes in [&[0x00][..], &[0x01], &[0x80], &[0xff]] {
            let read = DecoderInstructions::default().read(bytes);
            assert!(matches!(read, Err(Error::Connection(Code::QPACK_DECODER_STREAM_ERROR, _))), "{bytes:?}");
        }
    }
}
