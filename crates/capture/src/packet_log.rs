//! SCTP packets in the logs of programs: those of usrsctp (`usrsctp_dumppacket`), also within Firefox (`MOZ_LOG=SCTP:5`),
//! and of dcSCTP within Chromium (`--vmodule=*text_pcap*=4,*dcsctp_transport*=4`).
//!
//! A packet takes one line, possibly after the program's own prefix:
//!
//! ```text
//! I 12:34:56.789012 0000 13 88 13 88 ... # SCTP_PACKET
//! O 00:00:05.943 0000 13 88 13 88 ... # SCTP_PACKET DcSctpTransport0
//! ```
//!
//! `O` marks sent packets and `I` received ones. The time is that of the day, or the time since the start modulo a day.
//! The packets have no IP header. All other lines are skipped.

use super::Reading;
use super::frame::{self, IpPayload, LOCAL, REMOTE};
use anabranch_wire::ip::protocol;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;

/// The bytes between the time and the first byte of a packet: the offset of a hex dump.
const OFFSET: &[u8] = b" 0000 ";
/// The maximum length of the text before a packet.
const MAX_PREFIX: usize = 512;
/// The maximum length of a packet in bytes.
const MAX_PACKET: usize = u16::MAX as usize;
/// The maximum length of a line. Longer lines are skipped.
const MAX_LINE: usize = 3 * MAX_PACKET + MAX_PREFIX + 256;
/// The maximum number of Verification Tags that are remembered.
const MAX_TAGS: usize = 1 << 16;
/// The number of packets that are held back at the beginning.
const HELD: u64 = 1_000;
/// The chunk types of INIT and INIT ACK.
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_DAY: u64 = 86_400 * NANOS_PER_SECOND;

/// A packet in a text log of packets.
struct LoggedPacket {
    sent: bool,
    /// The time of the day in nanoseconds.
    at: u64,
    bytes: Vec<u8>,
}

impl LoggedPacket {
    /// Returns the type of the first chunk in the packet.
    fn kind(&self) -> u8 {
        self.bytes.get(12).copied().unwrap_or(u8::MAX)
    }

    /// Returns the Verification Tag of the packet.
    fn tag(&self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes.get(4..)?.first_chunk()?))
    }

    /// Returns the Initiate Tag of an INIT or INIT ACK.
    fn initiate_tag(&self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes.get(16..)?.first_chunk()?))
    }
}

/// Processes all packets of a log. Returns their number.
pub(super) fn read(input: impl Read, reading: &mut Reading) -> io::Result<u64> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let (mut line, mut packets, mut clock) = (Vec::new(), 0, Clock::default());
    let (mut sides, mut held) = (SideFinder::default(), Some(Vec::new()));
    loop {
        line.clear();
        let read = input.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
        if read == MAX_LINE && line.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
            continue;
        }
        if let Some(mut packet) = parse(&line) {
            packets += 1;
            packet.at = clock.since_first_day(packet.at);
            match &mut held {
                Some(first) => first.push(packet),
                None => {
                    sides.learn(std::slice::from_ref(&packet));
                    process(&packet, &mut sides, reading);
                }
            }
        }
        // The first packets are held back until later packets have shown which end sent them.
        if (read == 0 || packets == HELD)
            && let Some(first) = held.take()
        {
            sides.learn(&first);
            first.iter().for_each(|packet| process(packet, &mut sides, reading));
        }
        if read == 0 {
            return Ok(packets);
        }
    }
}

fn process(packet: &LoggedPacket, sides: &mut SideFinder, reading: &mut Reading) {
    let at = reading.clock(packet.at);
    reading.count_packet();
    match sides.addresses(packet) {
        Some(addresses) => {
            let length = packet.bytes.len() as u64;
            let carried = frame::logged(addresses, protocol::SCTP, &packet.bytes, length);
            reading.process_packet(at, &IpPayload { number: reading.packets, ..carried });
        }
        None => reading.leave_out("packets that the log of their sender has, too"),
    }
}

/// Counts the days, because the log has only the time of the day.
#[derive(Default)]
struct Clock {
    day: u64,
    last: u64,
}

impl Clock {
    fn since_first_day(&mut self, at: u64) -> u64 {
        // Lines of several threads may be slightly out of order. A large step back means that a new day has begun.
        if at + NANOS_PER_DAY / 2 < self.last {
            self.day += 1;
        }
        self.last = at;
        self.day * NANOS_PER_DAY + at
    }
}

/// Finds out which end sent a packet. If both ends of an association run in one process, the log has each packet twice.
/// The end that sent the first packet is then the local one.
#[derive(Default)]
struct SideFinder {
    /// The Verification Tags of sent packets and the Initiate Tags of sent INITs. The flag is set for an INIT.
    sent: BTreeSet<(bool, u32)>,
    /// The Initiate Tags of sent INITs, by the end that chose them: the local end, or the other end in the same
    /// process.
    chosen: [BTreeSet<u32>; 2],
    /// The two tags of each association whose INIT ACK was logged.
    peers: BTreeMap<u32, u32>,
}

impl SideFinder {
    /// Learns from packets which end has chosen which Verification Tag.
    fn learn(&mut self, packets: &[LoggedPacket]) {
        for packet in packets.iter().filter(|packet| packet.kind() == INIT_ACK) {
            if let (Some(one), Some(other)) = (packet.tag(), packet.initiate_tag())
                && self.peers.len() < MAX_TAGS
            {
                self.peers.extend([(one, other), (other, one)]);
            }
        }
        for packet in packets.iter().filter(|packet| packet.sent && packet.kind() == INIT) {
            let Some(tag) = packet.initiate_tag() else { continue };
            // Both ends may send an INIT at the same time.
            let is_far = self.peers.get(&tag).is_some_and(|peer| self.chosen[0].contains(peer));
            if self.chosen.iter().all(|tags| tags.len() < MAX_TAGS && !tags.contains(&tag)) {
                self.chosen[usize::from(is_far)].insert(tag);
            }
        }
    }

    /// Returns the source and the target of a packet, or `None` if the log has the sender's record of the packet, too.
    fn addresses(&mut self, packet: &LoggedPacket) -> Option<[IpAddr; 2]> {
        let is_init = packet.kind() == INIT;
        let tag = if is_init { packet.initiate_tag() } else { packet.tag() }.unwrap_or(0);
        // RFC 9260 §8.5.1: ABORT and SHUTDOWN COMPLETE may reflect the tag of the peer.
        let reflects = matches!(packet.bytes.get(12..14), Some([6 | 14, flags]) if flags & 1 != 0);
        if !packet.sent {
            let is_copy = !reflects && self.sent.contains(&(is_init, tag));
            return (!is_copy).then_some([REMOTE, LOCAL]);
        }
        if self.sent.len() < MAX_TAGS && !reflects {
            self.sent.insert((is_init, tag));
        }
        // The header of a packet has the tag that its receiver has chosen.
        let is_far = self.chosen[usize::from(is_init)].contains(&tag) && !reflects;
        Some(if is_far { [REMOTE, LOCAL] } else { [LOCAL, REMOTE] })
    }
}

/// Parses a line. Returns `None` if it has no packet.
fn parse(line: &[u8]) -> Option<LoggedPacket> {
    let begin = line.get(..MAX_PREFIX.min(line.len()))?;
    let at = begin.windows(OFFSET.len()).position(|window| window == OFFSET)?;
    let mut words = line[..at].rsplitn(3, |byte| *byte == b' ');
    let time = time_of_day(words.next()?)?;
    let sent = match words.next()? {
        b"O" => true,
        b"I" => false,
        _ => return None,
    };
    let mut bytes = Vec::new();
    let mut rest = line[at + OFFSET.len()..].split(u8::is_ascii_whitespace);
    while let Some(word) = rest.next() {
        match word {
            [] => {}
            [high, low] => {
                let digit = |digit: u8| char::from(digit).to_digit(16);
                bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
            }
            b"#" => {
                // Other packets, such as those of RTP, have another name here.
                rest.next().filter(|name| *name == b"SCTP_PACKET")?;
                break;
            }
            _ => return None,
        }
    }
    (bytes.len() >= 12 && bytes.len() <= MAX_PACKET).then_some(LoggedPacket { sent, at: time, bytes })
}

/// Parses a time such as `12:34:56.789`. Returns nanoseconds.
fn time_of_day(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':').map(|part| part.parse::<u64>().ok());
    let mut next = |limit| parts.next().flatten().filter(|part| *part < limit);
    let (hours, minutes, seconds) = (next(24)?, next(60)?, next(61)?);
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    let nanos = format!("{fraction:0<9}").parse::<u64>().ok().filter(|_| is_fraction)?;
    Some(((hours * 60 + minutes) * 60 + seconds) * NANOS_PER_SECOND + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, decode};
    use anabranch_wire::sctp::{CookieAck, CookieEcho, Data, Init, InitAck, Param, Sack, Tsn, packet};
    use std::fmt::Write;

    fn hex(tag: u32, write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, 5_000, 5_000, tag);
        write(&mut bytes);
        packet::finish(&mut bytes, start);
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, " {byte:02x}");
            text
        })
    }

    fn init(tag: u32, tsn: u32) -> Init<'static> {
        let (outbound_streams, inbound_streams) = (4, 4);
        Init { tag, window: 65_536, outbound_streams, inbound_streams, tsn: Tsn(tsn), ..Init::default() }
    }

    /// Returns the packets of an association, each with its sender: a handshake, a message and its acknowledgement.
    fn packets() -> Vec<(bool, String)> {
        let message = Data { tsn: Tsn(100), begin: true, end: true, payload: &[7; 100], ..Data::default() };
        vec![
            (true, hex(0, |b| init(1, 100).emit(b))),
            (
                false,
                hex(1, |b| {
                    let mut chunk = InitAck(init(2, 700)).open(b);
                    Param::StateCookie(&[1; 8]).emit(&mut chunk);
                    chunk.close();
                }),
            ),
            (true, hex(2, |b| CookieEcho { cookie: &[1; 8] }.emit(b))),
            (false, hex(1, |b| CookieAck.emit(b))),
            (true, hex(2, |b| message.emit(b))),
            (
                false,
                hex(1, |b| Sack { cumulative: Tsn(100), window: 65_536, gaps: &[], duplicates: &[] }.emit(b)),
            ),
        ]
    }

    #[test]
    fn packets_among_other_lines_become_an_association() {
        let mut log = String::from("[1:2:0101/000000.000:INFO:a.cc(1)] text 0000 \u{e9}\r\n");
        for (at, (sent, bytes)) in packets().iter().enumerate() {
            let direction = if *sent { 'O' } else { 'I' };
            let _ = match at {
                0 => writeln!(
                    log,
                    "[7:8:VERBOSE1:b.cc(2)] {direction} 23:59:59.990 0000{bytes} # SCTP_PACKET x"
                ),
                1 => write!(log, "\n{direction} 00:00:00.010000 0000{bytes} # SCTP_PACKET\r\n"),
                _ => writeln!(log, "{direction} 00:00:00.{:03} 0000{bytes} # SCTP_PACKET x", 20 * at),
            };
        }
        log.push_str(
            "O 00:00:01.000 0000 80 60 00 01 00 00 00 00 00 00 00 00 # RTP_DUMP\nO 00:00:01.1 0000 80",
        );
        let decoded = decode("test", log.as_bytes(), &Settings::default()).expect("a log");
        let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
        assert_eq!((decoded.packets, conversation.transport), (6, "sctp"));
        assert_eq!(conversation.sides.each_ref().map(|side| side.addresses.clone()), [["local"], ["remote"]]);
        assert_eq!(conversation.handshake.took_ns, Some(70_000_000), "the clock goes on at midnight");
        assert_eq!((conversation.directions[0].bytes, conversation.directions[1].acks), (100, 1));
        assert_eq!(conversation.directions[0].rtt.samples, 1);
    }

    /// If two ends in one process log each packet twice, only the sender's record of a packet must count.
    #[test]
    fn packets_that_both_ends_log_are_counted_once() {
        let mut log = String::new();
        for (at, (_, bytes)) in packets().iter().enumerate() {
            let _ = write!(
                log,
                "O 00:00:0{at}.000 0000{bytes} # SCTP_PACKET\nI 00:00:0{at}.100 0000{bytes} # SCTP_PACKET\n"
            );
        }
        let decoded = decode("test", log.as_bytes(), &Settings::default()).expect("a log");
        let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
        assert_eq!(conversation.directions.each_ref().map(|direction| direction.packets), [3, 3]);
        assert_eq!(conversation.sides.each_ref().map(|side| side.addresses.clone()), [["local"], ["remote"]]);
        assert_eq!(decoded.left_out.values().sum::<u64>(), 6);
    }

    /// Both ends of an association send an INIT at the same time (RFC 9260 §5.2.1), as two connections in one page do.
    /// The decoder must find one association with two ends.
    #[test]
    fn two_inits_in_one_log_come_from_two_ends() {
        let mut all = packets();
        all.insert(1, (false, hex(0, |b| init(2, 700).emit(b))));
        let mut log = String::new();
        for (_, bytes) in &all[..2] {
            let _ = writeln!(log, "O 00:00:00.000 0000{bytes} # SCTP_PACKET");
        }
        for (_, bytes) in &all[2..] {
            let _ = writeln!(log, "O 00:00:00.001 0000{bytes} # SCTP_PACKET");
        }
        let decoded = decode("test", log.as_bytes(), &Settings::default()).expect("a log");
        let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
        assert_eq!(conversation.directions.each_ref().map(|direction| direction.packets), [3, 4]);
        assert_eq!(conversation.sides.each_ref().map(|side| side.addresses.clone()), [["local"], ["remote"]]);
    }

    #[test]
    fn lines_without_a_packet_are_skipped() {
        let hex = packets()[0].1.clone();
        for line in [
            format!("X 00:00:00.000 0000{hex}"),
            format!("O 24:00:00.000 0000{hex}"),
            format!("O 00:00.000 0000{hex}"),
            format!("O 00:00:00.1234567890 0000{hex}"),
            format!("O 00:00:00.000 0000{hex} zz"),
            format!("O 00:00:00.000 0000{hex} # RTP_DUMP"),
            "O 00:00:00.000 0000 13 88".to_owned(),
            "O".to_owned(),
            " 0000 ".to_owned(),
        ] {
            assert!(parse(line.as_bytes()).is_none(), "{line}");
        }
        assert!(parse(format!("O 00:00:00 0000{hex}").as_bytes()).is_some());
    }
}
