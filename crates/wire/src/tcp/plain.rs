//! Reads and writes the most common form of TCP header quickly.
//!
//! A header of the most common form has ACK set, perhaps PSH, and no other flags. The only option is timestamps at the
//! usual offset (RFC 7323 app. A). [`PlainSegment`] reads such headers and [`Template`] writes them. A template keeps
//! the fields that all segments of a connection share, and the checksum of these fields. The module `header` handles
//! all other headers.
//!
//! This module implements no rules of its own: `header` implements RFC 9293 §3.1.

use super::PROTOCOL;
use super::header::{Flags, Header, Seq};
use super::options::{Options, Timestamps};
use crate::checksum::Checksum;
use std::net::SocketAddr;

/// A segment whose header has the most common form: the flag ACK, perhaps PSH, and no options except timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainSegment {
    /// The ports of the sender and the receiver.
    pub ports: (u16, u16),
    /// The sequence number of the first payload byte.
    pub seq: Seq,
    /// The next sequence number that the sender expects.
    pub ack: Seq,
    /// The window field as sent. The window scale option is not applied.
    pub window: u16,
    /// Whether PSH is set.
    pub pushed: bool,
    /// The timestamps, which are the only option in this form.
    pub stamps: Option<Timestamps>,
    /// The length of the payload in bytes. The payload is the last part of the segment.
    pub length: usize,
}

impl PlainSegment {
    /// Reads a segment. Returns `None` if its header does not have the most common form. The checksum is verified by
    /// [`is_intact`](super::is_intact). The last `elsewhere` bytes of the payload are not in `bytes`.
    #[must_use]
    #[inline(always)]
    pub fn read(bytes: &[u8], elsewhere: usize) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<{ Header::MIN_LEN }>()?;
        if Flags(fixed[13]).without(Flags::PSH) != Flags::ACK {
            return None;
        }
        let (stamps, payload) = match fixed[12] >> 4 {
            WORDS_WITH_STAMPS => {
                let (options_bytes, payload) = rest.split_first_chunk::<{ Options::TIMESTAMPS_LEN }>()?;
                (Some(Timestamps::parse_alone(options_bytes)?), payload)
            }
            WORDS => (None, rest),
            _ => return None,
        };
        Some(Self {
            ports: (u16::from_be_bytes([fixed[0], fixed[1]]), u16::from_be_bytes([fixed[2], fixed[3]])),
            seq: Seq(u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]])),
            ack: Seq(u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]])),
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            pushed: Flags(fixed[13]) != Flags::ACK,
            stamps,
            length: payload.len() + elsewhere,
        })
    }
}

/// The parts that all segments of a connection share: the ports, and the checksum of the ports and the pseudo-header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template {
    ports: [u8; 4],
    /// The sum of the pseudo-header, whose length field counts as zero.
    pseudo: Checksum,
    /// The sum of the pseudo-header and the ports. The length field counts as zero.
    sum: Checksum,
}

impl Template {
    /// The length in bytes of the headers that the template writes.
    pub const LEN: usize = Header::MIN_LEN + Options::TIMESTAMPS_LEN;

    /// Creates a template for segments between these addresses. Returns `None` if the addresses are of different IP
    /// versions.
    #[must_use]
    pub fn new(source: SocketAddr, target: SocketAddr) -> Option<Self> {
        let ([a, b], [c, d]) = (source.port().to_be_bytes(), target.port().to_be_bytes());
        let pseudo = Checksum::pseudo_header(source.ip(), target.ip(), PROTOCOL, 0)?;
        let mut sum = pseudo;
        sum.add(&[a, b, c, d]);
        Some(Self { ports: [a, b, c, d], pseudo, sum })
    }

    /// Returns whether the checksum of a segment between the two addresses is right. Either address may be the source.
    #[must_use]
    #[inline(always)]
    pub fn is_intact(&self, segment: &[u8]) -> bool {
        let mut sum = self.pseudo;
        sum.add_u32(segment.len() as u32);
        sum.add(segment);
        sum.is_valid()
    }

    /// Appends a whole segment with its checksum, or with a zero in its place if `summed` is false. The function
    /// `payload` appends the payload bytes.
    #[inline(always)]
    pub fn emit(
        &self,
        (seq, ack): (Seq, Seq),
        (flags, window): (Flags, u16),
        stamps: Timestamps,
        summed: bool,
        out: &mut Vec<u8>,
        payload: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        let [high, low] = window.to_be_bytes();
        let words = [
            self.ports,
            seq.0.to_be_bytes(),
            ack.0.to_be_bytes(),
            [WORDS_WITH_STAMPS << 4, flags.0, high, low],
            [0; 4],
            Timestamps::ALONE,
            stamps.value.to_be_bytes(),
            stamps.echo.to_be_bytes(),
        ];
        out.extend_from_slice(words.as_flattened());
        payload(out);
        if !summed {
            return;
        }
        let mut sum = self.sum;
        sum.add_words([words[1], words[2], words[3], words[5], words[6], words[7]]);
        let segment = &mut out[start..];
        sum.add_u32(segment.len() as u32);
        if segment.len() > Self::LEN {
            sum.add(&segment[Self::LEN..]);
        }
        segment[16..18].copy_from_slice(&sum.finish().to_be_bytes());
    }
}

/// The lengths of a header without and with timestamps in 32-bit words, as in the data offset field.
const WORDS: u8 = (Header::MIN_LEN / 4) as u8;
const WORDS_WITH_STAMPS: u8 = (Template::LEN / 4) as u8;

#[cfg(test)]
mod tests {
    use super::super::{Segment, is_intact, seal};
    use super::*;

    fn ends(v6: bool) -> (SocketAddr, SocketAddr) {
        match v6 {
            false => (([10, 0, 0, 1], 49_152).into(), ([172, 31, 255, 254], 80).into()),
            true => (([1, 2, 3, 4, 5, 6, 7, 8], 1).into(), ([0xffff; 8], 65_535).into()),
        }
    }

    #[test]
    fn a_template_writes_what_the_header_does() {
        for (v6, length) in [(false, 0), (false, 1448), (false, 7), (true, 0), (true, 1428)] {
            let (source, target) = ends(v6);
            let stamps = Timestamps { value: 0xffff_fffe, echo: 3 };
            let header = Header {
                source_port: source.port(),
                target_port: target.port(),
                seq: Seq(0xffff_fff0),
                ack: Seq(77),
                flags: Flags::ACK.with(Flags::PSH),
                window: 512,
                urgent: 0,
                options: Options { timestamps: Some(stamps), ..Options::default() },
            };
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (mut long, mut short) = (vec![9; 48], vec![9; 48]);
            header.emit(&mut long);
            long.extend_from_slice(&payload);
            seal(&mut long[48..], source.ip(), target.ip());
            let template = Template::new(source, target).expect("of one family");
            let numbers = (header.seq, header.ack);
            template.emit(numbers, (header.flags, 512), stamps, true, &mut short, |out| {
                out.extend_from_slice(&payload);
            });
            assert_eq!(long, short);
            let mut later = vec![9; 48];
            template.emit(numbers, (header.flags, 512), stamps, false, &mut later, |out| {
                out.extend_from_slice(&payload);
            });
            assert_eq!(later[48 + 16..48 + 18], [0; 2]);
            seal(&mut later[48..], source.ip(), target.ip());
            assert_eq!(long, later, "the checksum may be written later");
            assert!(is_intact(&short[48..], source.ip(), target.ip()));
            assert!(template.is_intact(&short[48..]));
            assert!(Template::new(target, source).is_some_and(|back| back.is_intact(&short[48..])));
            short[60] ^= 4;
            assert!(!template.is_intact(&short[48..]));
        }
        assert_eq!(Template::new(ends(false).0, ends(true).1), None);
    }

    /// `PlainSegment` and the general parser read the same values from a segment with the most common form of header.
    /// `PlainSegment` rejects segments with other flags or options.
    #[test]
    fn only_segments_without_further_fields_are_plain() {
        let mut rng = anabranch_base::Rng::new(4);
        let (mut plain, mut other) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = vec![0; 16 + rng.below(40) as usize];
            rng.fill(&mut bytes);
            bytes[12] = [0x50, 0x80, 0x81, 0x90][rng.below(4) as usize];
            bytes[13] = [0x10, 0x18, 0x11, 0x30][rng.below(4) as usize];
            if let (Some(options_bytes), true) = (bytes.get_mut(20..24), rng.below(8) > 0) {
                options_bytes.copy_from_slice(&[1, 1, 8, 10]);
            }
            let Some(read) = PlainSegment::read(&bytes, 0) else {
                other += 1;
                continue;
            };
            plain += 1;
            let Segment { header, payload } = Segment::parse(&bytes).expect("a segment");
            let options = Options { timestamps: read.stamps, ..Options::default() };
            assert_eq!((header.options, header.flags.without(Flags::PSH)), (options, Flags::ACK));
            assert_eq!((header.source_port, header.target_port), read.ports);
            assert_eq!((header.seq, header.ack, header.window), (read.seq, read.ack, read.window));
            assert_eq!(payload.len(), read.length);
        }
        assert!(plain > 3000 && other > 3000, "{plain} and {other}");
    }
}
