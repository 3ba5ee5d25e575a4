//! Opens transports on real networks: listeners, connections, and sockets that threads share. Only this module knows
//! how a scheme's sockets and layers are opened.
//!
//! - `listen`: listeners, and the sockets that threads share
//! - `dial`: a connector to a server
//! - `stream`: connections with one stream, with or without TLS
//!
//! # Concrete types
//!
//! [`Listening`] and [`Dialed`] erase the type of the transport, so a program is compiled once for all transports. For
//! the kernel's transports and SCTP, [`Listening::with`] and [`Dialed::with`] give the concrete types, which saves
//! indirect calls.

mod dial;
mod listen;
mod stream;

pub use dial::{DialFailure, Dialed, Target, WithConnector, dial};
pub use listen::{
    ListenFailure, ListenOptions, Listening, Opened, SharedPart, ThreadSocket, WithListener, listen,
    listen_shared, share,
};
pub use stream::{StreamConnector, StreamSession, StreamStream};

use crate::scheme::UrlScheme;
use anabranch_transport::Settings;
use anabranch_world::os::kernel_has_sctp;
use std::net::SocketAddr;

/// Returns a warning if the kernel of this host also implements the protocol of `scheme`, and therefore receives the
/// same packets.
#[must_use]
pub fn host_warning(scheme: &UrlScheme) -> Option<&'static str> {
    let rivals = scheme.needs_raw_sockets() && scheme.can().carriers.ip == Some(SCTP) && kernel_has_sctp();
    rivals.then_some(
        "warning: the kernel's SCTP is loaded, receives our packets of protocol 132, and may abort our associations; \
         unload it (rmmod sctp), or use UDP",
    )
}

/// The IP protocol number of SCTP. SCTP is the only protocol that this project sends through raw sockets and that the
/// kernel can also run.
const SCTP: u8 = anabranch_transport::sctp::IP_PROTOCOL;

/// Checks that this host can run `scheme` with `settings`, for at least one of the addresses. Only transports of the
/// kernel can fail, because the kernel may lack a protocol or an option.
///
/// # Errors
/// A one-line text that says what the kernel lacks.
pub fn possible(scheme: &UrlScheme, settings: &dyn Settings, addresses: &[SocketAddr]) -> Result<(), String> {
    let Some(options) = scheme.protocol().kernel(settings, None).filter(|_| scheme.can().kernel) else {
        return Ok(());
    };
    let mut first = Ok(());
    for address in addresses {
        match options.check_supported(*address) {
            Ok(()) => return Ok(()),
            Err(why) => first = first.and(Err(why)),
        }
    }
    first
}
