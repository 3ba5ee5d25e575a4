//! Connections over the kernel's TCP, with or without TLS. One type serves `http` and `https` origins (RFC 9110
//! §4.2.2).

use crate::security::ClientSecurity;
use anabranch_tls::{TlsConnector, TlsSession, TlsStream};
use anabranch_transport::kernel::{KernelConnector, KernelSession, KernelStream};
use anabranch_transport::{CloseReason, ConnectError, Connector, OpenError, Session, Stream, StreamId};
use anabranch_world::kernel::KernelTcp;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// Opens connections with one stream.
#[derive(Clone, Debug)]
pub enum StreamConnector<W: KernelTcp> {
    /// Connections of the kernel.
    Clear(KernelConnector<W>),
    /// TLS on connections of the kernel.
    Secure(TlsConnector<W, KernelConnector<W>>),
}

impl<W: KernelTcp> StreamConnector<W> {
    /// Creates a connector to the addresses of one server, over the kernel's TCP. With `tls`, the connections use TLS,
    /// and the server's certificate must have the given name.
    ///
    /// # Errors
    /// A one-line text, if the given name is neither a DNS name nor an IP address.
    pub fn new(
        world: &W,
        addresses: Vec<SocketAddr>,
        tls: Option<(&ClientSecurity, &str)>,
    ) -> Result<Self, String> {
        let count = addresses.len();
        let connector = KernelConnector::new(world.clone(), addresses);
        let Some((security, name)) = tls else { return Ok(Self::Clear(connector)) };
        let names = vec![name.to_owned(); count];
        TlsConnector::new(world.clone(), connector, security.tls(), &names).map(Self::Secure)
    }
}

impl<W: KernelTcp> Connector for StreamConnector<W> {
    type Session = StreamSession<W>;

    fn connect(&self, server: usize) -> Result<StreamSession<W>, ConnectError> {
        Ok(match self {
            Self::Clear(connector) => StreamSession::Clear(connector.connect(server)?),
            Self::Secure(connector) => StreamSession::Secure(connector.connect(server)?),
        })
    }

    fn streams(&self) -> u64 {
        1
    }
}

/// A connection with one stream.
#[derive(Clone)]
pub enum StreamSession<W: KernelTcp> {
    /// A connection of the kernel.
    Clear(KernelSession<W>),
    /// TLS on a connection of the kernel.
    Secure(TlsSession<KernelSession<W>>),
}

/// Calls a method on the concrete type in each variant.
macro_rules! each {
    ($self:expr, $it:ident => $call:expr) => {
        match $self {
            Self::Clear($it) => $call,
            Self::Secure($it) => $call,
        }
    };
}

impl<W: KernelTcp> Session for StreamSession<W> {
    type Stream = StreamStream<W>;

    fn id(&self) -> u64 {
        each!(self, it => it.id())
    }

    fn peer(&self) -> Option<SocketAddr> {
        each!(self, it => it.peer())
    }

    fn protocol(&self) -> Option<Vec<u8>> {
        each!(self, it => it.protocol())
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        each!(self, it => it.poll_established(cx))
    }

    fn early_data(&self) -> bool {
        each!(self, it => it.early_data())
    }

    fn open(&self, number: StreamId) -> Result<StreamStream<W>, OpenError> {
        Ok(match self {
            Self::Clear(session) => StreamStream::Clear(session.open(number)?),
            Self::Secure(session) => StreamStream::Secure(session.open(number)?),
        })
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<StreamStream<W>, CloseReason>> {
        match self {
            Self::Clear(session) => session.poll_accept(cx).map_ok(StreamStream::Clear),
            Self::Secure(session) => session.poll_accept(cx).map_ok(StreamStream::Secure),
        }
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        each!(self, it => it.poll_closed(cx))
    }

    fn unacknowledged(&self) -> u64 {
        each!(self, it => Session::unacknowledged(it))
    }

    fn close(&self) {
        each!(self, it => it.close());
    }

    fn abort(&self) {
        each!(self, it => it.abort());
    }
}

/// The only stream of a connection.
pub enum StreamStream<W: KernelTcp> {
    /// The stream of a connection of the kernel.
    Clear(KernelStream<W>),
    /// The TLS stream on a connection of the kernel.
    Secure(TlsStream<KernelSession<W>>),
}

impl<W: KernelTcp> Stream for StreamStream<W> {
    fn number(&self) -> StreamId {
        0
    }

    fn bytes_read(&self) -> u64 {
        each!(self, it => it.bytes_read())
    }

    fn bytes_written(&self) -> u64 {
        each!(self, it => it.bytes_written())
    }

    fn unacknowledged(&self) -> u64 {
        each!(self, it => it.unacknowledged())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        each!(self, it => it.poll_read(cx, into))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        each!(self, it => it.poll_write(cx, from))
    }

    fn finish(&mut self) {
        each!(self, it => it.finish());
    }

    fn supports_half_close(&self) -> bool {
        true
    }
}
