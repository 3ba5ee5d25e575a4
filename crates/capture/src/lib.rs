//! Analyses the conversations in a capture, for the `decode` command.
//!
//! [`decode`] turns the packets of any capture into [`results`] in one pass. The capture may come from this program or
//! another one, and from either host or the network between them. Memory does not grow with the size of the file, but
//! with the number of conversations, which is limited.
//!
//! Instead of a capture, the input may be a log that has packets (`packet_log`), events of QUIC (`qlog`) or statistics
//! of WebRTC (`webrtc_internals`); The module `input` recognizes the format. `ends` compares the captures of both ends.
//!
//! Modules: `frame`, `layers`, `tunnel` and `fragments` find the payload of IP packets. `sctp` and `tcp` assign the
//! payload to conversations. `conversation` has the state of one conversation. `track` classifies retransmissions and
//! their causes. `timeline` keeps the events of a conversation, and `rules` searches them for the reasons why the
//! conversation was slow. [`table`], [`why`] and [`csv`] format the results.

mod arrival;
mod association;
mod conversation;
mod copies;
pub mod csv;
mod data_channels;
mod data_class;
mod dtls;
mod ends;
mod fragments;
mod frame;
mod halves;
mod handshake;
mod http;
mod icmp;
mod input;
mod key_log;
mod keys;
mod layers;
mod packet_log;
mod ppid;
mod qlog;
mod quic;
mod ranges;
mod reassembly;
pub mod results;
mod rules;
mod sctp;
pub mod table;
mod tcp;
mod timeline;
mod tls;
mod track;
mod tunnel;
pub mod views;
mod waiting;
mod webrtc_internals;
pub mod why;

#[cfg(test)]
mod tests;

use anabranch_wire::ip::protocol;
use anabranch_wire::pcap::{CaptureEnd, CaptureError, CaptureReader, Direction};
use anabranch_wire::udp;
use ends::PacketList;
use fragments::Fragments;
use frame::{IpPayload, Network, Vantage};
use input::InputFormat;
use key_log::KeyLog;
pub use key_log::is_key_log;
use layers::CapturedBytes;
use results::{BothEnds, Decoded, NotFollowed, SCHEMA, Statistics};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use tunnel::Tunnel;

/// The UDP port that RFC 6951 §5.1 assigns to SCTP in UDP.
pub const ENCAPSULATION: u16 = 9_899;

/// The default maximum number of conversations that are followed. A conversation takes about 2 kB of memory, or 8 kB if
/// it carries data. Its results take the same amount again.
pub const CONVERSATIONS: usize = 1 << 16;

/// The usual value of [`Settings::max_events`]. An event takes about 100 bytes. A packet makes one or two events.
pub const EVENTS: usize = 1 << 19;

/// How to read a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The UDP ports that carry SCTP. An entry with one port stands for datagrams from or to that port. An entry with
    /// two ports stands for datagrams between these ports.
    pub udp_ports: Vec<(u16, Option<u16>)>,
    /// The lines of a key log in NSS format, in addition to the secrets in the capture itself.
    pub key_log: Vec<u8>,
    /// The maximum number of lines in each ladder diagram, or 0 for no diagrams.
    pub ladder_lines: usize,
    /// The maximum number of packets in a capture for which ladder diagrams are made. Larger captures have none.
    pub ladder_packets: u64,
    /// For drawings: the maximum number of pieces of data that are kept per direction, or 0 for no drawings.
    pub max_view_items: usize,
    /// For findings: the maximum number of events that are kept, or 0 for no findings. The events of the first
    /// conversation have this limit. Each later conversation has a smaller one.
    pub max_events: usize,
    /// The maximum number of conversations that are followed. Packets of further conversations are only counted.
    pub conversations: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            udp_ports: vec![(ENCAPSULATION, None)],
            key_log: Vec::new(),
            ladder_lines: 0,
            ladder_packets: u64::MAX,
            max_view_items: 0,
            max_events: 0,
            conversations: CONVERSATIONS,
        }
    }
}

/// Opens the log of a connection by its file name. Returns `None` if it cannot be written.
pub type LogOpener = Box<dyn FnMut(&str) -> Option<Box<dyn Write>>>;

/// The reason why a capture cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The capture cannot be read, or is damaged.
    #[error("{0}")]
    Source(#[from] CaptureError),
    /// The link type of the capture's frames is unknown.
    #[error(
        "link type {0} is not known; known are 0, 1, 9, 12, 14, 50, 51, 101, 104, 108, 113, 228, 229, 239, \
             248 and 276"
    )]
    LinkType(u16),
    /// The file is text, but has no SCTP packets.
    #[error("no capture (pcap, pcapng), and no log with SCTP packets, qlog or webrtc-internals dump")]
    NoPackets,
    /// The events of a qlog have a form that was given up before version 0.3.
    #[error("qlog of draft-01 or before, whose events are lists; write version 0.3 or later")]
    OldQlog,
    /// A webrtc-internals dump is no JSON, or has other fields than expected.
    #[error("damaged webrtc-internals dump at line {0}, column {1}; download it again")]
    Dump(usize, usize),
}

/// Reads a whole capture, or a log. `file` is its name in the results.
///
/// # Errors
/// [`DecodeError`].
pub fn decode(file: &str, input: impl Read, settings: &Settings) -> Result<Decoded, DecodeError> {
    Ok(Reading::new(settings).read(file, input)?.0)
}

/// Reads a whole capture and passes what happens in each decrypted QUIC connection to a log in qlog format. `logs`
/// opens the log of a connection by its file name.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_to_qlog(
    file: &str,
    input: impl Read,
    settings: &Settings,
    logs: LogOpener,
) -> Result<Decoded, DecodeError> {
    let mut reading = Reading::new(settings);
    reading.quic.write_logs(logs);
    Ok(reading.read(file, input)?.0)
}

/// Reads the captures of both ends and matches their packets. The results are those of the first capture.
///
/// # Errors
/// [`DecodeError`], with the index of the file that could not be read.
pub fn decode_both(
    files: [(&str, impl Read); 2],
    settings: &Settings,
) -> Result<Decoded, (usize, DecodeError)> {
    let [(name, one), (other_name, other)] = files;
    let begin = || {
        let mut reading = Reading::new(settings);
        reading.seen = Some(PacketList::default());
        reading
    };
    let (mut decoded, one) = begin().read(name, one).map_err(|error| (0, error))?;
    let (peer, other) = begin().read(other_name, other).map_err(|error| (1, error))?;
    if let (Some(one), Some(other)) = (one, other) {
        let cut_at = peer.cut_at;
        decoded.both_ends = Some(Box::new(BothEnds { cut_at, ..ends::compare(other_name, &one, &other) }));
    }
    Ok(decoded)
}

const UNKNOWN_LINK: &str = "frames of unknown link types";

/// A captured frame, with its time, and the interface and direction where it was captured.
struct Frame<'a> {
    at: u64,
    origin: (usize, Option<Direction>),
    bytes: CapturedBytes<'a>,
}

/// The result of processing a packet.
enum PacketOutcome {
    /// The packet belongs to a conversation.
    Counted,
    /// The bytes are not a valid packet.
    Damaged,
    /// The packet belongs to a conversation that is not followed, because the maximum number is reached. `opening` says
    /// whether the packet opens the conversation.
    NotFollowed { opening: bool },
}

/// The state of the decoder while it reads a capture.
struct Reading {
    settings: Settings,
    max_events: usize,
    packets: u64,
    first: Option<u64>,
    last: u64,
    fragments: Fragments,
    associations: sctp::Associations,
    connections: tcp::Connections,
    quic: quic::Connections,
    qlog: qlog::Logs,
    dtls: dtls::Connections,
    key_log: KeyLog,
    left_out: BTreeMap<&'static str, u64>,
    not_followed: NotFollowed,
    statistics: Vec<Statistics>,
    /// The packets, if they will be matched with those of another capture.
    seen: Option<PacketList>,
    icmp_errors: icmp::Errors,
}

impl Reading {
    fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            max_events: settings.max_events,
            packets: 0,
            first: None,
            last: 0,
            fragments: Fragments::default(),
            associations: sctp::Associations::default(),
            connections: tcp::Connections::default(),
            quic: quic::Connections::default(),
            qlog: qlog::Logs::default(),
            dtls: dtls::Connections::default(),
            key_log: KeyLog::default(),
            left_out: BTreeMap::new(),
            not_followed: NotFollowed::default(),
            statistics: Vec::new(),
            seen: None,
            icmp_errors: icmp::Errors::default(),
        }
    }

    /// Processes all packets of a file. Also returns the list of its packets, if one is kept.
    fn read(
        mut self,
        file: &str,
        mut input: impl Read,
    ) -> Result<(Decoded, Option<PacketList>), DecodeError> {
        let failed = |error: io::Error| DecodeError::Source(error.into());
        let mut head = Vec::new();
        input.by_ref().take(input::HEAD as u64).read_to_end(&mut head).map_err(failed)?;
        let whole = head.as_slice().chain(input);
        let mut cut_at = None;
        match InputFormat::of(&head) {
            InputFormat::Capture => cut_at = self.capture(whole)?,
            InputFormat::PacketLog => {
                if packet_log::read(whole, &mut self).map_err(failed)? == 0 {
                    return Err(DecodeError::NoPackets);
                }
            }
            InputFormat::Qlog => cut_at = qlog::read(whole, &mut self)?,
            InputFormat::Statistics => self.statistics = webrtc_internals::read(whole)?,
        }
        let seen = self.seen.take();
        Ok((self.finish(file, cut_at), seen))
    }

    /// Processes the packets of a capture. Returns the offset at which it ends in the middle of a packet.
    fn capture(&mut self, input: impl Read) -> Result<Option<u64>, DecodeError> {
        let mut source = CaptureReader::new(input)?;
        let key_log = std::mem::take(&mut self.settings.key_log);
        self.key_log.add(&key_log);
        let mut unknown = None;
        let mut links: Vec<u16> = Vec::new();
        while let Some(record) = source.next_packet()? {
            self.key_log.add(&record.secrets);
            let interface = record.interface;
            let frame = Frame {
                at: self.clock(record.at_nanos),
                origin: (interface, record.direction),
                bytes: CapturedBytes::new(record.packet, record.original_len),
            };
            let link_type = match links.get(interface) {
                Some(known) => *known,
                // If the frame's interface is new, the frame is copied. `record` borrows from the source, so the link
                // types of the source cannot be read while the frame is borrowed.
                None => {
                    let (copy, missing) = (frame.bytes.captured.to_vec(), frame.bytes.missing);
                    let (at, origin) = (frame.at, frame.origin);
                    links.clear();
                    links.extend(source.interfaces().iter().map(|interface| interface.link_type));
                    let link_type = links.get(interface).copied().unwrap_or(u16::MAX);
                    let frame = Frame { at, origin, bytes: CapturedBytes { captured: &copy, missing } };
                    unknown = self.packet(link_type, &frame).or(unknown);
                    continue;
                }
            };
            unknown = self.packet(link_type, &frame).or(unknown);
        }
        let left_out: u64 = self.left_out.get(UNKNOWN_LINK).copied().unwrap_or(0);
        match unknown {
            Some(link_type) if left_out == self.packets => return Err(DecodeError::LinkType(link_type)),
            _ => {}
        }
        Ok(match source.end() {
            Some(CaptureEnd::Cut(at)) => Some(at),
            _ => None,
        })
    }

    /// Returns the time since the first packet of the capture, or 0 for a packet whose time is earlier. Packets of
    /// different interfaces may be slightly out of order.
    fn clock(&mut self, at: u64) -> u64 {
        let at = at.saturating_sub(*self.first.get_or_insert(at));
        self.last = self.last.max(at);
        at
    }

    /// Counts a packet, before it is processed.
    fn count_packet(&mut self) {
        self.packets += 1;
        // Conversation number n may keep 1/n of the events of the first conversation. The sum of 1/n up to 65,536 is
        // less than 12, which limits all events together to twelve times that number.
        self.settings.max_events = self.max_events / (1 + self.followed());
        if self.packets > self.settings.ladder_packets && self.settings.ladder_lines > 0 {
            self.settings.ladder_lines = 0;
            self.associations.forget_ladders();
            self.connections.forget_ladders();
            self.quic.forget_ladders();
            self.qlog.forget_ladders();
            self.dtls.forget_ladders();
        }
    }

    /// Processes a frame. Returns the link type if it is unknown.
    fn packet(&mut self, link_type: u16, frame: &Frame<'_>) -> Option<u16> {
        self.count_packet();
        let (network, interface_id) = frame::network(link_type, frame.bytes);
        let origin = (frame.origin.0, frame.origin.1.map(|direction| direction as u8), interface_id);
        match network {
            Network::Ip(packet, tunnel) => match frame::carried(packet) {
                Some(carried) => {
                    let vantage = Vantage::new((origin, &tunnel));
                    self.carried(frame.at, IpPayload { tunnel, vantage, number: self.packets, ..carried });
                }
                None => self.leave_out("damaged IP packets"),
            },
            Network::Sctp(packet) => {
                let carried = frame::without_ip(packet);
                let (vantage, number) = (Vantage::new(origin), self.packets);
                self.carried(frame.at, IpPayload { vantage, number, ..carried });
            }
            Network::Other => self.leave_out("frames without IP"),
            Network::UnknownLink => {
                self.leave_out(UNKNOWN_LINK);
                return Some(link_type);
            }
        }
        None
    }

    /// Processes the payload of an IP packet. If the payload is a tunnel, processes the packet inside it. The number of
    /// nested tunnels is limited.
    fn carried(&mut self, at: u64, carried: IpPayload<'_>) {
        let Some(whole) = self.fragments.take(at, carried) else { return };
        match tunnel::open(&whole) {
            // The user named this port as a port for SCTP. So the datagram is SCTP, even if it looks like a tunnel.
            Tunnel::Carries(_) | Tunnel::Other(_) if self.carries_sctp(&whole) => {
                self.process_packet(at, &whole)
            }
            Tunnel::Carries(inner) => {
                let vantage = Vantage::new((inner.vantage, &inner.tunnel));
                self.carried(at, IpPayload { vantage, ..inner });
            }
            Tunnel::Other(what) => self.leave_out(what),
            Tunnel::None => self.process_packet(at, &whole),
        }
    }

    /// RFC 6951 §5.3: returns whether the payload is a UDP datagram between ports that carry SCTP.
    fn carries_sctp(&self, carried: &IpPayload<'_>) -> bool {
        carried.protocol == protocol::UDP
            && udp::Datagram::parse_quoted(&carried.payload).is_ok_and(|datagram| self.is_named(&datagram))
    }

    fn is_named(&self, datagram: &udp::Datagram<'_>) -> bool {
        let ports = [datagram.source_port, datagram.target_port];
        let is_udp_port = |(one, other): &(u16, Option<u16>)| match other {
            Some(other) => ports == [*one, *other] || ports == [*other, *one],
            None => ports.contains(one),
        };
        self.settings.udp_ports.iter().any(is_udp_port)
    }

    fn process_packet(&mut self, at: u64, carried: &IpPayload<'_>) {
        if let Some(seen) = &mut self.seen {
            seen.add(at, carried);
        }
        let bytes = &carried.payload[..];
        let room = self.has_room();
        let (is_decoded, kind) = match carried.protocol {
            protocol::SCTP => {
                (self.associations.take(at, carried, bytes, None, &self.settings, room), "damaged headers")
            }
            protocol::TCP => {
                (self.connections.take(at, carried, &self.key_log, &self.settings, room), "damaged headers")
            }
            protocol::UDP => (self.datagram(at, carried, room), "UDP datagrams"),
            protocol::ICMP | protocol::ICMPV6 => {
                self.icmp_errors.add(at, carried);
                return self.leave_out("ICMP messages");
            }
            _ => return self.leave_out("packets of other protocols"),
        };
        match is_decoded {
            PacketOutcome::Counted => {}
            PacketOutcome::Damaged => self.leave_out(kind),
            PacketOutcome::NotFollowed { opening } => {
                self.not_followed.packets += 1;
                self.not_followed.openings += u64::from(opening);
            }
        }
    }

    /// Processes a UDP datagram. RFC 6951 §5.3: it carries SCTP if the settings list its ports.
    fn datagram(&mut self, at: u64, carried: &IpPayload<'_>, room: bool) -> PacketOutcome {
        let Ok(datagram) = udp::Datagram::parse_quoted(&carried.payload) else {
            return PacketOutcome::Damaged;
        };
        if !self.is_named(&datagram) {
            let limits = (&self.settings, room);
            if let Some(taken) = self.quic.take(at, carried, &datagram, &self.key_log, limits) {
                return taken;
            }
            let taken = self.dtls.take(at, carried, &datagram, &self.key_log, limits);
            let Some((outcome, version, packets)) = taken else { return PacketOutcome::Damaged };
            // RFC 8261: each record carries one SCTP packet.
            for packet in packets {
                let mut carried = IpPayload { payload: Cow::Borrowed(&packet[..]), ..carried.clone() };
                carried.tunnel.push(version);
                let ports = Some([datagram.source_port, datagram.target_port]);
                let room = self.has_room();
                self.associations.take(at, &carried, &packet, ports, &self.settings, room);
            }
            return outcome;
        }
        let ports = [datagram.source_port, datagram.target_port];
        self.associations.take(at, carried, datagram.payload, Some(ports), &self.settings, room)
    }

    /// Returns whether another conversation can be followed.
    fn has_room(&self) -> bool {
        self.followed() < self.settings.conversations
    }

    /// Returns the number of conversations that are followed.
    fn followed(&self) -> usize {
        let streams = self.associations.len() + self.connections.len();
        streams + self.quic.len() + self.qlog.len() + self.dtls.len()
    }

    fn leave_out(&mut self, kind: &'static str) {
        *self.left_out.entry(kind).or_default() += 1;
    }

    fn finish(self, file: &str, cut_at: Option<u64>) -> Decoded {
        let mut conversations = self.associations.finish();
        conversations.extend(self.connections.finish(&self.key_log));
        conversations.extend(self.quic.finish());
        conversations.extend(self.qlog.finish());
        conversations.extend(self.dtls.finish());
        conversations.sort_by_key(|conversation| conversation.first_ns);
        for conversation in &mut conversations {
            self.icmp_errors.assign(conversation);
            rules::judge(conversation, self.last);
        }
        Decoded {
            schema: SCHEMA,
            file: file.to_owned(),
            cut_at,
            packets: self.packets,
            span_ns: self.last,
            left_out: self.left_out,
            not_followed: self.not_followed,
            conversations,
            statistics: self.statistics,
            both_ends: None,
        }
    }
}
