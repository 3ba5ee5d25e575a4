//! The methods with which the application resets streams, adds streams, cancels messages, and sets the scheduler.
//!
//! Implements RFC 6525 §6.3, RFC 7496 §4.3 and §4.4, and RFC 8260 §4.3.2 and §4.3.3 as far as they concern the engine.

use super::{AssociationId, Endpoint};
use crate::association::{Association, Ctx};
use crate::config::SchedulerKind;
use crate::error::{ResetError, SchedulerError};
use crate::event::Direction;
use crate::reliability::{Abandoned, Policy};
use anabranch_base::Instant;

impl Endpoint {
    /// Returns the number of abandoned messages (RFC 7496 §4.3, §4.4). If `stream` is `None`, the messages of all
    /// streams are counted. If `policy` is `None`, the messages of all policies are counted. The result is `None` if
    /// there is no such association.
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

    /// Cancels all messages on `stream` that are not acknowledged. Unsent messages are dropped. Partly sent messages
    /// are abandoned if both sides support partial reliability (RFC 3758). Otherwise partly sent messages are still
    /// delivered. Each cancelled message is reported as an `Event::Abandoned`. A [`reset_streams`](Self::reset_streams)
    /// after this call makes the stream usable as if nothing had been sent on it.
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

    /// Sets the threshold for `Event::BufferedAmountLow`. The event comes each time the [buffered
    /// amount](Self::buffered_amount) of `stream` falls from more than `low` bytes to at most `low` bytes. `None` turns
    /// the event off. Returns false if there is no such stream or association.
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

    /// Resets `streams`, or all streams if the list is empty. The next ordered message of each of these streams has
    /// sequence number 0. Messages passed to `send` before this call are sent before the reset. Messages passed to
    /// `send` from now on wait until the peer has agreed. For each direction, `Event::StreamsReset` or
    /// `Event::ResetFailed` follows (RFC 6525 §6.3.2). A long list causes several such events.
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
    /// [`ResetError`]; no request is made.
    pub fn reset_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        direction: Direction,
        streams: &[u16],
    ) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association, ctx| association.reset_streams(ctx, direction, streams))
    }

    /// Resets all TSNs and SSNs of both sides, once all sent data is acknowledged. `Event::AssociationReset` or
    /// `Event::ResetFailed` follows (RFC 6525 §6.3.3). One such reset is allowed every 30 s.
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
    /// [`ResetError`]; no request is made.
    pub fn reset_association(&mut self, now: Instant, id: AssociationId) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association, ctx| association.reset_association(ctx))
    }

    /// Requests more streams: `outgoing` for this side and `incoming` for the peer. `Event::StreamsAdded` or
    /// `Event::AddFailed` follows for each direction (RFC 6525 §6.3.4).
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
    /// [`ResetError`]; no request is made.
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

    /// Sets the scheduler that chooses among streams with data to send (RFC 8260 §4.3.2). The new scheduler chooses the
    /// stream of the next message or, with interleaving, of the next chunk. A new association starts with the scheduler
    /// of its configuration.
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

    /// Sets a stream's priority (0 is the highest) or weight (0 counts as 1). The scheduler decides whether the value
    /// is a priority, a weight, or unused (RFC 8260 §4.3.3). The value is kept when the scheduler changes.
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
