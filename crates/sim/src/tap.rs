//! Records of the traffic: captures, counters, bins of wire bytes, and a log of link events.
//!
//! Counters are always on. The other records are made only on request. A capture is a pcapng file for one host, with
//! one interface for each of its paths.

use crate::ids::LinkId;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_link::spec::Direction;
use anabranch_link::{Cause, Meter};
use anabranch_wire::pcap;
use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;

/// An event of a packet on a link: the packet entered, left or was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// The time of the event. A loss may be recorded before it happens: see [`Fate`].
    pub at: Instant,
    /// The link on which the event happened.
    pub link: LinkId,
    /// The direction in which the packet crossed the link.
    pub direction: Direction,
    /// The source address of the packet.
    pub source: IpAddr,
    /// The target address of the packet.
    pub target: IpAddr,
    /// The IP protocol of the packet.
    pub protocol: u8,
    /// The tag that the sending engine gave to the packet; 0 if it gave none.
    pub tag: u64,
    /// The size of the packet in bytes, including the IP header.
    pub bytes: u32,
    /// The kind of event.
    pub fate: Fate,
}

/// The kind of an event of a packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet was handed to the link.
    Entered,
    /// The packet came out at the far end of the link.
    Left,
    /// The link lost the packet. For a packet lost on the wire, `at` is the end of its serialization, which is later
    /// than the times of neighbouring records.
    Lost(Cause),
}

/// The counters of one direction of a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// The counts of the link's elements: packets that entered and left, lost packets by cause, and the peak of the
    /// queue.
    pub meter: Meter,
    /// Packets that were refused or lost while a change had switched the link off.
    pub switched_off: u64,
    /// Bytes that came out at the far end or were lost on the wire, in time bins of [`BIN`]. Empty unless requested
    /// with `Network::count_bins`.
    pub wire_bytes: Vec<u64>,
}

/// The duration of one bin of [`LinkCounters::wire_bytes`].
pub const BIN: Duration = Duration::from_millis(100);

/// The records of one direction of a link.
#[derive(Default)]
pub(crate) struct LinkTap {
    pub(crate) switched_off: u64,
    pub(crate) bins: Option<Vec<u64>>,
    /// The counts of replaced chains that are empty.
    before: Meter,
}

impl LinkTap {
    /// Adds the counts of a replaced chain that has become empty.
    pub(crate) fn retire(&mut self, meter: &Meter) {
        self.before = self.before.plus(meter);
    }

    /// Returns the counts of all chains of this direction so far; `present` are the counts of those that still hold
    /// packets.
    pub(crate) fn counts<'a>(&self, present: impl Iterator<Item = &'a Meter>) -> Meter {
        present.fold(self.before.clone(), |all, meter| all.plus(meter))
    }

    #[inline]
    pub(crate) fn on_wire(&mut self, at: Instant, bytes: usize) {
        let Some(bins) = &mut self.bins else { return };
        let bin = (at.as_nanos() / BIN.as_nanos() as u64) as usize;
        // A loss may be recorded before it happens, but not hours before.
        if bin < MAX_BINS {
            if bins.len() <= bin {
                bins.resize(bin + 1, 0);
            }
            bins[bin] += bytes as u64;
        }
    }
}

/// The packet capture of a host.
pub(crate) struct Capture {
    writer: pcap::Writer<Output>,
    /// The number in the capture of each interface of the host that the capture has described so far.
    numbers: Vec<u32>,
    failure: Option<io::Error>,
}

enum Output {
    Memory(Vec<u8>),
    Stream(Box<dyn Write>),
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory(_) => "Memory",
            Self::Stream(_) => "Stream",
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Memory(out) => out.write(bytes),
            Self::Stream(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Stream(out) => out.flush(),
        }
    }
}

impl Capture {
    /// Captures into memory or, if it is given, to `stream`.
    pub(crate) fn new(stream: Option<Box<dyn Write>>) -> io::Result<Self> {
        let out = stream.map_or_else(|| Output::Memory(Vec::new()), Output::Stream);
        Ok(Self { writer: pcap::Writer::new(out, "anabranch")?, numbers: Vec::new(), failure: None })
    }

    /// Records a packet that passed the interface `interface` of the host.
    pub(crate) fn packet(&mut self, at: Instant, interface: u32, bytes: &[u8], way: pcap::Direction) {
        if self.failure.is_none() {
            self.failure = self.try_packet(at, interface, bytes, way).err();
        }
    }

    fn try_packet(
        &mut self,
        at: Instant,
        interface: u32,
        bytes: &[u8],
        way: pcap::Direction,
    ) -> io::Result<()> {
        while self.numbers.len() <= interface as usize {
            let number = self.writer.interface(&format!("path{}", self.numbers.len() + 1), 0)?;
            self.numbers.push(number);
        }
        self.writer.packet(self.numbers[interface as usize], at.as_nanos(), bytes, Some(way), None)
    }

    /// Returns the bytes if they were captured into memory, or the first write error.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        Ok(match self.writer.finish()? {
            Output::Memory(bytes) => bytes,
            Output::Stream(_) => Vec::new(),
        })
    }
}

/// The maximum number of bins: as many as a month has.
const MAX_BINS: usize = 30 * 24 * 3600 * 10;
