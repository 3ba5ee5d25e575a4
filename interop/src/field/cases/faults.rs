//! Interoperability test cases with a fault: one endpoint restarts, is killed, or loses its first path.

use super::super::encounter::{Encounter, PATIENCE};
use super::super::peer_network::{OURS, THEIRS};
use super::plain::{both, on};
use crate::cases::By;
use anabranch_base::time::Duration;
use anabranch_sctp::{CloseReason, Event, PathState};
use anabranch_world::World;
use std::net::IpAddr;

/// One endpoint loses its state and starts again from the same ports. Data must flow in the restarted association.
pub(super) async fn restart(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    match by {
        By::Us => {
            let before = e.theirs.reports.len();
            e.theirs.inbox = crate::traffic::Ledger::default();
            e.start_us(By::Us).await?;
            e.until("our second association", PATIENCE, |e| e.ours().up).await?;
            e.until("word of the restart", PATIENCE, |e| {
                e.theirs.reports[before..].iter().any(|line| line == "restarted")
            })
            .await?;
            both(e, 10, 10).await
        }
        By::Them => {
            // The network drops all packets of the peer's host from now on. Otherwise the kernel of that host would
            // close the association when the program ends.
            let all: Vec<_> = THEIRS.iter().map(|&ip| IpAddr::V4(ip)).collect();
            e.world.path.cut.borrow_mut().extend(all);
            e.kill_them().await?;
            e.pause(Duration::from_millis(300)).await?;
            e.world.path.cut.borrow_mut().clear();
            e.start_them(By::Them)?;
            e.forget_ours();
            e.until("their second association", PATIENCE, |e| e.theirs.up).await?;
            e.until("word of the restart", PATIENCE, |e| {
                e.ours().events.iter().any(|event| matches!(event, Event::Restarted { .. }))
            })
            .await?;
            both(e, 10, 10).await
        }
    }
}

/// The peer's program is killed while both sides send. Our association must end soon, with a reason.
pub(super) async fn killed(e: &mut Encounter<'_>, replaced: bool) -> Result<String, String> {
    for number in 0..300 {
        for by in [By::Us, By::Them] {
            e.post(by, on(number % 10), 10_000);
        }
    }
    e.world.path.delay.set(Duration::from_millis(2));
    e.until("the middle", PATIENCE, |e| e.theirs.inbox.arrived > 20).await?;
    e.kill_them().await?;
    let started = e.world.now();
    if replaced {
        e.start_them(By::Us)?;
    }
    // RFC 9260 §8.1: with our settings the association fails after nine timeouts of at most a second each.
    e.until("our end", Duration::from_secs(15), |e| e.ours().closed.is_some()).await?;
    let taken = e.world.now().since(started);
    let reason = match e.ours().closed {
        Some(CloseReason::Unreachable) => "unreachable".to_owned(),
        Some(CloseReason::NotListening) => "nothing listens".to_owned(),
        Some(CloseReason::Aborted(cause)) => {
            format!("aborted{}", cause.map_or(String::new(), |cause| format!(" ({cause})")))
        }
        other => return Err(format!("we closed by {other:?}")),
    };
    Ok(format!("{reason}, {:.1} s", taken.as_secs_f64()))
}

/// Each side has two addresses. The path between the first addresses is cut while both sides send.
pub(super) async fn primary_cut(e: &mut Encounter<'_>) -> Result<String, String> {
    both(e, 10, 10).await?;
    e.until("both paths", PATIENCE, |e| {
        let ours = e.ours();
        let info = ours.id.and_then(|id| ours.endpoint.info(id));
        info.is_some_and(|info| info.paths.iter().filter(|path| path.state == PathState::Active).count() == 2)
    })
    .await?;
    e.world.path.delay.set(Duration::from_millis(2));
    for number in 0..300 {
        for by in [By::Us, By::Them] {
            e.post(by, on(number % 10), 5_000);
        }
    }
    e.until("the middle", PATIENCE, |e| e.theirs.inbox.arrived > 50).await?;
    e.world.path.cut.borrow_mut().insert(IpAddr::V4(OURS[0]));
    let started = e.world.now();
    e.until("the rest", Duration::from_secs(60), Encounter::all_arrived).await?;
    let taken = e.world.now().since(started);
    if !e.ours().events.iter().any(|event| matches!(event, Event::PathDown { path: 0, .. })) {
        e.until("word of the path", PATIENCE, |e| {
            e.ours().events.iter().any(|event| matches!(event, Event::PathDown { path: 0, .. }))
        })
        .await?;
    }
    Ok(format!("{:.1} s", taken.as_secs_f64()))
}
