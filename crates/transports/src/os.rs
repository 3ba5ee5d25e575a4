//! Opens transports on real networks: listeners, connections, and sockets that threads share. This is the one place that
//! knows how a scheme's sockets and layers are opened.
//!
//! - `listen`: the listeners of a place, and the sockets that threads share
//! - `dial`: a connector to a server
//! - `stream`: connections with one stream, with or without TLS
//!
//! # Measured paths
//!
//! [`Listening`] and [`Dialed`] are erased, so a program is compiled once for all transports. The cost for each packet of
//! some transports is measured. [`Listening::with`] and [`Dialed::with`] give the concrete types of those.

mod dial;
mod listen;
mod stream;

pub use dial::{DialFailure, Dialed, Target, WithConnector, dial};
pub use listen::{
    ListenFailure, Listening, Opened, Place, SharedPart, ThreadSocket, WithListener, listen, listen_shared,
    share,
};
pub use stream::{StreamConnector, StreamSession, StreamStream};

use crate::scheme::UrlScheme;
use anabranch_transport::Settings;
use anabranch_world::os::kernel_has_sctp;
use std::net::SocketAddr;

/// Returns a warning about this host for `scheme`: its kernel runs the same protocol on IP, and gets the same packets.
#[must_use]
pub fn host_warning(scheme: &UrlScheme) -> Option<&'static str> {
    let rivals = scheme.needs_raw_sockets() && scheme.can().carriers.ip == Some(SCTP) && kernel_has_sctp();
    rivals.then_some(
        "warning: the kernel's SCTP is loaded, receives our packets of protocol 132, and may abort our associations; \
         unload it (rmmod sctp), or use UDP",
    )
}

/// The IP protocol number of SCTP, the only protocol of ours that a kernel may also run on raw packets.
const SCTP: u8 = anabranch_transport::sctp::IP_PROTOCOL;

/// Checks that this host can run `scheme` with `settings`, for at least one of the addresses. Only a kernel may lack a
/// protocol or an option.
///
/// # Errors
/// One line that says what the kernel lacks.
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
