//! The descriptors of a script: the socket behind each number, the data that a read returns, and the numbers of its
//! associations.

use super::CallError;
use anabranch_sctp::AssociationId;
use anabranch_sctp::socket::{Errno, Scope, SocketId, Style};
use std::collections::BTreeMap;

/// The descriptors of a script.
#[derive(Debug, Default)]
pub(crate) struct Fds {
    pub(super) open: BTreeMap<i64, Fd>,
    /// The local port of the last socket that was bound to one.
    pub(super) port: Option<u16>,
    /// Associations that have a number, in the order of their numbers.
    associations: Vec<AssociationId>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fd {
    pub(crate) socket: SocketId,
    pub(super) style: Style,
    pub(super) nonblocking: bool,
    /// A blocking `connect` is in progress.
    pub(super) connecting: bool,
    pub(crate) legacy: LegacyOptions,
}

/// Older forms of the socket API that a script has asked for. The engine itself has only the newer ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LegacyOptions {
    /// `sctp_data_io_event`: `SCTP_SNDRCV` beside each message (RFC 6458 §6.2.1).
    pub(crate) data_io: bool,
    /// `SCTP_USE_EXT_RCVINFO`: `SCTP_EXTRCV` instead of it (RFC 6458 §8.1.22).
    pub(crate) extended: bool,
    /// `SCTP_RECVNXTINFO` (RFC 6458 §8.1.30). The engine also reports the next message for `SCTP_EXTRCV`.
    pub(crate) next: bool,
    /// `SCTP_I_WANT_MAPPED_V4_ADDR` (RFC 6458 §8.1.15), without effect: each script has addresses of one family only.
    pub(crate) mapped: bool,
    /// `SCTP_AUTO_ASCONF` is off (RFC 6458 §8.1.23), without effect: no script changes the addresses of its host.
    pub(crate) fixed_addresses: bool,
    /// `SCTP_ENABLE_STREAM_RESET` (RFC 6525 §6.3.1).
    pub(crate) resets: i64,
    /// `SCTP_SEND_FAILED` is subscribed (RFC 6458 §6.1.4).
    pub(crate) send_failed: bool,
    /// `SCTP_SEND_FAILED_EVENT` is subscribed (RFC 6458 §6.1.11).
    pub(crate) send_failed_event: bool,
}

impl Fd {
    pub(crate) fn style(&self) -> Style {
        self.style
    }
}

/// Lower numbers are scopes, such as `SCTP_FUTURE_ASSOC`.
const FIRST_ASSOCIATION: i64 = 3;

impl Fds {
    pub(crate) fn at(&mut self, number: i64) -> Option<&mut Fd> {
        self.open.get_mut(&number)
    }

    pub(crate) fn local_port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the number by which a script names an association.
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

    /// Returns the scope that an association number in an option's value selects. RFC 6458 §8: one-to-one sockets
    /// ignore the number.
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
