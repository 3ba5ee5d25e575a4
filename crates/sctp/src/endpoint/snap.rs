//! An association without a handshake. Signalling, such as SDP, carries both INIT chunks.
//!
//! Implements draft-hancke-tsvwg-snap (SCTP Negotiation Acceleration Protocol). The application handles the SDP
//! attribute `sctp-init`; this module makes and reads the INIT chunk in the attribute. Use SNAP only over channels that
//! authenticate the peer, such as DTLS, because there is no cookie that proves the peer's address.

use super::datagrams::NOWHERE;
use super::{Associate, AssociationId, Endpoint};
use crate::association::extensions::Extensions;
use crate::association::negotiate::{InitContents, read};
use crate::config::Config;
use crate::error::{SnapError, SnapSide};
use anabranch_base::Instant;
use anabranch_wire::sctp::{Chunk, Chunks, Init, Param, Tsn};
use std::sync::Arc;

/// The size in bytes of the largest INIT chunk accepted. No useful INIT is larger. The limit is needed because
/// signalling is not trusted.
const MAX_CHUNK: usize = 2048;

impl Endpoint {
    /// Makes an INIT chunk that the application sends to the peer by its own signalling, such as SDP. The chunk holds a
    /// tag, an initial TSN, the window, streams and extensions of this endpoint. The endpoint keeps no state for the
    /// chunk and starts no timer; the caller passes the chunk to [`associate_by_init`](Self::associate_by_init) later.
    ///
    /// ```
    /// # use anabranch_base::Rng;
    /// # use anabranch_sctp::Endpoint;
    /// let mut endpoint = Endpoint::over_datagrams(1200, Rng::from_os()?);
    /// let chunk = endpoint.init_chunk();
    /// assert_eq!(chunk[0], 1, "an INIT: base64 of it is the value of a=sctp-init");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn init_chunk(&mut self) -> Vec<u8> {
        let config = bare(&self.config);
        let init = Init {
            tag: self.new_tag(),
            window: crate::recv::first_window(&config),
            outbound_streams: config.num_ostreams,
            inbound_streams: config.inbound_streams(),
            tsn: Tsn(self.rng.next_u32()),
            ..Init::default()
        };
        let mut bytes = Vec::new();
        let mut chunk = init.open(&mut bytes);
        let ours = Extensions::of(&config);
        ours.announce(&mut chunk, ours, true);
        if let Some(code) = config.adaptation {
            Param::Adaptation(code).emit(&mut chunk);
        }
        chunk.close();
        bytes
    }

    /// Begins an association that is established at once, which `Event::Established` reports. `local` is the INIT chunk
    /// that [`init_chunk`](Self::init_chunk) returned, and `peer` is the INIT chunk of the peer. Both sides call this
    /// function when the channel that carries SCTP packets, such as DTLS, is established.
    ///
    /// ```
    /// use anabranch_base::{Engine, Instant, Rng};
    /// use anabranch_sctp::{Associate, Endpoint, Event};
    ///
    /// let mut endpoint = || Endpoint::over_datagrams(1200, Rng::from_os().expect("randomness"));
    /// let (mut a, mut b) = (endpoint(), endpoint());
    /// // Exchanged by SDP, or whatever signalling sets up the channel.
    /// let (offer, answer) = (a.init_chunk(), b.init_chunk());
    /// let ask = Associate { local_port: Some(5000), ..Associate::to_port(5000) };
    /// a.associate_by_init(Instant::ZERO, ask.clone(), &offer, &answer)?;
    /// b.associate_by_init(Instant::ZERO, ask, &answer, &offer)?;
    /// assert!(matches!(a.poll_event(), Some(Event::Established { .. })), "and not a packet was sent");
    /// # Ok::<(), anabranch_sctp::SnapError>(())
    /// ```
    ///
    /// # Errors
    /// [`SnapError`]; no association is begun.
    pub fn associate_by_init(
        &mut self,
        now: Instant,
        ask: Associate,
        local: &[u8],
        peer: &[u8],
    ) -> Result<AssociationId, SnapError> {
        let mut config = bare(&self.config);
        let ours = Extensions::of(&config);
        let local = read_chunk(local, ours).ok_or(SnapError::NoInit(SnapSide::Local))?;
        let peer = read_chunk(peer, ours).ok_or(SnapError::NoInit(SnapSide::Peer))?;
        if local.tag == peer.tag {
            return Err(SnapError::SameTag);
        }
        if self.demux.has_tag(local.tag) {
            return Err(SnapError::TagInUse);
        }
        // Only extensions that our INIT announced are used, even if the configuration has changed since the INIT was
        // made.
        let announced = ours.intersect(local.extensions);
        config.partial_reliability = announced.partial_reliability;
        config.interleaving = announced.interleaving;
        config.reconfig = announced.reconfig;
        config.zero_checksum = announced.zero_checksum;
        config.nr_sack = announced.nr_sack;
        config.max_instreams = Some(local.inbound);
        let ask = Associate { streams: Some(local.outbound), ..ask };
        // Traces identify the association by the initiator's port. The side with the larger tag counts as the
        // initiator, so that both sides choose the same one.
        let initiator = local.tag > peer.tag;
        let identity = Some((local.tag, local.tsn, initiator));
        let slot = self.add_association(now, &ask, Arc::new(config), identity)?;
        self.with(now, slot, |association, ctx| association.begin_established(ctx, &peer));
        Ok(self.id_of(slot))
    }
}

/// Returns the configuration for an association without INIT ACK, whose INITs are exchanged through signalling.
/// Authentication is off, because its keys cannot be derived from the INIT alone.
fn bare(config: &Config) -> Config {
    let mut config = config.clone().without_addresses();
    config.auth = false;
    config
}

/// Parses `bytes` as exactly one INIT chunk. Returns `None` if the bytes are not such a chunk, or the chunk cannot
/// begin an association.
fn read_chunk(bytes: &[u8], ours: Extensions) -> Option<InitContents> {
    if bytes.len() > MAX_CHUNK {
        return None;
    }
    // RFC 9260 §3.2: the length of a chunk excludes its padding, and a chunk sent alone may lack the padding.
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    let mut chunks = Chunks::new(&padded);
    let Some(Ok(Chunk::Init(init))) = chunks.next() else {
        return None;
    };
    if chunks.next_raw().is_some() {
        return None;
    }
    read(&init, ours, NOWHERE.ip()).ok()
}
