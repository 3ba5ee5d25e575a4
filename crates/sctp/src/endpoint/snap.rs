//! An association without a handshake: both INIT chunks travel with the signalling that sets up the channel.
//!
//! Home of draft-hancke-tsvwg-snap (SCTP Negotiation Acceleration Protocol). Its attribute of SDP, `sctp-init`, is the
//! application's; the chunk in it is made and read here. Only for channels in which nobody can be who he is not, such as
//! DTLS: the cookie, which shows that the peer is where it says, is left out.

use super::datagrams::NOWHERE;
use super::{Associate, AssociationId, Endpoint};
use crate::association::extensions::Extensions;
use crate::association::negotiate::{Offer, read};
use crate::config::Config;
use crate::error::{SnapError, SnapSide};
use anabranch_base::Instant;
use anabranch_wire::sctp::{Chunk, Chunks, Init, Param, Tsn};
use std::sync::Arc;

/// No INIT that has a use here is larger; what comes by signalling is not to be trusted.
const MAX_CHUNK: usize = 2048;

impl Endpoint {
    /// An INIT chunk for the signalling to carry: a tag and an initial TSN of this endpoint, its window, streams and
    /// extensions. Nothing is remembered of it, and no timer runs: it comes back with
    /// [`associate_by_init`](Self::associate_by_init).
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
            outbound: config.streams,
            inbound: config.inbound_streams(),
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

    /// Begins an association that is established at once: by the chunk that [`init_chunk`](Self::init_chunk) of this side
    /// has made, and that of the peer. Both sides call it, as soon as the channel is up. `Event::Established` follows.
    ///
    /// ```
    /// use anabranch_base::{Engine, Instant, Rng};
    /// use anabranch_sctp::{Associate, Endpoint, Event};
    ///
    /// let mut endpoint = || Endpoint::over_datagrams(1200, Rng::from_os().expect("randomness"));
    /// let (mut a, mut b) = (endpoint(), endpoint());
    /// // By SDP, or whatever sets up the channel.
    /// let (offer, answer) = (a.init_chunk(), b.init_chunk());
    /// let ask = Associate { local_port: Some(5000), ..Associate::to_port(5000) };
    /// a.associate_by_init(Instant::ZERO, ask.clone(), &offer, &answer)?;
    /// b.associate_by_init(Instant::ZERO, ask, &answer, &offer)?;
    /// assert!(matches!(a.poll_event(), Some(Event::Established { .. })), "and not a packet was sent");
    /// # Ok::<(), anabranch_sctp::SnapError>(())
    /// ```
    ///
    /// # Errors
    /// [`SnapError`]; there is no association.
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
        // What the peer was told counts, were the configuration another one by now.
        let said = ours.and(local.extensions);
        config.partial_reliability = said.partial_reliability;
        config.interleaving = said.interleaving;
        config.reconfig = said.reconfig;
        config.zero_checksum = said.zero_checksum;
        config.nr_sack = said.nr_sack;
        config.inbound = Some(local.inbound);
        let ask = Associate { streams: Some(local.outbound), ..ask };
        // Whose ports name it in traces: both must say the same.
        let initiator = local.tag > peer.tag;
        let told = Some((local.tag, local.tsn, initiator));
        let slot = self.add_association(now, &ask, Arc::new(config), told)?;
        self.with(now, slot, |association, ctx| association.begin_established(ctx, &peer));
        Ok(self.id_of(slot))
    }
}

/// What an INIT can say that nobody answers: without authentication, whose keys hang on more than it has.
fn bare(config: &Config) -> Config {
    let mut config = config.clone().without_addresses();
    config.auth = false;
    config
}

/// The one INIT chunk in `bytes`, if it is one that may begin an association.
fn read_chunk(bytes: &[u8], ours: Extensions) -> Option<Offer> {
    if bytes.len() > MAX_CHUNK {
        return None;
    }
    // RFC 9260 §3.2: a chunk's length leaves its padding out, and so do those who send one alone.
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
