//! The queue of outgoing datagrams. Datagrams are sent in order, several in one batch if possible. The number of
//! waiting datagrams is limited.

use anabranch_base::{Ecn, SendBatch};
use anabranch_world::DatagramSocket;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// The attributes with which a datagram is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SendMeta {
    pub source: SocketAddr,
    pub target: SocketAddr,
    pub ecn: Ecn,
    pub may_fragment: bool,
    pub lane: u32,
    /// The tag of the packet in the datagram; see [`SendBatch::first_tag`].
    pub tag: u64,
}

impl SendMeta {
    /// Returns the attributes of a datagram that the DTLS layer itself creates, for example in a handshake.
    pub fn own(source: SocketAddr, target: SocketAddr) -> Self {
        Self { source, target, ecn: Ecn::NotEct, may_fragment: true, lane: 0, tag: 0 }
    }

    /// Returns the attributes for a datagram that carries the first packet of a batch.
    pub fn of(batch: &SendBatch) -> Self {
        Self {
            source: batch.source,
            target: batch.target,
            ecn: batch.ecn,
            may_fragment: batch.may_fragment,
            lane: batch.lane,
            tag: batch.first_tag,
        }
    }
}

/// The datagrams that have not been sent yet.
#[derive(Debug)]
pub(crate) struct Outbox {
    batch: SendBatch,
    waiting: VecDeque<(SendMeta, Vec<u8>)>,
}

impl Outbox {
    pub fn new(max_segments: usize) -> Self {
        Self { batch: SendBatch::new(max_segments), waiting: VecDeque::new() }
    }

    /// Queues a datagram. If too many datagrams wait, this datagram is dropped.
    pub fn push(&mut self, meta: SendMeta, bytes: &[u8]) {
        if !bytes.is_empty() && self.waiting.len() < MAX_WAITING {
            self.push_with(meta, bytes.len(), |out| out.extend_from_slice(bytes));
        }
    }

    /// Queues a datagram of `size` bytes, which `write` appends to the given buffer.
    #[inline]
    pub fn push_with(&mut self, meta: SendMeta, size: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.waiting.is_empty() && self.fits(meta, size) {
            self.batch.push_with(write);
        } else {
            let mut bytes = Vec::with_capacity(size);
            write(&mut bytes);
            self.waiting.push_back((meta, bytes));
        }
    }

    /// Returns whether a datagram can be added to the current batch. If the batch is empty, first copies the datagram's
    /// attributes to it.
    #[inline]
    fn fits(&mut self, meta: SendMeta, size: usize) -> bool {
        let batch = &mut self.batch;
        if batch.is_empty() {
            (batch.source, batch.target, batch.ecn) = (meta.source, meta.target, meta.ecn);
            (batch.may_fragment, batch.lane, batch.first_tag) = (meta.may_fragment, meta.lane, meta.tag);
            return true;
        }
        let tag = if batch.first_tag == 0 { 0 } else { batch.first_tag + batch.len() as u64 };
        SendMeta { tag, ..SendMeta::of(batch) } == meta && batch.has_room() && size <= batch.stride()
    }

    /// Sends the queued datagrams. If sending fails, the current batch is lost, and the other datagrams stay queued.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, inner: &dyn DatagramSocket) -> Poll<io::Result<()>> {
        loop {
            while let Some((meta, bytes)) = self.waiting.pop_front() {
                if !self.fits(meta, bytes.len()) {
                    self.waiting.push_front((meta, bytes));
                    break;
                }
                self.batch.push(&bytes);
            }
            if self.batch.is_empty() {
                return Poll::Ready(Ok(()));
            }
            match inner.poll_send(cx, &mut self.batch) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.batch.clear();
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

/// The maximum number of queued datagrams.
const MAX_WAITING: usize = 1_024;
