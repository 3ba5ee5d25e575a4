//! Records of the traffic: captures, counters, and a log of link events.
//!
//! Counters are always on. Captures and logs are made only on request. A capture is a pcapng file for one host. It has
//! one capture interface for each interface of the host.

use crate::ids::LinkId;
use anabranch_base::Instant;
use anabranch_link::spec::Direction;
use anabranch_link::{DropCause, Meter};
use anabranch_wire::pcap;
use std::io;
use std::net::IpAddr;

/// An event of a packet on a link: the packet entered, left or was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapRecord {
    /// The time of the event. A loss may be recorded before it happens: see [`TapEvent`].
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
    pub event: TapEvent,
}

/// The kind of an event of a packet on a link, or of a packet that its host dropped before the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapEvent {
    /// The packet was handed to the link.
    Entered,
    /// The packet came out at the far end of the link.
    Left,
    /// The link lost the packet. The record of a loss on the wire is written before its time `at`, which is the end of
    /// the packet's serialization. Records after it may therefore have earlier times.
    Lost(DropCause),
    /// The packet filter of the sending host dropped the packet, so it never entered the link.
    Filtered,
}

/// The counters of one direction of a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkCounters {
    /// The counters of the link's elements: packets that entered and left, lost packets by cause, and the peak of the
    /// queue.
    pub meter: Meter,
    /// Packets that were refused or lost while a change had switched the link off.
    pub switched_off: u64,
}

/// The records of one direction of a link.
#[derive(Default)]
pub(crate) struct LinkTap {
    pub(crate) switched_off: u64,
    /// The sum of the counters of all former chains of link elements. A change of the link replaces its chain, and the
    /// old chain becomes a former chain as soon as it holds no more packets.
    before: Meter,
}

impl LinkTap {
    /// Adds the counters of a former chain of link elements. A change of the link has replaced this chain, and the
    /// chain holds no more packets.
    pub(crate) fn retire(&mut self, meter: &Meter) {
        self.before = self.before.plus(meter);
    }

    /// Returns the sum of the counters of all chains of this direction. `present` has the counters of the chains that
    /// were not retired.
    pub(crate) fn counts<'a>(&self, present: impl Iterator<Item = &'a Meter>) -> Meter {
        present.fold(self.before.clone(), |all, meter| all.plus(meter))
    }
}

/// The packet capture of a host.
pub(crate) struct Capture {
    writer: pcap::Writer<Vec<u8>>,
    /// For each interface of the host, its ID in the capture file. Interfaces after the last captured one have no
    /// entry.
    numbers: Vec<u32>,
    failure: Option<io::Error>,
}

impl Capture {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { writer: pcap::Writer::new(Vec::new(), "anabranch")?, numbers: Vec::new(), failure: None })
    }

    /// Records a packet that passed the interface `interface` of the host.
    pub(crate) fn packet(&mut self, at: Instant, interface: u32, bytes: &[u8], direction: pcap::Direction) {
        if self.failure.is_none() {
            self.failure = self.try_packet(at, interface, bytes, direction).err();
        }
    }

    fn try_packet(
        &mut self,
        at: Instant,
        interface: u32,
        bytes: &[u8],
        direction: pcap::Direction,
    ) -> io::Result<()> {
        while self.numbers.len() <= interface as usize {
            let number = self.writer.interface(&format!("path{}", self.numbers.len() + 1), 0)?;
            self.numbers.push(number);
        }
        self.writer.packet(self.numbers[interface as usize], at.as_nanos(), bytes, Some(direction), None)
    }

    /// Returns the bytes of the capture, or the first write error.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self.failure {
            Some(failure) => Err(failure),
            None => self.writer.finish(),
        }
    }
}
