//! What hosts have besides interfaces: sockets, timers, a processor.
//!
//! A socket's queue is bounded in bytes; what does not fit is dropped and
//! counted, as an operating system does. A processor costs nothing unless it
//! is told to: then packets in and out, and the connections and requests that
//! programs charge for, wait their turn in one queue.

use crate::events::Slot;
use crate::parcel::Parcel;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Icmp, Instant};
use anabranch_wire::ip::v4;
use anabranch_world::{Local, Waiter};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// What a host's processor takes for its work. Zero unless asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// For each packet in or out.
    pub per_packet: Duration,
    /// For each byte of a packet in or out.
    pub per_byte: Duration,
    /// For each connection accepted (charged by programs, see `World::charge`).
    pub per_connection: Duration,
    /// For each request taken up (charged likewise).
    pub per_request: Duration,
}

impl Cost {
    /// What a piece of work of a program takes.
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
    /// A packet came in by this interface.
    Receive(u32, Parcel),
    /// A packet is to leave by this interface.
    Send(u32, Parcel),
    /// Work of programs that lets others wait.
    Busy(Duration),
}

/// A host's processor: does one piece of work after the other.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) cost: Cost,
    /// Packets cost nothing.
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

    /// Nothing to wait for: packets pass at once.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.for_free && self.queue.is_empty()
    }

    /// No more packets may wait.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= PROCESSOR_QUEUE
    }

    /// When the work at the head, begun at `now`, is done.
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

/// An ICMP report for a socket.
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
    /// Packets and reports.
    pub(crate) queue: VecDeque<Parcel>,
    pub(crate) queued_bytes: usize,
    pub(crate) waiter: Waiter,
    /// Where the packet sent last went.
    pub(crate) flow: Option<Flow>,
}

/// What the packets of a socket from one address to another have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// As the sender wrote them.
    pub(crate) ends: (SocketAddr, SocketAddr),
    /// Where packets really come from: chosen, when the sender left it open.
    pub(crate) source: SocketAddr,
    pub(crate) protocol: u8,
    pub(crate) interface: u32,
    /// The target is one of the host's own addresses.
    pub(crate) loops_back: bool,
    /// How often the host's addresses had changed when this was found out.
    pub(crate) address_changes: u64,
    /// The IP header, of version 4.
    pub(crate) template: Option<v4::Template>,
}

/// A timer: when it is due is known to its owner and to the events.
#[derive(Debug)]
pub(crate) struct TimerState {
    pub(crate) slot: Slot,
    pub(crate) waiter: Waiter,
}

/// A table whose places are reused.
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
    /// The place that the next [`insert`](Self::insert) will use.
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

/// Packets that wait for a processor at most.
const PROCESSOR_QUEUE: usize = 1000;
