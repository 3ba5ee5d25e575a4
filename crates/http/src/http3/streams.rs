//! Adapts a stream of a session for HTTP/3: buffers the outgoing frame and counts the traffic.

use super::code::Code;
use super::frame::put_varint;
use crate::http2::io::Traffic;
use anabranch_transport::{CloseReason, Stream};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

/// A bidirectional stream that carries HTTP/3 frames.
pub(crate) struct Pipe<T: Stream> {
    stream: T,
    /// The header of the frame that is being written. The transport has accepted `header_written` bytes of the header.
    /// `payload` is the part of the payload that the transport has not accepted.
    header: Vec<u8>,
    header_written: usize,
    payload: Bytes,
    /// Whether the writing direction is closed.
    write_closed: bool,
    /// Whether the reading direction is closed.
    read_closed: bool,
    /// Whether the server refused the request by GOAWAY.
    refused: bool,
    reader: Option<Waker>,
    traffic: Option<Rc<Cell<Traffic>>>,
}

/// The reason why a stream cannot be used any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StreamError {
    /// The peer has cancelled the stream.
    Cancelled(Code),
    /// This endpoint has cancelled the stream.
    CancelledHere,
    /// The server accepts no more requests on the connection (RFC 9114 §5.2).
    Refused,
    /// The session has ended.
    Closed(CloseReason),
}

impl<T: Stream> Pipe<T> {
    pub(super) fn new(stream: T, traffic: Option<Rc<Cell<Traffic>>>) -> Self {
        Self {
            stream,
            header: Vec::new(),
            header_written: 0,
            payload: Bytes::new(),
            write_closed: false,
            read_closed: false,
            refused: false,
            reader: None,
            traffic,
        }
    }

    /// Returns the number of the stream in its session.
    pub(crate) fn number(&self) -> u64 {
        self.stream.number()
    }

    /// Queues a frame for writing. The previous frame must have been written completely.
    pub(crate) fn put_frame(&mut self, kind: u64, payload: Bytes) {
        debug_assert!(self.is_flushed(), "a frame before the last one was written");
        self.header.clear();
        put_varint(&mut self.header, kind);
        put_varint(&mut self.header, payload.len() as u64);
        (self.header_written, self.payload) = (0, payload);
    }

    fn is_flushed(&self) -> bool {
        self.header_written == self.header.len() && self.payload.is_empty()
    }

    /// Completes when the transport has accepted all queued bytes.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        if self.write_closed {
            return Poll::Ready(Err(self.closed_here()));
        }
        while !self.is_flushed() {
            let header = &self.header[self.header_written..];
            let written = if header.is_empty() {
                ready!(self.stream.poll_write_bytes(cx, &mut self.payload))
            } else {
                let written = ready!(self.stream.poll_write(cx, header));
                self.header_written += written.as_ref().map_or(0, |taken| *taken);
                written
            };
            match written {
                Ok(taken) => {
                    self.count(|traffic| traffic.sent += taken as u64);
                }
                Err(reason) => {
                    self.write_closed = true;
                    return Poll::Ready(Err(self.failed(reason, false)));
                }
            }
        }
        // Release the memory of the payload that was written.
        self.payload = Bytes::new();
        Poll::Ready(Ok(()))
    }

    /// Closes the sending direction.
    pub(crate) fn finish(&mut self) {
        if !std::mem::replace(&mut self.write_closed, true) {
            self.stream.finish();
        }
    }

    /// Completes with the available bytes, or with `None` at the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        if self.read_closed {
            return Poll::Ready(Err(self.closed_here()));
        }
        let polled = BUFFER.with_borrow_mut(|buffer| {
            let read = ready!(self.stream.poll_read(cx, buffer));
            Poll::Ready(read.map(|read| Bytes::copy_from_slice(&buffer[..read])))
        });
        match polled {
            Poll::Pending => {
                self.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            Poll::Ready(Ok(read)) if read.is_empty() => {
                self.read_closed = true;
                Poll::Ready(Ok(None))
            }
            Poll::Ready(Ok(read)) => {
                self.count(|traffic| traffic.received += read.len() as u64);
                Poll::Ready(Ok(Some(read)))
            }
            Poll::Ready(Err(reason)) => {
                self.read_closed = true;
                Poll::Ready(Err(self.failed(reason, true)))
            }
        }
    }

    /// Sets the rank of this stream among all streams of the session. Data on streams with a lower rank is sent first.
    pub(crate) fn set_rank(&mut self, rank: u32) {
        self.stream.set_rank(rank);
    }

    /// Cancels the reading direction with the error code `code`.
    pub(crate) fn stop_reading(&mut self, code: Code) {
        if !std::mem::replace(&mut self.read_closed, true) {
            self.stream.cancel_reading(code.0);
        }
    }

    /// Cancels both directions with the error code `code`.
    pub(crate) fn cancel(&mut self, code: Code) {
        if self.write_closed { self.stop_reading(code) } else { self.abort(code) }
    }

    /// Cancels both directions with the error code `code`. Unlike [`Self::cancel`], this also resets the writing
    /// direction if this endpoint has already written its last byte. Data that the peer has not acknowledged is lost.
    pub(super) fn abort(&mut self, code: Code) {
        self.stop_reading(code);
        self.write_closed = true;
        (self.header, self.header_written, self.payload) = (Vec::new(), 0, Bytes::new());
        self.stream.cancel_writing(code.0);
    }

    /// Cancels the stream, because the server has announced (GOAWAY) that it will not process the request on this
    /// stream.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
        self.cancel(Code::H3_REQUEST_CANCELLED);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Returns the byte range of the data read so far if `read` is set, otherwise of the data written so far.
    pub(crate) fn bytes(&self, read: bool) -> Range<u64> {
        0..if read { self.stream.bytes_read() } else { self.stream.bytes_written() }
    }

    /// Counts `bytes` bytes of content.
    pub(super) fn count_data(&self, bytes: usize) {
        self.count(|traffic| traffic.data += bytes as u64);
    }

    fn count(&self, count: impl FnOnce(&mut Traffic)) {
        if let Some(traffic) = &self.traffic {
            let mut counted = traffic.get();
            count(&mut counted);
            traffic.set(counted);
        }
    }

    fn closed_here(&self) -> StreamError {
        if self.refused { StreamError::Refused } else { StreamError::CancelledHere }
    }

    fn failed(&self, reason: CloseReason, reading: bool) -> StreamError {
        match reason {
            CloseReason::Cancelled => {
                StreamError::Cancelled(Code(self.stream.cancel_code(reading).unwrap_or_default()))
            }
            reason => StreamError::Closed(reason),
        }
    }
}

impl<T: Stream> Drop for Pipe<T> {
    fn drop(&mut self) {
        self.cancel(Code::H3_REQUEST_CANCELLED);
    }
}

/// The maximum number of bytes read at once.
const READ: usize = 8 * 1024;

thread_local! {
    /// The buffer into which the streams of a thread read. A buffer of each call would have to be zeroed.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}
