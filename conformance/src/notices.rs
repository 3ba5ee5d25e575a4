//! Converts notifications of the SCTP engine to the structures of the socket API.
//!
//! Implements RFC 6458 §6.1 (the members of each structure).

use crate::calls::address_value;
use crate::script::Value;
use anabranch_sctp::socket::{AddressChange, AssociationChange, KeyChange, Notification};

/// Returns a notification as a structure of the socket API, and the size of the structure in bytes. If `old` is set,
/// the notification of a failed message has the older form (RFC 6458 §6.1.4). `port` is the peer's port. `own_tsn`
/// converts a TSN of the engine to the TSN in the script.
pub(crate) fn describe(
    notification: &Notification,
    association: i64,
    old: bool,
    port: u16,
    own_tsn: impl Fn(u32) -> u32,
) -> (Value, i64) {
    let mut fields: Vec<(String, Value)> = Vec::new();
    let mut put = |key: &str, value: i64| fields.push((key.to_owned(), Value::Int(value)));
    let mut more: Vec<(&str, Value)> = Vec::new();
    let bytes = |all: &[u8]| Value::List(all.iter().map(|&byte| Value::Int(byte.into())).collect());
    let length = match notification {
        Notification::AssociationChange { change, outbound_streams, inbound_streams, .. } => {
            put("sac_type", 1);
            put("sac_flags", 0);
            let (state, error) = match change {
                AssociationChange::Up => (1, 0),
                AssociationChange::Lost(cause) => (2, cause.map_or(0, i64::from)),
                AssociationChange::Restart => (3, 0),
                AssociationChange::ShutdownComplete => (4, 0),
                AssociationChange::CannotStart => (5, 0),
            };
            put("sac_state", state);
            put("sac_error", error);
            put("sac_outbound_streams", (*outbound_streams).into());
            put("sac_inbound_streams", (*inbound_streams).into());
            put("sac_assoc_id", association);
            put("sac_length", 20);
            // RFC 6458 §6.1.1: this notification may end with a list of the association's features. Here the list is
            // empty.
            more.push(("sac_info", Value::List(Vec::new())));
            20
        }
        Notification::PeerAddressChange { address, change, .. } => {
            put("spc_type", 2);
            put("spc_flags", 0);
            put(
                "spc_state",
                match change {
                    AddressChange::Available => 1,
                    AddressChange::Unreachable => 2,
                    AddressChange::Removed => 3,
                    AddressChange::Added => 4,
                    AddressChange::MadePrimary => 5,
                    AddressChange::PotentiallyFailed => 11,
                },
            );
            put("spc_error", 0);
            put("spc_assoc_id", association);
            more.push(("spc_aaddr", address_value(*address, port)));
            put("spc_length", 152);
            152
        }
        Notification::RemoteError { code, data, .. } => {
            put("sre_type", 3);
            put("sre_flags", 0);
            put("sre_error", (*code).into());
            put("sre_assoc_id", association);
            // RFC 6458 §6.1.3: the notification contains the ERROR chunk. If the chunk has several causes, each cause
            // becomes a notification of its own.
            let (cause, chunk) = (4 + data.len() as u16, 8 + data.len() as u16);
            let mut error = vec![9, 0];
            error.extend_from_slice(&chunk.to_be_bytes());
            error.extend_from_slice(&code.to_be_bytes());
            error.extend_from_slice(&cause.to_be_bytes());
            error.extend_from_slice(data);
            let length = 16 + i64::from(chunk);
            put("sre_length", length);
            more.push(("sre_data", bytes(&error)));
            length
        }
        Notification::SendFailed { sent, bytes, stream, ppid, context, .. } => {
            let flags = if *sent { 2 } else { 1 };
            let int = |n: u32| Value::Int(n.into());
            let of = |all: &[(&str, u32)]| {
                Value::Struct(all.iter().map(|&(key, n)| (key.to_owned(), int(n))).collect())
            };
            let (prefix, kind, header, info) = if old {
                let info = of(&[
                    ("sinfo_stream", (*stream).into()),
                    ("sinfo_ssn", 0),
                    ("sinfo_ppid", *ppid),
                    ("sinfo_context", *context),
                    ("sinfo_timetolive", 0),
                    ("sinfo_tsn", 0),
                    ("sinfo_cumtsn", 0),
                ]);
                ("ssf", 4, 48, with_open(info, &["sinfo_flags", "sinfo_assoc_id"]))
            } else {
                let info =
                    of(&[("snd_sid", (*stream).into()), ("snd_ppid", *ppid), ("snd_context", *context)]);
                ("ssfe", 14, 32, with_open(info, &["snd_flags", "snd_assoc_id"]))
            };
            let length = header + i64::from(*bytes);
            for (key, n) in [
                ("type", kind),
                ("flags", flags),
                ("error", 0),
                ("assoc_id", association),
                ("length", length),
            ] {
                put(&format!("{prefix}_{key}"), n);
            }
            // The engine reports only the length of the message, not its content.
            more.push((if old { "ssf_info" } else { "ssfe_info" }, info));
            more.push((if old { "ssf_data" } else { "ssfe_data" }, Value::Any));
            length
        }
        Notification::Shutdown { .. } => {
            put("sse_type", 5);
            put("sse_flags", 0);
            put("sse_assoc_id", association);
            put("sse_length", 12);
            12
        }
        Notification::Adaptation { indication, .. } => {
            put("sai_type", 6);
            put("sai_flags", 0);
            put("sai_adaptation_ind", (*indication).into());
            put("sai_assoc_id", association);
            put("sai_length", 16);
            16
        }
        Notification::PartialDeliveryAborted { stream, .. } => {
            put("pdapi_type", 7);
            put("pdapi_flags", 0);
            put("pdapi_indication", 1);
            put("pdapi_stream", (*stream).into());
            more.push(("pdapi_seq", Value::Any));
            put("pdapi_assoc_id", association);
            put("pdapi_length", 24);
            24
        }
        Notification::Authentication { key, change, .. } => {
            put("auth_type", 8);
            put("auth_flags", 0);
            put("auth_keynumber", (*key).into());
            put(
                "auth_indication",
                match change {
                    KeyChange::New => 1,
                    KeyChange::NoAuth => 2,
                    KeyChange::Free => 3,
                    KeyChange::Unknown => 4,
                },
            );
            put("auth_assoc_id", association);
            put("auth_length", 20);
            20
        }
        Notification::SenderDry { .. } => {
            put("sender_dry_type", 10);
            put("sender_dry_flags", 0);
            put("sender_dry_assoc_id", association);
            put("sender_dry_length", 12);
            12
        }
        Notification::StreamReset { streams, direction, failed, .. } => {
            put("strreset_type", 9);
            let directions = i64::from(direction.is_incoming()) | i64::from(direction.is_outgoing()) << 1;
            put("strreset_flags", directions | if *failed { 8 } else { 0 });
            put("strreset_assoc_id", association);
            let length = 12 + 2 * streams.len() as i64;
            put("strreset_length", length);
            let list = streams.iter().map(|&stream| Value::Int(stream.into())).collect();
            more.push(("strreset_stream_list", Value::List(list)));
            length
        }
        Notification::AssociationReset { local_tsn, remote_tsn, failed, .. } => {
            put("assocreset_local_tsn", own_tsn(*local_tsn).into());
            put("assocreset_remote_tsn", (*remote_tsn).into());
            put("assocreset_type", 12);
            put("assocreset_flags", if *failed { 8 } else { 0 });
            put("assocreset_assoc_id", association);
            put("assocreset_length", 20);
            20
        }
        Notification::StreamChange { inbound_streams, outbound_streams, failed, .. } => {
            put("strchange_type", 13);
            put("strchange_flags", if *failed { 8 } else { 0 });
            put("strchange_instrms", (*inbound_streams).into());
            put("strchange_outstrms", (*outbound_streams).into());
            put("strchange_assoc_id", association);
            put("strchange_length", 16);
            16
        }
        Notification::Stopped { .. } => {
            // RFC 6458 §6.1.10: this notification has only a header, without an association.
            put("sn_type", 11);
            put("sn_flags", 0);
            put("sn_length", 8);
            8
        }
    };
    fields.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
    (Value::Struct(fields), length)
}

/// Adds the members named in `open` to a structure. These members match any value in the script.
fn with_open(structure: Value, open: &[&str]) -> Value {
    let Value::Struct(mut fields) = structure else { return structure };
    fields.extend(open.iter().map(|&key| (key.to_owned(), Value::Any)));
    Value::Struct(fields)
}
