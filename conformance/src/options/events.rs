//! The notifications to which a script subscribes: `SCTP_EVENT` and `SCTP_EVENTS`.
//!
//! Implements the part of RFC 6458 §6.2 that names event types and structures.

use crate::calls::{CallError, Fd, wrong};
use crate::constants::number;
use crate::members::Members;
use crate::run::Machine;
use crate::script::Value;
use anabranch_sctp::socket::{EventKind, OptionName, Scope, SocketOption};

/// A type of notification in the socket API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// One of the engine's notification types.
    Kind(EventKind),
    /// `SCTP_SEND_FAILED`, the older notification of a failed message (RFC 6458 §6.1.4).
    FailedOld,
    /// `SCTP_SEND_FAILED_EVENT`, the newer notification of a failed message (RFC 6458 §6.1.11).
    Failed,
    /// `SCTP_NOTIFICATIONS_STOPPED_EVENT` (RFC 6458 §6.1.10).
    Stopped,
}

/// The event types, each with its member of `struct sctp_event_subscribe` if there is one.
const EVENTS: &[(&str, &str, Event)] = &[
    ("SCTP_ASSOC_CHANGE", "sctp_association_event", Event::Kind(EventKind::AssociationChange)),
    ("SCTP_PEER_ADDR_CHANGE", "sctp_address_event", Event::Kind(EventKind::PeerAddressChange)),
    ("SCTP_SEND_FAILED", "sctp_send_failure_event", Event::FailedOld),
    ("SCTP_REMOTE_ERROR", "sctp_peer_error_event", Event::Kind(EventKind::RemoteError)),
    ("SCTP_SHUTDOWN_EVENT", "sctp_shutdown_event", Event::Kind(EventKind::Shutdown)),
    ("SCTP_PARTIAL_DELIVERY_EVENT", "sctp_partial_delivery_event", Event::Kind(EventKind::PartialDelivery)),
    ("SCTP_ADAPTATION_INDICATION", "sctp_adaptation_layer_event", Event::Kind(EventKind::Adaptation)),
    ("SCTP_AUTHENTICATION_EVENT", "sctp_authentication_event", Event::Kind(EventKind::Authentication)),
    ("SCTP_SENDER_DRY_EVENT", "sctp_sender_dry_event", Event::Kind(EventKind::SenderDry)),
    // On Linux, `struct sctp_event_subscribe` also has members for these events.
    ("SCTP_STREAM_RESET_EVENT", "sctp_stream_reset_event", Event::Kind(EventKind::StreamReset)),
    ("SCTP_ASSOC_RESET_EVENT", "sctp_assoc_reset_event", Event::Kind(EventKind::AssociationReset)),
    ("SCTP_STREAM_CHANGE_EVENT", "sctp_stream_change_event", Event::Kind(EventKind::StreamChange)),
    ("SCTP_SEND_FAILED_EVENT", "sctp_send_failure_event_event", Event::Failed),
    ("SCTP_NOTIFICATIONS_STOPPED_EVENT", "", Event::Stopped),
];

impl Event {
    pub(crate) fn named(value: &Value) -> Result<Self, CallError> {
        let known = EVENTS.iter().find(|(name, ..)| match value {
            Value::Word(word) => word == name,
            Value::Int(n) => number(&Value::Word((*name).to_owned())) == Some(*n),
            _ => false,
        });
        known.map(|(.., event)| *event).ok_or_else(|| CallError::Wrong(format!("{value} is no event")))
    }
}

impl Machine {
    /// Sets the socket option `SCTP_EVENT` (RFC 6458 §6.2.2).
    pub(super) fn subscribe(&mut self, number: i64, value: &Value) -> Result<(), CallError> {
        let members = Members::of("sctp_event", value)?;
        let event = Event::named(members.get("se_type").unwrap_or(&Value::Any))?;
        let on = members.or_zero("se_on")? != 0;
        let association = members.or_zero("se_assoc_id")?;
        self.set_event(number, association, event, on)
    }

    /// Sets the socket option `SCTP_EVENTS` (RFC 6458 §6.2.1), which has a member for each type of event. A member that
    /// the script omits counts as 0.
    pub(super) fn subscribe_all(&mut self, number: i64, value: &Value) -> Result<(), CallError> {
        let members = Members::of("sctp_event_subscribe", value)?;
        let data_io = members.or_zero("sctp_data_io_event")? != 0;
        if let Some(fd) = self.fds.at(number) {
            fd.legacy.data_io = data_io;
        }
        for &(_, member, event) in EVENTS {
            let later = matches!(
                event,
                Event::Failed
                    | Event::Kind(
                        EventKind::StreamReset | EventKind::AssociationReset | EventKind::StreamChange
                    )
            );
            // Members of the struct that were added after RFC 6458 are set only if the script names them.
            if member.is_empty() || later && members.get(member).is_none() {
                continue;
            }
            self.set_event(number, 0, event, members.or_zero(member)? != 0)?;
        }
        Ok(())
    }

    fn set_event(&mut self, number: i64, association: i64, event: Event, on: bool) -> Result<(), CallError> {
        let Some(fd) = self.fds.at(number) else { return wrong("there is no such descriptor") };
        let kind = match event {
            Event::Kind(kind) => kind,
            Event::FailedOld => {
                fd.legacy.send_failed = on;
                EventKind::SendFailed
            }
            Event::Failed => {
                fd.legacy.send_failed_event = on;
                EventKind::SendFailed
            }
            Event::Stopped => EventKind::Stopped,
        };
        let fd = *fd;
        let on = if kind == EventKind::SendFailed {
            fd.legacy.send_failed || fd.legacy.send_failed_event
        } else {
            on
        };
        let scope = self.fds.scope(fd, association)?;
        self.sockets.set_option(self.now, fd.socket, scope, SocketOption::Event(kind, on))?;
        Ok(())
    }

    pub(super) fn has_event(&mut self, fd: Fd, event: Event) -> Result<bool, CallError> {
        let kind = match event {
            Event::Kind(kind) => kind,
            Event::FailedOld => return Ok(fd.legacy.send_failed),
            Event::Failed => return Ok(fd.legacy.send_failed_event),
            Event::Stopped => EventKind::Stopped,
        };
        let seen = self.sockets.option(fd.socket, Scope::Future, OptionName::Event(kind))?;
        Ok(seen == SocketOption::Event(kind, true))
    }

    /// Returns the current value of `SCTP_EVENTS`, a `struct sctp_event_subscribe`.
    pub(super) fn events_value(&mut self, fd: Fd) -> Result<Value, CallError> {
        let mut fields = vec![("sctp_data_io_event".to_owned(), Value::Int(fd.legacy.data_io.into()))];
        for &(_, member, event) in EVENTS.iter().filter(|(_, member, _)| !member.is_empty()) {
            fields.push((member.to_owned(), Value::Int(self.has_event(fd, event)?.into())));
        }
        Ok(Value::Struct(fields))
    }
}
