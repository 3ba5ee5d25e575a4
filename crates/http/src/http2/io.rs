//! Adapts a stream of the transport so that h2 can read and write it, and reports the frames that h2 writes.

use super::PREFACE;
use super::faults::{Inspector, begins_with_settings};
use anabranch_transport::Stream;
use bytes::Bytes;
use h2::Reason;
use std::cell::{Cell, RefCell, RefMut};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// An outgoing HEADERS, CONTINUATION or DATA frame (RFC 9113 §4.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    /// The number of the HTTP/2 stream.
    pub(crate) stream: u64,
    /// The payload length of a DATA frame; `None` for HEADERS and CONTINUATION.
    pub(crate) data: Option<u64>,
    /// The byte range of the frame on the connection's stream, including the frame header.
    pub(crate) span: Range<u64>,
    /// Whether the frame is the last frame of its message.
    pub(crate) last: bool,
}

/// A function that is called for each frame that carries part of a message, when the frame header is written.
pub(crate) type OnFrame = Box<dyn FnMut(Frame)>;

/// An adapter between h2 and a stream of the transport. h2 writes each frame separately. As in other implementations,
/// all frames that are written in one poll of the task are sent together, when the task calls [`Out::poll_flush`].
pub(crate) struct Io<T> {
    out: Rc<RefCell<SendSide<T>>>,
    /// Bytes that were read from the stream before this adapter was created.
    prefetched: Bytes,
    scanner: FrameScanner,
    on_frame: OnFrame,
    counted: Option<Counted>,
    /// The inspector of the incoming frames; only on a server.
    inspector: Option<Rc<RefCell<Inspector>>>,
    client: bool,
    /// On a client, the received part of the header of the server's first frame; `None` once that frame is known to be
    /// SETTINGS.
    first_header: Option<Vec<u8>>,
    scratch: Scratch,
}

/// A buffer into which connections read, before the bytes are copied to h2. The buffers of h2 would have to be zeroed
/// for each read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch(Rc<RefCell<Vec<u8>>>);

impl Scratch {
    /// Returns a part of the buffer with `bytes` bytes of arbitrary content.
    pub(crate) fn room(&self, bytes: usize) -> RefMut<'_, [u8]> {
        let mut buffer = self.0.borrow_mut();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        RefMut::map(buffer, |buffer| &mut buffer[..bytes])
    }
}

/// The number of bytes sent and received on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// The number of bytes sent, including all frames.
    pub sent: u64,
    /// The number of bytes received, including all frames.
    pub received: u64,
    /// The number of payload bytes in the DATA frames received.
    pub data: u64,
}

/// Counts the bytes sent and received.
struct Counted {
    traffic: Rc<Cell<Traffic>>,
    scanner: FrameScanner,
}

impl Counted {
    fn sent(&self, bytes: usize) {
        let traffic = self.traffic.get();
        self.traffic.set(Traffic { sent: traffic.sent + bytes as u64, ..traffic });
    }

    fn received(&mut self, bytes: &[u8]) {
        let mut traffic = self.traffic.get();
        traffic.received += bytes.len() as u64;
        self.scanner.pass(bytes, &mut |frame| traffic.data += frame.data.unwrap_or(0));
        self.traffic.set(traffic);
    }
}

/// The sending side of the stream.
pub(crate) struct Out<T>(Rc<RefCell<SendSide<T>>>);

struct SendSide<T> {
    stream: T,
    /// Bytes that h2 has written. The bytes from `sent` on have not been passed to the transport yet.
    waiting: Vec<u8>,
    sent: usize,
    /// The number of bytes that may still be read in this poll of the task.
    readable: usize,
    /// Whether this poll of the connection's task has read all available bytes. If so, the transport is not read again
    /// before the next poll. `None` between polls, and if the task does not call [`Out::begin`].
    drained: Option<bool>,
}

impl<T: Stream> SendSide<T> {
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            self.sent += ready!(self.stream.poll_write(cx, &self.waiting[self.sent..]))?;
        }
        // The empty buffer is freed, because an idle connection must not hold memory.
        (self.waiting, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    fn room(&self) -> usize {
        MAX_BUFFERED.saturating_sub(self.waiting.len() - self.sent)
    }
}

impl<T: Stream> Out<T> {
    /// Records that the connection's task begins a poll. The poll ends with [`Self::poll_flush`].
    pub(crate) fn begin(&self) {
        self.0.borrow_mut().drained = Some(false);
    }

    /// Passes the buffered bytes to the transport. To be called when h2 can make no more progress.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut out = self.0.borrow_mut();
        (out.readable, out.drained) = (MAX_READ, None);
        out.poll_flush(cx)
    }
}

impl<T: Stream> Io<T> {
    /// Wraps `stream` for a client or a server. `prefetched` holds the bytes that were already read from `stream`.
    pub(crate) fn new(
        stream: T,
        client: bool,
        prefetched: Bytes,
        scratch: Scratch,
        on_frame: OnFrame,
    ) -> (Self, Out<T>) {
        let at = stream.bytes_written();
        let skip = if client { PREFACE.len() as u64 } else { 0 };
        let sending = SendSide { stream, waiting: Vec::new(), sent: 0, readable: MAX_READ, drained: None };
        let out = Rc::new(RefCell::new(sending));
        let scanner = FrameScanner::new(at, skip);
        let io = Self {
            out: out.clone(),
            prefetched,
            scanner,
            on_frame,
            counted: None,
            inspector: None,
            client,
            first_header: client.then(Vec::new),
            scratch,
        };
        (io, Out(out))
    }

    /// Inspects the frames of the client from now on, beginning with its preface. If h2 ends the connection because of
    /// a frame, the error code of the inspector replaces that of h2.
    pub(crate) fn inspect(&mut self) -> Rc<RefCell<Inspector>> {
        let mut inspector = Inspector::new(PREFACE.len());
        inspector.pass(&self.prefetched);
        let inspector = Rc::new(RefCell::new(inspector));
        self.inspector = Some(inspector.clone());
        inspector
    }

    /// Counts the bytes sent and received from now on.
    pub(crate) fn count(&mut self) -> Rc<Cell<Traffic>> {
        let new = || Counted { traffic: Rc::default(), scanner: FrameScanner::new(0, 0) };
        self.counted.get_or_insert_with(new).traffic.clone()
    }
}

impl<T: Stream> AsyncRead for Io<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.prefetched.is_empty() {
            let length = this.prefetched.len().min(into.remaining());
            into.put_slice(&this.prefetched.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let mut out = this.out.borrow_mut();
        // h2 reads as long as there is data. Without this limit, a client that sends small frames without end would
        // keep the server from serving other clients.
        if out.readable == 0 && !this.client {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if out.drained == Some(true) {
            return Poll::Pending;
        }
        let mut scratch = this.scratch.room(into.remaining());
        let Poll::Ready(read) = out.stream.poll_read(cx, &mut scratch) else {
            out.drained = out.drained.map(|_| true);
            return Poll::Pending;
        };
        let read = read?;
        out.readable = out.readable.saturating_sub(read);
        if let Some(counted) = &mut this.counted {
            counted.received(&scratch[..read]);
        }
        if let Some(inspector) = &this.inspector {
            inspector.borrow_mut().pass(&scratch[..read]);
        }
        if let Some(header) = &mut this.first_header {
            let missing = HEADER - header.len();
            header.extend_from_slice(&scratch[..read.min(missing)]);
            if !begins_with_settings(header) {
                // RFC 9113 §3.4: an invalid preface is a connection error. h2 does not check this. GOAWAY may be omitted,
                // because the server does not use HTTP/2.
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, NO_SETTINGS)));
            }
            if header.len() == HEADER {
                this.first_header = None;
            }
        }
        into.put_slice(&scratch[..read]);
        Poll::Ready(Ok(()))
    }
}

impl<T: Stream> AsyncWrite for Io<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(from)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut out = this.out.borrow_mut();
        if out.room() == 0
            && let Poll::Ready(Err(error)) = out.poll_flush(cx)
        {
            return Poll::Ready(Err(error));
        }
        let room = out.room();
        if room == 0 {
            return Poll::Pending;
        }
        if out.waiting.is_empty() {
            out.waiting.reserve(INITIAL_CAPACITY);
        }
        let mut left = room;
        for slice in from {
            let part = &slice[..left.min(slice.len())];
            left -= part.len();
            out.waiting.extend_from_slice(part);
            this.scanner.pass(part, &mut *this.on_frame);
        }
        if let Some(counted) = &this.counted {
            counted.sent(room - left);
        }
        let fault = this.inspector.as_ref().and_then(|inspector| inspector.borrow().fault());
        if let (Some(at), Some(fault)) = (this.scanner.goaway.take(), fault) {
            // RFC 9113 §6.8: in GOAWAY, the error code follows the last stream identifier.
            let after_goaway = (this.scanner.at - at) as usize - HEADER;
            let end = out.waiting.len();
            let code = end
                .checked_sub(after_goaway)
                .and_then(|payload| out.waiting.get_mut(payload + 4..payload + 8));
            if let Some(code) = code.filter(|code| **code == u32::from(Reason::PROTOCOL_ERROR).to_be_bytes())
            {
                code.copy_from_slice(&u32::from(fault).to_be_bytes());
            }
        }
        Poll::Ready(Ok(room - left))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut out = self.get_mut().out.borrow_mut();
        ready!(out.poll_flush(cx))?;
        out.stream.finish();
        Poll::Ready(Ok(()))
    }
}

/// The approximate maximum number of bytes that a server reads in one poll of the task. The limit allows thousands of
/// the smallest frames.
const MAX_READ: usize = 32 * 1024;
/// The initial capacity of the send buffer in bytes. It is enough for message heads and a small response body.
const INITIAL_CAPACITY: usize = 2 * 1024;
/// The maximum number of bytes buffered until the end of a poll, which is the size of a TLS record.
const MAX_BUFFERED: usize = 16 * 1024;

/// Finds the frames in a stream of bytes.
struct FrameScanner {
    /// The current offset on the stream, in bytes.
    at: u64,
    /// The number of bytes until the next frame header. These bytes belong to the preface or to the payload of a frame.
    skip: u64,
    /// The part of a frame header that has been found in the stream so far.
    header: Vec<u8>,
    /// The stream offset in bytes at which a GOAWAY frame begins; `None` until one is found.
    goaway: Option<u64>,
}

impl FrameScanner {
    const fn new(at: u64, skip: u64) -> Self {
        Self { at, skip, header: Vec::new(), goaway: None }
    }

    fn pass(&mut self, mut bytes: &[u8], on_frame: &mut dyn FnMut(Frame)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len() as u64);
            self.skip -= skipped;
            self.at += skipped;
            bytes = &bytes[skipped as usize..];
            let copied = bytes.len().min(HEADER - self.header.len());
            self.header.extend_from_slice(&bytes[..copied]);
            self.at += copied as u64;
            bytes = &bytes[copied..];
            if let &[a, b, c, kind, flags, d, e, f, g] = &self.header[..] {
                self.header.clear();
                let length = u64::from(u32::from_be_bytes([0, a, b, c]));
                let stream = u64::from(u32::from_be_bytes([d, e, f, g]) & (u32::MAX >> 1));
                let start = self.at - HEADER as u64;
                self.skip = length;
                if kind == GOAWAY {
                    self.goaway = Some(start);
                }
                let last = kind != CONTINUATION && flags & END_STREAM != 0;
                let data = (kind == DATA).then_some(length);
                if [DATA, HEADERS, CONTINUATION].contains(&kind) {
                    on_frame(Frame { stream, data, span: start..self.at + length, last });
                }
            }
        }
    }
}

/// The size of a frame's header in bytes.
const HEADER: usize = 9;
const NO_SETTINGS: &str = "the server's first frame is not SETTINGS (RFC 9113 §3.4)";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let frame = |kind: u8, stream: u8, length: u8| {
            // The last DATA frame, which has 200 bytes, ends its stream.
            let flags = u8::from(length == 200);
            [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], &vec![1; usize::from(length)]].concat()
        };
        let bytes = [
            PREFACE.to_vec(),
            frame(4, 0, 6),
            frame(HEADERS, 1, 20),
            frame(8, 1, 4),
            frame(DATA, 3, 0),
            frame(DATA, 1, 200),
        ]
        .concat();
        let expected = vec![
            Frame { stream: 1, data: None, span: 39..68, last: false },
            Frame { stream: 3, data: Some(0), span: 81..90, last: false },
            Frame { stream: 1, data: Some(200), span: 90..299, last: true },
        ];
        for cut in [1, 2, 7, 9, 30, 1000] {
            let found = Rc::new(RefCell::new(Vec::new()));
            let into = found.clone();
            let mut on_frame: OnFrame = Box::new(move |frame| into.borrow_mut().push(frame));
            let mut scanner = FrameScanner::new(0, PREFACE.len() as u64);
            bytes.chunks(cut).for_each(|part| scanner.pass(part, &mut *on_frame));
            let passed = (&*found.borrow(), scanner.at);
            assert_eq!(passed, (&expected, bytes.len() as u64), "{cut}");
        }
    }
}
