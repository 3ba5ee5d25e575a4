//! Reads, writes, cancels and releases the streams of a connection.
//!
//! Implements the parts of RFC 9000 §2 and §3 that quinn does not implement.

use super::{ConnectionEntry, Endpoint, Id, StreamEntry};
use anabranch_base::time::Instant;
use anabranch_transport::engine::WriteRefusal;
use anabranch_transport::{CloseReason, ONE_WAY};
use bytes::Bytes;
use quinn_proto::{Dir, ReadError, SendStream, Side, StreamId, VarInt, WriteError};

/// Returns the number that applications use for a stream. Bidirectional streams are numbered in the order in which the
/// client began them. Unidirectional streams have the bit `ONE_WAY` set. Their number is even if the client began them,
/// and odd if the server began them.
pub(super) fn number(stream_id: StreamId) -> u64 {
    match stream_id.dir() {
        Dir::Bi => stream_id.index(),
        Dir::Uni => ONE_WAY | stream_id.index() << 1 | u64::from(stream_id.initiator() == Side::Server),
    }
}

impl Endpoint {
    /// Reads from a stream. Returns the number of bytes read, and whether nothing is left to read for now.
    pub fn recv(&mut self, now: Instant, id: Id, stream: u64, into: &mut [u8]) -> (usize, bool) {
        let Some(entry) = self.connections.get_mut(&id) else { return (0, true) };
        let Some(stream_id) = entry.stream_id(stream, true) else { return (0, true) };
        let Some(open) = entry.open.get_mut(&stream) else { return (0, true) };
        if open.ended || open.reset.is_some() {
            return (0, true);
        }
        let mut recv = entry.connection.recv_stream(stream_id);
        let Ok(mut chunks) = recv.read(true) else { return (0, true) };
        let (mut read, mut dry) = (0, false);
        while read < into.len() {
            match chunks.next(into.len() - read) {
                Ok(Some(chunk)) => {
                    into[read..read + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    read += chunk.bytes.len();
                }
                Ok(None) => {
                    open.ended = true;
                    dry = true;
                    break;
                }
                Err(ReadError::Reset(code)) => {
                    open.reset = Some(code.into_inner());
                    dry = true;
                    break;
                }
                Err(ReadError::Blocked) => {
                    dry = true;
                    break;
                }
            }
        }
        // Reading has freed flow control credit. `settle` schedules a packet if quinn wants to announce the credit now.
        if chunks.finalize().should_transmit() {
            self.settle(now, id);
        }
        (read, dry)
    }

    /// Returns whether the peer has sent its last byte on the stream and all data has been read.
    #[must_use]
    pub fn is_finished(&self, id: Id, stream: u64) -> bool {
        // If the connection has been removed, data may be missing, so the stream does not count as finished.
        let Some(entry) = self.connections.get(&id) else { return false };
        entry.stream_id(stream, true).is_none() || entry.open.get(&stream).is_some_and(|open| open.ended)
    }

    /// Returns the code with which the peer has cancelled one direction of the stream: the direction that we read if
    /// `reading` is set, otherwise the direction that we write.
    #[must_use]
    pub fn cancel_code(&self, id: Id, stream: u64, reading: bool) -> Option<u64> {
        let open = self.connections.get(&id)?.open.get(&stream)?;
        if reading { open.reset } else { open.stopped }
    }

    /// Begins the next stream: unidirectional if `one_way` is set, otherwise bidirectional. Returns `None` while the
    /// peer's limit allows no further stream.
    ///
    /// # Errors
    /// If the connection has ended, or if a server tries to begin a bidirectional stream, which is not supported.
    pub fn begin_stream(&mut self, id: Id, one_way: bool) -> Result<Option<u64>, WriteRefusal> {
        let entry = self.connections.get_mut(&id).ok_or(WriteRefusal::Closed)?;
        let connection = &mut entry.connection;
        if connection.is_closed() || (connection.side().is_server() && !one_way) {
            return Err(WriteRefusal::Closed);
        }
        let Some(begun) = connection.streams().open(if one_way { Dir::Uni } else { Dir::Bi }) else {
            return Ok(None);
        };
        entry.opened += u64::from(!one_way);
        entry.open.insert(number(begun), StreamEntry::default());
        Ok(Some(number(begun)))
    }

    /// Releases a stream whose last handle the application has dropped. On a bidirectional stream, written data and the
    /// end of the stream are still sent, and the peer is asked to stop sending. On a unidirectional stream, the peer is
    /// not asked, because the control and QPACK streams of HTTP/3 must stay open (RFC 9114 §6.2.1, RFC 9204 §4.2). A
    /// reader that wants to stop a unidirectional stream has to cancel it.
    pub fn release_stream(&mut self, now: Instant, id: Id, stream: u64) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        let ended = entry.open.remove(&stream).is_some_and(|open| open.ended);
        if let Some(stream_id) = entry.stream_id(stream, false).filter(|stream_id| stream_id.dir() == Dir::Bi)
        {
            if entry.connection.send_stream(stream_id).finish().is_ok() {
                entry.watch.finished(stream_id);
            }
            if !ended {
                let _ = entry.connection.recv_stream(stream_id).stop(VarInt::from_u32(0));
            }
        }
        self.settle(now, id);
    }

    /// Sets the rank of a stream. Streams with a lower rank send their data first; streams of the same rank take turns.
    pub fn set_rank(&mut self, id: Id, stream: u64, rank: u32) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        let Some(stream_id) = entry.stream_id(stream, false) else { return };
        // The error is ignored: it means that the stream has ended and has nothing to send.
        let _ =
            entry.connection.send_stream(stream_id).set_priority(-i32::try_from(rank).unwrap_or(i32::MAX));
    }

    /// Cancels one direction of a stream (RFC 9000 §19.4, §19.5): the receiving direction if `reading` is set,
    /// otherwise the sending direction.
    pub fn cancel(&mut self, now: Instant, id: Id, stream: u64, reading: bool, code: u64) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        let Some(stream_id) = entry.stream_id(stream, reading) else { return };
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        // The error is ignored: it means that the stream has ended, so there is nothing left to cancel.
        let _ = if reading {
            entry.connection.recv_stream(stream_id).stop(code)
        } else {
            entry.watch.on_stream_reset(stream_id);
            entry.connection.send_stream(stream_id).reset(code)
        };
        self.settle(now, id);
    }

    /// Writes as many bytes to a stream as there is room for, and returns their number.
    ///
    /// # Errors
    /// If the connection accepts no more data, or if the peer has cancelled the stream.
    pub fn send(&mut self, now: Instant, id: Id, stream: u64, from: &[u8]) -> Result<usize, WriteRefusal> {
        self.send_by(now, id, stream, |mut stream| stream.write(from))
    }

    /// Like [`send`](Self::send), but shares the memory of `from`. Removes the bytes written from `from`.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub fn send_shared(
        &mut self,
        now: Instant,
        id: Id,
        stream: u64,
        from: &mut Bytes,
    ) -> Result<usize, WriteRefusal> {
        self.send_by(now, id, stream, |mut stream| {
            stream.write_chunks(std::slice::from_mut(from)).map(|written| written.bytes)
        })
    }

    /// Writes to a stream by calling `write`, which returns the number of bytes written.
    fn send_by(
        &mut self,
        now: Instant,
        id: Id,
        stream: u64,
        write: impl FnOnce(SendStream<'_>) -> Result<usize, WriteError>,
    ) -> Result<usize, WriteRefusal> {
        let entry =
            self.connections.get_mut(&id).filter(|entry| !entry.closing).ok_or(WriteRefusal::Closed)?;
        while stream & ONE_WAY == 0 && entry.connection.side().is_client() && entry.opened <= stream {
            if entry.connection.streams().open(Dir::Bi).is_none() {
                return if entry.connection.is_closed() { Err(WriteRefusal::Closed) } else { Ok(0) };
            }
            entry.open.insert(entry.opened, StreamEntry::default());
            entry.opened += 1;
        }
        if entry.open.get(&stream).is_some_and(|open| open.stopped.is_some()) {
            return Err(WriteRefusal::Failed(CloseReason::Cancelled));
        }
        let stream_id = entry.stream_id(stream, false).ok_or(WriteRefusal::Closed)?;
        let written = match write(entry.connection.send_stream(stream_id)) {
            Ok(written) => {
                entry.watch.wrote(stream_id, written);
                Ok(written)
            }
            Err(WriteError::Blocked) => Ok(0),
            Err(WriteError::Stopped(_)) => Err(WriteRefusal::Failed(CloseReason::Cancelled)),
            Err(WriteError::ClosedStream) => Err(WriteRefusal::Closed),
        };
        self.settle(now, id);
        written
    }

    /// Ends the direction of the stream in which we write.
    pub fn finish(&mut self, now: Instant, id: Id, stream: u64) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        let Some(stream_id) = entry.stream_id(stream, false) else { return };
        if entry.connection.send_stream(stream_id).finish().is_ok() {
            entry.watch.finished(stream_id);
        }
        self.settle(now, id);
    }

    /// Limits the unsent data in the send buffer to about `bytes` bytes: the data that is written but not acknowledged
    /// may be at most the congestion window plus `bytes`. The send buffer size remains an upper limit.
    pub fn limit_unsent(&mut self, now: Instant, id: Id, bytes: u64) {
        if let Some(entry) = self.connections.get_mut(&id) {
            entry.unsent = Some(bytes);
        }
        self.settle(now, id);
    }
}

impl ConnectionEntry {
    /// Returns quinn's ID of a stream that this side wants to read (`reading`) or to write. Returns `None` if the
    /// stream is unidirectional in the opposite direction.
    fn stream_id(&self, stream: u64, reading: bool) -> Option<StreamId> {
        if stream & ONE_WAY == 0 {
            return Some(StreamId::new(Side::Client, Dir::Bi, stream));
        }
        let initiator = if stream & 1 == 0 { Side::Client } else { Side::Server };
        let ours = initiator == self.connection.side();
        (ours != reading).then(|| StreamId::new(initiator, Dir::Uni, (stream & !ONE_WAY) >> 1))
    }
}
