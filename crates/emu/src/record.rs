//! Records of a link's traffic: packets for captures, and bytes over time for results.
//!
//! Records are made only on request. Packets are written to a file as soon as they are seen.

use anabranch_base::Instant;
use anabranch_link::spec::Direction;
use anabranch_wire::pcap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of the traffic a relay records. Each level records more than the level before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum RecordLevel {
    /// Counters only.
    #[default]
    Counters,
    /// Counters, and the bytes in each time bucket.
    Bytes,
    /// Counters, the bytes in each time bucket, and every packet.
    Packets,
}

/// A packet that was seen at one end of the link.
#[derive(Clone, PartialEq, Eq, Debug)]
struct CapturedPacket {
    /// The time on the link's clock at which the packet was seen.
    at: Instant,
    /// The lane (the pair of devices) to which the packet belongs.
    lane: u16,
    /// Whether the packet was seen at the near end of the link; otherwise it was seen at the far end.
    near: bool,
    /// The direction in which the packet crossed the link.
    direction: Direction,
    bytes: Vec<u8>,
}

/// The bytes that crossed a link in one direction, over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Series {
    /// Bytes that entered the link, per time bucket.
    pub entered: Vec<u64>,
    /// Bytes that left the link, per time bucket.
    pub left: Vec<u64>,
}

impl Series {
    /// Adds the bytes of one packet to the bucket for the time `at`.
    pub fn add(buckets: &mut Vec<u64>, at: Instant, bytes: usize) {
        let index = (at.as_nanos() / BUCKET_NS) as usize;
        if buckets.len() <= index {
            buckets.resize(index + 1, 0);
        }
        buckets[index] += bytes as u64;
    }
}

/// The packets seen on a link, in order of time. The packets are stored in an unlinked file. A long run therefore needs
/// no more memory than a short run, and no file remains even if the process is killed.
#[derive(Debug)]
pub struct Spool {
    file: BufWriter<File>,
    /// The first write error. No packet is stored after it.
    failed: Option<io::Error>,
}

impl Spool {
    /// Creates an empty spool.
    ///
    /// # Errors
    /// No file can be created in the host's directory for temporary files.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: BufWriter::with_capacity(BUFFER, nameless()?), failed: None })
    }

    /// Adds a packet.
    pub fn add(&mut self, at: Instant, lane: usize, near: bool, direction: Direction, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&at.as_nanos().to_le_bytes());
        head[8] = u8::from(near);
        head[9] = u8::from(direction == Direction::Up);
        head[10..12].copy_from_slice(&(lane as u16).to_le_bytes());
        head[12..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        let written = self.file.write_all(&head).and_then(|()| self.file.write_all(bytes));
        self.failed = written.err();
    }

    /// Returns all stored packets for reading.
    ///
    /// # Errors
    /// One of the packets could not be written.
    pub fn finish(self) -> io::Result<Packets> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let file = self.file.into_inner().map_err(|error| error.into_error())?;
        Ok(Packets { file })
    }
}

/// The packets that a finished spool has stored.
#[derive(Debug)]
pub struct Packets {
    file: File,
}

impl Packets {
    fn read(&self) -> io::Result<Reader<'_>> {
        (&self.file).seek(SeekFrom::Start(0))?;
        let mut reader = Reader { file: BufReader::with_capacity(BUFFER, &self.file), next: None };
        reader.advance()?;
        Ok(reader)
    }
}

struct Reader<'a> {
    file: BufReader<&'a File>,
    next: Option<CapturedPacket>,
}

impl Reader<'_> {
    /// Returns the next packet, and reads the packet after it.
    fn advance(&mut self) -> io::Result<Option<CapturedPacket>> {
        let mut head = [0; HEAD];
        let more = match self.file.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            read => {
                read?;
                let (mut at, mut lane, mut length) = ([0; 8], [0; 2], [0; 4]);
                at.copy_from_slice(&head[..8]);
                lane.copy_from_slice(&head[10..12]);
                length.copy_from_slice(&head[12..]);
                let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
                self.file.read_exact(&mut bytes)?;
                let direction = if head[9] == 1 { Direction::Up } else { Direction::Down };
                let at = Instant::from_nanos(u64::from_le_bytes(at));
                let lane = u16::from_le_bytes(lane);
                Some(CapturedPacket { at, lane, near: head[8] == 1, direction, bytes })
            }
        };
        Ok(std::mem::replace(&mut self.next, more))
    }
}

/// Creates an unlinked file in the host's directory for temporary files. The file disappears when it is closed.
///
/// # Errors
/// The error of the operating system.
pub fn nameless() -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!(".anabranch.{}.{number}.packets", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Writes the capture of one end of a lane. The capture has one interface per path, and contains all packets in order
/// of time. The TLS `secrets` come before the packets.
///
/// # Errors
/// An error while reading the packets or writing the capture.
pub fn capture<W: Write>(paths: &[Packets], lane: usize, near: bool, secrets: &str, out: W) -> io::Result<W> {
    let wanted = |packet: &CapturedPacket| packet.near == near && usize::from(packet.lane) == lane;
    let mut writer = pcap::Writer::new(out, "anabranch")?;
    if !secrets.is_empty() {
        writer.tls_secrets(secrets)?;
    }
    let mut readers = Vec::new();
    for (number, packets) in (1..).zip(paths) {
        readers.push((writer.interface(&format!("path{number}"), 0)?, packets.read()?));
    }
    loop {
        let first = readers.iter_mut().filter(|(_, reader)| reader.next.is_some());
        let first = first.min_by_key(|(_, reader)| reader.next.as_ref().map(|packet| packet.at));
        let Some((interface, reader)) = first else { return writer.finish() };
        let Some(packet) = reader.advance()?.filter(wanted) else { continue };
        let outward = (packet.direction == Direction::Up) == near;
        let direction = if outward { pcap::Direction::Outbound } else { pcap::Direction::Inbound };
        writer.packet(*interface, packet.at.as_nanos(), &packet.bytes, Some(direction), None)?;
    }
}

/// The size in bytes of the header of a stored packet: time, end, direction, lane, length.
const HEAD: usize = 16;
/// The number of bytes that are read or written in one call.
const BUFFER: usize = 1 << 16;
/// The duration of one bucket of [`Series`] in nanoseconds.
pub const BUCKET_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_several_paths_come_in_the_order_of_time() {
        let spool = |times: &[u64]| {
            let mut spool = Spool::new().expect("a file");
            for (n, &ms) in times.iter().enumerate() {
                let direction = if n % 2 == 0 { Direction::Up } else { Direction::Down };
                // The first ten bytes of an IPv4 header are enough for this test.
                let at = Instant::from_millis(ms);
                spool.add(at, 0, true, direction, &[0x45, ms as u8, 0, 10, 0, 0, 0, 0, 64, 17]);
                spool.add(at, 0, false, direction, &[0x45]);
                spool.add(at, 1, true, direction, &[0x45, 99, 0, 10, 0, 0, 0, 0, 64, 17]);
            }
            spool.finish().expect("written")
        };
        let paths = [spool(&[1, 4, 5]), spool(&[]), spool(&[2, 3, 6])];
        let of = |lane, near| capture(&paths, lane, near, "", Vec::new()).expect("a capture");
        let (near, far) = (of(0, true), of(0, false));
        let order = |capture: &[u8]| -> Vec<u8> {
            capture.windows(4).filter(|w| w[0] == 0x45 && w[2..] == [0, 10]).map(|w| w[1]).collect()
        };
        assert_eq!((order(&near), order(&of(1, true))), (vec![1, 2, 3, 4, 5, 6], vec![99; 6]));
        assert!(far.len() < near.len());
    }
}
