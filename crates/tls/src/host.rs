//! Adds TLS to the transport of a host: each session becomes a TLS session. The sessions of the transport must have a
//! single stream.

use crate::{Client, Server, TlsConnector, TlsListener};
use anabranch_base::trace::TraceRecord;
use anabranch_transport::connector::ListenError;
use anabranch_transport::network::PathFigures;
use anabranch_transport::protocol::{PathEvent, Totals};
use anabranch_transport::{AnyConnector, AnyListener, Host, RecordMap, RecordPosition, Settings};
use anabranch_world::World;
use rustls::pki_types::ServerName;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Records the position of each TLS record on the transport's stream, while recording is on.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordLog(Rc<RefCell<Option<RecordMap>>>);

impl RecordLog {
    /// Stores the position of a TLS record of a session, if recording is on.
    pub(crate) fn add(&self, session: u64, record: RecordPosition) {
        if let Some(record_map) = &mut *self.0.borrow_mut() {
            record_map.add(session, 0, record);
        }
    }
}

/// A host whose sessions are TLS sessions over the sessions of another host.
pub struct TlsHost<W> {
    world: W,
    inner: Rc<dyn Host>,
    client: Client,
    server: Server,
    name: ServerName<'static>,
    record_log: RecordLog,
}

impl<W: World> TlsHost<W> {
    /// Creates a host that runs TLS over the sessions of the host `inner`. `name` is the name in the certificates of
    /// all servers to which this host connects.
    ///
    /// # Errors
    /// A one-line text, if no certificate can be issued for this name.
    pub fn new(
        world: W,
        inner: Rc<dyn Host>,
        client: Client,
        server: Server,
        name: &str,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("'{name}' is no name that a certificate can be for"))?;
        Ok(Self { world, inner, client, server, name, record_log: RecordLog::default() })
    }
}

impl<W: World> Host for TlsHost<W> {
    fn connector(&self, servers: Vec<anabranch_transport::Server>) -> AnyConnector {
        let names = servers.iter().map(|_| self.name.clone()).collect();
        let inner = self.inner.connector(servers);
        AnyConnector::new(TlsConnector::to(
            self.world.clone(),
            inner,
            self.client.clone(),
            names,
            self.record_log.clone(),
        ))
    }

    fn listen(&self, port: u16, backlog: u32) -> Result<AnyListener, ListenError> {
        let inner = self.inner.listen(port, backlog)?;
        let listener = TlsListener::new(self.world.clone(), inner, self.server.clone());
        Ok(AnyListener::new(listener.with_record_log(self.record_log.clone())))
    }

    fn settings(&self) -> Option<Box<dyn Settings>> {
        self.inner.settings()
    }

    fn set_tracing(&self, on: bool) {
        self.inner.set_tracing(on);
        *self.record_log.0.borrow_mut() = on.then(RecordMap::default);
    }

    fn take_trace(&self) -> Vec<TraceRecord> {
        self.inner.take_trace()
    }

    fn take_record_map(&self) -> RecordMap {
        self.record_log.0.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn totals(&self) -> Totals {
        self.inner.totals()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.inner.addresses()
    }

    fn accepted(&self) -> u64 {
        self.inner.accepted()
    }

    fn paths(&self) -> Vec<PathFigures> {
        self.inner.paths()
    }

    fn on_path_event(&self, callback: Box<dyn Fn(PathEvent)>) {
        self.inner.on_path_event(callback);
    }

    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.poll_idle(cx)
    }

    fn close(&self) {
        self.inner.close();
    }
}
