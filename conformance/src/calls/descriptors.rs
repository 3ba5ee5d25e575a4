//! Keeps the file descriptors of a packetdrill script, with the socket and the options of each. Also numbers the
//! script's associations.

use super::CallError;
use anabranch_sctp::AssociationId;
use anabranch_sctp::socket::{Errno, Scope, SocketId, Style};
use std::collections::BTreeMap;

/// The file descriptors that a packetdrill script has opened.
#[derive(Debug, Default)]
pub(crate) struct Fds {
    pub(super) open: BTreeMap<i64, Fd>,
    /// The local port of the socket that was bound last; `None` if no socket was bound.
    pub(super) port: Option<u16>,
    /// The associations to which the script can refer by number, in the order of their numbers.
    associations: Vec<AssociationId>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fd {
    pub(crate) socket: SocketId,
    pub(super) style: Style,
    pub(super) nonblocking: bool,
    /// Whether a blocking `connect` on this descriptor is in progress.
    pub(super) connecting: bool,
    pub(crate) legacy: LegacyOptions,
}

/// Socket options whose values the packetdrill interpreter keeps itself. Some of them select older forms of the socket
/// API, which the engine does not have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LegacyOptions {
    /// Whether `sctp_data_io_event` is set: each message comes with `SCTP_SNDRCV` (RFC 6458 §6.2.1).
    pub(crate) data_io: bool,
    /// Whether `SCTP_USE_EXT_RCVINFO` is set: messages come with `SCTP_EXTRCV` instead of `SCTP_SNDRCV` (RFC 6458
    /// §8.1.22).
    pub(crate) extended: bool,
    /// Whether `SCTP_RECVNXTINFO` is set (RFC 6458 §8.1.30). For `SCTP_EXTRCV`, the engine reports the next message
    /// even without this option.
    pub(crate) next: bool,
    /// Whether `SCTP_I_WANT_MAPPED_V4_ADDR` is set (RFC 6458 §8.1.15). The option has no effect, because each script
    /// has addresses of one family only.
    pub(crate) mapped: bool,
    /// Whether `SCTP_AUTO_ASCONF` is off (RFC 6458 §8.1.23). The option has no effect, because no script changes the
    /// addresses of its host.
    pub(crate) fixed_addresses: bool,
    /// The value of `SCTP_ENABLE_STREAM_RESET` (RFC 6525 §6.3.1).
    pub(crate) resets: i64,
    /// Whether the socket subscribes to `SCTP_SEND_FAILED` (RFC 6458 §6.1.4).
    pub(crate) send_failed: bool,
    /// Whether the socket subscribes to `SCTP_SEND_FAILED_EVENT` (RFC 6458 §6.1.11).
    pub(crate) send_failed_event: bool,
}

impl Fd {
    pub(crate) fn style(&self) -> Style {
        self.style
    }
}

/// The number that a script uses for its first association. Lower numbers are scopes, such as `SCTP_FUTURE_ASSOC`.
const FIRST_ASSOCIATION: i64 = 3;

impl Fds {
    pub(crate) fn at(&mut self, number: i64) -> Option<&mut Fd> {
        self.open.get_mut(&number)
    }

    pub(crate) fn local_port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the number (`sctp_assoc_t`) of an association in the script. A new association gets the next number.
    pub(crate) fn number_of(&mut self, id: AssociationId) -> i64 {
        let at = self.associations.iter().position(|&known| known == id).unwrap_or_else(|| {
            self.associations.push(id);
            self.associations.len() - 1
        });
        at as i64 + FIRST_ASSOCIATION
    }

    pub(crate) fn association(&self, number: i64) -> Option<AssociationId> {
        let at = usize::try_from(number.checked_sub(FIRST_ASSOCIATION)?).ok()?;
        self.associations.get(at).copied()
    }

    /// Returns the scope of a socket option: the socket, or one of its associations. `number` is the association number
    /// in the value of the option. RFC 6458 §8: one-to-one sockets ignore this number.
    pub(crate) fn scope(&self, fd: Fd, number: i64) -> Result<Scope, CallError> {
        match number {
            _ if fd.style == Style::OneToOne => Ok(Scope::Future),
            0 => Ok(Scope::Future),
            1 => Ok(Scope::Current),
            2 => Ok(Scope::All),
            _ => self.association(number).map(Scope::One).ok_or(CallError::Errno(Errno::NoAssociation)),
        }
    }
}
