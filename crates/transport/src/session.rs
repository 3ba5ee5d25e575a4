//! The interface to applications: sessions and the streams in them.
//!
//! A [`Session`] is a connection or an association; a [`Stream`] is a two-way sequence of bytes in it. Streams have
//! 64-bit numbers, which a transport assigns in one of three ways ([`Streams`](crate::Streams)). TCP has one stream,
//! number 0. SCTP has reusable numbers, where stream *a* of one direction is paired with stream *a* of the other. QUIC
//! has a fresh number for each exchange. All waits are polls that register a waker and change nothing while they are
//! pending, so the async forms may be dropped at any await.

use anabranch_sctp::Reliability;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// Why a session ended. Every wait on a session or stream that has ended
/// returns one of these.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloseReason {
    /// Both sides finished gracefully.
    #[error("closed in good order")]
    Finished,
    /// We aborted it.
    #[error("aborted here")]
    Aborted,
    /// The peer aborted it (TCP RST, SCTP ABORT); the text is the reason that the peer gave.
    #[error("reset by the peer{}", Reason(.0))]
    Reset(String),
    /// Nothing listens on that port.
    #[error("connection refused: nothing listens there")]
    Refused,
    /// The peer did not answer within the engine's retransmission limits.
    #[error("the peer stopped answering{}", Reason(.0))]
    TimedOut(String),
    /// The peer could not prove its identity; no application data was sent.
    #[error("not trusted{}", Reason(.0))]
    Untrusted(String),
    /// The peer broke the protocol, or lacks a feature that is needed.
    #[error("protocol error{}", Reason(.0))]
    Protocol(String),
    /// The peer cancelled the exchange on this stream; the session continues.
    #[error("cancelled by the peer")]
    Cancelled,
    /// The network or the host failed permanently.
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
    /// Whether the session ended without loss of any data that either side had sent.
    #[must_use]
    pub fn is_graceful(&self) -> bool {
        *self == Self::Finished
    }

    /// The standard library's error kind for this reason.
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

/// The bit that is set in the number of one-way streams, which are counted apart from two-way streams.
pub const ONE_WAY: StreamId = 1 << 62;

/// Why a stream cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The session has no stream of that number.
    #[error("there is no stream {number}: the session has {streams}, counted from 0")]
    NoSuchStream {
        /// The number asked for.
        number: StreamId,
        /// The number of streams of the session.
        streams: u64,
    },
    /// Another handle holds that stream.
    #[error("stream {0} is open already")]
    AlreadyOpen(StreamId),
    /// The session has ended.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// A connection or association. A clone is another handle of the same session; when the
/// last handle of a session and of its streams is dropped the session is closed gracefully.
pub trait Session: Clone + 'static {
    /// A stream of this session.
    type Stream: Stream;

    /// The initiator's transport port: the same at both ends, and the session's key in
    /// the engines' traces.
    fn id(&self) -> u64;

    /// An address of the peer, if known.
    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    /// The application protocol that the two ends negotiated (ALPN, RFC 7301), if a layer offers that; known once
    /// established.
    fn protocol(&self) -> Option<Vec<u8>> {
        None
    }

    /// Ready once the handshake is done, or the session has ended.
    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>>;

    /// Whether data written before the handshake is done is sent with it (in SCTP,
    /// DATA bundled with COOKIE ECHO). If so, a client gains by not waiting.
    fn early_data(&self) -> bool;

    /// The number of usable stream pairs. Before the session is established, it is the number asked for in both
    /// directions; afterwards, the number that the peer grants in both. That can be less; data written before on streams
    /// beyond it is lost.
    fn streams(&self) -> u64;

    /// Whether each exchange has a fresh stream, whose number is never reused: 0, 1, 2 and so on, as the client begins
    /// them. Then [`streams`](Self::streams) is the number that may be open at a time.
    fn fresh_streams(&self) -> bool {
        false
    }

    /// Asks for `more` stream pairs, if the transport can add them to a session
    /// (SCTP with re-configuration, RFC 6525). [`poll_grown`](Self::poll_grown)
    /// returns the result.
    fn grow(&self, more: u64);

    /// Ready with the number of stream pairs when no request to add streams is under way.
    fn poll_grown(&self, cx: &mut Context<'_>) -> Poll<u64>;

    /// Opens the stream of this number.
    ///
    /// # Errors
    /// [`OpenError`] when there is none, it is held already, or the session has ended.
    fn open(&self, number: StreamId) -> Result<Self::Stream, OpenError>;

    /// Begins an unused stream, in both directions or only to the peer (`one_way`); ready when the peer's limit allows
    /// one more. Fails in a session whose streams are not fresh ([`Streams::Fresh`](crate::Streams)).
    fn poll_begin(&self, cx: &mut Context<'_>, one_way: bool) -> Poll<Result<Self::Stream, OpenError>> {
        let (_, streams) = ((cx, one_way), self.streams());
        Poll::Ready(Err(OpenError::NoSuchStream { number: streams, streams }))
    }

    /// Accepts the next one-way stream that the peer has begun.
    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Stream, CloseReason>> {
        let _ = cx;
        Poll::Pending
    }

    /// Accepts the next stream on which the peer has sent something and which nobody
    /// on this side holds. On TCP the one stream is ready as soon as the connection is.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Stream, CloseReason>>;

    /// Ready when the session has ended.
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason>;

    /// The number of bytes that were written and that the peer's transport has not acknowledged, as far as this side
    /// knows. While it falls, the peer is receiving data, however slowly.
    fn unacknowledged(&self) -> u64;

    /// Closes the session gracefully: data that was written is delivered first.
    /// Returns at once; wait with [`closed`](Self::closed).
    fn close(&self);

    /// Aborts the session.
    fn abort(&self);

    /// Aborts the session with a code and a reason for the peer's application, if the transport carries them (RFC 9000
    /// §19.19).
    fn close_with(&self, code: u64, reason: &str) {
        let _ = (code, reason);
        self.abort();
    }

    /// Limits the data that streams accept to what the network takes next plus `bytes`, so that data written later waits
    /// for no more than that. Does nothing if the transport cannot do so.
    fn limit_unsent(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Waits for the handshake.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn established(&self) -> Result<(), CloseReason> {
        poll_fn(|cx| self.poll_established(cx)).await
    }

    /// Waits for the result of a request to add streams; returns the number of stream pairs.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn grown(&self) -> u64 {
        poll_fn(|cx| self.poll_grown(cx)).await
    }

    /// Waits for a stream on which the peer has sent something.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn accept(&self) -> Result<Self::Stream, CloseReason> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Waits for the end of the session.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn closed(&self) -> CloseReason {
        poll_fn(|cx| self.poll_closed(cx)).await
    }
}

/// How messages are delivered, if the transport has a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Regardless of their order in the stream (RFC 9260 §6.6).
    pub unordered: bool,
    /// How long, or how often, they are sent (RFC 3758, RFC 7496).
    pub reliability: Reliability,
    /// Data of other streams is sent first, if the transport's scheduler has priorities (RFC 8260 §3.4).
    pub background: bool,
}

/// Bytes in both directions, in order. Dropping a stream makes its number available
/// again; it does not end the session while another handle lives.
pub trait Stream: 'static {
    /// Its number in the session, counted from 0.
    fn number(&self) -> StreamId;

    /// The number of bytes read on this stream since the session began. After a
    /// [`reset`](Self::reset) the count continues at the next multiple of 2^32 at both
    /// ends, so neither needs to know how many bytes were cancelled in flight.
    fn bytes_read(&self) -> u64;

    /// The number of bytes written on this stream since the session began; after a
    /// reset it continues at the next multiple of 2^32.
    fn bytes_written(&self) -> u64;

    /// The unacknowledged bytes of the whole session ([`Session::unacknowledged`]), for code that holds only the stream;
    /// 0 if unknown.
    fn unacknowledged(&self) -> u64 {
        0
    }

    /// Reads data that has arrived, at most `into.len()` bytes; 0 is the end of the
    /// stream (or an empty `into`).
    ///
    /// # Errors
    /// The session ended before the stream did.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>>;

    /// As [`poll_read`](Self::poll_read), but stops at the end of a message if the transport has messages. The flag says
    /// whether a message ends with the returned bytes. If the peer abandons a message of which a part was read, the rest
    /// is reported as an end with no bytes.
    ///
    /// # Errors
    /// The session ended before the stream did.
    fn poll_read_message(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<(usize, bool), CloseReason>> {
        self.poll_read(cx, into).map_ok(|read| (read, false))
    }

    /// Writes at least one byte, and as many as there is room for. If the transport
    /// has messages, the data is cut into messages of at most one packet each, so that
    /// no write keeps other streams from sending.
    ///
    /// # Errors
    /// The session has ended or is ending.
    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>>;

    /// Writes several slices, one after the other; they are sent together if the
    /// transport can do so.
    ///
    /// # Errors
    /// As [`poll_write`](Self::poll_write).
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
                    // Report the bytes that were taken first; the next call reports the error.
                    _ if taken > 0 => return Poll::Ready(Ok(taken)),
                    end => return end,
                }
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// Writes `message` as one user message if the transport has messages (all of it
    /// or, when pending, none); else as [`poll_write`](Self::poll_write).
    ///
    /// # Errors
    /// The session has ended, or the message is larger than the transport can ever take.
    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>>;

    /// Writes messages of `size` bytes each that lie back to back in `from`. Writes the first and, if the transport can,
    /// as many of the following ones as there is room for. Else as [`poll_write_message`](Self::poll_write_message).
    ///
    /// # Errors
    /// As `poll_write_message`.
    fn poll_write_messages(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
        size: usize,
    ) -> Poll<Result<usize, CloseReason>> {
        self.poll_write_message(cx, &from[..size.min(from.len())])
    }

    /// Sets how messages that are written from now on ([`poll_write_message`](Self::poll_write_message)) are delivered.
    /// Does nothing if the transport has no choice (TCP): all bytes arrive, in order. A writer that lets messages be
    /// abandoned should write whole messages that mark their own end: the reader sees no gap.
    fn set_delivery(&mut self, delivery: Delivery) {
        let _ = delivery;
    }

    /// Resets the stream in both directions, which cancels the exchange on it and lets
    /// another use it. Unsent data is dropped, and the peer is asked to do the same; the
    /// holder of the stream there reads and writes [`CloseReason::Cancelled`]. Bytes read
    /// until [`poll_reset`](Self::poll_reset) is ready were sent before the reset and may
    /// have gaps. Returns false, without any effect, if the transport cannot reset streams
    /// (TCP; SCTP without re-configuration, RFC 6525).
    fn reset(&mut self) -> bool {
        false
    }

    /// Ready when no reset is under way: true when the stream has been reset in both
    /// directions, false when the peer has refused.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let _ = cx;
        Poll::Ready(false)
    }

    /// Sets the stream's rank: data on streams of a lower rank is sent first, and streams of the same rank take turns.
    /// Does nothing if the transport cannot order its send queue.
    fn set_rank(&mut self, rank: u32) {
        let _ = rank;
    }

    /// Cancels the direction we write, if the transport can cancel one direction (RFC 9000 §19.4). Unsent data is
    /// dropped, lost data need not be sent again, and the peer reads [`CloseReason::Cancelled`].
    fn cancel_writing(&mut self, code: u64) {
        let _ = code;
    }

    /// Cancels the direction we read: the peer is asked to stop sending, if the transport can cancel one direction
    /// (RFC 9000 §19.5).
    fn cancel_reading(&mut self, code: u64) {
        let _ = code;
    }

    /// The code with which the peer has cancelled the direction we read (`reading`) or the one we write.
    fn cancel_code(&self, reading: bool) -> Option<u64> {
        let _ = reading;
        None
    }

    /// Ready, with the code, when the peer has cancelled what we write (RFC 9000 §19.5). May stay pending if the
    /// transport cannot cancel one direction, or while a read of the same stream waits.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        let _ = cx;
        Poll::Pending
    }

    /// Marks the end of what we write: the peer reads the end of the stream after the
    /// last byte. A transport without half-close (SCTP) sends nothing for it.
    fn finish(&mut self);

    /// Whether each side learns where the other's data ends ([`finish`](Self::finish)) without the end of the session, as
    /// in TCP.
    fn half_closes(&self) -> bool {
        false
    }

    /// Reads data that has arrived; waits if there is none.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn read(&mut self, into: &mut [u8]) -> Result<usize, CloseReason>
    where
        Self: Sized,
    {
        poll_fn(|cx| self.poll_read(cx, into)).await
    }

    /// Writes some of `from`; waits for room.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn write(&mut self, from: &[u8]) -> Result<usize, CloseReason>
    where
        Self: Sized,
    {
        poll_fn(|cx| self.poll_write(cx, from)).await
    }

    /// Writes all of `from`. If the future is dropped early, [`bytes_written`](Self::bytes_written) says how much was
    /// written.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// After any other reason than `Finished`, data may be missing.
    #[test]
    fn only_a_finished_session_has_lost_nothing() {
        assert!(CloseReason::Finished.is_graceful());
        let others = [CloseReason::Aborted, CloseReason::Refused, CloseReason::Cancelled];
        assert!(others.iter().all(|reason| !reason.is_graceful()));
        assert!(!CloseReason::Reset(String::new()).is_graceful());
    }
}
