//! Captures in the pcapng format, which Wireshark and tshark read.
//!
//! ```text
//! section header, interface description ..., enhanced packet ...
//! each block: type, length, body padded to four bytes, length again
//! ```
//!
//! Implements draft-ietf-opsawg-pcapng (§4.1 section header, §4.2 interface description, §4.3 enhanced packet, §4.7
//! decryption secrets, §3.5 options). Packets begin with their IP header (LINKTYPE_RAW), and times are in nanoseconds.
//! The reader also accepts files written by other programs: both byte orders, any time resolution, unknown blocks.
//! [`CaptureReader`] reads a file block by block, and also reads the older pcap format.

mod source;

pub use source::{CaptureEnd, CaptureError, CaptureReader};

use std::io::{self, Write};

/// The link type of packets that begin with an IPv4 or IPv6 header (LINKTYPE_RAW).
pub const LINKTYPE_RAW: u16 = 101;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// The secrets type (Decryption Secrets Block) for lines of an NSS key log.
const TLS_KEY_LOG: u32 = 0x544c_534b;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_IF_NAME: u16 = 2;
const OPTION_EPB_FLAGS: u16 = 2;
const OPTION_USER_APPLICATION: u16 = 4;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_IF_TSOFFSET: u16 = 14;

/// The direction in which a packet passed the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The interface received the packet.
    Inbound,
    /// The interface sent the packet.
    Outbound,
}

/// Writes a pcapng file of one section to `out`, block by block.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts the file with a section header that names `application` as the writing program.
    ///
    /// # Errors
    /// Errors from writing to `out`.
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        let mut writer = Self { out, interfaces: 0, block: Vec::new() };
        writer.begin(SECTION);
        writer.number(BYTE_ORDER);
        writer.block.extend_from_slice(&[1, 0, 0, 0]);
        // A length with all bits set means that the section length is not specified.
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.option(OPTION_USER_APPLICATION, application.as_bytes());
        writer.option(OPTION_END, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// Adds TLS secrets for the packets that follow. `lines` are lines of an NSS key log.
    ///
    /// # Errors
    /// Errors from writing to `out`, or `Other` if `lines` has 4 GiB or more.
    pub fn tls_secrets(&mut self, lines: &str) -> io::Result<()> {
        self.begin(DECRYPTION_SECRETS);
        self.number(TLS_KEY_LOG);
        self.number(u32::try_from(lines.len()).map_err(io::Error::other)?);
        self.block.extend_from_slice(lines.as_bytes());
        self.pad();
        self.end()
    }

    /// Adds an interface and returns its index, counted from 0. `snap_len` is the largest number of bytes kept of each
    /// packet; 0 means all bytes.
    ///
    /// # Errors
    /// Errors from writing to `out`.
    pub fn interface(&mut self, name: &str, snap_len: u32) -> io::Result<u32> {
        self.begin(INTERFACE);
        self.block.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        self.block.extend_from_slice(&[0, 0]);
        self.number(snap_len);
        self.option(OPTION_IF_NAME, name.as_bytes());
        // The time unit of timestamps is 10⁻⁹ s.
        self.option(OPTION_IF_TSRESOL, &[9]);
        self.option(OPTION_END, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a packet that passed the interface `at_nanos` nanoseconds after time 0 of the capture.
    ///
    /// # Errors
    /// `InvalidInput` if the interface is unknown, or errors from writing to `out`.
    pub fn packet(
        &mut self,
        interface: u32,
        at_nanos: u64,
        packet: &[u8],
        direction: Option<Direction>,
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.truncated_packet(interface, at_nanos, packet, packet.len(), direction, comment)
    }

    /// Adds a packet of `original_len` bytes, of which the capture keeps only `packet`.
    ///
    /// # Errors
    /// The errors of [`packet`](Self::packet).
    pub fn truncated_packet(
        &mut self,
        interface: u32,
        at_nanos: u64,
        packet: &[u8],
        original_len: usize,
        direction: Option<Direction>,
        comment: Option<&str>,
    ) -> io::Result<()> {
        if interface >= self.interfaces {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such capture interface"));
        }
        self.begin(ENHANCED_PACKET);
        self.number(interface);
        self.number((at_nanos >> 32) as u32);
        self.number(at_nanos as u32);
        self.number(packet.len() as u32);
        self.number(original_len as u32);
        self.block.extend_from_slice(packet);
        self.pad();
        if direction.is_some() || comment.is_some() {
            if let Some(direction) = direction {
                let flags = match direction {
                    Direction::Inbound => 1_u32,
                    Direction::Outbound => 2,
                };
                self.option(OPTION_EPB_FLAGS, &flags.to_le_bytes());
            }
            if let Some(comment) = comment {
                self.option(OPTION_COMMENT, comment.as_bytes());
            }
            self.option(OPTION_END, &[]);
        }
        self.end()
    }

    /// Flushes the output and returns the writer `out`.
    ///
    /// # Errors
    /// Errors from flushing `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.number(kind);
        // The length of the block is 0 for now, and is filled in when the block ends.
        self.number(0);
    }

    fn number(&mut self, number: u32) {
        self.block.extend_from_slice(&number.to_le_bytes());
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // The length field of an option has 16 bits, so longer names and comments are cut.
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn end(&mut self) -> io::Result<()> {
        let length = self.block.len() as u32 + 4;
        self.number(length);
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.out.write_all(&self.block)
    }
}

/// Inserts TLS secrets into a capture written by [`Writer`]. The secrets are placed before the packets, where decoders
/// look for secrets.
///
/// # Errors
/// `Other` if `lines` has 4 GiB or more.
pub fn with_tls_secrets(mut capture: Vec<u8>, lines: &str) -> io::Result<Vec<u8>> {
    let mut writer = Writer { out: Vec::new(), interfaces: 0, block: Vec::new() };
    writer.tls_secrets(lines)?;
    // The secrets are inserted after the first block, which is the section header.
    let header = capture.get(4..8).and_then(|length| length.try_into().ok()).map_or(0, u32::from_le_bytes);
    let at = (header as usize).min(capture.len());
    capture.splice(at..at, writer.out);
    Ok(capture)
}

/// The reason why bytes are not a pcapng capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PcapError {
    /// The file does not begin with a pcapng section header.
    #[error("not a pcapng file")]
    Magic,
    /// The block at this byte offset is truncated or inconsistent.
    #[error("damaged pcapng block at byte {0}")]
    Block(usize),
}

/// An interface of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The interface's name; empty if the file has none.
    pub name: String,
    /// The format of the packets: [`LINKTYPE_RAW`] or another link type of tcpdump.org.
    pub link_type: u16,
    /// The number of timestamp ticks in a second.
    ticks_per_second: u64,
    /// The number of seconds to add to every timestamp.
    offset_seconds: i64,
}

/// A packet of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The interface, as an index into [`Reader::interfaces`].
    pub interface: usize,
    /// The packet's timestamp in nanoseconds. Captures of real traffic count from 1970.
    pub at_nanos: u64,
    /// The bytes of the packet that were kept.
    pub packet: &'a [u8],
    /// The packet's length on the wire in bytes.
    pub original_len: usize,
    /// The direction, if recorded.
    pub direction: Option<Direction>,
    /// The comment on the packet, if there is one.
    pub comment: Option<String>,
    /// The lines of the TLS key logs that the file has between the previous packet and this one.
    pub secrets: Vec<u8>,
}

/// Reads a capture packet by packet.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    blocks: Blocks,
}

impl<'a> Reader<'a> {
    /// Opens a capture.
    ///
    /// # Errors
    /// [`PcapError::Magic`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, PcapError> {
        if bytes.len() < 12 || bytes[..4] != SECTION.to_le_bytes() {
            return Err(PcapError::Magic);
        }
        Ok(Self { bytes, at: 0, blocks: Blocks::default() })
    }

    /// Returns the interfaces that the capture has described so far, in all its sections.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.blocks.interfaces
    }

    /// Returns the next packet, or `None` at the end of the capture.
    ///
    /// # Errors
    /// [`PcapError::Block`]. Reading cannot continue after an error.
    pub fn next_packet(&mut self) -> Result<Option<Record<'a>>, PcapError> {
        while self.at < self.bytes.len() {
            let damaged = PcapError::Block(self.at);
            let rest = &self.bytes[self.at..];
            let head = rest.first_chunk().ok_or(damaged)?;
            let (kind, length) = self.blocks.head(head).ok_or(damaged)?;
            if length > rest.len() {
                return Err(damaged);
            }
            self.at += length;
            if let Some(record) = self.blocks.read(kind, &rest[8..length - 4]).ok_or(damaged)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

/// The state of reading a pcapng file: what earlier blocks said and later blocks need.
#[derive(Clone, Debug, Default)]
struct Blocks {
    big_endian: bool,
    /// The index in `interfaces` of the first interface of the current section.
    section: usize,
    interfaces: Vec<Interface>,
    /// The lines of the TLS key logs since the last packet.
    secrets: Vec<u8>,
}

impl Blocks {
    /// The size in bytes of the shortest possible block.
    const SHORTEST: usize = 12;
    /// The maximum size in bytes of the key logs between two packets. Further lines are skipped.
    const MAX_SECRETS: usize = 64 << 20;

    /// Returns the type and total length of the block that begins with `head`. The head of a section header also sets
    /// the byte order. Returns `None` if `head` cannot begin a block.
    fn head(&mut self, head: &[u8; Self::SHORTEST]) -> Option<(u32, usize)> {
        if head[..4] == SECTION.to_le_bytes() {
            self.big_endian = match head[8..12].try_into().map(u32::from_le_bytes) {
                Ok(BYTE_ORDER) => false,
                Ok(order) if order == BYTE_ORDER.swap_bytes() => true,
                _ => return None,
            };
            self.section = self.interfaces.len();
        }
        let (kind, length) = (self.u32(head, 0)?, self.u32(head, 4)? as usize);
        (length >= Self::SHORTEST && length.is_multiple_of(4)).then_some((kind, length))
    }

    /// Returns whether blocks of this type contain a packet.
    fn is_packet(kind: u32) -> bool {
        [ENHANCED_PACKET, OBSOLETE_PACKET, SIMPLE_PACKET].contains(&kind)
    }

    /// Reads the body of a block. Returns its packet, or `Some(None)` if the block contains no packet. Returns `None`
    /// if the body is damaged.
    fn read<'b>(&mut self, kind: u32, body: &'b [u8]) -> Option<Option<Record<'b>>> {
        let mut record = match kind {
            INTERFACE => {
                let interface = self.interface(body)?;
                self.interfaces.push(interface);
                return Some(None);
            }
            DECRYPTION_SECRETS => {
                self.key_log(body)?;
                return Some(None);
            }
            ENHANCED_PACKET => self.enhanced(body)?,
            OBSOLETE_PACKET => self.obsolete(body)?,
            SIMPLE_PACKET => self.simple(body)?,
            _ => return Some(None),
        };
        record.secrets = std::mem::take(&mut self.secrets);
        Some(Some(record))
    }

    /// Keeps the lines of a key log until the next packet is read.
    fn key_log(&mut self, body: &[u8]) -> Option<()> {
        let (kind, length) = (self.u32(body, 0)?, self.u32(body, 4)? as usize);
        let lines = body.get(8..)?.get(..length)?;
        if kind == TLS_KEY_LOG && self.secrets.len() + length < Self::MAX_SECRETS {
            self.secrets.extend_from_slice(lines);
            self.secrets.push(b'\n');
        }
        Some(())
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let mut interface = Interface {
            name: String::new(),
            link_type: self.u16(body, 0)?,
            ticks_per_second: 1_000_000,
            offset_seconds: 0,
        };
        for (code, value) in self.options(body.get(8..)?) {
            match code {
                OPTION_IF_NAME => interface.name = String::from_utf8_lossy(value).into_owned(),
                OPTION_IF_TSRESOL => {
                    let resolution = *value.first()?;
                    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                    interface.ticks_per_second = base.checked_pow(u32::from(resolution & 0x7f))?;
                }
                OPTION_IF_TSOFFSET => {
                    let bytes: [u8; 8] = value.try_into().ok()?;
                    interface.offset_seconds =
                        if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                }
                _ => {}
            }
        }
        Some(interface)
    }

    fn enhanced<'b>(&self, body: &'b [u8]) -> Option<Record<'b>> {
        let captured = self.u32(body, 12)? as usize;
        let mut record = self.record(self.u32(body, 0)? as usize, body)?;
        for (code, value) in self.options(body.get(20 + captured.next_multiple_of(4)..).unwrap_or(&[])) {
            match code {
                OPTION_COMMENT => record.comment = Some(String::from_utf8_lossy(value).into_owned()),
                OPTION_EPB_FLAGS => {
                    record.direction = match self.u32(value, 0)? & 0b11 {
                        1 => Some(Direction::Inbound),
                        2 => Some(Direction::Outbound),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        Some(record)
    }

    /// Reads an obsolete packet block (type 2). Its interface field is shorter than in an enhanced packet block and is
    /// followed by a drop count.
    fn obsolete<'b>(&self, body: &'b [u8]) -> Option<Record<'b>> {
        self.record(self.u16(body, 0)?.into(), body)
    }

    /// Reads the time, the lengths and the packet. An Enhanced Packet Block and an obsolete Packet Block have them at
    /// the same offsets.
    fn record<'b>(&self, interface: usize, body: &'b [u8]) -> Option<Record<'b>> {
        let interface = self.section.checked_add(interface)?;
        let described = self.interfaces.get(interface)?;
        let ticks = u64::from(self.u32(body, 4)?) << 32 | u64::from(self.u32(body, 8)?);
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(described.ticks_per_second);
        let nanos = i128::try_from(nanos).ok()? + i128::from(described.offset_seconds) * 1_000_000_000;
        let captured = self.u32(body, 12)? as usize;
        let packet = body.get(20..20_usize.checked_add(captured)?)?;
        Some(Record {
            interface,
            at_nanos: u64::try_from(nanos).unwrap_or(0),
            packet,
            original_len: self.u32(body, 16)? as usize,
            direction: None,
            comment: None,
            secrets: Vec::new(),
        })
    }

    fn simple<'b>(&self, body: &'b [u8]) -> Option<Record<'b>> {
        self.interfaces.get(self.section)?;
        let original_len = self.u32(body, 0)? as usize;
        let packet = &body.get(4..body.len().min(4_usize.checked_add(original_len)?))?;
        Some(Record {
            interface: self.section,
            at_nanos: 0,
            packet,
            original_len,
            direction: None,
            comment: None,
            secrets: Vec::new(),
        })
    }

    /// Returns the options in `bytes`, up to the end mark or the first damaged option.
    fn options<'b>(&self, mut bytes: &'b [u8]) -> impl Iterator<Item = (u16, &'b [u8])> {
        std::iter::from_fn(move || {
            let code = self.u16(bytes, 0)?;
            let length = usize::from(self.u16(bytes, 2)?);
            if code == OPTION_END {
                return None;
            }
            let value = bytes.get(4..4 + length)?;
            bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or(&[]);
            Some((code, value))
        })
    }

    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), "test").expect("a section");
        assert_eq!(writer.interface("path1", 0).expect("an interface"), 0);
        assert_eq!(writer.interface("path2", 0).expect("an interface"), 1);
        writer.packet(0, 1, &[0x45; 21], Some(Direction::Outbound), None).expect("a packet");
        writer
            .packet(1, 6_000_000_001, &[0x60; 40], Some(Direction::Inbound), Some("lost: queue"))
            .expect("a packet");
        writer.packet(0, u64::MAX, &[0x45; 24], None, None).expect("a packet");
        let error = writer.packet(2, 0, &[1], None, None).expect_err("no third interface");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        writer.finish().expect("nothing to flush")
    }

    #[test]
    fn round_trip() {
        let bytes = sample();
        let mut reader = Reader::new(&bytes).expect("a capture");
        let first = reader.next_packet().expect("a packet").expect("not the end");
        assert_eq!((first.interface, first.at_nanos, first.packet), (0, 1, &[0x45; 21][..]));
        assert_eq!((first.direction, first.comment), (Some(Direction::Outbound), None));
        let second = reader.next_packet().expect("a packet").expect("not the end");
        assert_eq!((second.interface, second.at_nanos, second.original_len), (1, 6_000_000_001, 40));
        assert_eq!(second.comment.as_deref(), Some("lost: queue"));
        let third = reader.next_packet().expect("a packet").expect("not the end");
        assert_eq!((third.at_nanos, third.direction), (u64::MAX, None));
        assert_eq!(reader.next_packet(), Ok(None));
        let names: Vec<_> = reader.interfaces().iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["path1", "path2"]);
    }

    #[test]
    fn secrets_come_with_the_next_packet() {
        let bytes = with_tls_secrets(sample(), "LABEL 00 11\n").expect("a capture");
        let mut reader = Reader::new(&bytes).expect("a capture");
        let mut next = || reader.next_packet().expect("a packet").expect("not the end").secrets;
        assert_eq!((next(), next()), (b"LABEL 00 11\n\n".to_vec(), Vec::new()));
    }

    #[test]
    fn damaged_files_never_panic() {
        let bytes = sample();
        let read_all = |bytes: &[u8]| {
            if let Ok(mut reader) = Reader::new(bytes) {
                while let Ok(Some(_)) = reader.next_packet() {}
            }
        };
        for cut in 0..bytes.len() {
            read_all(&bytes[..cut]);
        }
        let mut rng = anabranch_base::Rng::new(3);
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] = rng.next_u64() as u8;
            }
            read_all(&damaged);
        }
    }
}
