//! Delivers to the engine the packets that a script injects: SCTP packets and ICMP messages.

use super::{Machine, sealed, seconds};
use crate::chunk;
use crate::icmp;
use crate::script::{Body, EcnMark, Icmp, Packet, Value};
use anabranch_base::{Ecn, Engine};
use std::net::SocketAddr;

impl Machine {
    pub(super) fn inject(&mut self, packet: &Packet) -> Result<(), String> {
        let raw = match &packet.body {
            Body::Chunks(_) => Vec::new(),
            // If the script gives the packet as raw bytes, only its first chunk is interpreted.
            Body::Bytes(bytes) => chunk::leading(bytes),
            Body::Icmp(icmp) => return self.inject_icmp(packet, icmp),
        };
        let chunks = match &packet.body {
            Body::Chunks(chunks) => &chunks[..],
            _ => &raw,
        };
        let mut opens = false;
        let mut reflected = false;
        for chunk in chunks {
            let number = |key| chunk.field(key).and_then(Value::int).map(|n| n as u32);
            match chunk.name.as_str() {
                "INIT" | "INIT_ACK" => {
                    opens |= chunk.name == "INIT";
                    self.peer_tag = number("tag").unwrap_or(self.peer_tag);
                }
                // With a COOKIE ECHO, the peer accepts the last INIT ACK. From now on, the tag and the initial TSN of
                // that INIT ACK are valid.
                "COOKIE_ECHO" if chunk.field("val").is_none_or(Value::is_any) => {
                    self.value_map = self.offered.take().unwrap_or(self.value_map);
                }
                "ABORT" | "SHUTDOWN_COMPLETE" => {
                    reflected |= match chunk.field("flgs") {
                        Some(Value::Int(bits)) => bits & 1 == 1,
                        Some(Value::Word(letters)) => letters.contains('T'),
                        _ => false,
                    };
                }
                _ => {}
            }
        }
        let introduced = self.peer.introduced(&packet.body);
        let body = chunk::encode_body(&introduced, self.value_map, &self.repeated)?;
        let (live, script) = self.value_map.tag.unwrap_or((1, 1));
        let tag = match packet.tag {
            Some(0) => 0,
            Some(tag) if reflected => tag,
            // The script's tag `script` stands for `live`, the real tag of the association. The tag on the wire is
            // `live` plus the difference between the packet's tag and `script`. A tag that is wrong in the script is
            // therefore also wrong on the wire.
            Some(tag) => tag.wrapping_sub(script).wrapping_add(live).max(1),
            None if opens => 0,
            None if reflected => self.peer_tag,
            None => live,
        };
        let source = packet.source.unwrap_or((self.addresses.remote, None));
        let target = packet.target.unwrap_or((self.addresses.local, None));
        let ports = (
            source.1.unwrap_or(self.addresses.connect_port),
            target.1.unwrap_or_else(|| self.fds.local_port().unwrap_or(self.addresses.bind_port)),
        );
        let ports = packet.ports.unwrap_or(ports);
        let mut bytes = sealed(ports, tag, &body);
        if packet.zero_checksum {
            bytes[8..12].fill(0);
        } else if packet.bad_checksum {
            bytes[8] = bytes[8].wrapping_add(1);
        }
        self.script_log.log.push(format!("{:>10} < {}", seconds(self.now), introduced));
        let packet = anabranch_base::Packet {
            source: SocketAddr::new(source.0, packet.udp.map_or(0, |udp| udp.0)),
            target: SocketAddr::new(target.0, packet.udp.map_or(0, |udp| udp.1)),
            // The script's TTL, DSCP and flow label are not passed on, because SCTP ignores them in received packets.
            ecn: match packet.ecn {
                Some(EcnMark::Is(ecn)) => ecn,
                Some(EcnMark::Capable) => return Err("[ect01] is no mark of one packet".to_owned()),
                None => Ecn::NotEct,
            },
            tag: 0,
            payload: &bytes,
        };
        self.sockets.handle_packet(self.now, packet);
        Ok(())
    }

    /// Injects an ICMP message about a packet that the engine has sent.
    fn inject_icmp(&mut self, packet: &Packet, icmp: &Icmp) -> Result<(), String> {
        let v6 = self.addresses.local.is_ipv6();
        let Some(tag) = icmp.about else {
            return Err("what it is about is to be named, as [sctp(tag)]".to_owned());
        };
        let kind = icmp::kind(icmp, v6)?;
        let local = self.fds.local_port().unwrap_or(self.addresses.bind_port);
        let ports = packet.ports.unwrap_or((local, self.addresses.connect_port));
        let mut quoted = sealed(ports, tag, &[]);
        if tag == 0 {
            // RFC 9260 §10, rule ICMP6: if the message quotes an INIT, the quotation must include the initiate tag.
            quoted.extend_from_slice(&[1, 0, 0, 20]);
            quoted.extend_from_slice(&self.value_map.tag.map_or(0, |(live, _)| live).to_be_bytes());
        }
        self.script_log.log.push(format!("{:>10} < {}", seconds(self.now), packet.body));
        let (source, target) = (self.addresses.local, packet.source.map_or(self.addresses.remote, |s| s.0));
        match kind {
            Some(kind) => {
                let report = anabranch_base::Icmp { kind, source, target };
                self.sockets.handle_icmp(self.now, &report, &quoted);
            }
            None => self.note("no host hands that ICMP message to SCTP (RFC 9260 §10)".to_owned()),
        }
        Ok(())
    }

    /// If `packet` is a HEARTBEAT that the engine sends to an additional address of the peer, answers it and returns
    /// true. Scripts cannot name these addresses, and the script does not see the HEARTBEAT.
    pub(super) fn stage_answers(&mut self, packet: &anabranch_base::Packet<'_>) -> bool {
        let chunks = packet.payload.get(12..).unwrap_or_default();
        let answer = self.peer.answer(packet.target.ip(), chunks);
        let (Some(answer), Some((tag, _))) = (answer, self.value_map.tag) else { return false };
        let port = |at: usize| u16::from_be_bytes([packet.payload[at], packet.payload[at + 1]]);
        let bytes = sealed((port(2), port(0)), tag, &answer);
        let to = packet.target.ip();
        self.note(format!("the stage answers a HEARTBEAT to {to}"));
        let (source, target) = (packet.target, packet.source);
        let ecn = Ecn::NotEct;
        let answer = anabranch_base::Packet { source, target, ecn, tag: 0, payload: &bytes };
        self.sockets.handle_packet(self.now, answer);
        true
    }
}
