//! Sockets, timers and the processor of a host.
//!
//! The queue of a socket is bounded in bytes. Packets that do not fit are dropped and counted, as in an operating
//! system. By default a processor takes no time for its work. A processor that takes time has one queue. The queue
//! holds the incoming and outgoing packets, and the work on connections and requests that programs report with
//! `World::charge`. If hosts share a processor, its queue holds the work of all of these hosts.

use crate::events::Slot;
use crate::packet_buf::PacketBuf;
use anabranch_base::Instant;
use anabranch_base::time::{Duration, nanos};
use anabranch_link::Carried;
use anabranch_wire::ip::v4;
use anabranch_world::{Local, Waiter};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The time that a host's processor takes for its work; zero by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// The processor time for each packet that is sent or received.
    pub per_packet: Duration,
    /// The processor time for each byte of a packet that is sent or received.
    pub per_byte: Duration,
    /// The processor time for each connection that a program accepts. The program reports the connection with
    /// `World::charge`.
    pub per_connection: Duration,
    /// The processor time for each request that a program handles. The program reports the request with
    /// `World::charge`.
    pub per_request: Duration,
}

impl Cost {
    /// Returns the processor time that a program needs for one connection or one request.
    pub(crate) fn of(self, work: anabranch_world::Work) -> Duration {
        match work {
            anabranch_world::Work::Connection => self.per_connection,
            anabranch_world::Work::Request => self.per_request,
        }
    }
}

/// One piece of work that a host's processor has to do.
#[derive(Debug)]
pub(crate) enum ProcessorWork {
    /// A packet that arrived at the host with the first index, at the interface with the second index.
    Receive(u32, u32, PacketBuf),
    /// A packet to be sent by the host with the first index, from the interface with the second index.
    Send(u32, u32, PacketBuf),
    /// Work of the program of the host with this index, and the time that this work still takes. The processor finishes
    /// this work before it begins other work, unless hosts share the processor.
    Busy(u32, Duration),
}

/// A host's processor, which does one piece of work at a time.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) cost: Cost,
    /// Whether the processor takes no time for packets (`per_packet` and `per_byte` are zero), and is not shared.
    for_free: bool,
    /// The host whose processor does the work, if this processor is shared.
    shared_with: Option<u32>,
    pub(crate) slot: Slot,
    queue: VecDeque<ProcessorWork>,
    /// When the work at the head of the queue began.
    begun: Instant,
}

impl Processor {
    pub(crate) fn new(slot: Slot) -> Self {
        Self {
            cost: Cost::default(),
            for_free: true,
            shared_with: None,
            slot,
            queue: VecDeque::new(),
            begun: Instant::ZERO,
        }
    }

    pub(crate) fn set_cost(&mut self, cost: Cost) {
        self.cost = cost;
        let costs_nothing = cost.per_packet.is_zero() && cost.per_byte.is_zero();
        self.for_free = costs_nothing && self.shared_with.is_none();
    }

    /// Leaves all work to the processor of the host `owner`.
    pub(crate) fn share(&mut self, owner: u32) {
        self.shared_with = Some(owner);
        self.for_free = false;
    }

    /// Returns the host whose processor does the work of the host `node`.
    pub(crate) fn owner(&self, node: u32) -> u32 {
        self.shared_with.unwrap_or(node)
    }

    /// Returns whether a shared processor has work.
    pub(crate) fn is_shared_and_busy(&self) -> bool {
        self.shared_with.is_some() && !self.queue.is_empty()
    }

    /// Returns whether packets need not wait for the processor.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.for_free && self.queue.is_empty()
    }

    /// Returns whether the queue of the processor is full.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= PROCESSOR_QUEUE
    }

    /// Adds work to the queue. Returns whether it is at the head, so that it begins at `now`.
    pub(crate) fn add(&mut self, now: Instant, work: ProcessorWork) -> bool {
        let place = if self.shared_with.is_some() { self.place_of(&work) } else { self.queue.len() };
        if place == 0 {
            if let Some(ProcessorWork::Busy(_, left)) = self.queue.front_mut() {
                *left = left.saturating_sub(now - self.begun);
            }
            self.begun = now;
        }
        self.queue.insert(place, work);
        place == 0
    }

    /// Returns the position at which `work` enters the queue of a shared processor. Packets interrupt programs, as they
    /// do in a kernel. A packet that a program sends, however, is queued behind the earlier work of the same program.
    fn place_of(&self, work: &ProcessorWork) -> usize {
        let is_busy = |work: &ProcessorWork| matches!(work, ProcessorWork::Busy(..));
        let after = match work {
            ProcessorWork::Receive(..) => 0,
            ProcessorWork::Send(sender, ..) => {
                let is_own =
                    |work: &ProcessorWork| matches!(work, ProcessorWork::Busy(node, _) if node == sender);
                self.queue.iter().rposition(is_own).map_or(0, |own| own + 1)
            }
            ProcessorWork::Busy(..) => self.queue.len(),
        };
        let next_program = self.queue.iter().skip(after).position(is_busy);
        next_program.map_or(self.queue.len(), |place| after + place)
    }

    /// Removes and returns the work at the head of the queue. The next work begins at `now`.
    pub(crate) fn take(&mut self, now: Instant) -> Option<ProcessorWork> {
        self.begun = now;
        self.queue.pop_front()
    }

    /// Returns the time at which the work at the head of the queue is done if it begins at `now`.
    pub(crate) fn done_at(&self, now: Instant) -> Option<Instant> {
        let packet = |packet_buf: &PacketBuf| {
            let bytes = packet_buf.wire_len() as u64;
            nanos(self.cost.per_packet).saturating_add(nanos(self.cost.per_byte).saturating_mul(bytes))
        };
        let took = match self.queue.front()? {
            ProcessorWork::Receive(.., packet_buf) | ProcessorWork::Send(.., packet_buf) => {
                packet(packet_buf)
            }
            ProcessorWork::Busy(_, span) => nanos(*span),
        };
        Some(now.plus_nanos(took))
    }
}

/// A bound socket of a host.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) node: u32,
    pub(crate) local: Local,
    /// Received packets and ICMP reports that the program has not read yet.
    pub(crate) queue: VecDeque<PacketBuf>,
    pub(crate) queued_bytes: usize,
    pub(crate) waiter: Waiter,
    /// The flow to which the last sent packet belongs. Usually the next packet belongs to the same flow.
    pub(crate) flow: Option<Flow>,
}

/// The properties that are equal in all packets that a socket sends from one source to one target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// The source and the target address that the sender gave.
    pub(crate) ends: (SocketAddr, SocketAddr),
    /// The source address in use. If the sender gave no source address, the host has chosen this address.
    pub(crate) source: SocketAddr,
    pub(crate) protocol: u8,
    pub(crate) interface: u32,
    /// Whether the target is one of the host's own addresses.
    pub(crate) loops_back: bool,
    /// The host's count of address changes when this flow was determined. A different count means that the flow is
    /// outdated.
    pub(crate) address_changes: u64,
    /// The IPv4 header of the packets, if the addresses are IPv4.
    pub(crate) template: Option<v4::Template>,
}

/// The state of a timer. Its deadline is in the program's handle and in the event queue.
#[derive(Debug)]
pub(crate) struct TimerState {
    pub(crate) slot: Slot,
    pub(crate) waiter: Waiter,
}

/// A table that reuses the indices of removed entries.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    /// Returns the index that the next [`insert`](Self::insert) will use.
    pub(crate) fn next_place(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(value);
            return slot;
        }
        self.slots.push(Some(value));
        self.slots.len() as u32 - 1
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let value = self.slots.get_mut(slot as usize)?.take();
        if value.is_some() {
            self.free.push(slot);
        }
        value
    }

    #[inline]
    pub(crate) fn at(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }
}

/// The maximum number of packets that wait for a processor.
const PROCESSOR_QUEUE: usize = 1000;
