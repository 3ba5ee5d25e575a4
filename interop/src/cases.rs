//! The interoperability test cases that are run with every foreign SCTP stack, and what each case requires.
//!
//! The following holds for every test case. Each message must be delivered intact and once, and ordered messages in
//! order. Only messages that may be abandoned can be missing. The code of a case checks its further requirements.

use crate::meeting::{Meeting, Setup, Shown, run};
use crate::peer::DeliveryOptions;
use crate::peers::Stack;
use anabranch_base::Rng;
use anabranch_base::time::Duration;
use anabranch_sctp::{CloseReason, Direction, Reliability};
use std::fmt;

/// The side that acts in a test case: our endpoint (`Us`) or the foreign one (`Them`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Our endpoint.
    Us,
    /// The foreign endpoint.
    Them,
}

/// A test case that is run with a foreign SCTP stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// The handshake of an association. The given side sends the INIT.
    Handshake(By),
    /// Messages of all sizes on one stream.
    Ordered,
    /// Unordered messages of all sizes on one stream.
    Unordered,
    /// Messages of 100 kB, each of which is sent in several DATA chunks.
    Fragmented,
    /// Messages on 64 streams at once.
    ManyStreams,
    /// Messages of all kinds, with 5 % loss, some reordering and some duplicates.
    Lossy,
    /// The given side resets streams (RFC 6525).
    Reset(By),
    /// The given side sends messages with a lifetime, and packets are lost (RFC 3758).
    Lifetime(By),
    /// The peer queues messages of all sizes with a lifetime, and packets are lost.
    LifetimeBulk,
    /// The given side sends messages that are abandoned after one or two transmissions, and packets are lost (RFC 3758,
    /// RFC 7496).
    Retransmissions(By),
    /// Messages in I-DATA chunks, with loss (RFC 8260).
    Interleaving,
    /// The given side abandons messages in I-DATA chunks with I-FORWARD-TSN (RFC 8260).
    ForwardInterleaved(By),
    /// Packets without a checksum (RFC 9653).
    ZeroChecksum,
    /// The given side shuts down gracefully while data is in flight.
    Shutdown(By),
    /// The peer shuts down gracefully while data of its own is still unsent.
    ShutdownQueued,
    /// The given side sends an ABORT.
    Abort(By),
}

impl Case {
    /// All cases, in the order of the table.
    pub const ALL: [Self; 23] = [
        Self::Handshake(By::Us),
        Self::Handshake(By::Them),
        Self::Ordered,
        Self::Unordered,
        Self::Fragmented,
        Self::ManyStreams,
        Self::Lossy,
        Self::Reset(By::Us),
        Self::Reset(By::Them),
        Self::Lifetime(By::Us),
        Self::Lifetime(By::Them),
        Self::LifetimeBulk,
        Self::Retransmissions(By::Us),
        Self::Retransmissions(By::Them),
        Self::Interleaving,
        Self::ForwardInterleaved(By::Us),
        Self::ForwardInterleaved(By::Them),
        Self::ZeroChecksum,
        Self::Shutdown(By::Us),
        Self::Shutdown(By::Them),
        Self::ShutdownQueued,
        Self::Abort(By::Us),
        Self::Abort(By::Them),
    ];

    /// Returns two lists of chunk types: those that our side must have sent in at least one seed, and those that the
    /// peer must have sent. Without these chunks the case has tested nothing.
    #[must_use]
    pub const fn must_show(self) -> (&'static [u8], &'static [u8]) {
        const RE_CONFIG: &[u8] = &[0x82];
        const FORWARD: &[u8] = &[0xc0];
        const I_DATA: &[u8] = &[0x40];
        const I_FORWARD: &[u8] = &[0x40, 0xc2];
        const ABORT: &[u8] = &[0x06];
        match self {
            Self::Reset(By::Us) => (RE_CONFIG, &[]),
            Self::Reset(By::Them) => (&[], RE_CONFIG),
            Self::Lifetime(By::Us) | Self::Retransmissions(By::Us) => (FORWARD, &[]),
            Self::Lifetime(By::Them) | Self::Retransmissions(By::Them) => (&[], FORWARD),
            Self::Interleaving => (I_DATA, I_DATA),
            Self::ForwardInterleaved(By::Us) => (I_FORWARD, &[]),
            Self::ForwardInterleaved(By::Them) => (&[], I_FORWARD),
            Self::Shutdown(By::Us) => (&[0x07, 0x0e], &[0x08]),
            Self::Shutdown(By::Them) => (&[0x08], &[0x07, 0x0e]),
            Self::Abort(By::Us) => (ABORT, &[]),
            Self::Abort(By::Them) => (&[], ABORT),
            _ => (&[], &[]),
        }
    }

    const fn is_interleaved(self) -> bool {
        matches!(self, Self::Interleaving | Self::ForwardInterleaved(_))
    }

    /// Returns the simulated link for one run of the test case, with random values.
    fn link(self, rng: &mut Rng) -> String {
        let (rtt, rate) = (20 + rng.below(80), 1 + rng.below(50));
        let link = format!("rate={rate}mbit,rtt={rtt}ms,queue=400p");
        match self {
            Self::Lossy | Self::Interleaving => {
                let behind = 1 + rng.below(8);
                format!("{link},loss=5%,duplicate=2%,reorder=5%/{behind}ms")
            }
            Self::Lifetime(_)
            | Self::LifetimeBulk
            | Self::Retransmissions(_)
            | Self::ForwardInterleaved(_) => {
                format!("{link},loss=5%,reorder=2%/3ms")
            }
            Self::Reset(_) if rng.below(2) == 0 => format!("{link},loss=3%"),
            _ => link,
        }
    }

    /// Runs the test case once.
    ///
    /// # Errors
    /// The condition that was violated, and the last packets.
    pub fn run(self, stack: Stack, seed: u64) -> Result<Shown, String> {
        let mut rng = Rng::new(seed).fork("setup");
        let is_initiator = match self {
            Self::Handshake(by) => by == By::Us,
            _ => rng.below(2) == 0,
        };
        let setup = Setup {
            stack,
            seed,
            link: self.link(&mut rng),
            is_initiator,
            interleaving: self.is_interleaved(),
            zero_checksum: self == Self::ZeroChecksum,
        };
        let shown = run(&setup, async |m: &mut Meeting| {
            m.up().await?;
            match self {
                Self::Handshake(_) => both(m, 1, |_| (DeliveryOptions::default(), 100)).await,
                Self::Ordered => both(m, 200, |rng| (DeliveryOptions::default(), any_size(rng))).await,
                Self::Unordered => {
                    both(m, 200, |rng| {
                        (DeliveryOptions { unordered: true, ..DeliveryOptions::default() }, any_size(rng))
                    })
                    .await
                }
                Self::Fragmented => both(m, 6, |rng| (on(rng.below(2) as u16), 100_000)).await,
                Self::ManyStreams => both(m, 400, |rng| (on(rng.below(64) as u16), any_size(rng))).await,
                Self::Lossy | Self::Interleaving => both(m, 120, mixed).await,
                Self::ZeroChecksum => both(m, 100, mixed).await,
                Self::Reset(by) => reset(m, by).await,
                Self::Lifetime(By::Us) => limited(m, By::Us, any_size, lifetime).await,
                Self::Lifetime(By::Them) => trickle(m).await,
                Self::LifetimeBulk => limited(m, By::Them, any_size, lifetime).await,
                Self::Retransmissions(by) | Self::ForwardInterleaved(by) => {
                    limited(m, by, any_size, |rng| Reliability::Retransmissions(rng.below(2) as u32)).await
                }
                Self::Shutdown(by) => shutdown(m, by, by == By::Us).await,
                Self::ShutdownQueued => shutdown(m, By::Them, true).await,
                Self::Abort(by) => abort(m, by).await,
            }
        })?;
        let has = |seen: &crate::peer::Seen, kind| seen.count(kind) > 0;
        if self.is_interleaved() && (has(&shown.from_us, 0) || has(&shown.from_them, 0)) {
            return Err("DATA where it was to be I-DATA".to_owned());
        }
        if self == Self::ZeroChecksum && (shown.from_us.unsummed == 0 || shown.from_them.unsummed == 0) {
            let (us, them) = (shown.from_us.unsummed, shown.from_them.unsummed);
            return Err(format!("packets without a checksum: {us} of ours, {them} of theirs"));
        }
        Ok(shown)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake(By::Us) => "handshake, we begin",
            Self::Handshake(By::Them) => "handshake, they begin",
            Self::Ordered => "ordered",
            Self::Unordered => "unordered",
            Self::Fragmented => "fragmented, 100 kB",
            Self::ManyStreams => "64 streams",
            Self::Lossy => "5 % loss, reordering, duplicates",
            Self::Reset(By::Us) => "stream reset, ours",
            Self::Reset(By::Them) => "stream reset, theirs",
            Self::Lifetime(By::Us) => "lifetime, we send",
            Self::Lifetime(By::Them) => "lifetime, they send",
            Self::LifetimeBulk => "lifetime, they send in bulk",
            Self::Retransmissions(By::Us) => "retransmission limit, we send",
            Self::Retransmissions(By::Them) => "retransmission limit, they send",
            Self::Interleaving => "I-DATA, with loss",
            Self::ForwardInterleaved(By::Us) => "I-FORWARD-TSN, we send",
            Self::ForwardInterleaved(By::Them) => "I-FORWARD-TSN, they send",
            Self::ZeroChecksum => "zero checksum",
            Self::Shutdown(By::Us) => "shutdown, we begin",
            Self::Shutdown(By::Them) => "shutdown, they begin",
            Self::ShutdownQueued => "shutdown, they begin, data queued",
            Self::Abort(By::Us) => "abort by us",
            Self::Abort(By::Them) => "abort by them",
        })
    }
}

fn on(stream: u16) -> DeliveryOptions {
    DeliveryOptions { stream, ..DeliveryOptions::default() }
}

/// Returns a random message size. Most messages are small, but some need several chunks.
fn any_size(rng: &mut Rng) -> usize {
    let most = [20, 500, 1_300, 6_000][rng.below(4) as usize];
    4 + rng.below(most) as usize
}

/// Returns random delivery options and a random size for a message.
fn mixed(rng: &mut Rng) -> (DeliveryOptions, usize) {
    let options = DeliveryOptions { unordered: rng.below(4) == 0, ..on(rng.below(10) as u16) };
    let size = if rng.below(20) == 0 { 40_000 } else { any_size(rng) };
    (options, size)
}

fn lifetime(rng: &mut Rng) -> Reliability {
    Reliability::Lifetime(Duration::from_millis(20 + rng.below(200)))
}

/// Sends a message from one of the two sides.
fn post(m: &mut Meeting, by: By, options: DeliveryOptions, size: usize) -> Result<(), String> {
    match by {
        By::Us => {
            m.post_ours(options, size);
            Ok(())
        }
        By::Them => m.post_theirs(options, size),
    }
}

/// Sends `count` messages in each direction, and waits until all have arrived.
async fn both(
    m: &mut Meeting,
    count: usize,
    make: impl Fn(&mut Rng) -> (DeliveryOptions, usize),
) -> Result<(), String> {
    for number in 0..count {
        for by in [By::Us, By::Them] {
            let (options, size) = make(&mut m.rng);
            post(m, by, options, size)?;
        }
        if number % 20 == 19 {
            let span = Duration::from_millis(m.rng.below(30));
            m.pause(span).await;
        }
    }
    m.until("the messages", Meeting::all_arrived).await
}

/// Side `by` sends messages on four streams, resets two of them, and sends more messages on all four. The other side
/// must be notified of the resets, and the SSNs of the reset streams must start at zero again.
async fn reset(m: &mut Meeting, by: By) -> Result<(), String> {
    for round in 0..3 {
        for _ in 0..20 {
            let (options, size) = (on(m.rng.below(4) as u16), any_size(&mut m.rng));
            post(m, by, options, size)?;
        }
        // Sends a message on every stream, because a stream without messages need not be reset.
        for stream in 0..4 {
            post(m, by, on(stream), 10)?;
        }
        if m.rng.below(2) == 0 || by == By::Them {
            m.until("the messages before the reset", Meeting::all_arrived).await?;
        }
        let expected = 2 * (round + 1);
        match by {
            By::Us => {
                m.tell_ours(|endpoint, now, id| {
                    endpoint.reset_streams(now, id, Direction::Outgoing, &[1, 2])
                })
                .map_err(|error| error.to_string())?;
                m.until("our reset", |m| {
                    let ours = m.ours();
                    let granted = ours.resets.iter().filter(|reset| reset.0 == Direction::Outgoing).count();
                    assert!(ours.refused == 0, "they refused");
                    granted > round && m.theirs().ours_reset.len() >= expected
                })
                .await?;
            }
            By::Them => {
                m.tell_theirs(|foreign, now| foreign.peer.reset(now, &[1, 2]))?;
                m.until("their reset", |m| {
                    let ours = m.ours();
                    let reset = ours.resets.iter().filter(|reset| reset.0 == Direction::Incoming);
                    reset.map(|reset| reset.1.len()).sum::<usize>() >= expected
                })
                .await?;
                // RFC 8831 §6.7: a data channel ends when both directions have been reset. Stacks for data channels use
                // the stream again only after that, so our side resets its streams, too.
                m.tell_ours(|endpoint, now, id| {
                    endpoint.reset_streams(now, id, Direction::Outgoing, &[1, 2])
                })
                .map_err(|error| error.to_string())?;
                m.until("our reset in answer", |m| {
                    let ours = m.ours();
                    ours.resets.iter().filter(|reset| reset.0 == Direction::Outgoing).count() > round
                })
                .await?;
                // The peer must not use the reset streams again until our answer to its reset has arrived.
                m.pause(Duration::from_secs(5)).await;
            }
        }
    }
    for stream in 0..4 {
        post(m, by, on(stream), 1000)?;
    }
    m.until("the messages after the reset", Meeting::all_arrived).await
}

/// Sends messages on six streams. On five streams, messages may be abandoned after the given limit; on the sixth
/// stream, messages are fully reliable.
async fn limited(
    m: &mut Meeting,
    by: By,
    size: impl Fn(&mut Rng) -> usize,
    limit: impl Fn(&mut Rng) -> Reliability,
) -> Result<(), String> {
    for _ in 0..8 {
        for _ in 0..25 {
            let stream = m.rng.below(6) as u16;
            // All messages of a stream have the same reliability, as in data channels.
            let reliability = if stream < 5 { limit(&mut m.rng) } else { Reliability::Full };
            let options = DeliveryOptions { stream, unordered: stream % 2 == 1, reliability };
            let size = size(&mut m.rng);
            post(m, by, options, size)?;
        }
        let span = Duration::from_millis(10 + m.rng.below(80));
        m.pause(span).await;
    }
    // Reliable messages that follow must not be delayed by the abandoned messages.
    post(m, by, on(5), 3_000)?;
    m.until("the messages that must arrive", Meeting::all_arrived).await?;
    m.pause(Duration::from_secs(30)).await;
    post(m, by, on(4), 10)?;
    post(m, by, on(5), 10)?;
    m.until("the messages at the end", Meeting::all_arrived).await
}

/// Lets the peer send small messages one by one, so that no message is queued or fragmented. Every abandoned message
/// was therefore sent and lost.
async fn trickle(m: &mut Meeting) -> Result<(), String> {
    for _ in 0..150 {
        let stream = m.rng.below(6) as u16;
        let reliability = if stream < 5 { lifetime(&mut m.rng) } else { Reliability::Full };
        let size = 4 + m.rng.below(80) as usize;
        post(m, By::Them, DeliveryOptions { stream, unordered: stream % 2 == 1, reliability }, size)?;
        let span = Duration::from_millis(10 + m.rng.below(30));
        m.pause(span).await;
    }
    m.pause(Duration::from_secs(30)).await;
    post(m, By::Them, on(4), 10)?;
    post(m, By::Them, on(5), 10)?;
    m.until("the messages at the end", Meeting::all_arrived).await
}

/// Closes the association while 30 messages are queued or in flight. The closing side has sent them if `queued` is set,
/// and the other side otherwise. All messages must arrive.
async fn shutdown(m: &mut Meeting, by: By, queued: bool) -> Result<(), String> {
    both(m, 10, mixed).await?;
    // Waits, so that the last acknowledgement arrives before the association is closed.
    m.pause(Duration::from_secs(1)).await;
    let (closing, other) = if by == By::Us { (By::Us, By::Them) } else { (By::Them, By::Us) };
    for _ in 0..30 {
        let (options, size) = mixed(&mut m.rng);
        post(m, if queued { closing } else { other }, options, size)?;
    }
    match by {
        By::Us => m.tell_ours(|endpoint, now, id| endpoint.shutdown(now, id)),
        By::Them => m.tell_theirs(|foreign, now| foreign.peer.shutdown(now))?,
    }
    m.until("the end", |m| m.ours().closed.is_some() && m.theirs().closed.is_some()).await?;
    if !m.all_arrived() {
        return Err("closed before everything was delivered".to_owned());
    }
    match m.ours().closed {
        Some(CloseReason::Shutdown) => Ok(()),
        reason => Err(format!("we closed by {reason:?}")),
    }
}

/// Aborts the association.
async fn abort(m: &mut Meeting, by: By) -> Result<(), String> {
    both(m, 10, mixed).await?;
    match by {
        By::Us => m.tell_ours(|endpoint, now, id| endpoint.abort(now, id)),
        By::Them => m.tell_theirs(|foreign, now| foreign.peer.abort(now))?,
    }
    m.until("the end", |m| m.ours().closed.is_some() && m.theirs().closed.is_some()).await?;
    let reason = m.ours().closed;
    match (by, reason) {
        (By::Us, Some(CloseReason::Local)) | (By::Them, Some(CloseReason::Aborted(_))) => Ok(()),
        _ => Err(format!("we closed by {reason:?}")),
    }
}
