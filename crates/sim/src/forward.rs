//! The path of a packet: out of a host, over links and routers, into a socket.
//!
//! Implements the rules of an IP node: header checksum, hop limit, delivery and ICMP answers. No function in this
//! module allocates memory for an ordinary packet.

use crate::audit::AuditEvent as Event;
use crate::events::Owner;
use crate::host::ProcessorWork;
use crate::ids::LinkId;
use crate::packet_buf::{PacketBuf, SocketReport};
use crate::reassembly::FragmentOutcome;
use crate::state::State;
use crate::tap::{TapEvent, TapRecord};
use crate::topology::NodeKind;
use anabranch_base::batch::HEADROOM;
use anabranch_base::{IcmpKind, Instant};
use anabranch_link::spec::Direction;
use anabranch_link::{Carried, DropCause};
use anabranch_wire::icmp::{self, code_v4, code_v6};
use anabranch_wire::ip::fragment::Fragmenter;
use anabranch_wire::ip::{self, protocol, v4};
use anabranch_wire::{pcap, udp};
use std::net::IpAddr;

impl State {
    /// Handles the event that is due, which belongs to `owner`.
    #[inline]
    pub(crate) fn fire(&mut self, owner: Owner) {
        match owner {
            Owner::Link(direction) => self.link_due(direction as usize),
            Owner::Timer(timer) => {
                self.record(Event::Timer, timer, &[]);
                if let Some(timer) = self.timers.at(timer) {
                    timer.waiter.wake();
                }
            }
            Owner::Processor(node) => self.processor_due(node),
            Owner::Changes => {
                while let Some(change) = self.changes.take(self.now) {
                    self.record(Event::Change, 0, format!("{change:?}").as_bytes());
                    self.apply(change);
                }
                self.events.set(self.changes_slot, self.changes.next());
            }
            Owner::Free => {}
        }
    }

    /// Sends a packet that the host itself created, through the processor's queue and the interface `interface`.
    #[inline(always)]
    pub(crate) fn originate(&mut self, node: u32, interface: u32, packet_buf: PacketBuf) {
        let host = &mut self.nodes[node as usize];
        host.counters.sent += 1;
        if host.processor.is_free() {
            return self.transmit(node, interface, packet_buf);
        }
        self.work(node, ProcessorWork::Send(node, interface, packet_buf));
    }

    /// Puts a packet onto the link of the interface `interface`.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, node: u32, interface: u32, mut packet_buf: PacketBuf) {
        let sender = &mut self.nodes[node as usize];
        let Some(out) = sender.interfaces[interface as usize].out else {
            sender.counters.no_route += 1;
            return self.discard(packet_buf);
        };
        let direction = &mut self.directions[out as usize];
        if packet_buf.wire_len() > direction.mtu as usize {
            let mtu = direction.mtu;
            return self.too_big(node, interface, mtu, packet_buf);
        }
        if let Some(capture) = &mut sender.capture {
            capture.packet(self.now, interface, packet_buf.whole_bytes(), pcap::Direction::Outbound);
        }
        if !direction.up {
            direction.tap.switched_off += 1;
            return self.link_lost(out as usize, self.now, DropCause::Outage, packet_buf);
        }
        if self.watched {
            self.record_link_event(
                out as usize,
                self.now,
                Event::Entered,
                TapEvent::Entered,
                &mut packet_buf,
            );
        }
        let direction = &mut self.directions[out as usize];
        direction.chain.push(self.now, packet_buf);
        let is_coupled = direction.is_coupled;
        self.after_link(out as usize);
        if is_coupled {
            self.after_link_cold(out as usize ^ 1);
        }
    }

    /// Handles a packet that is too large for the next link: fragments the packet if that is allowed, otherwise reports
    /// the error to the packet's sender.
    #[cold]
    fn too_big(&mut self, node: u32, interface: u32, mtu: u32, mut packet_buf: PacketBuf) {
        // RFC 8200 §4.5: only the sender may fragment IPv6 packets. `world.rs` does so before a packet is sent.
        let v4 = packet_buf.whole_bytes().first().is_some_and(|byte| byte >> 4 == 4);
        let pieces = if v4 { Fragmenter::of(packet_buf.bytes(), mtu as usize, 0) } else { None };
        let sender = &mut self.nodes[node as usize];
        let Some(mut pieces) = pieces else {
            sender.counters.too_big += 1;
            self.report(node, interface, IcmpKind::TooBig(mtu), &mut packet_buf);
            return self.discard(packet_buf);
        };
        // RFC 791 §3.2: the router fragments the packet.
        sender.counters.fragmented += 1;
        while let Some(piece) = self.next_fragment(&mut pieces, packet_buf.tag) {
            self.put_out(node, interface, piece);
        }
        self.discard(packet_buf);
    }

    /// Returns the next fragment of a packet. Every fragment gets the tag of the packet.
    pub(crate) fn next_fragment(&mut self, pieces: &mut Fragmenter<'_>, tag: u64) -> Option<PacketBuf> {
        let mut packet_buf = self.pool.take_empty();
        if pieces.append_next(&mut packet_buf.buffer) {
            packet_buf.tag = tag;
            return Some(packet_buf);
        }
        self.pool.give(packet_buf);
        None
    }

    /// Handles the due events of one direction of a link: takes out the packets that have reached the far end.
    #[inline(always)]
    fn link_due(&mut self, index: usize) {
        let now = self.now;
        while let Some(packet_buf) = self.directions[index].chain.pop(now) {
            self.on_link_exit(index, packet_buf);
            // Usually no second packet is due at this time, and the loop ends.
            if self.directions[index].chain.next().is_none_or(|at| at > now) {
                break;
            }
        }
        if !self.directions[index].retired.is_empty() {
            self.retired_due(index);
        }
        self.after_link(index);
        if self.directions[index].is_coupled {
            self.after_link_cold(index ^ 1);
        }
    }

    /// Delivers the due packets of the chains in `retired`. These are chains of link elements that a change of the link
    /// has replaced while they held packets.
    #[cold]
    fn retired_due(&mut self, index: usize) {
        let now = self.now;
        let mut chains = std::mem::take(&mut self.directions[index].retired);
        chains.retain_mut(|chain| {
            while let Some(packet_buf) = chain.pop(now) {
                self.on_link_exit(index, packet_buf);
            }
            while let Some(dropped) = chain.pop_dropped() {
                self.link_lost(index, dropped.at, dropped.cause, dropped.packet);
            }
            let empty = chain.held() == 0;
            if empty {
                self.directions[index].tap.retire(chain.meter());
            }
            !empty
        });
        self.directions[index].retired = chains;
    }

    /// Handles a packet that has come out at the far end of a link.
    #[inline(always)]
    fn on_link_exit(&mut self, index: usize, mut packet_buf: PacketBuf) {
        let now = self.now;
        if !self.directions[index].up {
            self.directions[index].tap.switched_off += 1;
            return self.link_lost(index, now, DropCause::Outage, packet_buf);
        }
        if self.watched {
            self.record_link_event(index, now, Event::Left, TapEvent::Left, &mut packet_buf);
        }
        let to = self.directions[index].to;
        self.arrive(to.node.0, to.index, packet_buf);
    }

    /// Handles the packets that a link direction has dropped, and schedules its next event. Must be called after any
    /// change to the direction's `chain`.
    #[inline(always)]
    fn after_link(&mut self, index: usize) {
        let direction = &self.directions[index];
        if direction.chain.has_dropped() {
            return self.after_loss(index);
        }
        self.events.set(direction.slot, direction.next());
    }

    #[cold]
    fn after_loss(&mut self, index: usize) {
        while let Some(mut dropped) = self.directions[index].chain.pop_dropped() {
            if let DropCause::TooBig(mtu) = dropped.cause {
                let from = self.directions[index].from;
                self.report(from.node.0, from.index, IcmpKind::TooBig(mtu), &mut dropped.packet);
            }
            self.link_lost(index, dropped.at, dropped.cause, dropped.packet);
        }
        let direction = &self.directions[index];
        self.events.set(direction.slot, direction.next());
    }

    /// Calls `after_link` for the direction `index`, without inlining it. Must be called after a change of the other
    /// direction if both directions share one loss counter, because the change may affect this direction too.
    #[cold]
    fn after_link_cold(&mut self, index: usize) {
        self.after_link(index);
    }

    #[cold]
    fn link_lost(&mut self, index: usize, at: Instant, cause: DropCause, mut packet_buf: PacketBuf) {
        if self.watched {
            self.record_link_event(index, at, Event::Lost, TapEvent::Lost(cause), &mut packet_buf);
        }
        self.discard(packet_buf);
    }

    /// Records an event of a link in the digest and in the log of link events.
    #[cold]
    fn record_link_event(
        &mut self,
        index: usize,
        at: Instant,
        event: Event,
        fate: TapEvent,
        packet_buf: &mut PacketBuf,
    ) {
        if self.audit.is_some() {
            self.record_at(event, at, index as u32, packet_buf.whole_bytes());
        }
        let Some(link_events) = &mut self.link_events else { return };
        let Ok(packet) = ip::Packet::parse_quoted(packet_buf.bytes()) else { return };
        link_events.push(TapRecord {
            at,
            link: LinkId(index as u32 / 2),
            direction: if index.is_multiple_of(2) { Direction::Up } else { Direction::Down },
            source: packet.source,
            target: packet.target,
            protocol: packet.protocol,
            tag: packet_buf.tag,
            bytes: packet_buf.wire_len() as u32,
            event: fate,
        });
    }

    /// Handles a packet that arrives at an interface of a host or router.
    #[inline(always)]
    fn arrive(&mut self, node: u32, interface: u32, mut packet_buf: PacketBuf) {
        let receiver = &mut self.nodes[node as usize];
        receiver.counters.received += 1;
        if let Some(capture) = &mut receiver.capture {
            capture.packet(self.now, interface, packet_buf.whole_bytes(), pcap::Direction::Inbound);
        }
        if receiver.processor.is_free() {
            return self.receive(node, interface, packet_buf);
        }
        self.work(node, ProcessorWork::Receive(node, interface, packet_buf));
    }

    /// Queues work for the node's processor. Drops the work if the queue is full.
    #[cold]
    fn work(&mut self, node: u32, work: ProcessorWork) {
        let owner = self.nodes[node as usize].processor.owner(node);
        let host = &mut self.nodes[owner as usize];
        if host.processor.is_full() {
            self.nodes[node as usize].counters.processor_full += 1;
            if let ProcessorWork::Receive(.., packet_buf) | ProcessorWork::Send(.., packet_buf) = work {
                self.discard(packet_buf);
            }
            return;
        }
        if host.processor.add(self.now, work) {
            self.events.set(host.processor.slot, host.processor.done_at(self.now));
        }
    }

    /// Charges processor time for a connection or a request of a program. The time for packets is charged elsewhere.
    pub(crate) fn charge(&mut self, node: u32, work: anabranch_world::Work) {
        let cost = self.nodes[node as usize].processor.cost.of(work);
        if !cost.is_zero() {
            self.work(node, ProcessorWork::Busy(node, cost));
        }
    }

    /// Returns whether no event is due at this instant and the shared processor has no work.
    #[cold]
    pub(crate) fn is_idle_now(&mut self) -> bool {
        let now = self.now;
        self.events.next().is_none_or(|at| at > now)
            && !self.nodes.iter().any(|node| node.processor.is_shared_and_busy())
    }

    /// Handles the end of the work at the head of the processor's queue. If the work was for a packet, the packet is
    /// now received or sent.
    fn processor_due(&mut self, node: u32) {
        let processor = &mut self.nodes[node as usize].processor;
        let done = processor.take(self.now);
        // The timer for the next work in the queue is set here, so that its event precedes the events that the finished
        // work causes.
        self.events.set(processor.slot, processor.done_at(self.now));
        match done {
            Some(ProcessorWork::Receive(node, interface, packet_buf)) => {
                self.take_in(node, interface, packet_buf);
            }
            Some(ProcessorWork::Send(node, interface, packet_buf)) => {
                self.put_out(node, interface, packet_buf);
            }
            Some(ProcessorWork::Busy(..)) | None => {}
        }
    }

    /// Calls [`receive`](Self::receive) without inlining it, for packets that do not come directly from a link.
    #[inline(never)]
    pub(crate) fn take_in(&mut self, node: u32, interface: u32, packet_buf: PacketBuf) {
        self.receive(node, interface, packet_buf);
    }

    /// Calls [`transmit`](Self::transmit) without inlining it, for packets that do not come directly from a socket.
    #[inline(never)]
    fn put_out(&mut self, node: u32, interface: u32, packet_buf: PacketBuf) {
        self.transmit(node, interface, packet_buf);
    }

    /// Delivers a packet that is addressed to this node; forwards or discards any other packet.
    #[inline(always)]
    pub(crate) fn receive(&mut self, node: u32, interface: u32, packet_buf: PacketBuf) {
        let receiver = &mut self.nodes[node as usize];
        // RFC 1122 §3.2.1.2: a packet with a wrong header checksum is silently discarded.
        let Some(seen) = Seen::parse(packet_buf.bytes(), packet_buf.wire_len()) else {
            receiver.counters.bad_header += 1;
            return self.discard(packet_buf);
        };
        if receiver.interface_of(seen.target).is_some() {
            return self.deliver(node, interface, packet_buf, seen);
        }
        if receiver.kind == NodeKind::Host {
            receiver.counters.not_ours += 1;
            return self.discard(packet_buf);
        }
        self.forward(node, interface, seen.target, packet_buf);
    }

    /// Forwards a packet at a router.
    #[inline(never)]
    fn forward(&mut self, node: u32, interface: u32, target: IpAddr, mut packet_buf: PacketBuf) {
        let router = &mut self.nodes[node as usize];
        let Some(out) = router.route(target) else {
            router.counters.no_route += 1;
            let code = if target.is_ipv4() { code_v4::NETWORK } else { code_v6::NO_ROUTE };
            self.report(node, interface, IcmpKind::Unreachable(code), &mut packet_buf);
            return self.discard(packet_buf);
        };
        // RFC 1812 §5.3.1: a router decrements the hop limit and discards the packet at zero.
        if !ip::decrement_hop_limit(packet_buf.bytes_mut()) {
            router.counters.hop_limit += 1;
            return self.discard(packet_buf);
        }
        router.counters.forwarded += 1;
        self.put_out(node, out, packet_buf);
    }

    /// Delivers a packet for this node to the socket that is bound to the packet's protocol or port.
    #[inline(always)]
    fn deliver(&mut self, node: u32, interface: u32, mut packet_buf: PacketBuf, seen: Seen) {
        let host = &mut self.nodes[node as usize];
        if seen.fragment {
            return self.reassemble(node, interface, packet_buf);
        }
        let start = packet_buf.start as usize;
        let (mut payload, end) = (start + seen.header_len, start + seen.len);
        let socket = match seen.protocol {
            protocol::UDP => {
                let bytes = &packet_buf.buffer[payload..end];
                // RFC 768: a datagram with a wrong checksum is silently discarded.
                let datagram = if packet_buf.intact {
                    udp::Datagram::parse_quoted(bytes).ok()
                } else {
                    ip::addresses(packet_buf.bytes())
                        .and_then(|(source, target)| udp::Datagram::parse(bytes, source, target).ok())
                };
                let Some(datagram) = datagram else {
                    host.counters.bad_transport += 1;
                    return self.discard(packet_buf);
                };
                payload += udp::HEADER_LEN;
                host.ports.get(&datagram.target_port).copied()
            }
            protocol::ICMP | protocol::ICMPV6 => return self.deliver_report(node, packet_buf),
            other => host.protocols.iter().find(|(known, _)| *known == other).map(|(_, socket)| *socket),
        };
        match socket {
            // An empty packet is discarded, because a `DatagramSocket` never returns empty packets.
            Some(_) if payload >= end => self.discard(packet_buf),
            Some(socket) => {
                packet_buf.buffer.truncate(end);
                packet_buf.payload = payload as u32;
                self.enqueue(socket, packet_buf);
            }
            None => self.stray(node, interface, packet_buf),
        }
    }

    /// Handles a fragment of a packet for this node. If no fragment is missing any more, delivers the packet.
    #[cold]
    fn reassemble(&mut self, node: u32, interface: u32, packet_buf: PacketBuf) {
        let host = &mut self.nodes[node as usize];
        host.counters.fragments += 1;
        let (taken, given_up) = host.reassembly.take(self.now, packet_buf.bytes(), packet_buf.tag);
        host.counters.reassembly_failed += given_up;
        self.discard(packet_buf);
        let host = &mut self.nodes[node as usize];
        match taken {
            FragmentOutcome::Kept => {}
            FragmentOutcome::Refused => host.counters.reassembly_failed += 1,
            FragmentOutcome::Whole(buffer, tag) => {
                host.counters.reassembled += 1;
                self.take_in(node, interface, PacketBuf::new(buffer, HEADROOM, tag));
            }
        }
    }

    /// Handles a packet for a port or protocol to which no socket is bound.
    #[cold]
    fn stray(&mut self, node: u32, interface: u32, mut packet_buf: PacketBuf) {
        let host = &mut self.nodes[node as usize];
        host.counters.stray += 1;
        if host.answers_strays {
            let bytes = packet_buf.bytes();
            let udp = ip::Packet::parse_quoted(bytes).is_ok_and(|packet| packet.protocol == protocol::UDP);
            // RFC 1122 §3.2.2.1: over IPv4, an unexpected UDP packet is answered with port unreachable, and other
            // packets with protocol unreachable. RFC 4443 §3.1, §3.4: over IPv6, the answer is port unreachable or a
            // parameter problem.
            let kind = match (bytes[0] >> 4, udp) {
                (4, true) => IcmpKind::Unreachable(code_v4::PORT),
                (4, false) => IcmpKind::Unreachable(code_v4::PROTOCOL),
                (_, true) => IcmpKind::Unreachable(code_v6::PORT),
                (_, false) => IcmpKind::UnknownNextHeader,
            };
            self.report(node, interface, kind, &mut packet_buf);
        }
        self.discard(packet_buf);
    }

    /// Delivers an ICMP message to the socket that sent the packet quoted in it.
    #[cold]
    fn deliver_report(&mut self, node: u32, mut packet_buf: PacketBuf) {
        let host = &mut self.nodes[node as usize];
        let found = match ip::Packet::parse_quoted(packet_buf.bytes()) {
            Ok(outer) => icmp::Message::parse(outer.payload, outer.source, outer.target).map(|message| {
                (message.icmp, message.quoted.protocol, message.quoted.header_len, outer.header_len)
            }),
            Err(_) => return self.discard(packet_buf),
        };
        let (icmp, quoted_protocol, quoted_header, outer_header) = match found {
            Ok(found) => found,
            Err(icmp::IcmpError::Other(_)) => {
                host.counters.stray += 1;
                return self.discard(packet_buf);
            }
            Err(_) => {
                host.counters.bad_transport += 1;
                return self.discard(packet_buf);
            }
        };
        let mut quote = packet_buf.start as usize + outer_header + icmp::HEADER_LEN + quoted_header;
        let (mut source_port, mut target_port) = (0, 0);
        let socket = if quoted_protocol == protocol::UDP {
            udp::Datagram::parse_quoted(&packet_buf.buffer[quote..]).ok().and_then(|datagram| {
                (source_port, target_port) = (datagram.source_port, datagram.target_port);
                quote += udp::HEADER_LEN;
                host.ports.get(&source_port).copied()
            })
        } else {
            host.protocols.iter().find(|(known, _)| *known == quoted_protocol).map(|(_, socket)| *socket)
        };
        // The ICMP report must quote a packet that this host has sent, with at least one byte of the packet's payload.
        let ours = host.interface_of(icmp.source).is_some();
        match socket {
            Some(socket) if ours && quote < packet_buf.buffer.len() => {
                packet_buf.tag = 0;
                packet_buf.report = Some(Box::new(SocketReport { icmp, source_port, target_port }));
                packet_buf.payload = quote as u32;
                self.enqueue(socket, packet_buf);
            }
            _ => {
                host.counters.stray += 1;
                self.discard(packet_buf);
            }
        }
    }

    /// Appends a packet to the queue of a socket and wakes the waiting task.
    #[inline(always)]
    fn enqueue(&mut self, socket: u32, packet_buf: PacketBuf) {
        let now = self.now;
        if let Some(audit) = &mut self.audit {
            audit.record(Event::Delivered, now, socket, &[]);
        }
        let Some(entry) = self.sockets.at(socket) else {
            return self.discard(packet_buf);
        };
        let size = packet_buf.buffer.len() + packet_buf.shared.len();
        let host = &mut self.nodes[entry.node as usize];
        // An empty queue accepts a packet of any size, as with SO_RCVBUF.
        if !entry.queue.is_empty() && entry.queued_bytes + size > host.socket_limit {
            host.counters.socket_full += 1;
            return self.discard(packet_buf);
        }
        entry.queued_bytes += size;
        entry.queue.push_back(packet_buf);
        entry.waiter.wake();
    }

    /// Sends an ICMP report from this node to the sender of `about`, the packet that the report quotes.
    #[cold]
    fn report(&mut self, node: u32, interface: u32, kind: IcmpKind, about: &mut PacketBuf) {
        let Ok(packet) = ip::Packet::parse_quoted(about.bytes()) else { return };
        if !icmp::may_report(&packet) {
            return;
        }
        let reporter = &self.nodes[node as usize];
        if !reporter.reports {
            return;
        }
        // The ICMP message is sent from the target address of the reported packet, if this node has that address.
        let own = Some(packet.target).filter(|target| reporter.interface_of(*target).is_some());
        let Some(from) = own.or_else(|| reporter.source_address_for(packet.source, interface)) else {
            return;
        };
        let to = packet.source;
        let mut packet_buf = self.pool.take_empty();
        packet_buf.tag = 0;
        icmp::append(&mut packet_buf.buffer, from, to, kind, about.whole_bytes());
        let reporter = &mut self.nodes[node as usize];
        if reporter.interface_of(to).is_some() {
            // The ICMP error is about a packet that this node sent, so the error is delivered to this node.
            return self.deliver_report(node, packet_buf);
        }
        let out = match reporter.kind {
            NodeKind::Host => reporter.interface_of(from).or_else(|| reporter.route(to)),
            NodeKind::Router => reporter.route(to),
        };
        match out {
            Some(out) => self.originate(node, out, packet_buf),
            None => self.discard(packet_buf),
        }
    }

    /// Discards a packet and keeps its buffer for reuse.
    #[inline(always)]
    pub(crate) fn discard(&mut self, packet_buf: PacketBuf) {
        self.pool.give(packet_buf);
    }

    fn record(&mut self, event: Event, place: u32, bytes: &[u8]) {
        self.record_at(event, self.now, place, bytes);
    }

    #[inline]
    fn record_at(&mut self, event: Event, at: Instant, place: u32, bytes: &[u8]) {
        if let Some(audit) = &mut self.audit {
            audit.record(event, at, place, bytes);
        }
    }
}

/// The fields of a packet's IP header that are needed to deliver or forward the packet.
#[derive(Clone, Copy)]
struct Seen {
    target: IpAddr,
    protocol: u8,
    fragment: bool,
    header_len: usize,
    /// The length of header and payload in bytes, without padding that a link may have added.
    len: usize,
}

impl Seen {
    /// Parses and verifies the IP header of a packet that has `wire_len` bytes; `None` if it is invalid. The end of an
    /// IPv4 packet may be missing in `bytes`.
    #[inline]
    fn parse(bytes: &[u8], wire_len: usize) -> Option<Self> {
        if let Some(header) = bytes.first_chunk::<{ v4::HEADER_LEN }>()
            && header[0] == v4::WITHOUT_OPTIONS
        {
            let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            let whole = (v4::HEADER_LEN..=wire_len).contains(&len);
            return (whole && v4::sum_is_right(header)).then(|| Self {
                target: IpAddr::from([header[16], header[17], header[18], header[19]]),
                protocol: header[9],
                fragment: u16::from_be_bytes([header[6], header[7]]) & v4::FRAGMENT != 0,
                header_len: v4::HEADER_LEN,
                len,
            });
        }
        let packet = ip::Packet::parse(bytes).ok()?;
        Some(Self {
            target: packet.target,
            protocol: packet.protocol,
            fragment: packet.fragment.is_some(),
            header_len: packet.header_len,
            len: packet.len(),
        })
    }
}
