//! Sessions, connectors and listeners with their concrete types erased.
//!
//! Code that is generic over [`Session`] is compiled once per transport. Code that uses the types of this module is
//! compiled only once. A call costs one more indirect jump and no allocation. Each new session and each new stream
//! costs one allocation. Programs for which this cost matters use the concrete types instead.

use crate::connector::{ConnectError, Connector, Listener};
use crate::network::Figures;
use crate::session::{CloseReason, Delivery, OpenError, Session, Stream, StreamId};
use std::any::Any;
use std::fmt;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A stream of any transport.
pub type AnyStream = Box<dyn Stream>;

impl Stream for AnyStream {
    fn number(&self) -> StreamId {
        (**self).number()
    }

    fn bytes_read(&self) -> u64 {
        (**self).bytes_read()
    }

    fn bytes_written(&self) -> u64 {
        (**self).bytes_written()
    }

    fn unacknowledged(&self) -> u64 {
        (**self).unacknowledged()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        (**self).poll_read(cx, into)
    }

    fn poll_read_message(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<(usize, bool), CloseReason>> {
        (**self).poll_read_message(cx, into)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        (**self).poll_write(cx, from)
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, CloseReason>> {
        (**self).poll_write_vectored(cx, slices)
    }

    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>> {
        (**self).poll_write_message(cx, message)
    }

    fn poll_write_messages(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
        size: usize,
    ) -> Poll<Result<usize, CloseReason>> {
        (**self).poll_write_messages(cx, from, size)
    }

    fn set_delivery(&mut self, delivery: Delivery) {
        (**self).set_delivery(delivery);
    }

    fn reset(&mut self) -> bool {
        (**self).reset()
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        (**self).poll_reset(cx)
    }

    fn set_rank(&mut self, rank: u32) {
        (**self).set_rank(rank);
    }

    fn cancel_writing(&mut self, code: u64) {
        (**self).cancel_writing(code);
    }

    fn cancel_reading(&mut self, code: u64) {
        (**self).cancel_reading(code);
    }

    fn cancel_code(&self, reading: bool) -> Option<u64> {
        (**self).cancel_code(reading)
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        (**self).poll_stopped(cx)
    }

    fn finish(&mut self) {
        (**self).finish();
    }

    fn supports_half_close(&self) -> bool {
        (**self).supports_half_close()
    }
}

/// The object-safe methods of a session that [`AnySession`] needs.
trait SessionObject {
    fn id(&self) -> u64;
    fn peer(&self) -> Option<SocketAddr>;
    fn protocol(&self) -> Option<Vec<u8>>;
    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>>;
    fn early_data(&self) -> bool;
    fn streams(&self) -> u64;
    fn fresh_streams(&self) -> bool;
    fn grow(&self, more: u64);
    fn poll_grown(&self, cx: &mut Context<'_>) -> Poll<u64>;
    fn open(&self, number: StreamId) -> Result<AnyStream, OpenError>;
    fn poll_begin(&self, cx: &mut Context<'_>, one_way: bool) -> Poll<Result<AnyStream, OpenError>>;
    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<AnyStream, CloseReason>>;
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<AnyStream, CloseReason>>;
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason>;
    fn unacknowledged(&self) -> u64;
    fn close(&self);
    fn abort(&self);
    fn close_with(&self, code: u64, reason: &str);
    fn limit_unsent(&self, bytes: u64);
    fn figures(&self) -> Option<Figures>;
    fn congestion(&self) -> Option<String>;
    fn is_multipath(&self) -> Option<bool>;
}

impl<S: Session> SessionObject for S {
    fn id(&self) -> u64 {
        Session::id(self)
    }

    fn peer(&self) -> Option<SocketAddr> {
        Session::peer(self)
    }

    fn protocol(&self) -> Option<Vec<u8>> {
        Session::protocol(self)
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        Session::poll_established(self, cx)
    }

    fn early_data(&self) -> bool {
        Session::early_data(self)
    }

    fn streams(&self) -> u64 {
        Session::streams(self)
    }

    fn fresh_streams(&self) -> bool {
        Session::fresh_streams(self)
    }

    fn grow(&self, more: u64) {
        Session::request_streams(self, more);
    }

    fn poll_grown(&self, cx: &mut Context<'_>) -> Poll<u64> {
        Session::poll_streams_added(self, cx)
    }

    fn open(&self, number: StreamId) -> Result<AnyStream, OpenError> {
        Session::open(self, number).map(|stream| Box::new(stream) as AnyStream)
    }

    fn poll_begin(&self, cx: &mut Context<'_>, one_way: bool) -> Poll<Result<AnyStream, OpenError>> {
        Session::poll_begin(self, cx, one_way).map_ok(|stream| Box::new(stream) as AnyStream)
    }

    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<AnyStream, CloseReason>> {
        Session::poll_accept_one_way(self, cx).map_ok(|stream| Box::new(stream) as AnyStream)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<AnyStream, CloseReason>> {
        Session::poll_accept(self, cx).map_ok(|stream| Box::new(stream) as AnyStream)
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        Session::poll_closed(self, cx)
    }

    fn unacknowledged(&self) -> u64 {
        Session::unacknowledged(self)
    }

    fn close(&self) {
        Session::close(self);
    }

    fn abort(&self) {
        Session::abort(self);
    }

    fn close_with(&self, code: u64, reason: &str) {
        Session::close_with(self, code, reason);
    }

    fn limit_unsent(&self, bytes: u64) {
        Session::limit_unsent(self, bytes);
    }

    fn figures(&self) -> Option<Figures> {
        Session::figures(self)
    }

    fn congestion(&self) -> Option<String> {
        Session::congestion(self)
    }

    fn is_multipath(&self) -> Option<bool> {
        Session::is_multipath(self)
    }
}

/// A session of any transport.
#[derive(Clone)]
pub struct AnySession(Rc<dyn SessionObject>);

impl AnySession {
    /// Wraps a session of a concrete type.
    pub fn new(session: impl Session) -> Self {
        Self(Rc::new(session))
    }
}

impl fmt::Debug for AnySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnySession").field("id", &self.0.id()).finish_non_exhaustive()
    }
}

impl Session for AnySession {
    type Stream = AnyStream;

    fn id(&self) -> u64 {
        self.0.id()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.0.peer()
    }

    fn protocol(&self) -> Option<Vec<u8>> {
        self.0.protocol()
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.0.poll_established(cx)
    }

    fn early_data(&self) -> bool {
        self.0.early_data()
    }

    fn streams(&self) -> u64 {
        self.0.streams()
    }

    fn fresh_streams(&self) -> bool {
        self.0.fresh_streams()
    }

    fn request_streams(&self, more: u64) {
        self.0.grow(more);
    }

    fn poll_streams_added(&self, cx: &mut Context<'_>) -> Poll<u64> {
        self.0.poll_grown(cx)
    }

    fn open(&self, number: StreamId) -> Result<AnyStream, OpenError> {
        self.0.open(number)
    }

    fn poll_begin(&self, cx: &mut Context<'_>, one_way: bool) -> Poll<Result<AnyStream, OpenError>> {
        self.0.poll_begin(cx, one_way)
    }

    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<AnyStream, CloseReason>> {
        self.0.poll_accept_one_way(cx)
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<AnyStream, CloseReason>> {
        self.0.poll_accept(cx)
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.0.poll_closed(cx)
    }

    fn unacknowledged(&self) -> u64 {
        self.0.unacknowledged()
    }

    fn close(&self) {
        self.0.close();
    }

    fn abort(&self) {
        self.0.abort();
    }

    fn close_with(&self, code: u64, reason: &str) {
        self.0.close_with(code, reason);
    }

    fn limit_unsent(&self, bytes: u64) {
        self.0.limit_unsent(bytes);
    }

    fn figures(&self) -> Option<Figures> {
        self.0.figures()
    }

    fn congestion(&self) -> Option<String> {
        self.0.congestion()
    }

    fn is_multipath(&self) -> Option<bool> {
        self.0.is_multipath()
    }
}

/// The object-safe methods of a connector that [`AnyConnector`] needs.
trait ConnectorObject: Any {
    fn connect(&self, server: usize) -> Result<AnySession, ConnectError>;
    fn streams(&self) -> u64;
    fn fresh_streams(&self) -> bool;
}

impl<C: Connector> ConnectorObject for C {
    fn connect(&self, server: usize) -> Result<AnySession, ConnectError> {
        Connector::connect(self, server).map(AnySession::new)
    }

    fn streams(&self) -> u64 {
        Connector::streams(self)
    }

    fn fresh_streams(&self) -> bool {
        Connector::fresh_streams(self)
    }
}

/// A connector that opens sessions of any transport.
#[derive(Clone)]
pub struct AnyConnector(Rc<dyn ConnectorObject>);

impl AnyConnector {
    /// Wraps a connector of a concrete type.
    pub fn new(connector: impl Connector) -> Self {
        Self(Rc::new(connector))
    }

    /// Returns the connector in its concrete type, if that is `C`.
    #[must_use]
    pub fn concrete<C: Connector>(&self) -> Option<C> {
        (&*self.0 as &dyn Any).downcast_ref::<C>().cloned()
    }
}

impl fmt::Debug for AnyConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyConnector").finish_non_exhaustive()
    }
}

impl Connector for AnyConnector {
    type Session = AnySession;

    fn connect(&self, server: usize) -> Result<AnySession, ConnectError> {
        self.0.connect(server)
    }

    fn streams(&self) -> u64 {
        self.0.streams()
    }

    fn fresh_streams(&self) -> bool {
        self.0.fresh_streams()
    }
}

/// The object-safe methods of a listener that [`AnyListener`] needs.
trait ListenerObject: Any {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<AnySession, CloseReason>>;
    fn port(&self) -> u16;
}

impl<L: Listener> ListenerObject for L {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<AnySession, CloseReason>> {
        Listener::poll_accept(self, cx).map_ok(AnySession::new)
    }

    fn port(&self) -> u16 {
        Listener::port(self)
    }
}

/// A listener that accepts sessions of any transport.
pub struct AnyListener(Box<dyn ListenerObject>);

impl AnyListener {
    /// Wraps a listener of a concrete type.
    pub fn new(listener: impl Listener) -> Self {
        Self(Box::new(listener))
    }

    /// Returns the listener in its concrete type, if that is `L`.
    ///
    /// # Errors
    /// The listener itself, if it has another type.
    pub fn concrete<L: Listener>(self) -> Result<L, Self> {
        if !(&*self.0 as &dyn Any).is::<L>() {
            return Err(self);
        }
        let any: Box<dyn Any> = self.0;
        any.downcast::<L>().map(|listener| *listener).map_err(|_| unreachable!("its type was checked"))
    }
}

impl fmt::Debug for AnyListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyListener").field("port", &self.0.port()).finish_non_exhaustive()
    }
}

impl Listener for AnyListener {
    type Session = AnySession;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<AnySession, CloseReason>> {
        self.0.poll_accept(cx)
    }

    fn port(&self) -> u16 {
        self.0.port()
    }
}
