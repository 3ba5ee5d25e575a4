//! Logs of QUIC endpoints in qlog format: packets with their frames, losses, metrics, and HTTP/3 requests.
//!
//! Version 0.3 (draft-ietf-quic-qlog-main-schema-02 to -08) and the present draft are read, as JSON and as JSON text
//! sequences. Their events have different names, but almost the same fields. Therefore only the part of an event's name
//! after the colon is compared, and a length is searched for in both places. A log may have several connections, in
//! several traces or distinguished by `group_id`.
//!
//! - `frame`: frames
//! - `parts`: splits a log into its events

mod frame;
mod parts;

use super::arrival::{Arrival, Side};
use super::conversation::{ConversationBuilder, remark};
use super::frame::{self as captured, LOCAL, REMOTE};
use super::keys::Protocol;
use super::quic::{Budget, Connection, PacketType};
use super::results::{Conversation, EndpointLog};
use super::timeline::Event;
use super::{DecodeError, Reading, Settings};
use anabranch_wire::ip::protocol;
use anabranch_wire::pcap::CaptureError;
use anabranch_wire::quic::Frame;
use parts::{Part, Parts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::net::IpAddr;

/// The largest plausible length of an HTTP body in bytes.
const MAX_BODY: u64 = 1 << 40;

/// Reads a log. If the log ends within an event, returns the offset of its end.
pub(super) fn read(input: impl Read, reading: &mut Reading) -> Result<Option<u64>, DecodeError> {
    let mut parts = Parts::new(BufReader::with_capacity(1 << 16, input));
    let mut trace = None;
    loop {
        let at = parts.at;
        let damaged = || DecodeError::Source(CaptureError::Damaged { what: "qlog", at });
        let part = parts.next().map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => damaged(),
            _ => DecodeError::Source(error.into()),
        })?;
        match part {
            None => break,
            Some(Part::Head(text)) => {
                let head = serde_json::from_slice(&text).map_err(|_| damaged())?;
                let number = trace.as_ref().map_or(0, |trace: &Trace| trace.number + 1);
                trace = Some(Trace::new(&head, number).ok_or(DecodeError::OldQlog)?);
            }
            Some(Part::Event(text)) => {
                let (Some(trace), Ok(event)) = (&mut trace, serde_json::from_slice::<Value>(&text)) else {
                    reading.leave_out("unreadable events");
                    continue;
                };
                trace.event(&event, reading);
            }
        }
    }
    for _ in 0..parts.too_long {
        reading.leave_out("events of more than 1 MiB");
    }
    if trace.is_none() {
        return Err(DecodeError::Source(CaptureError::Damaged { what: "qlog", at: 0 }));
    }
    Ok(parts.is_cut().then_some(parts.at))
}

/// The head of a trace.
struct Trace {
    number: u64,
    /// The side that wrote the log.
    local: Option<Side>,
    /// The connection to which events belong if they name no connection.
    group: String,
    /// Whether the time of each event counts from the previous event.
    is_delta: bool,
    /// The time of the last event in milliseconds.
    last: f64,
}

impl Trace {
    /// Reads the head of a trace. Returns `None` if the events are lists and not objects.
    fn new(head: &Value, number: u64) -> Option<Self> {
        let listed = head["traces"].as_array().and_then(|traces| traces.last());
        let trace = listed.unwrap_or(&head["trace"]);
        if trace["event_fields"].is_array() {
            return None;
        }
        let vantage = &trace["vantage_point"];
        // In a log from inside the network, the packets of one side (`flow`) are logged as sent.
        let by = if vantage["type"] == "network" { &vantage["flow"] } else { &vantage["type"] };
        let fields = &trace["common_fields"];
        let text = |name: &str| fields[name].as_str().map(str::to_owned);
        Some(Self {
            number,
            local: match by.as_str() {
                Some("client") => Some(0),
                Some("server") => Some(1),
                _ => None,
            },
            group: text("group_id").or_else(|| text("ODCID")).unwrap_or_default(),
            is_delta: matches!(fields["time_format"].as_str(), Some("delta" | "relative_to_previous_event")),
            last: 0.0,
        })
    }

    fn event(&mut self, event: &Value, reading: &mut Reading) {
        let Some(time) = event["time"].as_f64() else { return reading.leave_out("unreadable events") };
        self.last = if self.is_delta { self.last + time } else { time };
        // The conversion of a floating-point number to an integer saturates, so it cannot overflow.
        let at = reading.clock(((self.last * 1e6) as u64).min(1 << 62));
        let group = event["group_id"].as_str().unwrap_or(&self.group);
        let key = (self.number, group.to_owned());
        let name = event["name"].as_str().unwrap_or_default();
        let name = name.rsplit(':').next().unwrap_or_default();
        if matches!(name, "packet_sent" | "packet_received") {
            reading.count_packet();
        }
        let (room, number) = (reading.has_room(), reading.packets);
        let Some((endpoint, budget)) = reading.qlog.endpoint(key, self.local, room) else {
            reading.not_followed.packets += 1;
            return;
        };
        endpoint.number = number;
        let packet = endpoint.event(at, name, &event["data"], (&reading.settings, budget));
        if let (Some(seen), Some((ends, packet))) = (&mut reading.seen, packet) {
            seen.add_logged(at, ends, packet);
        }
    }
}

/// All connections of a log.
#[derive(Default)]
pub(super) struct Logs {
    endpoints: BTreeMap<(u64, String), Endpoint>,
    budget: Budget,
}

impl Logs {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.endpoints.len()
    }

    fn endpoint(
        &mut self,
        key: (u64, String),
        local: Option<Side>,
        room: bool,
    ) -> Option<(&mut Endpoint, &mut Budget)> {
        if !room && !self.endpoints.contains_key(&key) {
            return None;
        }
        let begin = || Endpoint { local, ..Endpoint::default() };
        Some((self.endpoints.entry(key).or_insert_with(begin), &mut self.budget))
    }

    /// Discards the ladder diagrams of all connections.
    pub fn forget_ladders(&mut self) {
        let connections = self.endpoints.values_mut().filter_map(|endpoint| endpoint.connection.as_mut());
        connections.for_each(|connection| connection.conversation.forget_ladder());
    }

    /// Returns the results of all connections.
    pub fn finish(self) -> Vec<Conversation> {
        self.endpoints.into_values().filter_map(Endpoint::finish).collect()
    }
}

/// The source and the target of a packet, its sender, its packet number space, and its number.
type LoggedPacket = ([(IpAddr, u16); 2], (Side, usize, u64));

/// The end of a connection that wrote the qlog.
#[derive(Default)]
struct Endpoint {
    /// The side of this end, if it is known.
    local: Option<Side>,
    /// The addresses and ports of this end and of its peer.
    addresses: [Option<(IpAddr, u16)>; 2],
    connection: Option<Box<Connection>>,
    /// The length of each stream that the server sends, once a frame has ended the stream.
    ends: BTreeMap<u64, u64>,
    log: EndpointLog,
    events: u64,
    /// The number of the last packet in the log.
    number: u64,
}

impl Endpoint {
    fn event(
        &mut self,
        at: u64,
        name: &str,
        data: &Value,
        (settings, budget): (&Settings, &mut Budget),
    ) -> Option<LoggedPacket> {
        let mut packet = None;
        match name {
            "connection_started" => self.started(data),
            "packet_sent" => packet = self.packet(at, true, data, (settings, budget)),
            "packet_received" => packet = self.packet(at, false, data, (settings, budget)),
            "packet_dropped" => self.log.dropped += 1,
            "packet_lost" => {
                self.begin(at, settings);
                self.log.lost += 1;
                let by_time = matches!(data["trigger"].as_str(), Some("time_threshold" | "pto_expired"));
                self.log.lost_by_time += u64::from(by_time);
            }
            "metrics_updated" | "recovery_metrics_updated" => {
                self.begin(at, settings);
                self.metrics(data);
            }
            "frame_created" => self.http(at, true, data),
            "frame_parsed" => self.http(at, false, data),
            _ => return None,
        }
        if let Some(connection) = &mut self.connection {
            connection.conversation.extend(at);
        }
        packet
    }

    /// Reads the addresses and ports of the two ends from the data of an event that reports the start of the
    /// connection.
    fn started(&mut self, data: &Value) {
        let address = |ip: &Value, port: &Value| {
            let port = port.as_u64().and_then(|port| u16::try_from(port).ok());
            Some((ip.as_str()?.parse().ok()?, port.unwrap_or(0)))
        };
        let end = |end: &Value| {
            address(&end["ip_v4"], &end["port_v4"]).or_else(|| address(&end["ip_v6"], &end["port_v6"]))
        };
        // In version 0.3 the fields have other names, and the source is the end that writes the log.
        self.addresses = [
            end(&data["local"]).or_else(|| address(&data["src_ip"], &data["src_port"])),
            end(&data["remote"]).or_else(|| address(&data["dst_ip"], &data["dst_port"])),
        ];
    }

    /// Returns the addresses of both ends, and their ports.
    fn addresses(&self) -> [(IpAddr, u16); 2] {
        let [local, remote] = self.addresses;
        [local.unwrap_or((LOCAL, 0)), remote.unwrap_or((REMOTE, 0))]
    }

    /// Returns the connection, which begins now if it has not begun before.
    fn begin(&mut self, at: u64, settings: &Settings) -> &mut Connection {
        let mut ends = self.addresses();
        ends.rotate_left(self.local.unwrap_or(0));
        self.connection.get_or_insert_with(|| {
            let carried = captured::logged(ends.map(|(address, _)| address), protocol::UDP, &[], 0);
            let arrival = Arrival::new(at, 0, &carried, &[]);
            let mut conversation = ConversationBuilder::new(&arrival, ends.map(|(_, port)| port), settings);
            conversation.end.how = "incomplete";
            let mut connection = Box::new(Connection::new(conversation, ends[0], Protocol::Quic1));
            connection.has_content = false;
            connection
        })
    }

    fn packet(
        &mut self,
        at: u64,
        sent: bool,
        data: &Value,
        (settings, budget): (&Settings, &mut Budget),
    ) -> Option<LoggedPacket> {
        let header = &data["header"];
        let kinds = [
            ("initial", PacketType::Initial),
            ("handshake", PacketType::Handshake),
            ("0RTT", PacketType::ZeroRtt),
            ("1RTT", PacketType::OneRtt),
        ];
        let name = header["packet_type"].as_str().unwrap_or_default();
        let (_, kind) = kinds.into_iter().find(|(kind, _)| kind.eq_ignore_ascii_case(name))?;
        let number = header["packet_number"].as_u64().filter(|number| *number < 1 << 62)?;
        // If the log does not name its side, the end that sent the first Initial packet is the client.
        let local = *self.local.get_or_insert(usize::from(kind == PacketType::Initial && !sent));
        let side = if sent { local } else { 1 - local };
        self.events += 1;
        let length = data["raw"]["length"].as_u64().unwrap_or(0).min(captured::LONGEST as u64);
        let mut ends = self.addresses();
        ends.rotate_left(usize::from(!sent));
        let carried = captured::logged(ends.map(|(address, _)| address), protocol::UDP, &[], length);
        let mut arrival = Arrival::new(at, side, &carried, &[]);
        arrival.number = self.number;
        // Gives each event a different digest, so that no packet counts as a copy of another one.
        arrival.digest = self.events;
        self.begin(at, settings);
        let connection = self.connection.as_mut()?;
        if matches!(header["version"].as_str(), Some("6b3343cf" | "0x6b3343cf")) {
            connection.protocol = Protocol::Quic2;
        }
        let path = connection.conversation.arrive(&arrival)?;
        let frames: Vec<Frame<'_>> =
            data["frames"].as_array().into_iter().flatten().filter_map(frame::parse).collect();
        handshake(connection, at, side, kind, &frames);
        let (mut causes, mut text) = (Vec::new(), kind.name().to_owned());
        let found = (&mut Vec::new(), &mut causes, &mut text);
        connection.frames(&arrival, path, (kind, number), frames.iter().cloned(), budget, found);
        if side == 1 {
            responses(connection, at, &frames, &mut self.ends);
        }
        connection.conversation.carried_retransmitted(side, &causes);
        let state = connection.senders[side].state();
        connection.conversation.show_state(at, side, state);
        connection.conversation.draw(&arrival, |_, _| text, remark(&causes));
        Some((ends, (side, kind.space(), number)))
    }

    fn metrics(&mut self, data: &Value) {
        let log = &mut self.log;
        let widen = |range: Option<[u64; 2]>, value: u64| {
            let [least, most] = range.unwrap_or([value; 2]);
            Some([least.min(value), most.max(value)])
        };
        if let Some(window) = data["congestion_window"].as_u64() {
            log.congestion_window = widen(log.congestion_window, window);
        }
        log.most_in_flight = log.most_in_flight.max(data["bytes_in_flight"].as_u64());
        if let Some(millis) = data["smoothed_rtt"].as_f64() {
            log.smoothed_rtt_ns = widen(log.smoothed_rtt_ns, (millis * 1e6) as u64);
        }
        log.most_probes = log.most_probes.max(data["pto_count"].as_u64().unwrap_or(0));
    }

    /// Reads a frame of HTTP/3, which this end has sent or received.
    fn http(&mut self, at: u64, sent: bool, data: &Value) {
        let (Some(connection), Some(stream)) = (&mut self.connection, data["stream_id"].as_u64()) else {
            return;
        };
        let local = self.local.unwrap_or(0);
        let side = if sent { local } else { 1 - local };
        // RFC 9114 §6.1: requests travel on streams that the client opens in both directions.
        if stream & 3 != 0 {
            return;
        }
        let (requests, frame) = (&mut connection.http.requests, &data["frame"]);
        match frame["frame_type"].as_str() {
            Some("headers") => {
                if side == 0 {
                    requests.begin(at, stream);
                } else {
                    requests.answered(at, stream);
                }
                // The drafts name this field `headers`, and quic-go names it `header_fields`.
                let fields = frame["headers"].as_array().or_else(|| frame["header_fields"].as_array());
                for field in fields.into_iter().flatten() {
                    if let (Some(name), Some(value)) = (field["name"].as_str(), field["value"].as_str()) {
                        requests.field(stream, side, name.as_bytes(), value.as_bytes());
                    }
                }
            }
            Some("data") => {
                let (raw, outer) = (&frame["raw"], &data["raw"]);
                let lengths =
                    [&data["length"], &raw["payload_length"], &raw["length"], &outer["payload_length"]];
                let length = lengths.into_iter().find_map(Value::as_u64).unwrap_or(0);
                requests.body(stream, side, length.min(MAX_BODY));
            }
            _ => {}
        }
    }

    fn finish(self) -> Option<Conversation> {
        let mut conversation = self.connection?.finish();
        let by = ["A", "B"][self.local.unwrap_or(0)];
        if let Some(security) = &mut conversation.security {
            // The endpoint logged only packets that it had decrypted itself, so these counts have no meaning.
            (security.opened, security.sealed, security.why_sealed) = (0, 0, None);
        }
        conversation.log = Some(Box::new(EndpointLog { by, ..self.log }));
        Some(conversation)
    }
}

/// Completes the responses on streams of which all bytes have been sent.
fn responses(connection: &mut Connection, at: u64, frames: &[Frame<'_>], ends: &mut BTreeMap<u64, u64>) {
    for frame in frames {
        let Frame::Stream { id, offset, data, fin } = frame else { continue };
        // Only streams that are followed are counted.
        let Some(stream) = connection.conversation.directions[1].streams.get(id) else { continue };
        if *fin {
            ends.insert(*id, offset + data.len() as u64);
        }
        if ends.get(id).is_some_and(|end| stream.bytes >= *end) {
            connection.http.requests.complete(at, *id);
        }
    }
}

/// Records the times of the handshake from packet types and frames. A capture has the handshake messages instead.
fn handshake(connection: &mut Connection, at: u64, side: Side, kind: PacketType, frames: &[Frame<'_>]) {
    let times = &mut connection.agreed.times;
    let is_hello = |frame: &Frame<'_>| matches!(frame, Frame::Crypto { offset: 0, .. });
    if kind == PacketType::Initial && frames.iter().any(is_hello) {
        match side {
            0 => {
                times[0].get_or_insert(at);
                times[1] = Some(at);
            }
            _ => {
                times[2] = times[2].or(Some(at));
                connection.conversation.event(side, Event::Answer);
            }
        }
    }
    let conversation = &mut connection.conversation;
    if kind == PacketType::OneRtt && side == 0 && conversation.end.how == "incomplete" {
        // RFC 9001 §5.7: a client sends 1-RTT packets only after the handshake.
        conversation.end.how = "open";
        conversation.handshake.took_ns = times[0].map(|first| at.saturating_sub(first));
    }
}

#[cfg(test)]
mod tests {
    use crate::results::Decoded;
    use crate::{Settings, csv, decode, decode_both, table};

    fn read(text: &str) -> Decoded {
        let settings = Settings { ladder_lines: 100, ..Settings::default() };
        decode("test", text.as_bytes(), &settings).expect("a log")
    }

    /// Returns the log of a client in version 0.3: a handshake, a request, a response of which a packet is lost and sent
    /// again, and the end.
    fn client() -> String {
        let head = r#"{"qlog_version":"0.3","qlog_format":"JSON-SEQ","trace":{"vantage_point":{"type":"client"},"common_fields":{"ODCID":"0102","time_format":"relative"}}}"#;
        let packet = |time: u32, what: &str, kind: &str, number: u32, frames: &str| {
            format!(
                r#"{{"time":{time}.5,"name":"transport:packet_{what}","data":{{"header":{{"packet_type":"{kind}","packet_number":{number}}},"raw":{{"length":1200}},"frames":[{frames}]}}}}"#
            )
        };
        let crypto = r#"{"frame_type":"crypto","offset":0,"length":300}"#;
        let stream = |offset: u32, fin: bool| {
            format!(r#"{{"frame_type":"stream","stream_id":0,"offset":{offset},"length":1000,"fin":{fin}}}"#)
        };
        let http = |time: u32, what: &str, frame: &str| {
            format!(
                r#"{{"time":{time}.5,"name":"http:frame_{what}","data":{{"stream_id":0,"length":3000,"frame":{frame}}}}}"#
            )
        };
        let ack = |ranges: &str| format!(r#"{{"frame_type":"ack","acked_ranges":{ranges}}}"#);
        let events = [
            r#"{"time":0,"name":"connectivity:connection_started","data":{"ip_version":"v4","src_ip":"192.0.2.1","dst_ip":"192.0.2.2","src_port":4000,"dst_port":443}}"#.to_owned(),
            packet(0, "sent", "initial", 0, crypto),
            packet(20, "received", "initial", 0, crypto),
            packet(21, "sent", "1RTT", 0, &stream(0, true)),
            http(21, "created", r#"{"frame_type":"headers","headers":[{"name":":method","value":"GET"},{"name":":path","value":"/a"}]}"#),
            packet(41, "received", "1RTT", 5, &format!("{},{}", ack("[[0]]"), stream(0, false))),
            http(41, "parsed", r#"{"frame_type":"headers","headers":[{"name":":status","value":"200"}]}"#),
            packet(42, "received", "1RTT", 7, &stream(2000, true)),
            packet(42, "sent", "1RTT", 1, &ack("[[5],[7,7]]")),
            packet(62, "received", "1RTT", 8, &stream(1000, false)),
            http(62, "parsed", r#"{"frame_type":"data"}"#),
            r#"{"time":63,"name":"recovery:metrics_updated","data":{"congestion_window":12000,"bytes_in_flight":1200,"smoothed_rtt":20.5}}"#.to_owned(),
            r#"{"time":63,"name":"recovery:metrics_updated","data":{"congestion_window":24000,"pto_count":1}}"#.to_owned(),
            r#"{"time":63,"name":"recovery:packet_lost","data":{"header":{"packet_type":"1RTT","packet_number":3},"trigger":"time_threshold"}}"#.to_owned(),
            packet(64, "sent", "1RTT", 2, r#"{"frame_type":"connection_close","error_space":"application","raw_error_code":256}"#),
        ];
        format!("\u{1e}{head}\n\u{1e}{}\n", events.join("\n\u{1e}"))
    }

    #[test]
    fn packets_of_a_log_become_a_connection() {
        let decoded = read(&client());
        let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
        assert_eq!((decoded.packets, conversation.transport), (8, "quic"));
        assert_eq!(conversation.sides.each_ref().map(|side| side.port), [4_000, 443]);
        assert_eq!(conversation.sides[1].addresses, ["192.0.2.2"]);
        let handshake = &conversation.handshake;
        assert_eq!((handshake.attempts, handshake.took_ns), (1, Some(21_000_000)));
        assert_eq!((conversation.end.how, conversation.end.by), ("closed", Some("A")));
        let [up, down] = &conversation.directions;
        assert_eq!((up.bytes, down.bytes, down.retransmitted.fast), (1_000, 3_000, 1));
        assert_eq!((up.rtt.samples, up.rtt.min_ns), (1, 20_000_000));
        let [request] = &conversation.requests[..] else { panic!("{decoded:?}") };
        let head = (request.target.as_deref(), request.status);
        assert_eq!((head, request.bytes), ((Some("/a"), Some(200)), [0, 3_000]));
        assert_eq!(request.done_ns, Some(62_500_000));
        let log = conversation.log.as_ref().expect("a log");
        assert_eq!((log.by, log.lost, log.lost_by_time, log.most_probes), ("A", 1, 1, 1));
        assert_eq!((log.congestion_window, log.most_in_flight), (Some([12_000, 24_000]), Some(1_200)));
        assert_eq!(log.smoothed_rtt_ns, Some([20_500_000; 2]));
        let text = table::render(&decoded, 5);
        assert!(text.contains("1 packet declared lost"), "{text}");
        assert!(text.contains("STREAM 0 2000+1000 FIN") && !text.contains("decrypted"), "{text}");
    }

    /// A log in the form of the present draft must be read, with its other names and lengths, as JSON. This one is
    /// written by a server.
    #[test]
    fn the_present_draft_is_read_as_json() {
        let text = r#"{"file_schema":"urn:ietf:params:qlog:file:contained","serialization_format":"application/qlog+json",
            "traces":[{"vantage_point":{"type":"server"},"common_fields":{"group_id":"g","time_format":"relative_to_previous_event"},
            "events":[
            {"time":5,"name":"quic:connection_started","data":{"local":{"ip_v4":"192.0.2.2","port_v4":443},"remote":{"ip_v6":"2001:db8::1","port_v6":9}}},
            {"time":5,"name":"quic:packet_received","data":{"header":{"packet_type":"initial","packet_number":0,"version":"6b3343cf"},
              "frames":[{"frame_type":"crypto","offset":0,"raw":{"length":300}}]}},
            {"time":5,"name":"quic:packet_sent","data":{"header":{"packet_type":"1RTT","packet_number":0},
              "frames":[{"frame_type":"stream","stream_id":3,"raw":{"length":70,"payload_length":64}},{"frame_type":"ping"}]}},
            {"time":5,"name":"quic:recovery_metrics_updated","group_id":"h","data":{"smoothed_rtt":1}},
            {"time":5,"name":"quic:packet_received","data":{"header":{"packet_type":"1RTT","packet_number":0},
              "frames":[{"frame_type":"ack","acked_ranges":[[0,0]]},
                        {"frame_type":"connection_close","error_space":"transport","error":"flow_control_error"}]}}
            ]}]}"#;
        let decoded = read(text);
        let [one, two] = &decoded.conversations[..] else { panic!("{decoded:?}") };
        assert_eq!((one.sides[0].port, &one.sides[0].addresses[..]), (9, &["2001:db8::1".to_owned()][..]));
        assert_eq!((one.directions[1].bytes, one.directions[1].rtt.min_ns), (64, 10_000_000));
        assert_eq!(one.security.as_ref().expect("QUIC").protocol, "QUIC v2");
        assert_eq!(one.end.reason.as_deref(), Some("transport error 0x3"));
        assert_eq!(one.log.as_ref().expect("a log").by, "B");
        assert_eq!(two.log.as_ref().expect("a log").smoothed_rtt_ns, Some([1_000_000; 2]));
        assert!(csv::render(&decoded).contains("quic"));
    }

    /// Logs of quic-go must be read. They name the fields of a head `header_fields`, and have the length of a body in
    /// the `raw` of the event.
    #[test]
    fn requests_in_logs_of_quic_go_are_read() {
        let event = |time: u32, name: &str, data: &str| {
            format!(r#"{{"time":{time},"name":"{name}","data":{{{data}}}}}"#)
        };
        let head = r#""file_schema":"urn:ietf:params:qlog:file:sequential","trace":{"vantage_point":{"type":"server"}}"#;
        let packet = r#""header":{"packet_type":"1RTT","packet_number":1}"#;
        let field = |name: &str, value: &str| format!(r#"{{"name":"{name}","value":"{value}"}}"#);
        let headers = |fields: &[String]| {
            format!(
                r#""stream_id":4,"frame":{{"frame_type":"headers","header_fields":[{}]}}"#,
                fields.join(",")
            )
        };
        let body = r#""stream_id":4,"raw":{"length":103,"payload_length":100},"frame":{"frame_type":"data"}"#;
        let log = [
            format!("{{{head}}}"),
            event(1, "transport:packet_received", packet),
            event(2, "http3:frame_parsed", &headers(&[field(":method", "GET"), field(":path", "/a")])),
            event(3, "http3:frame_created", &headers(&[field(":status", "200")])),
            event(4, "http3:frame_created", body),
        ];
        let decoded = read(&log.map(|record| format!("\u{1e}{record}\n")).concat());
        let [request] = &decoded.conversations[0].requests[..] else { panic!("{decoded:?}") };
        assert_eq!((request.method.as_deref(), request.target.as_deref()), (Some("GET"), Some("/a")));
        assert_eq!((request.status, request.bytes), (Some(200), [0, 100]));
    }

    /// neqo writes its logs with the crate qlog. The sample has the events that neqo logs for a short transfer.
    #[test]
    fn the_log_of_neqo_is_read() {
        let decoded = read(include_str!("qlog/neqo.sqlog"));
        let [conversation] = &decoded.conversations[..] else { panic!("{decoded:?}") };
        assert_eq!((decoded.packets, decoded.left_out.len()), (8, 0));
        assert_eq!(conversation.sides.each_ref().map(|side| side.port), [4_000, 443]);
        assert_eq!(conversation.handshake.took_ns, Some(31_000_000));
        let [up, down] = &conversation.directions;
        assert_eq!((up.bytes, down.bytes, down.retransmitted.fast), (60, 3_000, 1));
        assert_eq!((conversation.end.how, conversation.end.by), ("closed", Some("A")));
        // H3_NO_ERROR of the application is no error. As a code of the transport, it would be one.
        assert_eq!(conversation.end.reason, None);
        let log = conversation.log.as_ref().expect("a log");
        assert_eq!((log.by, log.lost, log.lost_by_time), ("A", 1, 1));
        assert_eq!((log.congestion_window, log.most_in_flight), (Some([12_520; 2]), Some(120)));
    }

    /// Packets in the logs of both ends must be matched, so that a lost packet and the delays are found.
    #[test]
    fn packets_in_the_logs_of_both_ends_are_matched() {
        let log = |side: &str, events: &[(u32, &str, u32)]| {
            let mut text =
                format!(r#"{{"qlog_version":"0.3","trace":{{"vantage_point":{{"type":"{side}"}}}}}}"#);
            for (time, what, number) in events {
                text += &format!(
                    r#"{{"time":{time},"name":"transport:packet_{what}","data":{{"header":{{"packet_type":"1RTT","packet_number":{number}}}}}}}"#
                );
            }
            text
        };
        let client = log("client", &[(10, "sent", 0), (11, "sent", 1), (12, "sent", 2), (60, "received", 0)]);
        let server = log("server", &[(520, "received", 0), (530, "received", 2), (540, "sent", 0)]);
        let files = [("client", client.as_bytes()), ("server", server.as_bytes())];
        let decoded = decode_both(files, &Settings::default()).expect("logs");
        let both = decoded.both_ends.expect("a comparison");
        let [flow] = &both.flows[..] else { panic!("{both:?}") };
        let [up, down] = &flow.directions;
        assert!(flow.ends_known && flow.ends[0].starts_with("local"), "{flow:?}");
        assert_eq!((up.sent, up.arrived, up.lost, up.delay.max_ns), (3, 2, 1, 8_000_000));
        assert_eq!((down.sent, down.arrived), (1, 1));
    }

    #[test]
    fn damaged_logs_are_refused_or_read_as_far_as_they_go() {
        let whole = client();
        for end in (0..whole.len()).step_by(7).filter(|end| whole.is_char_boundary(*end)) {
            let _ = decode("test", &whole.as_bytes()[..end], &Settings::default());
        }
        let cut = read(&whole[..whole.len() - 20]);
        assert!(cut.cut_at.is_some() && cut.packets == 7, "{cut:?}");
        let error = |text: &str| {
            decode("test", text.as_bytes(), &Settings::default()).expect_err("no log").to_string()
        };
        assert_eq!(error("\u{1e}\"qlog\""), "damaged qlog at byte 0");
        assert_eq!(error("{\"qlog_version\": \"0.3\" 1}"), "damaged qlog at byte 0");
        let old = r#"{"qlog_version":"draft-01","traces":[{"event_fields":["time"],"events":[[1]]}]}"#;
        assert!(error(old).starts_with("qlog of draft-01 or before"));
        let odd = read("{\"qlog_version\":1,\"events\":[1,[],{\"time\":-1e99,\"name\":\"packet_sent\"},{}]}");
        assert_eq!((odd.conversations.len(), odd.left_out["unreadable events"]), (0, 2));
    }
}
