//! Provides streams to one server, for connectors whose sessions have one stream each. An exchange uses one session.
//! The session is kept for the next exchange if the server allows it.

use super::{Lease, ReachError, StreamOutcome, Upstream, connect_any, is_idle};
use crate::authority::Origin;
use anabranch_base::time::Duration;
use anabranch_transport::{Connector, Session};
use anabranch_world::World;
use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

/// A session and its only stream.
type OpenStream<C> = (<C as Connector>::Session, <<C as Connector>::Session as Session>::Stream);

/// Connects to a single server, whatever authority a request names.
pub struct OneServer<W: World, C: Connector> {
    world: W,
    connector: C,
    /// The number of the server's addresses. The connector treats each address as a separate server.
    count: usize,
    timeout: Duration,
    /// The idle sessions. Their number is at most the largest number of simultaneous exchanges so far.
    idle: Rc<RefCell<Vec<OpenStream<C>>>>,
}

impl<W: World, C: Connector> fmt::Debug for OneServer<W, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneServer").field("kept", &self.idle.borrow().len()).finish_non_exhaustive()
    }
}

impl<W: World, C: Connector> OneServer<W, C> {
    /// Creates an upstream to the server at the first `count` addresses of `connector`. If no address has answered
    /// after `timeout`, the attempt to connect is given up.
    pub fn new(world: &W, connector: C, count: usize, timeout: Duration) -> Self {
        Self { world: world.clone(), connector, count, timeout, idle: Rc::default() }
    }

    async fn connect(&self) -> Result<OpenStream<C>, ReachError> {
        let session = connect_any(&self.world, &self.connector, self.count, self.timeout).await?;
        let stream = session.open(0)?;
        Ok((session, stream))
    }

    /// Keeps an idle session for the next exchange.
    pub fn keep(&self, session: OpenStream<C>) {
        self.idle.borrow_mut().push(session);
    }

    /// Returns an idle session that is still open and has received no data.
    fn take(&self) -> Option<OpenStream<C>> {
        loop {
            let (session, mut stream) = self.idle.borrow_mut().pop()?;
            if is_idle(&mut stream) {
                return Some((session, stream));
            }
        }
    }
}

impl<W: World, C: Connector> Upstream for OneServer<W, C> {
    type Stream = <C::Session as Session>::Stream;

    fn half_close(&self) -> bool {
        true
    }

    fn is_gateway(&self) -> bool {
        false
    }

    async fn reach(
        &self,
        _: &Origin,
        fresh: bool,
        _: Option<IpAddr>,
    ) -> Result<Lease<Self::Stream>, ReachError> {
        let (reused, (session, stream)) = match self.take().filter(|_| !fresh) {
            Some(idle) => (true, idle),
            None => (false, self.connect().await?),
        };
        let (idle, connection) = (self.idle.clone(), session.id());
        let return_callback = move |stream, how: StreamOutcome, _| match how {
            StreamOutcome::Reusable => idle.borrow_mut().push((session, stream)),
            StreamOutcome::Over => session.close(),
            StreamOutcome::Torn | StreamOutcome::Cancelled => session.abort(),
        };
        Ok(Lease::new(stream, connection, reused, None, Box::new(return_callback)))
    }
}
