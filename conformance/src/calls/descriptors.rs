//! The descriptors of a script: which number is which socket, what a read of it
//! gives out, and which numbers its associations have.

use super::Stop;
use anabranch_sctp::AssociationId;
use anabranch_sctp::socket::{Errno, Scope, SocketId, Style};
use std::collections::BTreeMap;

/// The descriptors of a script.
#[derive(Debug, Default)]
pub(crate) struct Fds {
    pub(super) open: BTreeMap<i64, Fd>,
    /// The local port of the last socket that got one.
    pub(super) port: Option<u16>,
    /// Associations that got a number, in order.
    associations: Vec<AssociationId>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fd {
    pub(crate) socket: SocketId,
    pub(super) style: Style,
    pub(super) nonblocking: bool,
    /// A `connect` that may block is under way.
    pub(super) connecting: bool,
    pub(crate) told: Told,
}

/// What of the socket API's older forms is asked for: the engine has the newer ones only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// `sctp_data_io_event`: `SCTP_SNDRCV` beside each message (RFC 6458 §6.2.1).
    pub(crate) data_io: bool,
    /// `SCTP_USE_EXT_RCVINFO`: `SCTP_EXTRCV` instead of it (RFC 6458 §8.1.22).
    pub(crate) extended: bool,
    /// `SCTP_RECVNXTINFO` (RFC 6458 §8.1.30). The engine tells what comes next for `SCTP_EXTRCV` as well.
    pub(crate) next: bool,
    /// `SCTP_I_WANT_MAPPED_V4_ADDR` (RFC 6458 §8.1.15): scripts have addresses of one family only.
    pub(crate) mapped: bool,
    /// `SCTP_AUTO_ASCONF` is off (RFC 6458 §8.1.23): no script changes its host's addresses.
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

/// Numbers below these are scopes (`SCTP_FUTURE_ASSOC` and its like).
const FIRST_ASSOCIATION: i64 = 3;

impl Fds {
    pub(crate) fn at(&mut self, number: i64) -> Option<&mut Fd> {
        self.open.get_mut(&number)
    }

    pub(crate) fn local_port(&self) -> Option<u16> {
        self.port
    }

    /// The number that a script knows an association by.
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

    /// What an association number in an option's value means. RFC 6458 §8: one-to-one sockets
    /// ignore it.
    pub(crate) fn scope(&self, fd: Fd, number: i64) -> Result<Scope, Stop> {
        match number {
            _ if fd.style == Style::OneToOne => Ok(Scope::Future),
            0 => Ok(Scope::Future),
            1 => Ok(Scope::Current),
            2 => Ok(Scope::All),
            _ => self.association(number).map(Scope::One).ok_or(Stop::Errno(Errno::NoAssociation)),
        }
    }
}
