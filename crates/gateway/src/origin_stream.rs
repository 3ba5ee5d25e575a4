//! A connection to an origin with its single stream, over plain TCP or over TLS (RFC 9110 §4.2.2).

use anabranch_tls::{TlsSession, TlsStream};
use anabranch_transport::kernel::{KernelSession, KernelStream};
use anabranch_transport::{CloseReason, OpenError, Session, Stream, StreamId};
use anabranch_world::kernel::KernelTcp;
use std::task::{Context, Poll};

/// A connection to an origin.
pub(super) enum OriginSession<W: KernelTcp> {
    /// A TCP connection to an `http` origin.
    Clear(KernelSession<W>),
    /// A TLS connection to an `https` origin.
    Secure(TlsSession<KernelSession<W>>),
}

impl<W: KernelTcp> OriginSession<W> {
    pub(super) fn id(&self) -> u64 {
        match self {
            Self::Clear(session) => session.id(),
            Self::Secure(session) => session.id(),
        }
    }

    /// Opens the only stream of the connection.
    pub(super) fn open(&self) -> Result<OriginStream<W>, OpenError> {
        match self {
            Self::Clear(session) => session.open(0).map(OriginStream::Clear),
            Self::Secure(session) => session.open(0).map(OriginStream::Secure),
        }
    }

    /// Closes the connection gracefully.
    pub(super) fn close(&self) {
        match self {
            Self::Clear(session) => session.close(),
            Self::Secure(session) => session.close(),
        }
    }

    /// Aborts the connection.
    pub(super) fn abort(&self) {
        match self {
            Self::Clear(session) => session.abort(),
            Self::Secure(session) => session.abort(),
        }
    }
}

/// The only stream of a connection to an origin.
pub enum OriginStream<W: KernelTcp> {
    /// The stream of a TCP connection to an `http` origin.
    Clear(KernelStream<W>),
    /// The stream of a TLS connection to an `https` origin.
    Secure(TlsStream<KernelSession<W>>),
}

impl<W: KernelTcp> Stream for OriginStream<W> {
    fn number(&self) -> StreamId {
        0
    }

    fn bytes_read(&self) -> u64 {
        match self {
            Self::Clear(stream) => stream.bytes_read(),
            Self::Secure(stream) => stream.bytes_read(),
        }
    }

    fn bytes_written(&self) -> u64 {
        match self {
            Self::Clear(stream) => stream.bytes_written(),
            Self::Secure(stream) => stream.bytes_written(),
        }
    }

    fn unacknowledged(&self) -> u64 {
        match self {
            Self::Clear(stream) => stream.unacknowledged(),
            Self::Secure(stream) => stream.unacknowledged(),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        match self {
            Self::Clear(stream) => stream.poll_read(cx, into),
            Self::Secure(stream) => stream.poll_read(cx, into),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        match self {
            Self::Clear(stream) => stream.poll_write(cx, from),
            Self::Secure(stream) => stream.poll_write(cx, from),
        }
    }

    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>> {
        self.poll_write(cx, message)
    }

    fn finish(&mut self) {
        match self {
            Self::Clear(stream) => stream.finish(),
            Self::Secure(stream) => stream.finish(),
        }
    }

    fn half_closes(&self) -> bool {
        true
    }
}
