//! The actions of the applications in a storm: sending, cancelling, resetting streams, changing addresses, and ending
//! associations.

use crate::choices::{SCHEDULERS, on, pick};
use crate::net::{self, A, B, Net};
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_sctp::{AssociationState, Direction, Message, Reliability, SendError};
use anabranch_wire::ladder::Side;

/// The messages that one side sends, and its other actions.
pub(crate) struct Work {
    pub(crate) messages: Vec<(Message, usize)>,
    /// The number of messages that were sent so far.
    pub(crate) sent: usize,
    /// The time between two messages.
    pub(crate) pause: Duration,
    pub(crate) next: Instant,
    pub(crate) shutdown: bool,
    pub(crate) abort_at: Option<Instant>,
    /// The random numbers for changes of the scheduler and of stream priorities, if the side makes such changes.
    pub(crate) scheduler_rng: Option<Rng>,
    /// The times at which the side requests a reset of streams, or additional streams.
    pub(crate) reconfig_times: Vec<Instant>,
    /// The random numbers with which the side cancels messages of streams; `None` if the side cancels no messages.
    pub(crate) cancel_rng: Option<Rng>,
    pub(crate) requested: bool,
}

fn reliability(rng: &mut Rng) -> Reliability {
    match rng.below(3) {
        0 => Reliability::Lifetime(Duration::from_millis(pick(rng, &[0, 1, 50, 400, 3_000, 30_000]))),
        1 => Reliability::Retransmissions(pick(rng, &[0, 0, 1, 3])),
        _ => Reliability::Priority(rng.below(5) as u32),
    }
}

pub(crate) fn plan(rng: &mut Rng, side: Side) -> Work {
    let count = if rng.below(5) == 0 { 0 } else { rng.below(60) as usize };
    let largest = pick(rng, &[10, 500, 3_000, 20_000]);
    let unordered = pick(rng, &[0, 0, 3, 10]);
    let limited = pick(rng, &[0, 0, 3, 10]);
    let messages = (0..count)
        .map(|_| {
            let unordered = rng.below(10) < unordered;
            let limited = rng.below(10) < limited;
            let reliability = if limited { reliability(rng) } else { Reliability::Full };
            let message = Message {
                stream: rng.below(25) as u16,
                ppid: rng.next_u32(),
                unordered,
                immediate: rng.below(10) == 0,
                reliability,
                ..Message::default()
            };
            // An unordered message, or a message that may be abandoned, must be long enough to carry its number.
            let least = if unordered || limited { 8 } else { 1 };
            (message, (1 + rng.below(largest) as usize).max(least))
        })
        .collect();
    Work {
        messages,
        sent: 0,
        pause: Duration::from_millis(pick(rng, &[0, 0, 5, 300])),
        next: Instant::ZERO,
        shutdown: false,
        abort_at: None,
        scheduler_rng: None,
        reconfig_times: Vec::new(),
        cancel_rng: None,
        requested: side == B,
    }
}

/// Makes one side lose or regain an address other than its first address.
pub(crate) fn change_address(net: &mut Net, rng: &mut Rng, networks: usize) {
    if net.now >= Instant::from_millis(60_000) || rng.below(4) != 0 {
        return;
    }
    // Addresses do not change during the handshake. Otherwise an INIT could come from an address that no earlier INIT
    // listed, and would be refused.
    let up = |end: &net::TestEndpoint| {
        let info = end.ids.last().and_then(|&id| end.engine.info(id));
        info.is_some_and(|info| info.state == AssociationState::Established)
    };
    if !net.ends.iter().all(up) {
        return;
    }
    let (side, now) = (pick(rng, &[A, B]), net.now);
    let address = net::address(side, 2 + rng.below(networks as u64 - 1) as usize);
    let engine = &mut net.end(side).engine;
    if engine.addresses().contains(&address) {
        engine.remove_address(now, address.ip());
    } else {
        engine.add_address(now, address, 1500);
    }
}

/// Makes the application of one side carry out all actions that are due and possible now.
pub(crate) fn act(net: &mut Net, side: Side, work: &mut [Work; 2], number: &mut u64) {
    let now = net.now;
    let work = &mut work[side as usize];
    let Some(&id) = net.ends[side as usize].ids.last() else { return };
    work.requested = false;
    let [a, b] = &mut net.ends;
    let (end, peer) = if side == A { (a, b) } else { (b, a) };
    let Some(info) = end.engine.info(id) else {
        work.requested = true;
        return;
    };
    if info.state == AssociationState::Closed {
        work.requested = true;
        return;
    }
    if work.abort_at.is_some_and(|at| at <= now) {
        end.engine.abort(now, id);
        work.requested = true;
        return;
    }
    if let Some(rng) = &mut work.scheduler_rng
        && rng.below(4) == 0
    {
        end.engine.set_scheduler(now, id, pick(rng, SCHEDULERS)).expect("the association is there");
        let (stream, value) = (rng.below(30) as u16, rng.below(5) as u16);
        let set = end.engine.set_stream_value(now, id, stream, value);
        assert_eq!(set.is_ok(), stream < info.outbound_streams, "{side:?}: {set:?}");
    }
    if let Some(rng) = &mut work.cancel_rng
        && rng.below(8) == 0
    {
        let stream = rng.below(25) as u16 % info.outbound_streams;
        end.engine.cancel(now, id, stream);
        if on(rng) {
            // An application that wants to use the cancelled stream again also resets the stream.
            let _ = end.engine.reset_streams(now, id, Direction::Both, &[stream]);
        }
    }
    while work.sent < work.messages.len() && work.next <= now {
        let (mut message, length) = work.messages[work.sent];
        // Until the association is established, only stream 0 is certain to exist.
        let early = matches!(info.state, AssociationState::CookieWait | AssociationState::CookieEchoed);
        message.stream %= if early { 1 } else { info.outbound_streams };
        let mut account = std::mem::take(&mut peer.app);
        let result = end.send(now, id, message, *number, length, &mut account);
        peer.app = account;
        match result {
            Ok(()) => {
                *number += 1;
                work.sent += 1;
                work.next = now + work.pause;
            }
            Err(SendError::Full) => {
                work.next = now + Duration::from_millis(50);
                return;
            }
            Err(SendError::Closing | SendError::TooLarge) => work.sent += 1,
            Err(error) => panic!("{side:?}: {error}"),
        }
    }
    if work.sent == work.messages.len() && work.shutdown {
        end.engine.shutdown(now, id);
        work.requested = true;
    }
    if work.sent == work.messages.len() {
        work.next = Instant::MAX;
    }
}

/// Makes the application of one side request a reset of streams, or additional streams (RFC 6525). The request may be
/// refused. In any case, the messages of each stream must arrive in order.
pub(crate) fn wish(net: &mut Net, side: Side, work: &mut Work, rng: &mut Rng) {
    let now = net.now;
    while work.reconfig_times.first().is_some_and(|&at| at <= now) {
        work.reconfig_times.remove(0);
        let end = net.end(side);
        let Some(&id) = end.ids.last() else { continue };
        let direction = pick(rng, &[Direction::Outgoing, Direction::Incoming, Direction::Both]);
        let streams: Vec<u16> = (0..rng.below(4)).map(|_| rng.below(20) as u16).collect();
        // The engine may refuse a request that is impossible in the present state. A refusal has no other effect.
        let _ = match rng.below(8) {
            0 => end.engine.reset_association(now, id),
            1 => end.engine.add_streams(now, id, rng.below(3) as u16, rng.below(3) as u16),
            _ => end.engine.reset_streams(now, id, direction, &streams),
        };
    }
}
