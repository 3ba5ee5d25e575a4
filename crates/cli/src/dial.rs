//! Connects a client to its server, warns about problems of this host, logs path events, and applies timeouts.

use crate::paths::PathLog;
use crate::{Failure, complain};
use anabranch_http::upstream::{ReachError, connect_in_turn};
use anabranch_transport::{Connector, ListenError, Session};
use anabranch_transports::UrlScheme;
use anabranch_transports::os::{self, DialFailure, Dialed, Target};
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::io;
use std::net::SocketAddr;
use std::sync::Once;
use std::time::Duration;

/// Starts the transport of `target` and makes a connector to the server. Path events are logged to `paths`.
pub async fn dial(world: &OsWorld, target: Target, paths: Option<&PathLog>) -> Result<Dialed, DialFailure> {
    warn_of_host(&target.scheme);
    // Only our own multipath transports report path events. For other transports, `dialed.host` is not added to the
    // path log, because the log would only keep the host alive.
    let can = target.scheme.can();
    let paths = paths.filter(|_| can.paths && !can.kernel);
    let dialed = os::dial(world, target).await?;
    if let Some(log) = paths {
        log.watch(&dialed.host);
    }
    Ok(dialed)
}

/// Returns the failure of the command for a server that cannot be reached by `scheme`.
pub fn failure(scheme: &UrlScheme, failure: DialFailure) -> Failure {
    match failure {
        DialFailure::Socket(why) => {
            let name = scheme.protocol().name().to_uppercase();
            Failure::Host(format!("cannot use {name}: {}", reason(scheme, None, &why)))
        }
        DialFailure::Trust(why) => Failure::Host(why),
        DialFailure::Name(why) => Failure::Usage(why),
    }
}

/// Tries the server's addresses in the order of `connector`, one after the other. `addresses` lists these addresses for
/// error messages. Returns the established session, or the reasons why all attempts failed.
pub async fn session<C: Connector>(
    world: &OsWorld,
    connector: &C,
    addresses: &[SocketAddr],
    timeout: Duration,
) -> Result<C::Session, String> {
    let errors = match connect_in_turn(world, connector, addresses.len(), timeout).await {
        Ok(session) => return Ok(session),
        Err(errors) => errors,
    };
    let text = |error: &ReachError| match error {
        ReachError::Timeout => format!("no connection within {} s", timeout.as_secs_f32()),
        ReachError::Closed(error) => error.to_string(),
        error => error.to_string(),
    };
    let several = errors.len() > 1;
    let each = errors.iter().zip(addresses).map(|(error, at)| match several {
        true => format!("{}: {}", at.ip(), text(error)),
        false => text(error),
    });
    Err(each.collect::<Vec<_>>().join("; "))
}

/// Returns the index of the first address that answers, out of `count` addresses of one server. If none answers,
/// returns the last index.
pub async fn first_answering<C: Connector>(
    world: &OsWorld,
    connector: &C,
    count: usize,
    timeout: Duration,
) -> usize {
    // The last address is not tried, because its index is returned whether or not it answers.
    let last = count.saturating_sub(1);
    for server in 0..last {
        let Ok(session) = connector.connect(server) else { continue };
        if let Some(Ok(())) = world.timeout(timeout, session.established()).await {
            session.close();
            return server;
        }
        session.abort();
    }
    last
}

/// Prints a warning, once, if a setting of this host interferes with the transport of `scheme`.
pub fn warn_of_host(scheme: &UrlScheme) {
    static ONCE: Once = Once::new();
    if let Some(warning) = os::host_warning(scheme) {
        ONCE.call_once(|| complain(warning));
    }
}

/// Returns the reason why this host does not open a socket for `scheme` and, if known, how the user can change this.
/// `port` is the port on which a server listens; `None` for a client.
pub fn reason(scheme: &UrlScheme, port: Option<u16>, why: &io::Error) -> String {
    match (scheme.needs_raw_sockets(), why.kind()) {
        (_, io::ErrorKind::AddrInUse) if port.is_some() => {
            ListenError::PortInUse(port.unwrap_or_default()).to_string()
        }
        (true, io::ErrorKind::PermissionDenied) => {
            format!("{why}: raw sockets need root or CAP_NET_RAW; SCTP in UDP needs neither")
        }
        (_, io::ErrorKind::PermissionDenied) if port.is_some_and(|port| port < 1024) => {
            format!("{why}: ports below 1024 need root or CAP_NET_BIND_SERVICE; write a higher one")
        }
        _ => why.to_string(),
    }
}
