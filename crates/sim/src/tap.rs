//! What is recorded of the traffic: captures, counters, bins, passages.
//!
//! Counters are always on. Captures (pcapng, one a host, one interface a
//! path), bins of wire bytes and the log of passages are kept only when asked
//! for.

use crate::topology::LinkId;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_link::spec::Direction;
use anabranch_link::{Cause, Meter};
use anabranch_wire::pcap;
use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;

/// One thing that happened to a packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// When. A loss may be noted before it happens: see [`Fate`].
    pub at: Instant,
    /// On which link.
    pub link: LinkId,
    /// Which way.
    pub direction: Direction,
    /// Source address of the packet.
    pub source: IpAddr,
    /// Target address of the packet.
    pub target: IpAddr,
    /// IP protocol of the packet.
    pub protocol: u8,
    /// The sending engine's number for the packet; 0 for none.
    pub tag: u64,
    /// Bytes, IP header included.
    pub bytes: u32,
    /// What happened.
    pub fate: Fate,
}

/// What happens to a packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet was handed to the link.
    Entered,
    /// The packet came out at the far end.
    Left,
    /// The link lost it. For packets lost on the wire `at` is the end of
    /// their serialization, which lies after the record's neighbours.
    Lost(Cause),
}

/// The counters of one link direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// What the link's elements counted: entered, left, lost by cause, queue.
    pub meter: Meter,
    /// Packets refused or lost while the link was switched off by a change.
    pub switched_off: u64,
    /// Bytes that came out of the far end or were lost on the wire, in bins of
    /// [`BIN`] by the time they did; empty unless asked for.
    pub wire_bytes: Vec<u64>,
}

/// Width of a bin of [`LinkCounters::wire_bytes`].
pub const BIN: Duration = Duration::from_millis(100);

/// What a link direction records.
#[derive(Default)]
pub(crate) struct LinkTap {
    pub(crate) switched_off: u64,
    pub(crate) bins: Option<Vec<u64>>,
    /// What chains that were replaced had counted.
    before: Meter,
}

impl LinkTap {
    /// A chain that was replaced is empty: its counts are kept.
    pub(crate) fn retire(&mut self, meter: &Meter) {
        self.before = self.before.plus(meter);
    }

    /// The counts of all chains there have been, `present` being those of the
    /// chains that still hold packets.
    pub(crate) fn counts<'a>(&self, present: impl Iterator<Item = &'a Meter>) -> Meter {
        present.fold(self.before.clone(), |all, meter| all.plus(meter))
    }

    #[inline]
    pub(crate) fn on_wire(&mut self, at: Instant, bytes: usize) {
        let Some(bins) = &mut self.bins else { return };
        let bin = (at.as_nanos() / BIN.as_nanos() as u64) as usize;
        // A loss may be told of ahead of its time, but not by hours.
        if bin < MAX_BINS {
            if bins.len() <= bin {
                bins.resize(bin + 1, 0);
            }
            bins[bin] += bytes as u64;
        }
    }
}

/// A host's capture.
pub(crate) struct Capture {
    writer: pcap::Writer<Output>,
    /// The capture's number of each interface, once described.
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
    /// Into memory, or to `stream`.
    pub(crate) fn new(stream: Option<Box<dyn Write>>) -> io::Result<Self> {
        let out = stream.map_or_else(|| Output::Memory(Vec::new()), Output::Stream);
        Ok(Self { writer: pcap::Writer::new(out, "anabranch")?, numbers: Vec::new(), failure: None })
    }

    /// Notes a packet that passed the node's interface `interface`.
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

    /// The bytes, when they went to memory, or the first failure.
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

/// Bins kept at most: a month.
const MAX_BINS: usize = 30 * 24 * 3600 * 10;
