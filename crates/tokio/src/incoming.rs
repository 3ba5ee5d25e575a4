//! An association that a peer has begun, and that the program has not accepted yet.

use crate::association::Association;
use crate::shared::Shared;
use anabranch_sctp::Request;
use anabranch_transport::CloseReason;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// An association that a peer has begun, and that the program has not accepted yet. The peer has proven that it
/// receives packets at its address, and waits for an answer. This value is all that the endpoint stores for the peer
/// before the program accepts. Dropping the value refuses the association.
#[must_use = "dropped, it is refused"]
pub struct Incoming {
    shared: Arc<Shared>,
    /// The request of the peer; `None` once it has been accepted or refused.
    request: Option<Request>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("request", &self.request).finish_non_exhaustive()
    }
}

impl Incoming {
    pub(crate) fn new(shared: Arc<Shared>, request: Request) -> Self {
        Self { shared, request: Some(request) }
    }

    fn request(&self) -> &Request {
        match &self.request {
            Some(request) => request,
            None => unreachable!("a decision consumes the request"),
        }
    }

    /// Returns the source address of the peer's packet, with the peer's SCTP port.
    #[must_use]
    pub fn remote_address(&self) -> SocketAddr {
        SocketAddr::new(self.request().peer.ip(), self.request().peer_port)
    }

    /// Returns the peer's UDP port, or 0 if SCTP runs directly on IP.
    #[must_use]
    pub fn remote_udp_port(&self) -> u16 {
        self.request().peer.port()
    }

    /// Returns all addresses that the peer listed in its INIT.
    #[must_use]
    pub fn remote_addresses(&self) -> &[IpAddr] {
        &self.request().addresses
    }

    /// Returns the local SCTP port to which the peer connects.
    #[must_use]
    pub fn local_port(&self) -> u16 {
        self.request().port
    }

    /// Returns the number of streams that exist in both directions if the association is accepted.
    #[must_use]
    pub fn streams(&self) -> u16 {
        self.request().outbound_streams.min(self.request().inbound_streams)
    }

    /// Accepts the association. The endpoint answers the peer's COOKIE ECHO, which completes the handshake.
    ///
    /// # Errors
    /// The association is no longer available. It may have waited longer than its State Cookie is valid
    /// (`cookie_life`); the peer then gets an error and may start again. The peer may also have given up, or the
    /// endpoint may have stopped accepting associations.
    pub fn accept(mut self) -> Result<Association, CloseReason> {
        let peer = self.remote_address();
        let request = self.request.take();
        let result = self.shared.with(|state, now| {
            let result = request.and_then(|request| state.admit(now, request.id));
            result.ok_or_else(|| state.failure().cloned())
        });
        match result {
            Ok((id, signals)) => Ok(Association::new(self.shared.clone(), id, signals, peer)),
            Err(failure) => {
                let late = || {
                    CloseReason::TimedOut(
                        "it was not accepted before its peer gave up or its State Cookie went stale"
                            .to_owned(),
                    )
                };
                Err(failure.unwrap_or_else(late))
            }
        }
    }

    /// Refuses the association with an ABORT, which makes the peer's handshake fail.
    pub fn refuse(self) {}

    /// Refuses the association, and sends `reason` to the peer. The peer's program receives at most the first 512 bytes
    /// of `reason`.
    pub fn refuse_with_reason(mut self, reason: impl AsRef<[u8]>) {
        self.send_refusal(reason.as_ref());
    }

    fn send_refusal(&mut self, reason: &[u8]) {
        if let Some(request) = self.request.take() {
            self.shared.with(|state, now| state.endpoint.refuse(now, request.id, reason));
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.send_refusal(b"");
    }
}
