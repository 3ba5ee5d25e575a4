//! Interoperability test cases of plain associations: messages in both directions, large messages, graceful and abrupt
//! ends, and idle time.

use super::super::PeerStack;
use super::super::encounter::{Encounter, PATIENCE};
use crate::cases::By;
use crate::peer::{DeliveryOptions, Seen};
use anabranch_base::Rng;
use anabranch_base::time::Duration;
use anabranch_sctp::CloseReason;
use anabranch_world::World;

pub(super) fn must_show(seen: &Seen, kinds: &[u8], who: &str) -> Result<(), String> {
    match kinds.iter().find(|&&kind| seen.count(kind) == 0) {
        Some(kind) => Err(format!("no chunk of type {kind:#04x} from {who}")),
        None => Ok(()),
    }
}

pub(super) fn on(stream: u16) -> DeliveryOptions {
    DeliveryOptions { stream, ..DeliveryOptions::default() }
}

/// Returns random delivery options and a random size for a message.
fn mixed(rng: &mut Rng, streams: u64) -> (DeliveryOptions, usize) {
    let options = DeliveryOptions { unordered: rng.below(4) == 0, ..on(rng.below(streams) as u16) };
    let most = [20, 500, 1_300, 6_000][rng.below(4) as usize];
    let size = if rng.below(50) == 0 { 40_000 } else { 4 + rng.below(most) as usize };
    (options, size)
}

/// Sends `count` messages in each direction, and waits until all of them have arrived.
pub(super) async fn both(e: &mut Encounter<'_>, count: usize, streams: u64) -> Result<(), String> {
    for _ in 0..count {
        for by in [By::Us, By::Them] {
            let (options, size) = mixed(&mut e.rng, streams);
            e.post(by, options, size);
        }
    }
    e.until("the messages", PATIENCE, Encounter::all_arrived).await
}

/// Sends 10 MB with 2 % loss in each direction and a one-way delay of 2 ms. Returns the rate, to print in the table of
/// results.
pub(super) async fn bulk(e: &mut Encounter<'_>, by: By) -> Result<String, String> {
    e.world.path.delay.set(Duration::from_millis(2));
    e.world.path.loss_ppm.set(20_000);
    let started = e.world.now();
    for number in 0..1000 {
        e.post(by, on(number % 10), 10_000);
    }
    e.until("10 MB", Duration::from_secs(120), Encounter::all_arrived).await?;
    let taken = e.world.now().since(started);
    Ok(format!("{:.1} s", taken.as_secs_f64()))
}

/// Closes the association with data in flight in both directions. All data must arrive.
pub(super) async fn shutdown(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    for _ in 0..30 {
        let (options, size) = mixed(&mut e.rng, 10);
        e.post(by, options, size);
    }
    match by {
        By::Us => e.until("room", PATIENCE, |e| e.ours().all_given()).await?,
        By::Them => {}
    }
    match by {
        By::Us => e.tell_ours(|endpoint, now, id| endpoint.shutdown(now, id)),
        By::Them => e.tell_theirs("shutdown"),
    }
    e.until("the end", PATIENCE, |e| e.ours().closed.is_some() && e.theirs.closed.is_some()).await?;
    // Wait for the last messages, because the peer's program may learn of the end of the association before it reads
    // them.
    e.until("what was sent before it", Duration::from_secs(5), Encounter::all_arrived).await?;
    let reason = e.ours().closed;
    if reason == Some(CloseReason::Shutdown) { Ok(()) } else { Err(format!("we closed by {reason:?}")) }
}

/// Aborts the association.
pub(super) async fn abort(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    match by {
        By::Us => e.tell_ours(|endpoint, now, id| endpoint.abort(now, id)),
        By::Them => e.tell_theirs("abort"),
    }
    e.until("the end", PATIENCE, |e| e.ours().closed.is_some() && e.theirs.closed.is_some()).await?;
    let reason = e.ours().closed;
    match (by, reason) {
        (By::Us, Some(CloseReason::Local)) | (By::Them, Some(CloseReason::Aborted(_))) => Ok(()),
        _ => Err(format!("we closed by {reason:?}")),
    }
}

/// Sends no data for some time. Both ends must send HEARTBEATs, and each HEARTBEAT must be answered.
pub(super) async fn heartbeat(e: &mut Encounter<'_>) -> Result<String, String> {
    both(e, 1, 1).await?;
    let theirs = e.network.column.kind != PeerStack::Pion;
    e.pause(Duration::from_secs(4)).await?;
    let (us, them) = (&e.world.path.from_us, &e.world.path.from_them);
    must_show(&us.borrow(), &[HEARTBEAT], "us")?;
    must_show(&them.borrow(), &[HEARTBEAT_ACK], "them")?;
    if theirs {
        must_show(&them.borrow(), &[HEARTBEAT], "them")?;
        must_show(&us.borrow(), &[HEARTBEAT_ACK], "us")?;
    }
    let note = if theirs { String::new() } else { "ours only".to_owned() };
    both(e, 1, 1).await.map(|()| note)
}

const HEARTBEAT: u8 = 0x04;
const HEARTBEAT_ACK: u8 = 0x05;
