//! Compares the packets that the engine has sent with those that a script expects.

use super::{Failure, FailureKind, Machine, PATIENCE, PendingPacket, TTL, seconds};
use crate::chunk::{self, ValueMap};
use crate::script::{Body, Node, Packet, Value};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use std::net::IpAddr;

impl Machine {
    /// Takes the next packet that the engine has sent to an address that the script observes.
    fn next_sent(&mut self, to: Option<IpAddr>, limit: Instant) -> Result<Option<PendingPacket>, Failure> {
        loop {
            while let Some(sent) = self.sent.pop_front() {
                let target = sent.target.ip();
                let staged = self.peer.is_multihomed() && self.peer.number(target).is_some();
                if self.all_addresses || staged || target == to.unwrap_or(self.addresses.remote) {
                    return Ok(Some(sent));
                }
                // The script does not observe this address of the peer, so the packet is only logged.
                self.script_log.log.push(format!("{:>10} > elsewhere, to {target}", seconds(sent.at)));
            }
            if !self.next_deadline(limit)? {
                return Ok(None);
            }
        }
    }

    pub(super) fn expect(
        &mut self,
        packet: &Packet,
        span: Option<(Instant, Instant)>,
        tolerance: Duration,
        line: usize,
    ) -> Result<(), Failure> {
        let expected = packet.body.to_string();
        if let Body::Icmp(_) = packet.body {
            let what = "SCTP sends no ICMP messages: that is its host's affair".to_owned();
            return Err(Failure { line, ..Failure::misunderstood(what) });
        }
        let fail = |reason: String, observed: String| Failure {
            line,
            kind: FailureKind::Differs,
            reason,
            expected: expected.clone(),
            observed,
        };
        let limit = span.map_or(self.now + PATIENCE, |(_, to)| to + tolerance);
        let Some(sent) = self.next_sent(packet.target.map(|target| target.0), limit)? else {
            return Err(fail("no packet was sent".to_owned(), format!("nothing up to {}", seconds(limit))));
        };
        let seen = self.read(packet, &sent).map_err(|why| fail(why, format!("{:02x?}", sent.bytes)))?;
        let drawn = Body::Chunks(seen.clone()).to_string();
        let to = sent.target.ip();
        let towards = if self.peer.is_multihomed() { format!("{to} ") } else { String::new() };
        self.script_log.log.push(format!("{:>10} > {towards}{drawn}", seconds(sent.at)));
        match &packet.body {
            Body::Chunks(wanted) if wanted.is_empty() => {}
            Body::Chunks(wanted) => {
                chunk::compare_packet(wanted, &seen).map_err(|why| fail(why, drawn.clone()))?;
            }
            Body::Bytes(wanted) => {
                let got = sent.bytes.get(12..).unwrap_or_default();
                if got != wanted {
                    return Err(fail("other bytes are expected".to_owned(), format!("{got:02x?}")));
                }
            }
            Body::Icmp(_) => {}
        }
        if let Some((from, to)) = span
            && (sent.at + tolerance < from || sent.at > to + tolerance)
        {
            let why = format!(
                "it is expected at {}, give or take {} ms",
                seconds(from),
                tolerance.as_micros() as f64 / 1000.0
            );
            return Err(fail(why, format!("{drawn} at {}", seconds(sent.at))));
        }
        self.check_header(packet, &sent).map_err(|why| fail(why, drawn))?;
        self.peer.check_destination(&seen, to).map_err(|error| Failure::of(error, line))
    }

    /// Decodes the chunks of a packet that the engine sent, and replaces the engine's tags and TSNs by the script's. An
    /// INIT or INIT ACK in the script defines the mapping.
    fn read(&mut self, packet: &Packet, sent: &PendingPacket) -> Result<Vec<Node>, String> {
        let body = sent.bytes.get(12..).ok_or("a packet without a header")?;
        let raw = chunk::decode_packet(body, ValueMap::default())?;
        let wanted = match &packet.body {
            Body::Chunks(chunks) => &chunks[..],
            Body::Bytes(_) | Body::Icmp(_) => &[],
        };
        for (live, script) in raw.iter().zip(wanted) {
            let number = |node: &Node, key| node.field(key).and_then(Value::int).map(|n| n as u32);
            let both = |key| Some((number(live, key)?, number(script, key)?));
            let same = live.name == script.name;
            match live.name.as_str() {
                "INIT" | "INIT_ACK" if same => {
                    let known = self.value_map.tag.map(|(live, _)| live);
                    // If the script leaves the tag or TSN open, the engine's value is not translated.
                    let open = |key| number(live, key).map(|live| (live, live));
                    let value_map =
                        ValueMap::new(both("tag").or(open("tag")), both("tsn").unwrap_or_default());
                    if live.name == "INIT_ACK" {
                        let cookie = live.items.iter().find(|item| item.name == "STATE_COOKIE");
                        self.repeated.cookie = cookie.map_or(Vec::new(), |item| item.raw[4..].to_vec());
                    }
                    if value_map.tag.is_some() && known != number(live, "tag") {
                        // A second INIT ACK of the engine only offers a new tag and a new initial TSN. They become
                        // valid when the script, which plays the peer, sends a COOKIE ECHO.
                        if known.is_none() || live.name == "INIT" {
                            self.value_map = value_map;
                        } else {
                            self.offered = Some(value_map);
                            return chunk::decode_packet(body, value_map);
                        }
                    }
                }
                "HEARTBEAT" => {
                    let info = live.items.first().and_then(|item| item.raw.get(4..));
                    self.repeated.heartbeat = info.unwrap_or_default().to_vec();
                }
                _ => {}
            }
        }
        chunk::decode_packet(body, self.value_map)
    }

    /// RFC 9260 §6.8, §8.5: checks the checksum of a sent packet, and the tag if the script states it.
    fn check_header(&self, packet: &Packet, sent: &PendingPacket) -> Result<(), String> {
        let mut bytes = sent.bytes.clone();
        let checksum = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        bytes[8..12].fill(0);
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
        let right = if packet.zero_checksum { checksum == 0 } else { checksum == sum };
        if !right {
            return Err(format!("the checksum is {checksum:#010x}, and {sum:#010x} would be right"));
        }
        if let Some((source, target)) = packet.ports {
            let seen = [0, 2].map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]));
            if seen != [source, target] {
                return Err(format!(
                    "ports {source} > {target} are expected, {} > {} seen",
                    seen[0], seen[1]
                ));
            }
        }
        if packet.ecn.is_some_and(|mark| !mark.allows(sent.ecn)) {
            return Err(format!("another ECN mark is expected, {:?} seen", sent.ecn));
        }
        // The engine leaves these IP fields to the host, which always sends the same values. The script may only expect
        // these values.
        for (what, wanted, usual) in [
            ("ttl", packet.ttl.map(u32::from), TTL),
            ("dscp", packet.dscp.map(u32::from), 0),
            ("flowlabel", packet.flow_label, 0),
        ] {
            if wanted.is_some_and(|wanted| wanted != usual) {
                return Err(format!("{what} {} is expected, {usual} seen", wanted.unwrap_or(0)));
            }
        }
        if let Some((source, target)) = packet.udp
            && sent.target.port() != target
        {
            return Err(format!("UDP ports {source} > {target} are expected, {} seen", sent.target.port()));
        }
        let target = packet.target.map_or(self.addresses.remote, |target| target.0);
        if !self.peer.is_multihomed() && target != sent.target.ip() {
            return Err(format!("it is expected to go to {target}, and goes to {}", sent.target.ip()));
        }
        let tag = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        match packet.tag {
            Some(wanted) if wanted != tag => Err(format!("tag={wanted} is expected, {tag} seen")),
            _ => Ok(()),
        }
    }
}
