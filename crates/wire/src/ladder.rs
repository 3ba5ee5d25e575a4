//! Formats a packet as one line of text, and a conversation as a ladder diagram. Traces, the files of expected test
//! output, and the output of `decode` contain both.
//!
//! ```text
//!    0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1     ✗ lost
//!    1.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1
//!    1.050  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
//! ```
//!
//! The diagram replaces random numbers by relative numbers. The TSNs or sequence numbers of each side are counted
//! from 1. Verification tags get names: `A1` is the first tag of the side A. A ladder is therefore readable and does not
//! depend on the seed. The side whose name was given first is drawn on the left.

use crate::ip::protocol;
use crate::sctp::cause::Causes;
use crate::sctp::{Cause, Chunk, PacketView, Tsn};
use crate::tcp::{Flags, Segment};
use anabranch_base::Instant;
use std::fmt::Write;
use std::net::IpAddr;

/// One of the two hosts of a conversation, by its position in the diagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The side that is drawn on the left.
    Left = 0,
    /// The side that is drawn on the right.
    Right = 1,
}

impl Side {
    /// Returns the other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// The verification tags and the first TSNs or sequence numbers that both sides of a conversation chose.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// For each side, its first TSN or sequence number. `None` until a packet with that number has been drawn.
    first: [Option<u32>; 2],
    /// For each side, its verification tags in order of appearance (`tags`) and its name (`names`).
    tags: [Vec<u32>; 2],
    names: [String; 2],
}

impl Numbers {
    /// Creates the state for a conversation between two sides with these names. Until a handshake is seen, packets are
    /// shown with their original numbers.
    #[must_use]
    pub fn new(left: &str, right: &str) -> Self {
        Self { names: [left.into(), right.into()], ..Self::default() }
    }

    /// Converts a TSN or sequence number of `side` to its relative number, which is counted from 1. Returns `number`
    /// unchanged if the first number is unknown.
    fn number(&self, side: Side, number: u32) -> i64 {
        match self.first[side as usize] {
            Some(first) => i64::from(number.wrapping_sub(first) as i32) + 1,
            None => i64::from(number),
        }
    }

    fn tag(&self, side: Side, tag: u32) -> String {
        match self.tags[side as usize].iter().position(|&known| known == tag) {
            Some(index) => format!("{}{}", self.names[side as usize], index + 1),
            None => format!("{tag:08x}"),
        }
    }

    /// Returns the latest verification tag that packets to `side` must carry; `None` if no tag was seen.
    #[must_use]
    pub fn latest_tag(&self, side: Side) -> Option<u32> {
        self.tags[side as usize].last().copied()
    }

    /// Returns the first TSN or sequence number of `side`; `None` if no handshake was seen.
    #[must_use]
    pub fn first(&self, side: Side) -> Option<u32> {
        self.first[side as usize]
    }

    fn learn(&mut self, side: Side, tag: u32, first: u32) {
        if !self.tags[side as usize].contains(&tag) {
            self.tags[side as usize].push(tag);
        }
        self.first[side as usize] = Some(first);
    }

    /// Returns one line of text with the chunks of an SCTP packet that `side` sent. Does not verify the checksum.
    #[must_use]
    pub fn sctp(&mut self, side: Side, bytes: &[u8]) -> String {
        let Ok(packet) = PacketView::parse_unverified(bytes) else {
            return format!("({} bytes, too short)", bytes.len());
        };
        let mut line = String::new();
        let mut initial = false;
        for chunk in packet.chunks() {
            if !line.is_empty() {
                line += "; ";
            }
            match chunk {
                Ok(chunk) => {
                    initial |= matches!(chunk, Chunk::Init(_));
                    self.chunk(side, &chunk, &mut line);
                }
                Err(error) => {
                    // The result of `write!` is ignored, because writing to a string cannot fail.
                    let _ = write!(line, "({error})");
                }
            }
        }
        if line.is_empty() {
            line += "(no chunk)";
        }
        // The verification tag is shown only if it is not the current tag of the receiver.
        let expected = self.tags[side.other() as usize].last().copied();
        let tag = packet.header.tag;
        if Some(tag) != expected && !(initial && tag == 0) {
            let _ = match self.tags[side as usize].contains(&tag) {
                true => write!(line, "   vtag={}", self.tag(side, tag)),
                false => write!(line, "   vtag={}", self.tag(side.other(), tag)),
            };
        }
        line
    }

    fn chunk(&mut self, side: Side, chunk: &Chunk<'_>, line: &mut String) {
        let peer = side.other();
        // The first chunk name of a line is padded, so that the values after the name form a column.
        let wide = if line.is_empty() { 13 } else { 0 };
        // The result of `write!` is ignored, because writing to a string cannot fail.
        let _ = match chunk {
            Chunk::Init(init) | Chunk::InitAck(crate::sctp::InitAck(init)) => {
                self.learn(side, init.tag, init.tsn.0);
                let (tag, window) = (self.tag(side, init.tag), size(init.window));
                let (os, is, tsn) =
                    (init.outbound_streams, init.inbound_streams, self.number(side, init.tsn.0));
                let _ =
                    write!(line, "{:<wide$} tag={tag} rwnd={window} os={os} is={is} tsn={tsn}", chunk.name());
                for param in init.params {
                    let _ = match param {
                        Ok(crate::sctp::Param::StateCookie(_)) => write!(line, " …cookie"),
                        Ok(param) => write!(line, " {param}"),
                        Err(error) => write!(line, " ({error})"),
                    };
                }
                Ok(())
            }
            Chunk::Data(data) => {
                let tsn = self.number(side, data.tsn.0);
                let _ = write!(line, "{:<wide$} tsn={tsn} sid={}", "DATA", data.stream);
                if !data.unordered {
                    let _ = write!(line, " ssn={}", data.ssn);
                }
                let _ = write!(line, " len={}", data.payload.len());
                data.fmt_flags(line)
            }
            Chunk::IData(data) => {
                let tsn = self.number(side, data.tsn.0);
                let _ = write!(line, "{:<wide$} tsn={tsn} sid={}", "I-DATA", data.stream);
                data.fmt_rest(line)
            }
            Chunk::Sack(sack) => {
                let cumulative = self.number(peer, sack.cumulative.0);
                let _ = write!(line, "{:<wide$} cum={cumulative} rwnd={}", "SACK", size(sack.window));
                sack.fmt_blocks(line, |tsn: Tsn| self.number(peer, tsn.0))
            }
            Chunk::NrSack(nr) => {
                let cumulative = self.number(peer, nr.sack.cumulative.0);
                let _ = write!(line, "{:<wide$} cum={cumulative} rwnd={}", "NR-SACK", size(nr.sack.window));
                nr.fmt_blocks(line, |tsn: Tsn| self.number(peer, tsn.0))
            }
            Chunk::Shutdown(shutdown) => {
                write!(line, "{:<wide$} cum={}", "SHUTDOWN", self.number(peer, shutdown.cumulative.0))
            }
            Chunk::ForwardTsn(forward) => {
                let cumulative = self.number(side, forward.cumulative.0);
                let _ = write!(line, "{:<wide$} cum={cumulative}", chunk.name());
                forward.fmt_streams(line)
            }
            Chunk::IForwardTsn(forward) => {
                let cumulative = self.number(side, forward.cumulative.0);
                let _ = write!(line, "{:<wide$} cum={cumulative}", chunk.name());
                forward.fmt_streams(line)
            }
            Chunk::Ecne(ecne) => write!(line, "{:<wide$} tsn={}", "ECNE", self.number(peer, ecne.tsn.0)),
            Chunk::Cwr(cwr) => write!(line, "{:<wide$} tsn={}", "CWR", self.number(side, cwr.tsn.0)),
            // The sequence numbers of ASCONF chunks start at the initial TSN, so they are shown relative to that TSN.
            Chunk::Asconf(asconf) => {
                let renumbered =
                    crate::sctp::Asconf { serial: self.number(side, asconf.serial) as u32, ..*asconf };
                write!(line, "{renumbered}")
            }
            Chunk::AsconfAck(ack) => {
                let renumbered =
                    crate::sctp::AsconfAck { serial: self.number(peer, ack.serial) as u32, ..*ack };
                write!(line, "{renumbered}")
            }
            Chunk::ReConfig(chunk) => {
                *line += "RE-CONFIG";
                chunk.fmt_with(line, |n| self.number(side, n), |n| self.number(peer, n))
            }
            Chunk::CookieEcho(_) | Chunk::Heartbeat(_) | Chunk::HeartbeatAck(_) => {
                // Only the names of these chunks are shown, because their contents are opaque.
                write!(line, "{}", chunk.name())
            }
            Chunk::Abort(abort) => {
                let _ = write!(line, "ABORT{}", if abort.reflected { " T" } else { "" });
                self.causes(peer, abort.causes, line)
            }
            Chunk::Error(error) => {
                *line += "ERROR";
                self.causes(peer, error.causes, line)
            }
            other => write!(line, "{other}"),
        };
    }

    /// Writes the error causes to `line`, with a space before each. TSNs in the causes are TSNs of `peer`.
    fn causes(&self, peer: Side, causes: Causes<'_>, line: &mut String) -> std::fmt::Result {
        for cause in causes {
            match cause {
                Ok(Cause::NoUserData(tsn)) => write!(line, " no-user-data({})", self.number(peer, tsn.0))?,
                Ok(cause) => write!(line, " {cause}")?,
                Err(error) => write!(line, " ({error})")?,
            }
        }
        Ok(())
    }

    /// Returns one line of text that shows a TCP segment that `side` sent. Does not verify the checksum.
    #[must_use]
    pub fn tcp(&mut self, side: Side, bytes: &[u8]) -> String {
        let Ok(segment) = Segment::parse(bytes) else {
            return format!("({} bytes, not a segment)", bytes.len());
        };
        let header = &segment.header;
        if header.flags.has(Flags::SYN) {
            // The SYN itself gets the relative number 0, and the first byte gets number 1.
            self.first[side as usize] = Some(header.seq.0.wrapping_add(1));
        }
        let mut line = format!("{:<13} seq={}", header.flags.to_string(), self.number(side, header.seq.0));
        // The results of `write!` are ignored, because writing to a string cannot fail.
        if !segment.payload.is_empty() {
            let _ = write!(line, " len={}", segment.payload.len());
        }
        if header.flags.has(Flags::ACK) {
            let _ = write!(line, " ack={}", self.number(side.other(), header.ack.0));
        }
        let _ = write!(line, " win={}", header.window);
        let options = &header.options;
        if let Some(mss) = options.mss {
            let _ = write!(line, " mss={mss}");
        }
        if let Some(shift) = options.window_scale {
            let _ = write!(line, " ws={shift}");
        }
        if options.sack_permitted {
            line += " sack-ok";
        }
        for (i, (start, end)) in options.sack.as_slice().iter().enumerate() {
            let (start, end) =
                (self.number(side.other(), start.0), self.number(side.other(), end.0.wrapping_sub(1)));
            let _ = write!(line, "{}{start}-{end}", if i == 0 { " sack=" } else { "," });
        }
        line
    }
}

/// Formats a size in bytes: whole kibibytes as, for example, `64k`, other sizes in bytes.
fn size(bytes: u32) -> String {
    if bytes >= 1_024 && bytes.is_multiple_of(1_024) {
        format!("{}k", bytes / 1_024)
    } else {
        bytes.to_string()
    }
}

/// The transport protocol whose packets a ladder shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// SCTP packets.
    Sctp,
    /// TCP segments.
    Tcp,
}

impl Transport {
    /// Returns the transport protocol with this IP protocol number; `None` if a ladder cannot show its packets.
    #[must_use]
    pub const fn of_protocol(number: u8) -> Option<Self> {
        match number {
            protocol::SCTP => Some(Self::Sctp),
            protocol::TCP => Some(Self::Tcp),
            _ => None,
        }
    }
}

/// The packets of one conversation, drawn line by line.
#[derive(Clone, Debug)]
pub struct Ladder {
    transport: Transport,
    numbers: Numbers,
    hosts: Vec<(IpAddr, Side, String)>,
    text: String,
}

impl Ladder {
    /// Creates an empty ladder diagram between two sides with the names `left` and `right`.
    #[must_use]
    pub fn new(transport: Transport, left: &str, right: &str) -> Self {
        Self { transport, numbers: Numbers::new(left, right), hosts: Vec::new(), text: String::new() }
    }

    /// Sets the side and the name of the host that has this address.
    pub fn set_side(&mut self, address: IpAddr, side: Side, name: &str) {
        self.hosts.push((address, side, name.into()));
    }

    /// Draws a packet, followed by `remark` if that is not empty.
    pub fn packet(&mut self, at: Instant, source: IpAddr, target: IpAddr, bytes: &[u8], remark: &str) {
        let line = self.line(at, source, target, bytes);
        self.push(&line, remark);
    }

    /// Returns the line that shows a packet, but does not add the line to the diagram. Still remembers the packet's
    /// verification tags and each side's first TSN or sequence number, because the lines of later packets depend on
    /// them.
    #[must_use]
    pub fn line(&mut self, at: Instant, source: IpAddr, target: IpAddr, bytes: &[u8]) -> String {
        let find = |address: IpAddr| self.hosts.iter().find(|(known, _, _)| *known == address);
        let side = find(source).map_or(Side::Left, |(_, side, _)| *side);
        let name = |address: IpAddr| find(address).map_or("?", |(_, _, name)| name.as_str());
        let (left, arrow, right) = match side {
            Side::Left => (name(source), "──►", name(target)),
            Side::Right => (name(target), "◄──", name(source)),
        };
        let head = format!("{} {left} {arrow} {right}   ", clock(at));
        let line = match self.transport {
            Transport::Sctp => self.numbers.sctp(side, bytes),
            Transport::Tcp => self.numbers.tcp(side, bytes),
        };
        head + line.trim_end()
    }

    /// Draws a line unchanged, followed by `remark` if that is not empty.
    pub fn push(&mut self, line: &str, remark: &str) {
        self.text += line;
        if !remark.is_empty() {
            self.text += "     ";
            self.text += remark;
        }
        self.text.push('\n');
    }

    /// Returns the verification tags and the first TSNs or sequence numbers that have been seen in the conversation so
    /// far.
    #[must_use]
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Draws a line that is not a packet, for example an event at one side, or a timer.
    pub fn note(&mut self, at: Instant, text: &str) {
        let line = format!("{} {text}", clock(at));
        self.push(line.trim_end(), "");
    }

    /// Removes and returns the text drawn since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Returns the text drawn since the last call of [`take`](Self::take).
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Formats a time in seconds with three decimals, rounded down and right-aligned.
fn clock(at: Instant) -> String {
    let millis = at.as_nanos() / 1_000_000;
    format!("{:>4}.{:03} ", millis / 1_000, millis % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::{CookieEcho, Data, Init, InitAck, Param, Sack, ShutdownComplete, packet};
    use crate::sctp::{GapBlock, Ssn};
    use std::net::Ipv4Addr;

    fn sctp(tag: u32, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, 5_000, 80, tag);
        write(&mut bytes);
        packet::finish(&mut bytes, start);
        bytes
    }

    #[test]
    fn a_conversation_reads_without_its_random_numbers() {
        let (a, b) = (IpAddr::from(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::from(Ipv4Addr::new(10, 0, 0, 2)));
        let mut ladder = Ladder::new(Transport::Sctp, "A", "B");
        ladder.set_side(a, Side::Left, "A");
        ladder.set_side(b, Side::Right, "B");
        let at = Instant::from_millis;
        let init = Init {
            tag: 0xaaaa,
            window: 65_536,
            outbound_streams: 10,
            inbound_streams: 9,
            tsn: Tsn(u32::MAX),
            ..Init::default()
        };
        ladder.packet(at(0), a, b, &sctp(0, |b| init.emit(b)), "✗ lost");
        let answer = Init { tag: 0xbbbb, tsn: Tsn(700), ..init };
        let ack = sctp(0xaaaa, |buffer| {
            let mut chunk = InitAck(answer).open(buffer);
            Param::StateCookie(&[0; 40]).emit(&mut chunk);
            chunk.close();
        });
        ladder.packet(at(1_050), b, a, &ack, "");
        let data = Data { tsn: Tsn(u32::MAX), begin: true, end: true, payload: b"hi", ..Data::default() };
        let echo = sctp(0xbbbb, |buffer| {
            CookieEcho { cookie: &[0; 40] }.emit(buffer);
            data.emit(buffer);
            Data { tsn: Tsn(0), ssn: Ssn(1), unordered: true, ..data }.emit(buffer);
        });
        ladder.packet(at(1_100), a, b, &echo, "");
        let sack = Sack {
            cumulative: Tsn(0),
            window: 1_000,
            gaps: &[GapBlock { start: 2, end: 3 }],
            duplicates: &[Tsn(u32::MAX)],
        };
        ladder.packet(at(1_150), b, a, &sctp(0xaaaa, |b| sack.emit(b)), "");
        let last = sctp(0xaaaa, |b| ShutdownComplete { reflected: true }.emit(b));
        ladder.packet(at(12_345), a, b, &last, "");
        ladder.note(at(12_345), "A closed");
        assert_eq!(
            ladder.take(),
            "   0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=9 tsn=1     ✗ lost
   1.050  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=9 tsn=1 …cookie
   1.100  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=2 BE; DATA tsn=2 sid=0 len=2 UBE
   1.150  A ◄── B   SACK          cum=2 rwnd=1000 gaps=4-5 dups=1
  12.345  A ──► B   SHUTDOWN COMPLETE T   vtag=A1
  12.345  A closed
"
        );
    }

    #[test]
    fn bytes_that_are_no_packet_are_drawn_too() {
        let mut numbers = Numbers::new("A", "B");
        assert_eq!(numbers.sctp(Side::Left, &[1, 2, 3]), "(3 bytes, too short)");
        let mut cut = sctp(7, |buffer| Data::default().emit(buffer));
        cut.truncate(20);
        assert_eq!(
            numbers.sctp(Side::Left, &cut),
            "(chunk type 0 has length 16, which does not fit the packet)   vtag=00000007"
        );
        assert_eq!(numbers.tcp(Side::Left, &[0; 3]), "(3 bytes, not a segment)");
    }

    #[test]
    fn tcp_numbers_count_from_the_first_byte() {
        use crate::tcp::{Header, Seq};
        let mut numbers = Numbers::new("A", "B");
        let segment = |header: Header, payload: &[u8]| {
            let mut bytes = Vec::new();
            header.emit(&mut bytes);
            bytes.extend_from_slice(payload);
            bytes
        };
        let mut syn = Header { seq: Seq(u32::MAX), flags: Flags::SYN, window: 65_535, ..Header::default() };
        syn.options.mss = Some(1_460);
        syn.options.sack_permitted = true;
        assert_eq!(
            numbers.tcp(Side::Left, &segment(syn, b"")),
            "SYN           seq=0 win=65535 mss=1460 sack-ok"
        );
        let answer = Header { seq: Seq(9), ack: Seq(0), flags: Flags::SYN.with(Flags::ACK), ..syn };
        assert_eq!(
            numbers.tcp(Side::Right, &segment(answer, b"")),
            "SYN ACK       seq=0 ack=1 win=65535 mss=1460 sack-ok"
        );
        let data = Header { seq: Seq(0), ack: Seq(10), flags: Flags::ACK, window: 9, ..Header::default() };
        assert_eq!(numbers.tcp(Side::Left, &segment(data, b"abc")), "ACK           seq=1 len=3 ack=1 win=9");
        let mut dup = Header { seq: Seq(10), ack: Seq(3), flags: Flags::ACK, window: 9, ..Header::default() };
        dup.options.sack.push(Seq(6), Seq(9));
        assert_eq!(numbers.tcp(Side::Right, &segment(dup, b"")), "ACK           seq=1 ack=4 win=9 sack=7-9");
    }
}
