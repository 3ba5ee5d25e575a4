//! Reads a capture from a file, packet by packet. The format is pcapng or the older pcap. A pcap file has only one link
//! type, and does not record the direction of packets.
//!
//! ```text
//! pcap: magic (4), version (4), zone (4), accuracy (4), snap length (4), link type (4), packet ...
//! packet: seconds (4), fraction (4), bytes kept (4), bytes on the wire (4), bytes
//! ```
//!
//! The reader has one buffer, which is as large as the longest packet so far. A capture may be larger than memory, and
//! a length field alone never causes an allocation.
//!
//! Implements draft-ietf-opsawg-pcap §4 (file header) and §5 (packet record).

use super::{Blocks, Interface, Record, SECTION};
use std::io::{self, Read};

/// The largest size of a packet or packet block in bytes. A longer packet or block counts as damaged.
const LONGEST: usize = 16 << 20;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// The magic number of a pcap variant with longer packet records, from patched Linux kernels of the 1990s.
const KUZNETSOV: u32 = 0xa1b2_cd34;

/// The reason why a file cannot be read as a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file begins neither like a pcap nor like a pcapng file.
    #[error("not a pcap or pcapng capture")]
    Magic,
    /// The file is empty or ends within its file header. The value is the number of bytes in the file.
    #[error("the capture ends after {0} bytes, before its header does")]
    Header(u64),
    /// The file is damaged: the data at the byte offset `at` is inconsistent.
    #[error("damaged {what} at byte {at}")]
    Damaged {
        /// The damaged element.
        what: &'static str,
        /// The byte offset of the damaged element.
        at: u64,
    },
    /// The file itself could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
}

/// Whether a capture ended after a packet or within a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureEnd {
    /// The capture ended after a complete packet or block.
    Whole,
    /// The capture ended within a packet or block, which begins at this byte offset.
    Cut(u64),
}

#[derive(Debug)]
enum Format {
    Pcapng,
    Pcap { big_endian: bool, nanos_per_tick: u64, extra: usize },
}

/// Reads a capture packet by packet.
#[derive(Debug)]
pub struct CaptureReader<R> {
    input: R,
    /// The number of bytes read from `input`.
    at: u64,
    format: Format,
    blocks: Blocks,
    buffer: Vec<u8>,
    end: Option<CaptureEnd>,
    /// Whether the head of the first block has already been read, to detect the format.
    head_read: bool,
}

impl<R: Read> CaptureReader<R> {
    /// Opens a capture and reads its file header.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut source = Self {
            input,
            at: 0,
            format: Format::Pcapng,
            blocks: Blocks::default(),
            buffer: Vec::new(),
            end: None,
            head_read: false,
        };
        let found = source.fill(Blocks::SHORTEST)?;
        let Some(&magic) = source.buffer.first_chunk::<4>() else {
            return Err(CaptureError::Header(source.at));
        };
        if magic != SECTION.to_le_bytes() {
            source.format = classic(magic).ok_or(CaptureError::Magic)?;
            source.classic_header()?;
        } else if found < Blocks::SHORTEST {
            return Err(CaptureError::Header(source.at));
        }
        Ok(source)
    }

    /// Returns the interfaces that the capture has described so far. A pcap file has one interface, without a name.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.blocks.interfaces
    }

    /// Returns how the capture ended, or `None` if its end has not been reached.
    #[must_use]
    pub fn end(&self) -> Option<CaptureEnd> {
        self.end
    }

    /// Returns the next packet. Returns `None` at the end, or if the next packet is truncated.
    ///
    /// # Errors
    /// [`CaptureError`]. Reading cannot continue after an error.
    pub fn next_packet(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        if self.end.is_some() {
            return Ok(None);
        }
        match self.format {
            Format::Pcapng => self.next_block(),
            Format::Pcap { big_endian, nanos_per_tick, extra } => {
                self.next_record(big_endian, nanos_per_tick, extra)
            }
        }
    }

    fn next_block(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        loop {
            let start = if self.head_read { self.at } else { 0 };
            let head = if self.head_read { self.fill(Blocks::SHORTEST)? } else { self.buffer.len() };
            self.head_read = true;
            let Some(head) = self.buffer.first_chunk().filter(|_| head == Blocks::SHORTEST) else {
                self.end =
                    Some(if self.buffer.is_empty() { CaptureEnd::Whole } else { CaptureEnd::Cut(start) });
                return Ok(None);
            };
            let damaged = CaptureError::Damaged { what: "pcapng block", at: start };
            let Some((kind, length)) = self.blocks.head(head).filter(|(_, length)| *length <= LONGEST) else {
                return Err(damaged);
            };
            let rest = length - Blocks::SHORTEST;
            if self.more(rest)? < rest {
                self.end = Some(CaptureEnd::Cut(start));
                return Ok(None);
            }
            // Blocks without a packet are skipped before a packet is read, because the borrow checker rejects a loop
            // that returns a borrow in some iterations only.
            if !Blocks::is_packet(kind) {
                let end = self.buffer.len() - 4;
                self.blocks.read(kind, &self.buffer[8..end]).ok_or(damaged)?;
                continue;
            }
            let end = self.buffer.len() - 4;
            return self.blocks.read(kind, &self.buffer[8..end]).ok_or(damaged);
        }
    }

    fn classic_header(&mut self) -> Result<(), CaptureError> {
        let rest = 24 - Blocks::SHORTEST;
        let Format::Pcap { big_endian, .. } = self.format else { return Ok(()) };
        if self.buffer.len() < Blocks::SHORTEST || self.more(rest)? < rest {
            return Err(CaptureError::Header(self.at));
        }
        // The upper half of the field with the link type describes frame check sequences and is not used.
        let link_type = number(&self.buffer, 20, big_endian) as u16;
        let name = String::new();
        self.blocks.interfaces.push(Interface {
            name,
            link_type,
            ticks_per_second: 1_000_000_000,
            offset_seconds: 0,
        });
        Ok(())
    }

    fn next_record(
        &mut self,
        big_endian: bool,
        nanos_per_tick: u64,
        extra: usize,
    ) -> Result<Option<Record<'_>>, CaptureError> {
        let start = self.at;
        let head = 16 + extra;
        let found = self.fill(head)?;
        if found < head {
            self.end = Some(if found == 0 { CaptureEnd::Whole } else { CaptureEnd::Cut(start) });
            return Ok(None);
        }
        let field = |at| number(&self.buffer, at, big_endian);
        let at_nanos = u64::from(field(0)) * 1_000_000_000 + u64::from(field(4)) * nanos_per_tick;
        let (kept, original_len) = (field(8) as usize, field(12) as usize);
        if kept > LONGEST {
            return Err(CaptureError::Damaged { what: "pcap packet", at: start });
        }
        if self.fill(kept)? < kept {
            self.end = Some(CaptureEnd::Cut(start));
            return Ok(None);
        }
        let packet = &self.buffer[..];
        let (direction, comment, secrets) = (None, None, Vec::new());
        Ok(Some(Record { interface: 0, at_nanos, packet, original_len, direction, comment, secrets }))
    }

    /// Clears the buffer and reads up to `count` bytes into it. Returns the number of bytes read.
    fn fill(&mut self, count: usize) -> io::Result<usize> {
        self.buffer.clear();
        self.more(count)
    }

    /// Appends up to `count` bytes to the buffer and returns the number of bytes read. Memory is allocated only for
    /// bytes that exist.
    fn more(&mut self, count: usize) -> io::Result<usize> {
        let found = (&mut self.input).take(count as u64).read_to_end(&mut self.buffer)?;
        self.at += found as u64;
        Ok(found)
    }
}

/// Returns the format of a pcap file that begins with this magic number. Returns `None` for any other number.
fn classic(magic: [u8; 4]) -> Option<Format> {
    for (big_endian, magic) in [(false, u32::from_le_bytes(magic)), (true, u32::from_be_bytes(magic))] {
        let (nanos_per_tick, extra) = match magic {
            MICROSECONDS => (1_000, 0),
            NANOSECONDS => (1, 0),
            KUZNETSOV => (1_000, 8),
            _ => continue,
        };
        return Some(Format::Pcap { big_endian, nanos_per_tick, extra });
    }
    None
}

fn number(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;

    /// The time in nanoseconds and the bytes of each packet.
    type Packets = Vec<(u64, Vec<u8>)>;

    /// Returns the packets of a capture with their times, and how the capture ended.
    fn all(bytes: &[u8]) -> Result<(Packets, Option<CaptureEnd>), String> {
        let mut source = CaptureReader::new(bytes).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        while let Some(record) = source.next_packet().map_err(|error| error.to_string())? {
            found.push((record.at_nanos, record.packet.to_vec()));
        }
        Ok((found, source.end()))
    }

    fn pcap(big_endian: bool, magic: u32) -> Vec<u8> {
        let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let half = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let mut bytes = word(magic).to_vec();
        bytes.extend([half(2), half(4)].concat());
        for n in [0, 0, 65_535, 101, 3, 5, 4, 60] {
            bytes.extend(word(n));
        }
        bytes.extend([0x45, 1, 2, 3]);
        bytes
    }

    fn pcapng() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), "test").expect("a section");
        writer.interface("path1", 0).expect("an interface");
        writer.packet(0, 7, &[0x45; 21], None, None).expect("a packet");
        writer.packet(0, 9, &[0x46; 30], None, Some("lost")).expect("a packet");
        writer.finish().expect("nothing to flush")
    }

    #[test]
    fn pcap_in_both_byte_orders_and_resolutions() {
        for big_endian in [false, true] {
            for (magic, at) in [(MICROSECONDS, 3_000_005_000), (NANOSECONDS, 3_000_000_005)] {
                let bytes = pcap(big_endian, magic);
                let expected = (vec![(at, vec![0x45, 1, 2, 3])], Some(CaptureEnd::Whole));
                assert_eq!(all(&bytes), Ok(expected));
                assert_eq!(CaptureReader::new(&bytes[..]).expect("a capture").interfaces()[0].link_type, 101);
            }
        }
    }

    #[test]
    fn pcapng_as_the_reader_of_slices_reads_it() {
        let packets = vec![(7, vec![0x45; 21]), (9, vec![0x46; 30])];
        assert_eq!(all(&pcapng()), Ok((packets, Some(CaptureEnd::Whole))));
    }

    #[test]
    fn a_truncated_capture_is_read_up_to_the_cut() {
        for bytes in [pcap(false, MICROSECONDS), pcap(true, NANOSECONDS), pcapng()] {
            let (whole, _) = all(&bytes).expect("a capture");
            for cut in 0..bytes.len() {
                let Ok((found, end)) = all(&bytes[..cut]) else {
                    assert!(cut < 24, "cut to {cut}");
                    continue;
                };
                assert!(whole.starts_with(&found) && found.len() < whole.len(), "cut to {cut}");
                assert!(end.is_some(), "cut to {cut}");
            }
        }
    }

    #[test]
    fn damage_is_reported_and_huge_lengths_allocate_nothing() {
        let error = |bytes: &[u8]| all(bytes).expect_err("not a capture");
        assert_eq!(error(b""), "the capture ends after 0 bytes, before its header does");
        assert_eq!(error(b"GET / HTTP/1.1\r\n"), "not a pcap or pcapng capture");
        let mut huge = pcap(false, MICROSECONDS);
        huge[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(error(&huge), "damaged pcap packet at byte 24");
        let mut huge = pcapng();
        huge[4..8].copy_from_slice(&0x7fff_fffc_u32.to_le_bytes());
        assert_eq!(error(&huge), "damaged pcapng block at byte 0");
    }

    #[test]
    fn damaged_files_never_panic() {
        let mut rng = anabranch_base::Rng::new(5);
        for original in [pcap(false, MICROSECONDS), pcap(true, NANOSECONDS), pcapng()] {
            for _ in 0..10_000 {
                let mut damaged = original.clone();
                for _ in 0..=rng.below(4) {
                    let at = rng.below(damaged.len() as u64) as usize;
                    damaged[at] = rng.next_u64() as u8;
                }
                let _ = all(&damaged);
            }
        }
    }
}
