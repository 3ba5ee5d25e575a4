//! Notifications in the words of the socket API's structures.
//!
//! Home of RFC 6458 §6.1 (the members of each structure).

use crate::script::Value;
use anabranch_sctp::socket::{AddressChange, AssociationChange, KeyChange, Notification};

/// The structure and its size in bytes.
pub(crate) fn describe(notification: &Notification, association: i64) -> (Value, i64) {
    let mut fields: Vec<(String, Value)> = Vec::new();
    let mut put = |key: &str, value: i64| fields.push((key.to_owned(), Value::Int(value)));
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
            20
        }
        Notification::PeerAddressChange { change, .. } => {
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
            put("spc_length", 152);
            152
        }
        Notification::RemoteError { code, data, .. } => {
            put("sre_type", 3);
            put("sre_flags", 0);
            put("sre_error", (*code).into());
            put("sre_assoc_id", association);
            // RFC 6458 §6.1.3: the data begins with the header of the cause.
            let length = 16 + 4 + data.len() as i64;
            put("sre_length", length);
            length
        }
        Notification::SendFailed { sent, bytes, .. } => {
            put("ssfe_type", 14);
            put("ssfe_flags", if *sent { 2 } else { 1 });
            put("ssfe_error", 0);
            put("ssfe_assoc_id", association);
            let length = 36 + i64::from(*bytes);
            put("ssfe_length", length);
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
            length
        }
        Notification::AssociationReset { local_tsn, remote_tsn, failed, .. } => {
            put("assocreset_local_tsn", (*local_tsn).into());
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
    };
    (Value::Struct(fields), length)
}
