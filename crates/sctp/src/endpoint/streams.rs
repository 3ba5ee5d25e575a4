//! What the application may ask of an association's streams: to begin anew, to
//! become more, to give up what is on them, and in which order they take turns.
//!
//! Home of RFC 6525 §6.3, RFC 7496 §4.3 and §4.4, and RFC 8260 §4.3.2 and §4.3.3
//! as far as the engine goes.

use super::{AssociationId, Endpoint};
use crate::association::{Association, Ctx};
use crate::config::SchedulerKind;
use crate::error::{ResetError, SchedulerError};
use crate::event::Direction;
use crate::reliability::{Abandoned, Policy};
use anabranch_base::Instant;

impl Endpoint {
    /// How many messages were given up: on one stream or on all, by one policy
    /// or by any (RFC 7496 §4.3, §4.4). `None` when there is no such association.
    ///
    /// ```
    /// # use anabranch_base::time::Duration;
    /// # use anabranch_sctp::{testing::Pair, Config, Message, Policy, Reliability};
    /// let mut config = Config::default();
    /// config.set("partial_reliability", "yes")?;
    /// # let (mut pair, id, _) = Pair::associated(&config);
    /// # pair.network.cut.push(0);
    /// let reliability = Reliability::Lifetime(Duration::from_millis(50));
    /// pair.a.send(pair.now, id, Message { reliability, ..Message::default() }, b"too late soon")?;
    /// pair.settle();
    /// let lost = pair.a.abandoned(id, None, Some(Policy::Lifetime)).unwrap_or_default();
    /// assert_eq!((lost.sent, lost.unsent), (1, 0), "nothing gets through");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn abandoned(
        &self,
        id: AssociationId,
        stream: Option<u16>,
        policy: Option<Policy>,
    ) -> Option<Abandoned> {
        self.association(id).map(|association| association.abandoned(stream, policy))
    }

    /// Gives up everything on `stream` that is not acknowledged: what has not been sent is dropped,
    /// what has is abandoned where both sides support partial reliability (RFC 3758), else finished.
    /// `Event::Abandoned` tells of each message. With [`reset_streams`](Self::reset_streams) behind
    /// it the stream can be used anew, as if nothing had been on it.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Event, Message, SendError};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// pair.a.send(pair.now, id, Message { stream: 4, context: 7, ..Message::default() }, b"never mind")?;
    /// pair.a.cancel(pair.now, id, 4);
    /// let gone = |event: &Event| matches!(event, Event::Abandoned { context: 7, sent: false, .. });
    /// assert!(pair.events(Side::A).iter().any(gone));
    /// # Ok::<(), SendError>(())
    /// ```
    pub fn cancel(&mut self, now: Instant, id: AssociationId, stream: u16) {
        let Some(slot) = self.find(id) else { return };
        self.with(now, slot, |association, _| association.cancel(stream));
    }

    /// Has `Event::BufferedAmountLow` tell each time that the [buffered amount](Self::buffered_amount) of `stream` falls
    /// from more than `low` bytes to so many or fewer; `None`: no more. False when there is no such stream or
    /// association.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Event, Message, SendError};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// assert!(pair.a.set_buffered_amount_low(id, 3, Some(10_000)));
    /// pair.a.send(pair.now, id, Message { stream: 3, ..Message::default() }, &[7; 100_000])?;
    /// pair.settle();
    /// let low = Event::BufferedAmountLow { id, stream: 3 };
    /// assert_eq!(pair.events(Side::A).iter().filter(|event| **event == low).count(), 1);
    /// # Ok::<(), SendError>(())
    /// ```
    pub fn set_buffered_amount_low(&mut self, id: AssociationId, stream: u16, low: Option<u64>) -> bool {
        let Some(slot) = self.find(id) else { return false };
        let association = self.slots[slot as usize].association.as_deref_mut();
        association.is_some_and(|association| association.set_low(stream, low))
    }

    /// Lets `streams` (none: all) begin anew: their next ordered message has
    /// number 0. What was given to `send` before goes out first; what is given
    /// from now on waits until the peer has agreed. `Event::StreamsReset` or
    /// `Event::ResetFailed` follows, one a direction, several for long lists
    /// (RFC 6525 §6.3.2).
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Direction, Event};
    /// let mut config = Config::default();
    /// config.set("reconfig", "yes")?;
    /// let (mut pair, id, _) = Pair::associated(&config);
    /// pair.a.reset_streams(pair.now, id, Direction::Outgoing, &[3])?;
    /// pair.settle();
    /// let reset = |event: &Event| matches!(event, Event::StreamsReset { streams, .. } if *streams == [3]);
    /// assert!(pair.events(Side::A).iter().any(reset));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ResetError`]; nothing was asked.
    pub fn reset_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        direction: Direction,
        streams: &[u16],
    ) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association, ctx| association.reset_streams(ctx, direction, streams))
    }

    /// Lets all TSNs and SSNs of both sides begin anew, once everything sent
    /// is acknowledged. `Event::AssociationReset` or `Event::ResetFailed`
    /// follows (RFC 6525 §6.3.3). Once in 30 s.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Event};
    /// let mut config = Config::default();
    /// config.set("reconfig", "yes")?;
    /// let (mut pair, id, _) = Pair::associated(&config);
    /// pair.a.reset_association(pair.now, id)?;
    /// pair.settle();
    /// let reset = |event: &Event| matches!(event, Event::AssociationReset { .. });
    /// assert!(pair.events(Side::A).iter().any(reset));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ResetError`]; nothing was asked.
    pub fn reset_association(&mut self, now: Instant, id: AssociationId) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association, ctx| association.reset_association(ctx))
    }

    /// Asks for more streams: to send on, and for the peer to send on.
    /// `Event::StreamsAdded` or `Event::AddFailed` follows for each (RFC 6525 §6.3.4).
    ///
    /// ```
    /// # use anabranch_sctp::testing::Pair;
    /// # use anabranch_sctp::Config;
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// let refused = pair.a.add_streams(pair.now, id, 10, 0);
    /// assert!(refused.is_err(), "without reconfig=yes at both ends");
    /// ```
    ///
    /// # Errors
    /// [`ResetError`]; nothing was asked.
    pub fn add_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association, ctx| association.add_streams(ctx, outgoing, incoming))
    }

    fn reconfigure(
        &mut self,
        now: Instant,
        id: AssociationId,
        ask: impl FnOnce(&mut Association, &mut Ctx<'_>) -> Result<(), ResetError>,
    ) -> Result<(), ResetError> {
        let Some(slot) = self.find(id) else {
            return Err(if self.is_past(id) { ResetError::Closing } else { ResetError::Unknown });
        };
        self.with(now, slot, ask).unwrap_or(Err(ResetError::Unknown))
    }

    /// Changes the order in which streams with something to send take turns
    /// (RFC 8260 §4.3.2): from the next message on, or from the next chunk on
    /// with interleaving. The configuration says how an association begins.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message, SchedulerKind};
    /// # let (mut pair, id, there) = Pair::associated(&Config::default());
    /// pair.a.set_scheduler(pair.now, id, SchedulerKind::RoundRobin)?;
    /// for stream in [1, 1, 2] {
    ///     pair.a.send(pair.now, id, Message { stream, ..Message::default() }, b"hello")?;
    /// }
    /// pair.settle();
    /// let mut tsn = |stream| pair.b.recv(pair.now, there, stream, &mut [0; 9]).map(|got| got.map(|got| got.tsn));
    /// assert!(tsn(1)? < tsn(2)? && tsn(2)? < tsn(1)?, "the streams take turns");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SchedulerError`].
    pub fn set_scheduler(
        &mut self,
        now: Instant,
        id: AssociationId,
        kind: SchedulerKind,
    ) -> Result<(), SchedulerError> {
        let slot = self.find(id).ok_or(SchedulerError::Unknown)?;
        let set = self.with(now, slot, |association, _| association.set_scheduler(kind));
        set.ok_or(SchedulerError::Unknown)
    }

    /// A stream's priority (0 goes first) or its weight (0 counts as 1), for
    /// the schedulers that know one (RFC 8260 §4.3.3). It is kept when the
    /// scheduler changes.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Event, Message, SchedulerKind};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// pair.a.set_scheduler(pair.now, id, SchedulerKind::Priority)?;
    /// pair.a.set_stream_value(pair.now, id, 1, 10)?;
    /// for stream in [1, 2] {
    ///     pair.a.send(pair.now, id, Message { stream, ..Message::default() }, b"hello")?;
    /// }
    /// pair.settle();
    /// let first = pair.events(Side::B).into_iter().find(|event| matches!(event, Event::Readable { .. }));
    /// assert!(matches!(first, Some(Event::Readable { stream: 2, .. })), "it has priority 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SchedulerError`].
    pub fn set_stream_value(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        value: u16,
    ) -> Result<(), SchedulerError> {
        let slot = self.find(id).ok_or(SchedulerError::Unknown)?;
        self.with(now, slot, |association, _| association.set_stream_value(stream, value))
            .unwrap_or(Err(SchedulerError::Unknown))
    }
}
