//! The beginning and the end of every packet: its common header and its checksum.
//!
//! Every packet is begun and finished by an [`OpenPacket`]. Packets of an association are written directly into a
//! batch. A [`StatelessPacket`] has its own buffer and waits at the endpoint, because its association may have ended or
//! never existed.
//!
//! This module implements no RFC rule. The common header (RFC 9260 §3.1) belongs to `wire`, and the caller chooses
//! the tag of a packet.

use crate::association::{Association, Ctx};
use anabranch_base::Packet;
use anabranch_wire::sctp::{Header, packet};
use std::net::SocketAddr;

/// A packet that is being written to the end of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenPacket {
    start: usize,
}

impl OpenPacket {
    #[inline(always)]
    pub(crate) fn begin(buffer: &mut Vec<u8>, header: Header) -> Self {
        Self { start: packet::begin(buffer, header.source_port, header.target_port, header.tag) }
    }

    /// Returns the offset in the buffer at which the packet begins.
    #[inline(always)]
    pub(crate) fn start(self) -> usize {
        self.start
    }

    /// Completes the packet by writing its checksum. A packet that is sent without this call has a checksum of zero
    /// (RFC 9653).
    #[inline(always)]
    pub(crate) fn finish(self, buffer: &mut [u8]) {
        packet::finish(buffer, self.start);
    }

    /// Like [`finish`](Self::finish), but may overwrite the bytes in front of the packet. `buffer` must contain no
    /// other packet.
    #[inline(always)]
    pub(crate) fn finish_alone(self, buffer: &mut [u8]) {
        packet::finish_alone(buffer, self.start);
    }
}

/// A packet that the endpoint can send without the state of an association: the last packet of an association, or an
/// answer to a packet that belongs to no association.
#[derive(Debug)]
pub(crate) struct StatelessPacket {
    source: SocketAddr,
    target: SocketAddr,
    bytes: Vec<u8>,
}

impl StatelessPacket {
    /// Builds a packet from `source` to `target`. `write` appends the chunks.
    pub(crate) fn new(
        (source, target): (SocketAddr, SocketAddr),
        header: Header,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let mut bytes = Vec::new();
        let packet = OpenPacket::begin(&mut bytes, header);
        write(&mut bytes);
        packet.finish(&mut bytes);
        Self { source, target, bytes }
    }

    /// Builds an answer to `packet`, which has the common header `header`. The answer has the verification tag `tag`,
    /// and `write` appends its chunks.
    pub(crate) fn answer(
        packet: &Packet<'_>,
        header: Header,
        tag: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let header = Header { source_port: header.target_port, target_port: header.source_port, tag };
        Self::new((packet.target, packet.source), header, write)
    }

    pub(crate) fn source(&self) -> SocketAddr {
        self.source
    }

    pub(crate) fn target(&self) -> SocketAddr {
        self.target
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Association {
    /// Returns the local and the peer's address of a path.
    pub(in crate::association) fn ends(&self, path: usize) -> (SocketAddr, SocketAddr) {
        let path = self.paths.get(path);
        (path.source(), path.address())
    }

    /// Queues a packet that the endpoint sends even if the association ends now, and counts it as sent.
    pub(in crate::association) fn send_stateless(&mut self, ctx: &mut Ctx<'_>, packet: StatelessPacket) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += packet.bytes.len() as u64;
        ctx.stateless_packets.push_back(packet);
    }
}
