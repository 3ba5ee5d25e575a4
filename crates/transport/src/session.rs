//! The interface to applications: sessions, and the streams in them.
//!
//! A [`Session`] is a connection or an association. A [`Stream`] is a two-way sequence of bytes in a session. Streams
//! have 64-bit numbers, which a transport assigns in one of three ways ([`Streams`](crate::Streams)). TCP has one
//! stream, number 0. SCTP has reusable numbers, and stream *a* of one direction is paired with stream *a* of the other
//! direction. QUIC has a fresh number for each exchange.
//!
//! All waits are polls. A pending poll has registered a waker and changed nothing else. The future of an async method
//! may therefore be dropped at any await.

use crate::network::Figures;
use anabranch_base::SharedBytes;
use anabranch_sctp::Reliability;
use bytes::{Buf, Bytes};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// The reason why a session ended. Every wait on an ended session, or on a stream of it, returns this reason.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// Both sides finished gracefully.
    #[error("closed in good order")]
    Finished,
    /// This side aborted the session.
    #[error("aborted here")]
    Aborted,
    /// The peer aborted the session (TCP RST, SCTP ABORT). The text is the reason that the peer gave.
    #[error("reset by the peer{}", Reason(.0))]
    Reset(String),
    /// The peer has no listener for the port.
    #[error("connection refused: nothing listens there")]
    Refused,
    /// The peer did not answer within the retransmission limits of the engine.
    #[error("the peer stopped answering{}", Reason(.0))]
    TimedOut(String),
    /// The peer could not prove its identity. No application data was sent.
    #[error("not trusted{}", Reason(.0))]
    Untrusted(String),
    /// The peer violated the protocol, or lacks a feature that is needed.
    #[error("protocol error{}", Reason(.0))]
    Protocol(String),
    /// The peer cancelled the exchange on this stream. The session continues.
    #[error("cancelled by the peer")]
    Cancelled,
    /// The network or the host has failed permanently.
    #[error("network failure{}", Reason(.0))]
    Network(String),
}

struct Reason<'a>(&'a String);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

impl CloseReason {
    /// Returns whether the session ended without loss of data that either side had sent.
    #[must_use]
    pub fn is_graceful(&self) -> bool {
        *self == Self::Finished
    }

    /// Returns the error kind of the standard library that corresponds to this reason.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Finished => io::ErrorKind::UnexpectedEof,
            Self::Aborted => io::ErrorKind::ConnectionAborted,
            Self::Reset(_) | Self::Cancelled => io::ErrorKind::ConnectionReset,
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::TimedOut(_) => io::ErrorKind::TimedOut,
            Self::Untrusted(_) => io::ErrorKind::PermissionDenied,
            Self::Protocol(_) => io::ErrorKind::InvalidData,
            Self::Network(_) => io::ErrorKind::NetworkUnreachable,
        }
    }
}

impl From<CloseReason> for io::Error {
    fn from(reason: CloseReason) -> Self {
        Self::new(reason.kind(), reason)
    }
}

/// The number of a stream within its session.
pub type StreamId = u64;

/// The bit that is set in the stream numbers of unidirectional streams. Unidirectional and bidirectional streams are
/// counted separately.
pub const ONE_WAY: StreamId = 1 << 62;

/// The reason why a stream cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The session has no stream with this number.
    #[error("there is no stream {number}: the session has {streams}, counted from 0")]
    NoSuchStream {
        /// The number of the requested stream.
        number: StreamId,
        /// The number of streams that the session has.
        streams: u64,
    },
    /// Another handle of the stream exists.
    #[error("stream {0} is open already")]
    AlreadyOpen(StreamId),
    /// The session has ended.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// A connection or an association. A clone is another handle of the same session. When the last handle of a session and
/// of its streams is dropped, the session is closed gracefully.
pub trait Session: Clone + 'static {
    /// The type of the streams of this session.
    type Stream: Stream;

    /// Returns the transport port of the side that started the session. The number is the same at both ends, and is the
    /// session's key in the traces of engines.
    fn id(&self) -> u64;

    /// Returns one of the peer's addresses; `None` if none is known.
    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    /// Returns the application protocol that the two ends have negotiated (ALPN, RFC 7301), if a layer supports this.
    /// The result is known once the session is established.
    fn protocol(&self) -> Option<Vec<u8>> {
        None
    }

    /// Ready once the handshake is done, or once the session has ended.
    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>>;

    /// Returns whether the transport below a layer such as TLS is established, although the handshake of the layer may
    /// not be done. A session without such a layer returns false.
    fn is_transport_established(&self) -> bool {
        false
    }

    /// Returns whether the transport can send data during the handshake (in SCTP, DATA bundled with the COOKIE ECHO).
    /// If so, a client saves time when it writes its data before the handshake is done.
    fn early_data(&self) -> bool {
        false
    }

    /// Returns the number of stream pairs: streams that exist in both directions. Before the session is established,
    /// this is the number that this side requests. Afterwards it is the number to which both sides have agreed, which
    /// may be less. In that case, data written during the handshake on streams with higher numbers is lost. The default
    /// is one stream pair.
    fn streams(&self) -> u64 {
        1
    }

    /// Returns whether each exchange has a fresh stream, whose number is never used again. The numbers are 0, 1, 2 and
    /// so on, in the order in which the client starts the streams. With fresh streams, [`streams`](Self::streams) is
    /// the number of streams that may be open at the same time.
    fn fresh_streams(&self) -> bool {
        false
    }

    /// Requests `more` additional stream pairs, if the transport can add them to a session (SCTP with re-configuration,
    /// RFC 6525). [`poll_streams_added`](Self::poll_streams_added) returns the result.
    fn request_streams(&self, more: u64) {
        let _ = more;
    }

    /// Ready when no request for additional streams is in progress. Returns the number of stream pairs that the session
    /// then has.
    fn poll_streams_added(&self, cx: &mut Context<'_>) -> Poll<u64> {
        let _ = cx;
        Poll::Ready(self.streams())
    }

    /// Opens the stream with the number `number`.
    ///
    /// # Errors
    /// [`OpenError`] if the session has no such stream or has ended, or if another handle of the stream exists.
    fn open(&self, number: StreamId) -> Result<Self::Stream, OpenError>;

    /// Starts an unused stream, in both directions or, if `one_way` is set, only to the peer. Ready when the peer's
    /// limit permits one more stream. Fails if the session's streams have fixed numbers, that is, if they are not
    /// [`Streams::Fresh`](crate::Streams).
    fn poll_begin(&self, cx: &mut Context<'_>, one_way: bool) -> Poll<Result<Self::Stream, OpenError>> {
        let (_, streams) = ((cx, one_way), self.streams());
        Poll::Ready(Err(OpenError::NoSuchStream { number: streams, streams }))
    }

    /// Accepts the next one-way stream that the peer has started.
    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Stream, CloseReason>> {
        let _ = cx;
        Poll::Pending
    }

    /// Accepts the next stream on which the peer has sent data and of which no handle exists. In TCP, the only stream
    /// is ready as soon as the connection is established.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Stream, CloseReason>>;

    /// Ready when the session has ended.
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason>;

    /// Returns the number of written bytes that the peer's transport has not acknowledged. While this number falls, the
    /// peer is receiving data, however slowly.
    fn unacknowledged(&self) -> u64;

    /// Closes the session gracefully: data that was written is delivered first. The method returns immediately; wait
    /// for the end of the session with [`closed`](Self::closed).
    fn close(&self);

    /// Aborts the session.
    fn abort(&self);

    /// Aborts the session. Sends a code and a reason to the peer's application, if the transport can carry them
    /// (RFC 9000 §19.19).
    fn close_with(&self, code: u64, reason: &str) {
        let _ = (code, reason);
        self.abort();
    }

    /// Limits the session's send buffer. Beyond the data that the congestion window permits to be sent, the buffer
    /// accepts at most `bytes` bytes from all streams together. Data written later then waits behind at most `bytes`
    /// bytes. Does nothing if the transport has no limit of this kind.
    fn limit_unsent(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Returns the state of loss recovery and congestion control; `None` if it is not known.
    fn figures(&self) -> Option<Figures> {
        None
    }

    /// Returns the name of the congestion control that a kernel has chosen for the session; `None` if no kernel runs
    /// the session.
    fn congestion(&self) -> Option<String> {
        None
    }

    /// Returns whether the session uses Multipath TCP; `None` if Multipath TCP was not requested.
    fn is_multipath(&self) -> Option<bool> {
        None
    }

    /// Waits until the handshake is done.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn established(&self) -> Result<(), CloseReason> {
        poll_fn(|cx| self.poll_established(cx)).await
    }

    /// Waits until no request for additional streams is in progress. Returns the number of stream pairs that the
    /// session then has.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn streams_added(&self) -> u64 {
        poll_fn(|cx| self.poll_streams_added(cx)).await
    }

    /// Waits for a stream on which the peer has sent data, and accepts the stream.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn accept(&self) -> Result<Self::Stream, CloseReason> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Waits for the end of the session and returns the reason.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn closed(&self) -> CloseReason {
        poll_fn(|cx| self.poll_closed(cx)).await
    }
}

/// How messages are delivered, if the transport offers a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Whether messages are delivered regardless of their order in the stream (RFC 9260 §6.6).
    pub unordered: bool,
    /// How long, or how often, a message is sent before it is abandoned (RFC 3758, RFC 7496).
    pub reliability: Reliability,
    /// Whether the data of other streams is sent before the data of this stream, if the transport's scheduler has
    /// priorities (RFC 8260 §3.4).
    pub background: bool,
}

/// A sequence of bytes in each direction. Dropping a stream makes its number available again. The session continues as
/// long as a handle of the session or of one of its streams exists.
pub trait Stream: 'static {
    /// Returns the number of the stream in its session, counted from 0.
    fn number(&self) -> StreamId;

    /// Returns the number of bytes read on this stream since the session started. After a [`reset`](Self::reset), the
    /// receiver's count and the sender's [`bytes_written`](Self::bytes_written) both continue at the next multiple of
    /// 2^32. The two counts therefore agree, although neither end knows how many bytes in flight were cancelled.
    fn bytes_read(&self) -> u64;

    /// Returns the number of bytes written on this stream since the session started. A [`reset`](Self::reset) of the
    /// stream advances the count to the next multiple of 2^32.
    fn bytes_written(&self) -> u64;

    /// Returns the number of unacknowledged bytes in the whole session ([`Session::unacknowledged`]), for code that has
    /// only the stream; 0 if unknown.
    fn unacknowledged(&self) -> u64 {
        0
    }

    /// Reads data that has arrived, at most `into.len()` bytes. A result of 0 means the end of the stream, or an empty
    /// `into`.
    ///
    /// # Errors
    /// The session ended before the stream ended.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>>;

    /// Like [`poll_read`](Self::poll_read), but stops at the end of a message if the transport has messages. The flag
    /// in the result is true if a message ends with the returned bytes. The peer may abandon a message after part of it
    /// was read: the result is then 0 bytes with the flag set.
    ///
    /// # Errors
    /// The session ended before the stream ended.
    fn poll_read_message(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<(usize, bool), CloseReason>> {
        self.poll_read(cx, into).map_ok(|read| (read, false))
    }

    /// Writes at least one byte, and as many as there is room for. A transport with messages splits the data so that no
    /// message blocks other streams. Without interleaving (RFC 8260), each message therefore fits into one packet.
    ///
    /// # Errors
    /// The session has ended or is ending.
    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>>;

    /// Like [`poll_write`](Self::poll_write), but the transport may share the memory of `from` and need not copy it.
    /// Removes the bytes written from `from`.
    ///
    /// # Errors
    /// The errors of [`poll_write`](Self::poll_write).
    fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Bytes,
    ) -> Poll<Result<usize, CloseReason>> {
        let written = self.poll_write(cx, from);
        if let Poll::Ready(Ok(taken)) = written {
            from.advance(taken);
        }
        written
    }

    /// Like [`poll_read`](Self::poll_read), but may return memory that the transport or the sender shares. Returns at
    /// most `most` bytes. No bytes mean the end of the stream, or a `most` of 0.
    ///
    /// # Errors
    /// The errors of [`poll_read`](Self::poll_read).
    fn poll_read_bytes(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<Result<SharedBytes, CloseReason>> {
        let mut buffer = vec![0; most.min(COPIED_AT_ONCE)];
        self.poll_read(cx, &mut buffer).map_ok(|read| {
            buffer.truncate(read);
            buffer.into()
        })
    }

    /// Writes the data of several slices, one after the other. The data is sent together if the transport supports
    /// this.
    ///
    /// # Errors
    /// The errors of [`poll_write`](Self::poll_write).
    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize, CloseReason>> {
        let mut taken = 0;
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                match self.poll_write(cx, rest) {
                    Poll::Ready(Ok(n)) => {
                        taken += n;
                        rest = &rest[n..];
                    }
                    // This call reports the bytes that the stream has accepted. The next call reports the error.
                    _ if taken > 0 => return Poll::Ready(Ok(taken)),
                    end => return end,
                }
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// Writes `message` as one user message if the transport has messages. The result is pending until there is room
    /// for the whole message. A transport without messages writes as [`poll_write`](Self::poll_write) does.
    ///
    /// # Errors
    /// The session has ended, or the message is larger than the transport can ever take.
    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>> {
        self.poll_write(cx, message)
    }

    /// Writes one or more messages of `size` bytes each from the slice `from`, which contains them without gaps. The
    /// first message is always written. The following messages are written as far as there is room for them, if the
    /// transport supports this.
    ///
    /// # Errors
    /// The errors of [`poll_write_message`](Self::poll_write_message).
    fn poll_write_messages(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
        size: usize,
    ) -> Poll<Result<usize, CloseReason>> {
        self.poll_write_message(cx, &from[..size.min(from.len())])
    }

    /// Sets the order, the reliability and the priority of messages that are written from now on with
    /// [`poll_write_message`](Self::poll_write_message). Does nothing if the transport offers no choice, as in TCP,
    /// where all bytes arrive in order. For all transports, a reader that uses [`poll_read`](Self::poll_read) cannot
    /// tell whether a message was abandoned, not even after it has read a part of the message. A message that may be
    /// abandoned should therefore contain its length or an end mark.
    fn set_delivery(&mut self, delivery: Delivery) {
        let _ = delivery;
    }

    /// Resets the stream in both directions. This cancels the exchange on the stream. Another exchange can use the
    /// stream afterwards. Unsent data is dropped, and the peer is requested to drop its unsent data. At the peer, reads
    /// and writes on the stream fail with [`CloseReason::Cancelled`]. Returns false, without any effect, if the
    /// transport cannot reset streams (TCP; SCTP without re-configuration, RFC 6525).
    ///
    /// Until [`poll_reset`](Self::poll_reset) is ready, reads return bytes that the peer sent before the peer reset its
    /// direction. Some of these bytes may be missing.
    fn reset(&mut self) -> bool {
        false
    }

    /// Ready when no reset of the stream is in progress. The result is true if the stream has been reset in both
    /// directions. The result is false if the peer has refused it, the session has ended, or no reset was requested.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let _ = cx;
        Poll::Ready(false)
    }

    /// Sets the rank of the stream. Data on streams with a lower rank is sent first, and streams with the same rank
    /// take turns. Does nothing if the transport cannot order the data that it sends.
    fn set_rank(&mut self, rank: u32) {
        let _ = rank;
    }

    /// Cancels the direction in which this side writes, if the transport can cancel a single direction (RFC 9000
    /// §19.4). Unsent data is dropped, lost data need not be retransmitted, and the peer's reads fail with
    /// [`CloseReason::Cancelled`].
    fn cancel_writing(&mut self, code: u64) {
        let _ = code;
    }

    /// Cancels the direction in which this side reads: the peer is asked to stop sending (RFC 9000 §19.5). Does nothing
    /// if the transport cannot cancel a single direction.
    fn cancel_reading(&mut self, code: u64) {
        let _ = code;
    }

    /// Returns the code with which the peer has cancelled one direction: the reading direction of this side if
    /// `reading` is set, otherwise its writing direction. `None` if the peer has not cancelled that direction.
    fn cancel_code(&self, reading: bool) -> Option<u64> {
        let _ = reading;
        None
    }

    /// Ready, with the code, when the peer has cancelled the direction in which this side writes (RFC 9000 §19.5). May
    /// stay pending if the transport cannot cancel a single direction, or while a read of the same stream waits.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        let _ = cx;
        Poll::Pending
    }

    /// Marks the end of the data that this side writes. After the last byte, the peer reads the end of the stream. A
    /// transport without half-close (SCTP) sends nothing, and the peer does not learn of the end.
    fn finish(&mut self);

    /// Returns whether a side can end its direction with [`finish`](Self::finish) while the session continues, as in
    /// TCP. The other side learns where the data ends.
    fn supports_half_close(&self) -> bool {
        false
    }

    /// Reads data that has arrived. Waits if there is none.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn read(&mut self, into: &mut [u8]) -> Result<usize, CloseReason>
    where
        Self: Sized,
    {
        poll_fn(|cx| self.poll_read(cx, into)).await
    }

    /// Writes some bytes of the slice `from` and returns their number. Waits for room.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn write(&mut self, from: &[u8]) -> Result<usize, CloseReason>
    where
        Self: Sized,
    {
        poll_fn(|cx| self.poll_write(cx, from)).await
    }

    /// Writes the whole slice `from`. If the future is dropped before it is ready, the growth of
    /// [`bytes_written`](Self::bytes_written) is the number of bytes of `from` that were written.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn write_all(&mut self, mut from: &[u8]) -> Result<(), CloseReason>
    where
        Self: Sized,
    {
        while !from.is_empty() {
            let taken = self.write(from).await?;
            from = &from[taken..];
        }
        Ok(())
    }

    /// Writes all of `from`, whose memory the transport may share.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn write_all_bytes(&mut self, mut from: Bytes) -> Result<(), CloseReason>
    where
        Self: Sized,
    {
        while !from.is_empty() {
            poll_fn(|cx| self.poll_write_bytes(cx, &mut from)).await?;
        }
        Ok(())
    }

    /// Reads data that has arrived, in memory that the transport may share. Waits if there is none.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn read_bytes(&mut self, most: usize) -> Result<SharedBytes, CloseReason>
    where
        Self: Sized,
    {
        poll_fn(|cx| self.poll_read_bytes(cx, most)).await
    }

    /// Writes all of `message`, as one user message if the transport has messages.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn write_message(&mut self, mut message: &[u8]) -> Result<(), CloseReason>
    where
        Self: Sized,
    {
        while !message.is_empty() {
            let taken = poll_fn(|cx| self.poll_write_message(cx, message)).await?;
            message = &message[taken..];
        }
        Ok(())
    }
}

/// The maximum number of bytes that [`Stream::poll_read_bytes`] copies at once.
const COPIED_AT_ONCE: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Only `Finished` is a graceful end. With all other reasons, data may be missing.
    #[test]
    fn only_a_finished_session_has_lost_nothing() {
        assert!(CloseReason::Finished.is_graceful());
        let others = [CloseReason::Aborted, CloseReason::Refused, CloseReason::Cancelled];
        assert!(others.iter().all(|reason| !reason.is_graceful()));
        assert!(!CloseReason::Reset(String::new()).is_graceful());
    }
}
