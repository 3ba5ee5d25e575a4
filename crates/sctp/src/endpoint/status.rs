//! Status and counters of associations.
//!
//! Implements RFC 9260 §11.1.8 (Status) and §11.1.11 (status of paths).

use super::{AssociationId, Endpoint};
use crate::association::Association;
use crate::recv::Upcoming;
use crate::stats::{AssociationInfo, AssociationStats, Totals};

impl Endpoint {
    /// Returns the current status of an association.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, AssociationState, Config};
    /// # let (pair, id, _) = Pair::associated(&Config::default());
    /// let info = pair.a.info(id).expect("it is up");
    /// assert_eq!((info.state, info.peer_port), (AssociationState::Established, 80));
    /// assert!(info.paths[0].primary);
    /// ```
    #[must_use]
    pub fn info(&self, id: AssociationId) -> Option<AssociationInfo> {
        self.association(id).map(Association::info)
    }

    /// Returns the counters of an association.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message, SendError};
    /// # let (mut pair, id, there) = Pair::associated(&Config::default());
    /// pair.a.send(pair.now, id, Message::default(), b"hello")?;
    /// pair.settle();
    /// assert_eq!(pair.b.stats(there).map(|stats| stats.data_received), Some(1));
    /// # Ok::<(), SendError>(())
    /// ```
    #[must_use]
    pub fn stats(&self, id: AssociationId) -> Option<AssociationStats> {
        self.association(id).map(Association::stats)
    }

    /// Returns the number of associations, in whatever state.
    #[must_use]
    pub fn associations(&self) -> usize {
        self.slots.iter().filter(|slot| slot.association.is_some()).count()
    }

    /// Returns the counters of all associations, including those that have ended.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// pair.a.abort(pair.now, id);
    /// assert!(pair.a.stats(id).is_none(), "it is gone");
    /// assert_eq!(pair.a.totals().sum.packets_sent, 3, "INIT, COOKIE ECHO, ABORT");
    /// ```
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals.clone();
        for association in self.slots.iter().filter_map(|slot| slot.association.as_ref()) {
            totals.sum.add(&association.stats());
            totals.add_paths(association.path_infos());
        }
        totals.path_changes = self.path_changes.clone();
        totals.interruptions = self.interruptions.clone();
        totals
    }

    /// Returns the free space in the send buffer in bytes.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message, SendError};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// let room = pair.a.writable_bytes(id);
    /// pair.a.send(pair.now, id, Message::default(), &[7; 1_000])?;
    /// assert_eq!(pair.a.writable_bytes(id), room - 1_000, "until it is acknowledged");
    /// # Ok::<(), SendError>(())
    /// ```
    #[must_use]
    pub fn writable_bytes(&self, id: AssociationId) -> usize {
        self.association(id).map_or(0, |association| association.sending().writable_bytes() as usize)
    }

    /// Returns the number of bytes that were passed to `send` on `stream` and are neither acknowledged nor abandoned.
    /// This is the `bufferedAmount` of a data channel plus the bytes in flight. Returns 0 if there is no such
    /// association or stream.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message, SendError};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// pair.a.send(pair.now, id, Message { stream: 3, ..Message::default() }, &[7; 1_000])?;
    /// assert_eq!([2, 3].map(|stream| pair.a.buffered_amount(id, stream)), [0, 1_000]);
    /// pair.settle();
    /// assert_eq!(pair.a.buffered_amount(id, 3), 0, "all of it has arrived");
    /// # Ok::<(), SendError>(())
    /// ```
    #[must_use]
    pub fn buffered_amount(&self, id: AssociationId, stream: u16) -> usize {
        self.association(id).map_or(0, |association| association.sending().buffered_on(stream) as usize)
    }

    /// Returns the number of bytes that a `recv` on `stream` would return now.
    #[must_use]
    pub fn readable_bytes(&self, id: AssociationId, stream: u16) -> usize {
        self.association(id).map_or(0, |association| association.receiving().readable_bytes(stream))
    }

    /// Returns the message from which [`recv_next`](Self::recv_next) would read now.
    pub(crate) fn upcoming(&self, id: AssociationId) -> Option<Upcoming> {
        self.association(id)?.receiving().upcoming()
    }

    /// Returns the size in bytes of the largest message that is not fragmented.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let (pair, id, _) = Pair::associated(&Config::default());
    /// assert_eq!(pair.a.fragment_size(id), 1_452, "1500 less IPv4, SCTP and DATA headers");
    /// ```
    #[must_use]
    pub fn fragment_size(&self, id: AssociationId) -> usize {
        self.association(id).map_or(0, |association| association.sending().largest() as usize)
    }

    /// Returns whether both sides use I-DATA (RFC 8260). If so, a large message does not hold up messages on other
    /// streams. Returns false until the peer has agreed to I-DATA.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, KnobError};
    /// let mut config = Config::default();
    /// config.set("interleaving", "yes")?;
    /// let (pair, id, _) = Pair::associated(&config);
    /// assert!(pair.a.interleaves(id));
    /// # Ok::<(), KnobError>(())
    /// ```
    #[must_use]
    pub fn interleaves(&self, id: AssociationId) -> bool {
        self.association(id).is_some_and(|association| association.extensions().agreed().interleaving)
    }

    /// Returns the cumulative TSN received: the highest TSN up to which all chunks have arrived. Returns 0 for an
    /// unknown association.
    pub(crate) fn cumulative_tsn(&self, id: AssociationId) -> u32 {
        self.association(id).map_or(0, |association| association.receiving().cumulative().0)
    }

    /// Returns the `connection` value in this association's trace records, which is the initiator's port.
    #[must_use]
    pub fn trace_key(&self, id: AssociationId) -> Option<u64> {
        self.association(id).map(Association::trace_key)
    }
}
