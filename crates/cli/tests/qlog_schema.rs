//! The schema of the events and frames that QUIC endpoints log, in qlog version 0.3 and in the present draft.
//!
//! The tables are written from draft-ietf-quic-qlog-quic-events: version -01, appendix A, for qlog 0.3, and the definitions
//! in CDDL of the draft of 2026. Logs have version 0.3. [`check`] also translates each record to the present draft, by
//! renaming and moving fields alone, and checks the result. So the logs have all that the present draft demands.

use serde_json::{Map, Value, json};

/// A field is `NAME:TYPE`, or `NAME?:TYPE` if it is optional.
type Schema = &'static [(&'static str, &'static str)];

const FRAMES_03: Schema = &[
    ("padding", "length?:n payload_length:n"),
    ("ping", "length?:n payload_length?:n"),
    ("ack", "ack_delay?:f acked_ranges?:ranges ect1?:n ect0?:n ce?:n length?:n payload_length?:n"),
    ("reset_stream", "stream_id:n error_code:n final_size:n length?:n payload_length?:n"),
    ("stop_sending", "stream_id:n error_code:n length?:n payload_length?:n"),
    ("crypto", "offset:n length:n payload_length?:n"),
    ("new_token", "token:o"),
    ("stream", "stream_id:n offset:n length:n payload_length?:n fin?:b raw?:raw"),
    ("max_data", "maximum:n"),
    ("max_stream_data", "stream_id:n maximum:n"),
    ("max_streams", "stream_type:stream_type maximum:n"),
    ("data_blocked", "limit:n"),
    ("stream_data_blocked", "stream_id:n limit:n"),
    ("streams_blocked", "stream_type:stream_type limit:n"),
    (
        "new_connection_id",
        "sequence_number:n retire_prior_to:n connection_id_length?:n connection_id:h stateless_reset_token?:o",
    ),
    ("retire_connection_id", "sequence_number:n"),
    ("path_challenge", "data?:h"),
    ("path_response", "data?:h"),
    (
        "connection_close",
        "error_space?:space error_code?:n raw_error_code?:n reason?:t trigger_frame_type?:n",
    ),
    ("handshake_done", ""),
    ("unknown", "raw_frame_type:n raw_length?:n raw?:raw"),
    ("datagram", "length?:n raw?:raw"),
];

const FRAMES_PRESENT: Schema = &[
    ("padding", "raw?:raw"),
    ("ping", "raw?:raw"),
    ("ack", "ack_delay?:f acked_ranges?:ranges ect1?:n ect0?:n ce?:n raw?:raw"),
    ("reset_stream", "stream_id:n error:t error_code?:n final_size:n raw?:raw"),
    ("stop_sending", "stream_id:n error:t error_code?:n raw?:raw"),
    ("crypto", "offset:n raw:raw"),
    ("new_token", "token:o raw?:raw"),
    ("stream", "stream_id:n offset?:n fin?:b raw?:raw"),
    ("max_data", "maximum:n raw?:raw"),
    ("max_stream_data", "stream_id:n maximum:n raw?:raw"),
    ("max_streams", "stream_type:stream_type maximum:n raw?:raw"),
    ("data_blocked", "limit:n raw?:raw"),
    ("stream_data_blocked", "stream_id:n limit:n raw?:raw"),
    ("streams_blocked", "stream_type:stream_type limit:n raw?:raw"),
    (
        "new_connection_id",
        "sequence_number:n retire_prior_to:n connection_id_length?:n connection_id:h stateless_reset_token?:h raw?:raw",
    ),
    ("retire_connection_id", "sequence_number:n raw?:raw"),
    ("path_challenge", "data?:h raw?:raw"),
    ("path_response", "data?:h raw?:raw"),
    (
        "connection_close",
        "error_space?:space error?:t error_code?:n reason?:t trigger_frame_type?:n raw?:raw",
    ),
    ("handshake_done", "raw?:raw"),
    ("unknown", "frame_type_bytes:n raw?:raw"),
    ("datagram", "raw?:raw"),
];

const METRICS: &str = "min_rtt?:f smoothed_rtt?:f latest_rtt?:f rtt_variance?:f pto_count?:n congestion_window?:n \
                       bytes_in_flight?:n ssthresh?:n packets_in_flight?:n pacing_rate?:n";

const EVENTS_03: Schema = &[
    ("transport:packet_sent", "header:header frames?:frames raw?:raw datagram_id?:n trigger?:t"),
    ("transport:packet_received", "header:header frames?:frames raw?:raw datagram_id?:n trigger?:t"),
    ("recovery:packet_lost", "header?:header frames?:frames trigger?:loss"),
    ("recovery:metrics_updated", METRICS),
    (
        "connectivity:connection_closed",
        "owner?:t connection_code?:n application_code?:n internal_code?:n reason?:t trigger?:t",
    ),
];

const EVENTS_PRESENT: Schema = &[
    ("quic:packet_sent", "header:header frames?:frames raw?:raw datagram_id?:n trigger?:t"),
    ("quic:packet_received", "header:header frames?:frames raw?:raw datagram_id?:n trigger?:t"),
    ("quic:packet_lost", "header?:header frames?:frames is_mtu_probe_packet?:b trigger?:loss"),
    ("quic:recovery_metrics_updated", METRICS),
    (
        "quic:connection_closed",
        "initiator?:t connection_error?:t application_error?:t error_code?:n internal_code?:n reason?:t trigger?:t",
    ),
];

/// Both versions have the same fields of headers that are logged here.
const HEADER: &str = "packet_type:packet_type packet_number?:n token?:o length?:n version?:h scid?:h dcid?:h";
const RAW: &str = "length?:n payload_length?:n data?:h";

/// Checks a record of version 0.3, and the same record in the present draft.
pub fn check(event: &Value) {
    let found = error(event, EVENTS_03, FRAMES_03)
        .or_else(|| error(&translated(event), EVENTS_PRESENT, FRAMES_PRESENT));
    assert_eq!(found, None, "{event}");
}

/// Returns what is wrong with a record.
fn error(event: &Value, events: Schema, frames: Schema) -> Option<String> {
    if !event["time"].is_f64() {
        return Some("no time".to_owned());
    }
    let name = event["name"].as_str()?;
    match events.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is no event of the schema")),
        Some((_, fields)) => object(&event["data"], fields, frames).map(|error| format!("{name}: {error}")),
    }
}

/// Returns the first field of an object that is missing, unknown, or of another type.
fn object(value: &Value, fields: &str, frames: Schema) -> Option<String> {
    let Some(object) = value.as_object() else { return Some("no object".to_owned()) };
    let mut known = Vec::new();
    for field in fields.split_whitespace() {
        let (name, kind) = field.split_once(':').expect("a field");
        let (name, is_optional) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        known.push(name);
        match object.get(name) {
            None if is_optional => {}
            None => return Some(format!("no {name}")),
            Some(value) => {
                if let Some(error) = wrong(value, kind, frames) {
                    return Some(format!("{name}: {error}"));
                }
            }
        }
    }
    object.keys().find(|name| !known.contains(&name.as_str())).map(|name| format!("{name} is unknown"))
}

fn wrong(value: &Value, kind: &str, frames: Schema) -> Option<String> {
    let text = value.as_str();
    let one_of = |words: &[&str]| text.is_some_and(|text| words.contains(&text));
    let is_right = match kind {
        "n" => value.is_u64(),
        "f" => value.is_number(),
        "b" => value.is_boolean(),
        "t" => text.is_some(),
        "o" => value.is_object(),
        "h" => {
            text.is_some_and(|text| text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        }
        "space" => one_of(&["transport", "application"]),
        "stream_type" => one_of(&["unidirectional", "bidirectional"]),
        "packet_type" => one_of(&["initial", "handshake", "0RTT", "1RTT"]),
        "loss" => one_of(&["reordering_threshold", "time_threshold", "pto_expired"]),
        "ranges" => value.as_array().is_some_and(|ranges| {
            let is_range = |range: &Value| {
                let numbers: Option<Vec<u64>> = range.as_array()?.iter().map(Value::as_u64).collect();
                numbers
                    .filter(|numbers| matches!(numbers[..], [_]) || matches!(numbers[..], [a, b] if a <= b))
            };
            !ranges.is_empty() && ranges.iter().all(|range| is_range(range).is_some())
        }),
        "header" => return object(value, HEADER, frames),
        "raw" => return object(value, RAW, frames),
        "frames" => {
            let Some(all) = value.as_array() else { return Some("no array".to_owned()) };
            return all.iter().find_map(|frame| {
                let name = frame["frame_type"].as_str()?;
                let found = frames.iter().find(|(known, _)| *known == name);
                let Some((_, fields)) = found else { return Some(format!("{name} is no frame")) };
                object(frame, &format!("frame_type:t {fields}"), frames)
                    .map(|error| format!("{name}: {error}"))
            });
        }
        other => panic!("{other} is no type"),
    };
    (!is_right).then(|| format!("{value} is no {kind}"))
}

/// Returns a record of version 0.3 in the words of the present draft.
fn translated(event: &Value) -> Value {
    let (mut event, name) = (event.clone(), event["name"].as_str().unwrap_or_default());
    event["name"] = match name.split_once(':') {
        Some((_, "metrics_updated")) => "quic:recovery_metrics_updated".into(),
        Some((_, name)) => format!("quic:{name}").into(),
        None => name.into(),
    };
    if let Some(frames) = event["data"].get_mut("frames").and_then(Value::as_array_mut) {
        frames.iter_mut().filter_map(Value::as_object_mut).for_each(translate_frame);
    }
    event
}

fn translate_frame(frame: &mut Map<String, Value>) {
    for name in ["length", "payload_length"] {
        if let Some(length) = frame.remove(name) {
            frame.entry("raw").or_insert_with(|| json!({}))[name] = length;
        }
    }
    if let Some(code) = frame.remove("raw_error_code") {
        frame.insert("error_code".to_owned(), code);
    }
    if let Some(kind) = frame.remove("raw_frame_type") {
        frame.insert("frame_type_bytes".to_owned(), kind);
    }
    // The code of an error without a name.
    if frame.contains_key("error_code") {
        frame.insert("error".to_owned(), "unknown".into());
    }
}

#[test]
fn records_that_do_not_follow_the_schema_are_found() {
    let packet = |frame: Value| {
        json!({"time": 1.5, "name": "transport:packet_sent", "data":
            {"header": {"packet_type": "1RTT", "packet_number": 1}, "raw": {"length": 9}, "frames": [frame]}})
    };
    let stream = json!({"frame_type": "stream", "stream_id": 0, "offset": 0, "length": 3, "fin": true});
    check(&packet(stream.clone()));
    let changed = |name: &str, value: Value| {
        let mut frame = stream.clone();
        frame[name] = value;
        error(&packet(frame), EVENTS_03, FRAMES_03)
    };
    assert_eq!(
        changed("fin", json!(1)).as_deref(),
        Some("transport:packet_sent: frames: stream: fin: 1 is no b")
    );
    assert!(changed("bytes", json!(1)).is_some_and(|error| error.ends_with("bytes is unknown")));
    assert!(
        changed("frame_type", json!("straem")).is_some_and(|error| error.ends_with("straem is no frame"))
    );
    let without = error(&packet(json!({"frame_type": "crypto", "offset": 0})), EVENTS_03, FRAMES_03);
    assert!(without.is_some_and(|error| error.ends_with("crypto: no length")));
    let untranslated = error(&packet(stream.clone()), EVENTS_PRESENT, FRAMES_PRESENT);
    assert!(untranslated.is_some_and(|error| error.contains("is no event of the schema")));
}
