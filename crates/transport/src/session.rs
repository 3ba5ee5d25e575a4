//! What an application holds: sessions and the streams in them.
//!
//! A [`Session`] is a connection or an association; a [`Stream`] is a two-way
//! sequence of bytes in it. Streams are named by 64-bit identities, which
//! [`Streams`](crate::Streams) says of a transport: one, number 0 (TCP);
//! numbers that are used again, where stream *a* of one direction is paired
//! with stream *a* of the other (SCTP); or a fresh one each time (QUIC).
//! Everything is built on polls that register a waker and change nothing while
//! they are pending, so the async forms may be dropped at any await.

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
    /// Both sides finished in good order.
    #[error("closed in good order")]
    Finished,
    /// We ended it at once.
    #[error("aborted here")]
    Aborted,
    /// The peer ended it at once (TCP RST, SCTP ABORT); the text says what it gave as its reason.
    #[error("reset by the peer{}", Reason(.0))]
    Reset(String),
    /// Nobody listens there.
    #[error("connection refused: nothing listens there")]
    Refused,
    /// The peer did not answer within the limits of the engine's retransmission.
    #[error("the peer stopped answering{}", Reason(.0))]
    TimedOut(String),
    /// The peer could not show that it is who it should be: nothing was sent.
    #[error("not trusted{}", Reason(.0))]
    Untrusted(String),
    /// The peer broke the protocol, or cannot do what is needed.
    #[error("protocol error{}", Reason(.0))]
    Protocol(String),
    /// The peer cancelled what was under way on this stream; the session lives on.
    #[error("cancelled by the peer")]
    Cancelled,
    /// The network or the host failed for good.
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
    /// The session ended without loss of anything either side had sent.
    #[must_use]
    pub fn is_graceful(&self) -> bool {
        *self == Self::Finished
    }

    /// The kind that the standard library gives such an end.
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

/// The name of a stream within its session.
pub type StreamId = u64;

/// Streams that carry bytes to one end alone have this bit in their number: they are counted apart from the others.
pub const ONE_WAY: StreamId = 1 << 62;

/// Why a stream cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The session has no stream of that number.
    #[error("there is no stream {number}: the session has {streams}, counted from 0")]
    NoSuchStream {
        /// The number asked for.
        number: StreamId,
        /// How many there are.
        streams: u64,
    },
    /// Somebody holds that stream already.
    #[error("stream {0} is open already")]
    AlreadyOpen(StreamId),
    /// The session has ended.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// A connection or association. A clone is another handle of the same session;
/// when the last handle of a session and of its streams is dropped the session
/// is closed in good order.
pub trait Session: Clone + 'static {
    /// A stream of this session.
    type Stream: Stream;

    /// The initiator's transport port: the same at both ends, and the key of
    /// the engines' traces.
    fn id(&self) -> u64;

    /// An address of the peer, where it can be told.
    fn peer(&self) -> Option<SocketAddr> {
        None
    }

    /// What the two ends have agreed to speak on it (ALPN, RFC 7301), where a layer lets them; known once established.
    fn protocol(&self) -> Option<Vec<u8>> {
        None
    }

    /// Ready once the handshake is done, or the session has ended.
    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>>;

    /// What is written before the handshake is done rides with it (SCTP's DATA
    /// with COOKIE ECHO), so a client gains by not waiting.
    fn early_data(&self) -> bool;

    /// How many stream pairs can be used: what is asked for in both directions, and
    /// once established what the peer grants in both. That can be less, and what
    /// was written before on streams beyond is lost.
    fn streams(&self) -> u64;

    /// Each exchange has a fresh stream, whose number never comes back: 0, 1, 2 and so on, as the client begins them; and
    /// [`streams`](Self::streams) says how many there may be at a time.
    fn fresh_streams(&self) -> bool {
        false
    }

    /// Asks for `more` stream pairs, where the transport can add them to a
    /// session (SCTP with re-configuration, RFC 6525). What comes of it is told
    /// by [`poll_grown`](Self::poll_grown).
    fn grow(&self, more: u64);

    /// Ready, with the number of stream pairs, when no growth is under way (any more).
    fn poll_grown(&self, cx: &mut Context<'_>) -> Poll<u64>;

    /// Takes the stream of this number.
    ///
    /// # Errors
    /// [`OpenError`] when there is none, it is held already, or the session has ended.
    fn open(&self, number: StreamId) -> Result<Self::Stream, OpenError>;

    /// Begins a stream that nobody has used, both ways or `one_way` to the peer; ready when the peer lets there be one
    /// more. A session whose streams are not fresh ([`Streams::Fresh`](crate::Streams)) has none.
    fn poll_begin(&self, cx: &mut Context<'_>, one_way: bool) -> Poll<Result<Self::Stream, OpenError>> {
        let (_, streams) = ((cx, one_way), self.streams());
        Poll::Ready(Err(OpenError::NoSuchStream { number: streams, streams }))
    }

    /// The next stream that the peer has begun and that carries its bytes alone.
    fn poll_accept_one_way(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Stream, CloseReason>> {
        let _ = cx;
        Poll::Pending
    }

    /// The next stream on which the peer has sent something and which nobody
    /// here holds. On TCP the one stream is ready as soon as the connection is.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<Self::Stream, CloseReason>>;

    /// Ready when the session has ended.
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason>;

    /// Bytes that were written and that the peer's transport has not acknowledged, as far as this side knows. While
    /// they become fewer the peer takes what it is sent, however slowly.
    fn unacknowledged(&self) -> u64;

    /// Ends the session in good order: what was written is delivered first.
    /// Returns at once; wait with [`closed`](Self::closed).
    fn close(&self);

    /// Ends the session at once.
    fn abort(&self);

    /// Ends the session at once, and tells the peer's application why, where the transport carries that (RFC 9000 §19.19).
    fn close_with(&self, code: u64, reason: &str) {
        let _ = (code, reason);
        self.abort();
    }

    /// Has streams take no more than what the network takes next and `bytes` beyond it, so that what is written later waits
    /// for no more than that. Where the transport cannot do so, nothing changes.
    fn limit_unsent(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Waits for the handshake.
    #[expect(async_fn_in_trait, reason = "worlds are single-threaded: no bound on the futures is wanted")]
    async fn established(&self) -> Result<(), CloseReason> {
        poll_fn(|cx| self.poll_established(cx)).await
    }

    /// Waits for the end of a growth; how many stream pairs there are then.
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

/// How messages are delivered, where a transport has a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Without regard to the order of the stream (RFC 9260 §6.6).
    pub unordered: bool,
    /// Until when, or how often they are sent (RFC 3758, RFC 7496).
    pub reliability: Reliability,
    /// What other streams have goes first, where the transport's scheduler knows of priorities (RFC 8260 §3.4).
    pub background: bool,
}

/// Bytes in both directions, in order. Dropping a stream gives its number back
/// to the session; it does not end the session while another handle lives.
pub trait Stream: 'static {
    /// Its number in the session, counted from 0.
    fn number(&self) -> StreamId;

    /// Bytes taken from the peer on this stream since the session began. After a
    /// [`reset`](Self::reset) the count goes on at the next multiple of 2^32, as
    /// the peer's does: what was cancelled on the way need not be known.
    fn bytes_read(&self) -> u64;

    /// Bytes given to the peer on this stream since the session began; after a
    /// reset from the next multiple of 2^32.
    fn bytes_written(&self) -> u64;

    /// What of its whole session is not acknowledged ([`Session::unacknowledged`]), for who holds but the stream;
    /// 0 where that is not known.
    fn unacknowledged(&self) -> u64 {
        0
    }

    /// Reads what has arrived, at most `into.len()` bytes; 0 is the end of the
    /// stream (or an empty `into`).
    ///
    /// # Errors
    /// The session ended before the stream did.
    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>>;

    /// As [`poll_read`](Self::poll_read), but at most to the end of one message where the transport knows messages; with
    /// the bytes comes whether one ends there. One of which a part was read, and which the peer has given up since, ends
    /// with no bytes.
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

    /// Writes at least one byte, as many as there is room for. Where the
    /// transport knows messages, one message of it carries at most one packet's
    /// worth, so that no write keeps others from the network.
    ///
    /// # Errors
    /// The session has ended or is ending.
    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>>;

    /// Writes from several slices, one after the other; where the transport can,
    /// they leave together.
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
                    // What was taken is told first.
                    _ if taken > 0 => return Poll::Ready(Ok(taken)),
                    end => return end,
                }
            }
        }
        Poll::Ready(Ok(taken))
    }

    /// Writes `message` as one user message where the transport knows messages
    /// (all of it or, when pending, none); else as [`poll_write`](Self::poll_write).
    ///
    /// # Errors
    /// The session has ended, or the message is larger than the transport can ever take.
    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>>;

    /// Writes messages of `size` bytes each that lie back to back in `from`: the
    /// first and, where the transport can, those behind it that there is room
    /// for. Else as [`poll_write_message`](Self::poll_write_message).
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

    /// How messages written from now on ([`poll_write_message`](Self::poll_write_message))
    /// are to be delivered. Where the transport has no choice (TCP) nothing
    /// changes: all bytes arrive, in order. Who gives messages up should write
    /// whole ones that tell where they end: the reader sees no gap.
    fn set_delivery(&mut self, delivery: Delivery) {
        let _ = delivery;
    }

    /// Resets the stream in both directions, which cancels the exchange on it and
    /// lets another use it: what was written and not sent is dropped, and the peer
    /// is asked to do the same; whoever holds the stream there reads and writes
    /// [`CloseReason::Cancelled`]. Bytes read until [`poll_reset`](Self::poll_reset)
    /// is ready were sent before, and may have gaps. False, without any effect,
    /// where the transport cannot do that (TCP; SCTP without re-configuration,
    /// RFC 6525).
    fn reset(&mut self) -> bool {
        false
    }

    /// Ready when no reset is under way (any more): true when the stream has
    /// been reset in both directions, false when the peer has refused.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let _ = cx;
        Poll::Ready(false)
    }

    /// What streams of a lower rank have goes first, and streams of one rank take turns, where the transport can order what
    /// waits to leave; else nothing changes.
    fn set_rank(&mut self, rank: u32) {
        let _ = rank;
    }

    /// What was written need not arrive any more, and nothing more is written: the peer reads
    /// [`CloseReason::Cancelled`], where the transport can cancel one direction (RFC 9000 §19.4).
    fn cancel_writing(&mut self, code: u64) {
        let _ = code;
    }

    /// Nothing more is read: the peer writes in vain, where the transport can cancel one direction (RFC 9000 §19.5).
    fn cancel_reading(&mut self, code: u64) {
        let _ = code;
    }

    /// The code with which the peer has cancelled what we read, or what we write.
    fn cancel_code(&self, reading: bool) -> Option<u64> {
        let _ = reading;
        None
    }

    /// Ready, with the code, when the peer has cancelled what we write (RFC 9000 §19.5). Where the transport cannot cancel one
    /// direction, or a read of the same stream is waiting, it may stay pending.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<u64> {
        let _ = cx;
        Poll::Pending
    }

    /// Nothing more will be written: the peer reads the end of the stream after
    /// the last byte. A transport without half-close (SCTP) does nothing on the wire.
    fn finish(&mut self);

    /// The peer is told where what we write ends ([`finish`](Self::finish)), and we where it ends, without the end of
    /// the session: TCP.
    fn half_closes(&self) -> bool {
        false
    }

    /// Reads what has arrived; waits when there is nothing.
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

    /// Writes all of `from`. When dropped half-way, [`bytes_written`](Self::bytes_written) tells how far it came.
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

    /// Writes all of `message`, as one user message where the transport knows messages.
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

    /// Whoever has read all there was need not ask again; of any other end something may be missing.
    #[test]
    fn only_a_finished_session_has_lost_nothing() {
        assert!(CloseReason::Finished.is_graceful());
        let others = [CloseReason::Aborted, CloseReason::Refused, CloseReason::Cancelled];
        assert!(others.iter().all(|reason| !reason.is_graceful()));
        assert!(!CloseReason::Reset(String::new()).is_graceful());
    }
}
