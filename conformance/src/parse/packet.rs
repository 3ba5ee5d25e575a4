//! Parses the packets in a packetdrill script: IP fields, addresses and ports, SCTP or ICMP.

use super::Parser;
use crate::chunk;
use crate::lex::{SyntaxError, Token};
use crate::script::{Body, EcnMark, Icmp, Packet};
use std::net::IpAddr;

/// Names of DSCPs (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
const DSCPS: &[(&str, u8)] = &[
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
    ("le", 1),
];

impl Parser<'_> {
    pub(super) fn packet(&mut self) -> Result<Packet, SyntaxError> {
        let line = self.line();
        let mut packet = Packet::default();
        // An ICMP message refers to a packet. A script may name this packet before the ICMP message (the older form) or
        // after it.
        let about = self.about()?;
        self.ip_info(&mut packet)?;
        if let Some(Token::Address(_)) = self.peek() {
            packet.source = Some(self.end_point()?);
            self.need('>')?;
            packet.target = Some(self.end_point()?);
            // The colon between the addresses and the protocol may be missing.
            self.eat(':');
            self.ip_info(&mut packet)?;
        }
        if let (Some(Token::Int(_)), Some(Token::Sign('>'))) = (self.peek(), self.peek_at(1)) {
            let source = self.number()?;
            self.need('>')?;
            packet.ports = Some((source, self.number()?));
        }
        if self.eat_word("icmp") {
            packet.body = Body::Icmp(self.icmp(about)?);
            return Ok(packet);
        }
        if about.is_some() {
            return self.fault("'icmp' is expected after what it is about");
        }
        if !self.eat_word("sctp") {
            return self.fault("an SCTP packet is expected: other protocols are not spoken here");
        }
        if self.eat('(') {
            loop {
                match self.word()?.as_str() {
                    "bad_crc32c" => packet.bad_checksum = true,
                    "zero_checksum" => packet.zero_checksum = true,
                    "tag" => {
                        self.need('=')?;
                        packet.tag = Some(self.number()?);
                    }
                    other => return self.fault(format!("'{other}' means nothing for a packet")),
                }
                if !self.eat(',') {
                    break;
                }
            }
            self.need(')')?;
        }
        packet.udp = self.udp_ports()?;
        self.need(':')?;
        packet.body = if self.eat('[') {
            Body::Bytes(self.bytes()?)
        } else {
            let mut chunks = Vec::new();
            if matches!((self.peek(), self.peek_at(1)), (Some(Token::Word(_)), Some(Token::Sign('[')))) {
                chunks.push(self.node()?);
                while self.eat(';') {
                    chunks.push(self.node()?);
                }
            }
            chunk::check_names(&chunks).map_err(|what| SyntaxError::at(line, what))?;
            Body::Chunks(chunks)
        };
        Ok(packet)
    }

    /// Parses the UDP ports of a packet: `/udp(source > target)` (RFC 6951).
    fn udp_ports(&mut self) -> Result<Option<(u16, u16)>, SyntaxError> {
        if !self.eat('/') {
            return Ok(None);
        }
        if !self.eat_word("udp") {
            return self.fault("'udp' is expected");
        }
        self.need('(')?;
        let source = self.number()?;
        self.need('>')?;
        let target = self.number()?;
        self.need(')')?;
        Ok(Some((source, target)))
    }

    /// Parses `[sctp(tag)]`, the packet to which an ICMP message refers.
    fn about(&mut self) -> Result<Option<u32>, SyntaxError> {
        let quotes = self.peek() == Some(&Token::Sign('['))
            && matches!(self.peek_at(1), Some(Token::Word(word)) if word == "sctp");
        if !quotes {
            return Ok(None);
        }
        self.at += 2;
        self.need('(')?;
        let tag = self.number()?;
        self.need(')')?;
        self.udp_ports()?;
        self.need(']')?;
        Ok(Some(tag))
    }

    /// Parses an ICMP message: `TYPE [CODE] [mtu N] [id N] [sctp(tag)]`.
    fn icmp(&mut self, about: Option<u32>) -> Result<Icmp, SyntaxError> {
        let mut icmp = Icmp { kind: self.word()?, code: None, mtu: None, about };
        if let Some(Token::Word(word)) = self.peek()
            && !["mtu", "id"].contains(&word.as_str())
        {
            icmp.code = Some(self.word()?);
        }
        if self.eat_word("mtu") {
            icmp.mtu = Some(self.number()?);
        }
        if self.eat_word("id") {
            return self.fault("ICMP messages of echo are not spoken here");
        }
        if icmp.about.is_none() {
            icmp.about = self.about()?;
        }
        Ok(icmp)
    }

    /// Parses the IP fields of a packet, such as `[ect0]` and `(ttl 64, tos 0x2)`.
    fn ip_info(&mut self, packet: &mut Packet) -> Result<(), SyntaxError> {
        let close = match self.peek() {
            Some(Token::Sign('[')) => ']',
            Some(Token::Sign('(')) => ')',
            _ => return Ok(()),
        };
        self.at += 1;
        loop {
            match self.word()?.as_str() {
                "ttl" | "hlim" => packet.ttl = Some(self.number()?),
                "flowlabel" => packet.flow_label = Some(self.number()?),
                "tos" | "class" => {
                    let all: u8 = self.number()?;
                    packet.dscp = Some(all >> 2);
                    packet.ecn = Some(EcnMark::of_bits(all));
                }
                "dscp" => packet.dscp = Some(self.dscp()?),
                "ecn" => {
                    let mark = self.word()?;
                    packet.ecn = Some(self.ecn(&mark)?);
                }
                mark => packet.ecn = Some(self.ecn(mark)?),
            }
            if !self.eat(',') {
                break;
            }
        }
        self.need(close)
    }

    fn ecn(&self, mark: &str) -> Result<EcnMark, SyntaxError> {
        match EcnMark::named(mark) {
            Some(mark) => Ok(mark),
            None => self.fault(format!("'{mark}' means nothing in an IP header")),
        }
    }

    fn dscp(&mut self) -> Result<u8, SyntaxError> {
        if let Some(Token::Int(_)) = self.peek() {
            return self.number::<u8>();
        }
        let name = self.word()?;
        // The DSCP name `voice-admit` consists of three tokens: two words and the sign between them.
        if name == "voice" && self.eat('-') && self.eat_word("admit") {
            return Ok(44);
        }
        match DSCPS.iter().find(|(known, _)| *known == name) {
            Some((_, dscp)) => Ok(*dscp),
            None => self.fault(format!("'{name}' is no DSCP")),
        }
    }

    fn end_point(&mut self) -> Result<(IpAddr, Option<u16>), SyntaxError> {
        let Some(&Token::Address(address)) = self.peek() else {
            return self.fault("an address is expected");
        };
        self.at += 1;
        let port = matches!((self.peek(), self.peek_at(1)), (Some(Token::Sign(':')), Some(Token::Int(_))));
        if !port {
            return Ok((address, None));
        }
        self.at += 1;
        Ok((address, Some(self.number()?)))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let mut bytes = Vec::new();
        if self.eat(']') {
            return Ok(bytes);
        }
        loop {
            bytes.push(self.number()?);
            if !self.eat(',') {
                break;
            }
        }
        self.need(']')?;
        Ok(bytes)
    }
}
