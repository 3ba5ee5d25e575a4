//! ICMP errors, and the conversations whose packets they quote.

use super::frame::IpPayload;
use super::results::Conversation;
use super::timeline::{Entry, Event, IcmpReport};
use anabranch_base::IcmpKind;
use anabranch_wire::icmp::{Message, code_v4, code_v6};
use anabranch_wire::ip::protocol;
use std::collections::BTreeMap;

/// The maximum number of errors that are kept.
const MAX_ERRORS: usize = 1 << 14;
/// Codes of Destination Unreachable that `anabranch_wire` does not define, for ICMPv4 (RFC 792, RFC 1812 §5.2.7.1) and
/// for ICMPv6 (RFC 4443 §3.1).
const HOST_V4: u8 = 1;
const PROHIBITED_V4: [u8; 3] = [9, 10, 13];
const PROHIBITED_V6: u8 = 1;
const ADDRESS_V6: u8 = 3;

/// Returns what an ICMP error says about the path or the target.
fn report(kind: IcmpKind, is_v4: bool) -> IcmpReport {
    match kind {
        IcmpKind::TooBig(mtu) => IcmpReport::TooBig(mtu),
        IcmpKind::Unreachable(code_v4::PORT) if is_v4 => IcmpReport::Port,
        IcmpKind::Unreachable(code_v6::PORT) if !is_v4 => IcmpReport::Port,
        IcmpKind::Unreachable(code_v4::NETWORK | HOST_V4) if is_v4 => IcmpReport::Host,
        IcmpKind::Unreachable(code_v6::NO_ROUTE | ADDRESS_V6) if !is_v4 => IcmpReport::Host,
        IcmpKind::Unreachable(code) if is_v4 && PROHIBITED_V4.contains(&code) => IcmpReport::Prohibited,
        IcmpKind::Unreachable(PROHIBITED_V6) if !is_v4 => IcmpReport::Prohibited,
        IcmpKind::Unreachable(_) | IcmpKind::UnknownNextHeader => IcmpReport::Other,
    }
}

/// The protocol of a flow, and the address and port of the sender and the receiver.
type Flow = (u8, [(String, u16); 2]);

/// The errors by the flow of the packets that they quote, each with its number and time.
#[derive(Default)]
pub(super) struct Errors {
    by_flow: BTreeMap<Flow, Vec<(u64, u64, IcmpReport)>>,
    count: usize,
}

impl Errors {
    /// Adds an ICMP message, if it is an error that quotes a packet with ports.
    pub fn add(&mut self, at: u64, carried: &IpPayload<'_>) {
        let Ok(message) = Message::parse(&carried.payload, carried.source, carried.target) else { return };
        let quoted = &message.quoted;
        // UDP, TCP and SCTP begin with the two ports.
        let Some(&[s0, s1, t0, t1]) = quoted.payload.first_chunk() else { return };
        if self.count < MAX_ERRORS {
            self.count += 1;
            let source = (quoted.source.to_string(), u16::from_be_bytes([s0, s1]));
            let target = (quoted.target.to_string(), u16::from_be_bytes([t0, t1]));
            let report = report(message.icmp.kind, quoted.source.is_ipv4());
            let flow = (quoted.protocol, [source, target]);
            self.by_flow.entry(flow).or_default().push((carried.number, at, report));
        }
    }

    /// Adds the errors to the timeline of the conversation whose packets they quote.
    pub fn assign(&self, talk: &mut Conversation) {
        let Some(timeline) = talk.timeline.as_mut().filter(|_| self.count > 0) else { return };
        let ports = talk.udp_ports.unwrap_or_else(|| talk.sides.each_ref().map(|side| side.port));
        let protocol = match talk.transport {
            "tcp" => protocol::TCP,
            "sctp" if talk.udp_ports.is_none() => protocol::SCTP,
            _ => protocol::UDP,
        };
        for path in &talk.paths {
            let end = |side: usize| (path.addresses[side].clone(), ports[side]);
            for side in [0, 1] {
                let errors = self.by_flow.get(&(protocol, [end(side), end(1 - side)]));
                let entry = |&(packet, at, report)| Entry { packet, at, side, event: Event::Icmp(report) };
                timeline.entries.extend(errors.into_iter().flatten().map(entry));
            }
        }
        timeline.entries.sort_by_key(|entry| entry.at);
    }
}
