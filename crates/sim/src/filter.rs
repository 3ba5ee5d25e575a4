//! The packet filter of a host: rules that drop packets which the host itself sends, before they enter a link.
//!
//! Models a rule in the OUTPUT chain of Linux. [`Network::filter_output`](crate::Network::filter_output) adds the rules.

use crate::audit::AuditEvent;
use crate::ids::LinkId;
use crate::state::State;
use crate::tap::{TapEvent, TapRecord};
use anabranch_base::SendBatch;
use anabranch_link::spec::Direction;
use anabranch_wire::ip::{protocol, v4, v6};
use anabranch_wire::udp;
use anabranch_world::Local;
use std::io;

impl State {
    /// Applies the packet filter of the host to the packet of `batch`, and records the packet if a rule drops it. The
    /// sockets of this world send batches of one packet (`max_segments` is 1).
    #[cold]
    pub(crate) fn is_filtered(&mut self, socket: u32, node: u32, batch: &mut SendBatch) -> bool {
        let now = self.now;
        let host = &mut self.nodes[node as usize];
        let flow = self.sockets.at(socket).and_then(|socket| socket.flow.as_ref());
        let Some(flow) = flow.filter(|flow| !flow.loops_back) else { return false };
        let rule = host.output_rules.iter_mut().find(|(interface, _)| *interface == flow.interface);
        if !rule.is_some_and(|(_, rule)| rule.drops(now)) {
            return false;
        }
        host.counters.filtered += 1;
        batch.write_checksums();
        let Some(out) = host.interfaces[flow.interface as usize].out else { return true };
        let ip_header = if flow.template.is_some() { v4::HEADER_LEN } else { v6::HEADER_LEN };
        let udp_header = if flow.protocol == protocol::UDP { udp::HEADER_LEN } else { 0 };
        let filtered = TapRecord {
            at: now,
            link: LinkId(out / 2),
            direction: if out.is_multiple_of(2) { Direction::Up } else { Direction::Down },
            source: flow.source.ip(),
            target: flow.ends.1.ip(),
            protocol: flow.protocol,
            tag: batch.first_tag,
            bytes: (ip_header + udp_header + batch.bytes().len()) as u32,
            event: TapEvent::Filtered,
        };
        if let Some(audit) = &mut self.audit {
            audit.record(AuditEvent::Filtered, now, out, batch.bytes());
        }
        if let Some(link_events) = &mut self.link_events {
            link_events.push(filtered);
        }
        true
    }

    /// Returns the result of a send call whose packet the filter drops. A socket for an IP protocol gets the error, as
    /// a protocol in Linux's kernel does (ip_queue_xmit, nf_hook_slow). On a UDP socket the packet counts as sent,
    /// because a program that gets EPERM continues to send.
    #[cold]
    pub(crate) fn refuse(&mut self, socket: u32, batch: &mut SendBatch) -> io::Result<()> {
        match self.sockets.at(socket).map(|socket| socket.local) {
            Some(Local::Ip { .. }) => Err(io::ErrorKind::PermissionDenied.into()),
            _ => {
                batch.clear();
                Ok(())
            }
        }
    }
}
