//! Opens and accepts sessions over TLS.

use crate::host::RecordLog;
use crate::session::{Scratch, TlsSession};
use crate::{Client, Server, fault};
use anabranch_transport::{CloseReason, ConnectError, Connector, Listener};
use anabranch_world::{Detach, World};
use rustls::Connection;
use rustls::pki_types::ServerName;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Opens TLS sessions over the sessions that another connector opens. Holds the name that each server's certificate
/// must have.
#[derive(Clone, Debug)]
pub struct TlsConnector<W, C> {
    world: W,
    inner: C,
    client: Client,
    names: Rc<[ServerName<'static>]>,
    record_log: RecordLog,
    scratch: Scratch,
}

impl<W: World, C: Connector> TlsConnector<W, C> {
    /// Creates a connector whose TLS sessions run over the sessions of the connector `inner`. `names` are the names
    /// that the servers' certificates must have, in the order of the servers.
    ///
    /// # Errors
    /// A one-line text, if no certificate can be issued for one of the names.
    pub fn new(world: W, inner: C, client: Client, names: &[String]) -> Result<Self, String> {
        let name = |name: &String| {
            ServerName::try_from(name.trim_matches(['[', ']']).to_owned())
                .map_err(|_| format!("'{name}' is no name or address that a certificate can be for"))
        };
        let names: Result<Rc<[_]>, String> = names.iter().map(name).collect();
        Ok(Self::to(world, inner, client, names?, RecordLog::default()))
    }

    /// Like [`new`](Self::new), but with parsed names and a recorder of the positions of TLS records.
    pub(crate) fn to(
        world: W,
        inner: C,
        client: Client,
        names: Rc<[ServerName<'static>]>,
        record_log: RecordLog,
    ) -> Self {
        Self { world, inner, client, names, record_log, scratch: Scratch::new() }
    }
}

impl<W: World, C: Connector> Connector for TlsConnector<W, C> {
    type Session = TlsSession<C::Session>;

    fn connect(&self, server: usize) -> Result<Self::Session, ConnectError> {
        let name = self.names.get(server).ok_or(ConnectError::NoSuchServer(server))?.clone();
        let tls = self.client.begin(name).map_err(|error| ConnectError::Refused(fault::line(&error)))?;
        let inner = self.inner.connect(server)?;
        let (session, driver) = TlsSession::over(
            inner,
            Connection::Client(tls),
            self.client.surroundings.clone(),
            self.record_log.clone(),
            self.scratch.clone(),
        );
        self.world.spawn("TLS of a client's session", driver).detach();
        Ok(session)
    }

    fn streams(&self) -> u64 {
        1
    }
}

/// Accepts the sessions of another listener, and begins a TLS session over each of them. A TLS session is accepted
/// before its handshake is done, so the caller has to limit the duration of the handshake.
#[derive(Debug)]
pub struct TlsListener<W, L> {
    world: W,
    inner: L,
    server: Server,
    record_log: RecordLog,
    scratch: Scratch,
}

impl<W: World, L: Listener> TlsListener<W, L> {
    /// Creates a listener that accepts TLS sessions over the sessions of the listener `inner`.
    pub fn new(world: W, inner: L, server: Server) -> Self {
        Self { world, inner, server, record_log: RecordLog::default(), scratch: Scratch::new() }
    }

    /// Sets the recorder of the positions of TLS records.
    pub(crate) fn with_record_log(self, record_log: RecordLog) -> Self {
        Self { record_log, ..self }
    }
}

impl<W: World, L: Listener> Listener for TlsListener<W, L> {
    type Session = TlsSession<L::Session>;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Self::Session, CloseReason>> {
        let inner = match self.inner.poll_accept(cx) {
            Poll::Ready(Ok(inner)) => inner,
            Poll::Ready(Err(reason)) => return Poll::Ready(Err(reason)),
            Poll::Pending => return Poll::Pending,
        };
        let tls = self.server.begin().map_err(|error| fault::reason(&error))?;
        let (session, driver) = TlsSession::over(
            inner,
            Connection::Server(tls),
            self.server.surroundings.clone(),
            self.record_log.clone(),
            self.scratch.clone(),
        );
        self.world.spawn("TLS of a server's session", driver).detach();
        Poll::Ready(Ok(session))
    }

    fn port(&self) -> u16 {
        self.inner.port()
    }
}
