//! The parts of a host besides interfaces: sockets, timers, a processor.
//!
//! A socket's queue is bounded in bytes; packets that do not fit are dropped and
//! counted, as in an operating system. By default a processor takes no time.
//! Otherwise incoming and outgoing packets, and the connections and requests that
//! programs charge for, wait in one queue.

use crate::events::Slot;
use crate::parcel::Parcel;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Icmp, Instant};
use anabranch_wire::ip::v4;
use anabranch_world::{Local, Waiter};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The time that a host's processor takes for its work; zero by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Per packet sent or received.
    pub per_packet: Duration,
    /// Per byte of a packet sent or received.
    pub per_byte: Duration,
    /// Per connection accepted (charged by programs, see `World::charge`).
    pub per_connection: Duration,
    /// Per request handled (charged likewise).
    pub per_request: Duration,
}

impl Cost {
    /// The time for a piece of a program's work.
    pub(crate) fn of(self, work: anabranch_world::Work) -> Duration {
        match work {
            anabranch_world::Work::Connection => self.per_connection,
            anabranch_world::Work::Request => self.per_request,
        }
    }
}

/// One piece of a processor's work.
#[derive(Debug)]
pub(crate) enum Work {
    /// A packet that arrived at this interface.
    Receive(u32, Parcel),
    /// A packet to be sent by this interface.
    Send(u32, Parcel),
    /// Work of programs, during which other work waits.
    Busy(Duration),
}

/// A host's processor, which does one piece of work at a time.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) cost: Cost,
    /// Whether packets take no time.
    for_free: bool,
    pub(crate) slot: Slot,
    pub(crate) queue: VecDeque<Work>,
}

impl Processor {
    pub(crate) fn new(slot: Slot) -> Self {
        Self { cost: Cost::default(), for_free: true, slot, queue: VecDeque::new() }
    }

    pub(crate) fn set_cost(&mut self, cost: Cost) {
        self.cost = cost;
        self.for_free = cost.per_packet.is_zero() && cost.per_byte.is_zero();
    }

    /// Whether packets pass without waiting.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.for_free && self.queue.is_empty()
    }

    /// Whether the queue is full.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= PROCESSOR_QUEUE
    }

    /// The time at which the work at the head, if begun at `now`, is done.
    pub(crate) fn done_at(&self, now: Instant) -> Option<Instant> {
        let packet = |parcel: &Parcel| {
            let bytes = parcel.bytes().len() as u64;
            nanos(self.cost.per_packet).saturating_add(nanos(self.cost.per_byte).saturating_mul(bytes))
        };
        let took = match self.queue.front()? {
            Work::Receive(_, parcel) | Work::Send(_, parcel) => packet(parcel),
            Work::Busy(span) => nanos(*span),
        };
        Some(now.plus_nanos(took))
    }
}

/// An ICMP report addressed to a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) icmp: Icmp,
    /// Ports of the quoted packet; 0 on raw sockets.
    pub(crate) source_port: u16,
    pub(crate) target_port: u16,
}

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) node: u32,
    pub(crate) local: Local,
    /// Packets and ICMP reports.
    pub(crate) queue: VecDeque<Parcel>,
    pub(crate) queued_bytes: usize,
    pub(crate) waiter: Waiter,
    /// The flow of the last packet sent.
    pub(crate) flow: Option<Flow>,
}

/// The common properties of a socket's packets from one address to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// Source and target as given by the sender.
    pub(crate) ends: (SocketAddr, SocketAddr),
    /// The actual source: chosen by the host if the sender left it open.
    pub(crate) source: SocketAddr,
    pub(crate) protocol: u8,
    pub(crate) interface: u32,
    /// Whether the target is one of the host's own addresses.
    pub(crate) loops_back: bool,
    /// The host's count of address changes when this flow was determined.
    pub(crate) address_changes: u64,
    /// The IPv4 header, if the addresses are IPv4.
    pub(crate) template: Option<v4::Template>,
}

/// A timer. Its deadline is kept by its owner and in the event queue.
#[derive(Debug)]
pub(crate) struct TimerState {
    pub(crate) slot: Slot,
    pub(crate) waiter: Waiter,
}

/// A table that reuses the indices of removed entries.
#[derive(Debug)]
pub(crate) struct Table<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// The index that the next [`insert`](Self::insert) will use.
    pub(crate) fn next_place(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = Some(value);
            return place;
        }
        self.places.push(Some(value));
        self.places.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.places.get_mut(place as usize)?.take();
        if value.is_some() {
            self.free.push(place);
        }
        value
    }

    #[inline]
    pub(crate) fn at(&mut self, place: u32) -> Option<&mut T> {
        self.places.get_mut(place as usize)?.as_mut()
    }
}

/// The maximum number of packets that wait for a processor.
const PROCESSOR_QUEUE: usize = 1000;
