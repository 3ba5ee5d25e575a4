//! Sessions, connectors and listeners with their concrete types erased.
//!
//! Code that is generic over [`Session`] is compiled once per transport. Code that uses the types of this module is
//! compiled only once. A call costs one more indirect jump and no allocation. Each new session and each new stream
//! costs one allocation. Programs for which this cost matters use the concrete types instead.

use crate::connector::{ConnectError, Connector, Listener};
use crate::network::Figures;
use crate::session::{CloseReason, Delivery, OpenError, Session, Stream, StreamId};
use anabranch_base::SharedBytes;
use bytes::Bytes;
use std::any::Any;
use std::fmt;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A stream of any transport.
pub type AnyStream = Box<dyn Stream>;

/// Forwards the methods of a boxed stream to the stream.
macro_rules! forwarded {
    (
        by reference { $( fn $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?; )* }
        by mutable reference { $( fn $changes:ident($($with:ident: $of:ty),*) $(-> $gives:ty)?; )* }
    ) => {
        impl Stream for AnyStream {
            $( fn $name(&self $(, $arg: $kind)*) $(-> $out)? {
                (**self).$name($($arg),*)
            } )*
            $( fn $changes(&mut self $(, $with: $of)*) $(-> $gives)? {
                (**self).$changes($($with),*)
            } )*
        }
    };
}

type Transferred<T> = Poll<Result<T, CloseReason>>;

forwarded! {
    by reference {
        fn number() -> StreamId;
        fn bytes_read() -> u64;
        fn bytes_written() -> u64;
        fn unacknowledged() -> u64;
        fn cancel_code(reading: bool) -> Option<u64>;
        fn supports_half_close() -> bool;
    }
    by mutable reference {
        fn poll_read(cx: &mut Context<'_>, into: &mut [u8]) -> Transferred<usize>;
        fn poll_read_message(cx: &mut Context<'_>, into: &mut [u8]) -> Transferred<(usize, bool)>;
        fn poll_read_bytes(cx: &mut Context<'_>, most: usize) -> Transferred<SharedBytes>;
        fn poll_write_bytes(cx: &mut Context<'_>, from: &mut Bytes) -> Transferred<usize>;
        fn poll_write(cx: &mut Context<'_>, from: &[u8]) -> Transferred<usize>;
        fn poll_write_vectored(cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Transferred<usize>;
        fn poll_write_message(cx: &mut Context<'_>, message: &[u8]) -> Transferred<usize>;
        fn poll_write_messages(cx: &mut Context<'_>, from: &[u8], size: usize) -> Transferred<usize>;
        fn set_delivery(delivery: Delivery);
        fn reset() -> bool;
        fn poll_reset(cx: &mut Context<'_>) -> Poll<bool>;
        fn set_rank(rank: u32);
        fn cancel_writing(code: u64);
        fn cancel_reading(code: u64);
        fn poll_stopped(cx: &mut Context<'_>) -> Poll<u64>;
        fn finish();
    }
}

/// Generates the methods of a session three times: as declarations in the object-safe trait, as its implementation for
/// every session type, and as the implementation of [`Session`] for the erased session. The methods that return streams
/// return erased streams.
macro_rules! erased {
    (
        plain { $( fn $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)?; )* }
        polls for a stream { $( fn $poll:ident($($with:ident: $of:ty),*) -> $error:ty; )* }
    ) => {
        /// The object-safe methods of a session that [`AnySession`] needs.
        trait SessionObject {
            fn open(&self, number: StreamId) -> Result<AnyStream, OpenError>;
            $( fn $name(&self $(, $arg: $kind)*) $(-> $out)?; )*
            $( fn $poll(&self $(, $with: $of)*) -> Poll<Result<AnyStream, $error>>; )*
        }

        impl<S: Session> SessionObject for S {
            fn open(&self, number: StreamId) -> Result<AnyStream, OpenError> {
                Session::open(self, number).map(|stream| Box::new(stream) as AnyStream)
            }

            $( fn $name(&self $(, $arg: $kind)*) $(-> $out)? {
                Session::$name(self $(, $arg)*)
            } )*

            $( fn $poll(&self $(, $with: $of)*) -> Poll<Result<AnyStream, $error>> {
                Session::$poll(self $(, $with)*).map_ok(|stream| Box::new(stream) as AnyStream)
            } )*
        }

        impl Session for AnySession {
            type Stream = AnyStream;

            fn open(&self, number: StreamId) -> Result<AnyStream, OpenError> {
                self.0.open(number)
            }

            $( fn $name(&self $(, $arg: $kind)*) $(-> $out)? {
                self.0.$name($($arg),*)
            } )*

            $( fn $poll(&self $(, $with: $of)*) -> Poll<Result<AnyStream, $error>> {
                self.0.$poll($($with),*)
            } )*
        }
    };
}

erased! {
    plain {
        fn id() -> u64;
        fn peer() -> Option<SocketAddr>;
        fn protocol() -> Option<Vec<u8>>;
        fn poll_established(cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>>;
        fn is_transport_established() -> bool;
        fn early_data() -> bool;
        fn streams() -> u64;
        fn fresh_streams() -> bool;
        fn request_streams(more: u64);
        fn poll_streams_added(cx: &mut Context<'_>) -> Poll<u64>;
        fn poll_closed(cx: &mut Context<'_>) -> Poll<CloseReason>;
        fn unacknowledged() -> u64;
        fn close();
        fn abort();
        fn close_with(code: u64, reason: &str);
        fn limit_unsent(bytes: u64);
        fn figures() -> Option<Figures>;
        fn congestion() -> Option<String>;
        fn is_multipath() -> Option<bool>;
    }
    polls for a stream {
        fn poll_begin(cx: &mut Context<'_>, one_way: bool) -> OpenError;
        fn poll_accept_one_way(cx: &mut Context<'_>) -> CloseReason;
        fn poll_accept(cx: &mut Context<'_>) -> CloseReason;
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

    /// Returns the connector as the concrete type `C`; `None` if the connector has another type.
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
