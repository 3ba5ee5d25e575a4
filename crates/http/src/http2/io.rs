//! A stream as h2 reads and writes it, and the frames that pass on their way out.

use super::PREFACE;
use super::faults::Inspector;
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

/// A frame (RFC 9113 §4.1) of a stream, as it goes out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    /// Which stream.
    pub(crate) stream: u64,
    /// It is DATA, with so many bytes; else HEADERS or CONTINUATION.
    pub(crate) data: Option<u64>,
    /// Where it lies on the connection's stream, its header included.
    pub(crate) span: Range<u64>,
    /// It is the last of its message.
    pub(crate) last: bool,
}

/// Told of each frame that carries a part of a message, when its header is with the transport.
pub(crate) type OnFrame = Box<dyn FnMut(Frame)>;

/// A stream between h2 and a transport. h2 writes each frame by itself; what is written in one go leaves in one go, as it does
/// of other implementations, when its task calls [`Out::poll_flush`].
pub(crate) struct Io<T> {
    out: Rc<RefCell<Outward<T>>>,
    /// What has been read already.
    ahead: Bytes,
    watch: Watch,
    on_frame: OnFrame,
    counted: Option<Counted>,
    /// Of a server: the frames that come.
    inward: Option<Rc<RefCell<Inspector>>>,
    client: bool,
    scratch: Scratch,
}

/// What connections read into, before h2 has as much as has come: h2's own buffers would have to be zeroed for each look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch(Rc<RefCell<Vec<u8>>>);

impl Scratch {
    /// Room for so many bytes, whatever is in it.
    pub(crate) fn room(&self, bytes: usize) -> RefMut<'_, [u8]> {
        let mut kept = self.0.borrow_mut();
        if kept.len() < bytes {
            kept.resize(bytes, 0);
        }
        RefMut::map(kept, |kept| &mut kept[..bytes])
    }
}

/// What has passed of a connection, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Sent, frames and all.
    pub sent: u64,
    /// Received, frames and all.
    pub received: u64,
    /// Of these, the payload of DATA frames.
    pub data: u64,
}

/// Counts what passes.
struct Counted {
    traffic: Rc<Cell<Traffic>>,
    inward: Watch,
    on_frame: OnFrame,
}

impl Counted {
    fn new() -> Self {
        let traffic = Rc::new(Cell::new(Traffic::default()));
        let into = traffic.clone();
        let on_frame = move |frame: Frame| {
            let traffic = into.get();
            into.set(Traffic { data: traffic.data + frame.data.unwrap_or(0), ..traffic });
        };
        Self { traffic, inward: Watch::new(0, 0), on_frame: Box::new(on_frame) }
    }

    fn sent(&self, bytes: usize) {
        let traffic = self.traffic.get();
        self.traffic.set(Traffic { sent: traffic.sent + bytes as u64, ..traffic });
    }

    fn received(&mut self, bytes: &[u8]) {
        let traffic = self.traffic.get();
        self.traffic.set(Traffic { received: traffic.received + bytes.len() as u64, ..traffic });
        self.inward.pass(bytes, &mut *self.on_frame);
    }
}

/// What is to leave of a stream.
pub(crate) struct Out<T>(Rc<RefCell<Outward<T>>>);

struct Outward<T> {
    stream: T,
    /// Bytes of h2 that the transport has not, from `sent` on.
    waiting: Vec<u8>,
    sent: usize,
    /// Bytes that may still be read in this go.
    readable: usize,
    /// Whether, in this go, everything was read that had come: more cannot come before the next. `None`: nobody says when a go
    /// begins.
    drained: Option<bool>,
}

impl<T: Stream> Outward<T> {
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            self.sent += ready!(self.stream.poll_write(cx, &self.waiting[self.sent..]))?;
        }
        // An idle connection holds no buffer.
        (self.waiting, self.sent) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }

    fn room(&self) -> usize {
        MOST_WAITING.saturating_sub(self.waiting.len() - self.sent)
    }
}

impl<T: Stream> Out<T> {
    /// A go begins, which ends with [`Self::poll_flush`].
    pub(crate) fn begin(&self) {
        self.0.borrow_mut().drained = Some(false);
    }

    /// Gives the transport what waits: to be called when h2 has done all it can.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut out = self.0.borrow_mut();
        (out.readable, out.drained) = (MOST_READ, None);
        out.poll_flush(cx)
    }
}

impl<T: Stream> Io<T> {
    /// Of a client, or a server; `ahead` has been read already.
    pub(crate) fn new(
        stream: T,
        client: bool,
        ahead: Bytes,
        scratch: Scratch,
        on_frame: OnFrame,
    ) -> (Self, Out<T>) {
        let at = stream.bytes_written();
        let skip = if client { PREFACE.len() as u64 } else { 0 };
        let outward = Outward { stream, waiting: Vec::new(), sent: 0, readable: MOST_READ, drained: None };
        let out = Rc::new(RefCell::new(outward));
        let watch = Watch::new(at, skip);
        let io =
            Self { out: out.clone(), ahead, watch, on_frame, counted: None, inward: None, client, scratch };
        (io, Out(out))
    }

    /// Looks from now on at the frames that come from a client, which begins with its preface. Where h2 ends the connection
    /// because of one, it says so by the code that the inspector has for it.
    pub(crate) fn inspect(&mut self) -> Rc<RefCell<Inspector>> {
        let mut inspector = Inspector::new(PREFACE.len());
        inspector.pass(&self.ahead);
        let inspector = Rc::new(RefCell::new(inspector));
        self.inward = Some(inspector.clone());
        inspector
    }

    /// Counts from now on what passes.
    pub(crate) fn count(&mut self) -> Rc<Cell<Traffic>> {
        self.counted.get_or_insert_with(Counted::new).traffic.clone()
    }
}

impl<T: Stream> AsyncRead for Io<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.ahead.is_empty() {
            let length = this.ahead.len().min(into.remaining());
            into.put_slice(&this.ahead.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let mut out = this.out.borrow_mut();
        // h2 reads on as long as there is something: who sends small frames without end would be served alone.
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
        if let Some(inspector) = &this.inward {
            inspector.borrow_mut().pass(&scratch[..read]);
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
            out.waiting.reserve(USUAL);
        }
        let mut left = room;
        for slice in from {
            let part = &slice[..left.min(slice.len())];
            left -= part.len();
            out.waiting.extend_from_slice(part);
            this.watch.pass(part, &mut *this.on_frame);
        }
        if let Some(counted) = &this.counted {
            counted.sent(room - left);
        }
        let fault = this.inward.as_ref().and_then(|inspector| inspector.borrow().fault());
        if let (Some(at), Some(fault)) = (this.watch.goaway.take(), fault) {
            // RFC 9113 §6.8: the code lies behind the last stream.
            let behind = (this.watch.at - at) as usize - HEADER;
            let end = out.waiting.len();
            let code =
                end.checked_sub(behind).and_then(|payload| out.waiting.get_mut(payload + 4..payload + 8));
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

/// Bytes that a server reads in one go, about: some thousand of the smallest frames.
const MOST_READ: usize = 32 * 1024;
/// Room for the heads and a small answer, made at once.
const USUAL: usize = 2 * 1024;
/// Bytes that wait for the end of a go, at most: what a record of TLS holds.
const MOST_WAITING: usize = 16 * 1024;

/// Finds frames in bytes that pass.
struct Watch {
    /// Bytes passed.
    at: u64,
    /// Bytes of the preface or of a frame that are to pass before the next header.
    skip: u64,
    /// What has passed of a header.
    header: Vec<u8>,
    /// Where a GOAWAY begins.
    goaway: Option<u64>,
}

impl Watch {
    const fn new(at: u64, skip: u64) -> Self {
        Self { at, skip, header: Vec::new(), goaway: None }
    }

    fn pass(&mut self, mut bytes: &[u8], on_frame: &mut dyn FnMut(Frame)) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len() as u64);
            self.skip -= skipped;
            self.at += skipped;
            bytes = &bytes[skipped as usize..];
            let taken = bytes.len().min(HEADER - self.header.len());
            self.header.extend_from_slice(&bytes[..taken]);
            self.at += taken as u64;
            bytes = &bytes[taken..];
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

/// Bytes of a frame's header.
const HEADER: usize = 9;
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
            // The last DATA ends its stream.
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
            let mut watch = Watch::new(0, PREFACE.len() as u64);
            bytes.chunks(cut).for_each(|part| watch.pass(part, &mut *on_frame));
            let passed = (&*found.borrow(), watch.at);
            assert_eq!(passed, (&expected, bytes.len() as u64), "{cut}");
        }
    }
}
