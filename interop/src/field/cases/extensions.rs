//! Interoperability test cases for extensions of SCTP: partial reliability, interleaved messages, address changes, and
//! resets and additions of streams.

use super::super::PeerStack;
use super::super::encounter::{Encounter, PATIENCE};
use super::super::peer_network::{OURS, THEIRS};
use super::plain::{both, must_show, on};
use crate::cases::By;
use crate::peer::DeliveryOptions;
use anabranch_base::time::Duration;
use anabranch_sctp::{AddressChange, Direction, Event, Reliability};
use std::net::{IpAddr, SocketAddr};

/// Sends messages on ten streams, first from the peer and then from our side. With `fragments`, all messages are large
/// enough to be fragmented. Our side starts only after the peer's messages have arrived, so that a failure shows which
/// side's fragments are wrong.
pub(super) async fn interleaved(e: &mut Encounter<'_>, fragments: bool) -> Result<(), String> {
    for by in [By::Them, By::Us] {
        for number in 0..50 {
            let size = if fragments { 5_000 } else { 4 + e.rng.below(1_000) as usize };
            e.post(by, DeliveryOptions { unordered: number % 4 == 0, ..on(number % 10) }, size);
        }
        e.until("the messages", PATIENCE, Encounter::all_arrived).await?;
    }
    Ok(())
}

/// Sends messages that the sender is allowed to abandon, and reliable messages, over a lossy network.
pub(super) async fn partial(e: &mut Encounter<'_>, by: By) -> Result<String, String> {
    e.world.path.delay.set(Duration::from_millis(2));
    e.world.path.loss_ppm.set(50_000);
    for _ in 0..20 {
        for _ in 0..20 {
            let stream = e.rng.below(6) as u16;
            let reliability = match stream {
                5 => Reliability::Full,
                stream if stream % 2 == 0 => Reliability::Retransmissions(0),
                _ => Reliability::Lifetime(Duration::from_millis(20 + e.rng.below(50))),
            };
            let options = DeliveryOptions { stream, unordered: stream == 1 || stream == 2, reliability };
            // Each message fits into one packet, because peers differ in how they abandon parts of a message.
            let size = 4 + e.rng.below(1000) as usize;
            e.post(by, options, size);
        }
        e.pause(Duration::from_millis(40)).await?;
    }
    e.world.path.loss_ppm.set(0);
    e.until("the messages that must arrive", PATIENCE, Encounter::all_arrived).await?;
    e.pause(Duration::from_secs(2)).await?;
    for stream in 0..6 {
        e.post(by, on(stream), 10);
    }
    e.until("the messages at the end", PATIENCE, Encounter::all_arrived).await?;
    let (seen, who, inbox) = match by {
        By::Us => (e.world.path.from_us.borrow(), "us", e.theirs.inbox.outstanding()),
        By::Them => (e.world.path.from_them.borrow(), "them", e.ours().inbox.outstanding()),
    };
    must_show(&seen, &[FORWARD_TSN], who)?;
    Ok(format!("{inbox} given up"))
}

/// Sends 10 MB with 2 % loss in each direction. Every other message is unordered. Both sides must send NR-SACKs instead
/// of SACKs. The receiver's NR-SACKs must contain non-renegable gap blocks. These blocks report data that the receiver
/// will not drop, for example because it has delivered the data.
pub(super) async fn nr_sack(e: &mut Encounter<'_>, by: By) -> Result<String, String> {
    e.world.path.delay.set(Duration::from_millis(2));
    e.world.path.loss_ppm.set(20_000);
    let other = if by == By::Us { By::Them } else { By::Us };
    for number in 0..2_000 {
        e.post(by, DeliveryOptions { unordered: number % 2 == 0, ..on(number % 10) }, 5_000);
        if number % 20 == 0 {
            e.post(other, on(number % 10), 100);
        }
    }
    e.until("10 MB", Duration::from_secs(120), Encounter::all_arrived).await?;
    let path = &e.world.path;
    for (seen, who) in [(&path.from_us, "us"), (&path.from_them, "them")] {
        must_show(&seen.borrow(), &[NR_SACK], who)?;
        if seen.borrow().count(SACK) > 0 {
            return Err(format!("a SACK from {who} where it was to be an NR-SACK"));
        }
    }
    let receiver = if by == By::Us { &path.from_them } else { &path.from_us };
    let (gaps, nr_gaps) = receiver.borrow().nr_sack_blocks;
    // Our side never drops data, so all its gap blocks are non-renegable. usrsctp may drop data, and reports it in
    // renegable gap blocks.
    if nr_gaps == 0 || (by == By::Us) != (gaps > 0) {
        return Err(format!("{gaps} gap blocks and {nr_gaps} NR gap blocks of the receiver's"));
    }
    Ok(format!("{nr_gaps} NR gaps"))
}

/// Adds a second address, deletes the first, and checks that messages continue to arrive.
pub(super) async fn asconf(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    let port = e.network.column.udp_port();
    match by {
        By::Us => {
            let (old, new) = (IpAddr::V4(OURS[0]), IpAddr::V4(OURS[1]));
            let is = |event: &Event, address: IpAddr, wanted: AddressChange| matches!(event, Event::LocalAddress { address: own, change, .. } if *own == address && *change == wanted);
            e.tell_ours(|endpoint, now, _| endpoint.add_address(now, SocketAddr::new(new, port), 1500));
            e.until("the peer's word on the new address", PATIENCE, |e| {
                e.ours().events.iter().any(|event| is(event, new, AddressChange::Added))
            })
            .await?;
            both(e, 10, 10).await?;
            e.tell_ours(|endpoint, now, _| endpoint.remove_address(now, old));
            e.until("the peer's word on the old address", PATIENCE, |e| {
                e.ours().events.iter().any(|event| is(event, old, AddressChange::Removed))
            })
            .await?;
            e.world.path.cut.borrow_mut().insert(old);
            both(e, 10, 10).await?;
            must_show(&e.world.path.from_them.borrow(), &[ASCONF_ACK], "them")
        }
        By::Them => {
            let (old, new) = (THEIRS[0], THEIRS[1]);
            e.tell_theirs(&format!("add {new}"));
            e.until("their new address", PATIENCE, |e| {
                e.ours()
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::PathAdded { address, .. } if *address == new))
            })
            .await?;
            e.until("it to work", PATIENCE, |e| {
                e.ours()
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::PathUp { address, .. } if *address == new))
            })
            .await?;
            both(e, 10, 10).await?;
            e.tell_theirs(&format!("remove {old}"));
            e.until("their old address to go", PATIENCE, |e| {
                e.ours()
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::PathRemoved { address, .. } if *address == old))
            })
            .await?;
            e.world.path.cut.borrow_mut().insert(IpAddr::V4(old));
            both(e, 10, 10).await?;
            must_show(&e.world.path.from_them.borrow(), &[ASCONF], "them")
        }
    }
}

/// Resets two of four streams. The other side must be notified, and SSNs must start at zero again.
pub(super) async fn reset(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    for round in 0..2 {
        for stream in 0..4 {
            for _ in 0..5 {
                e.post(By::Us, on(stream), 100);
                e.post(By::Them, on(stream), 100);
            }
        }
        e.until("the messages before the reset", PATIENCE, Encounter::all_arrived).await?;
        let pion = e.network.column.kind == PeerStack::Pion;
        match by {
            By::Us => {
                reset_ours(e, round + 1).await?;
                let reset_count = |e: &Encounter<'_>| {
                    let lines = e.theirs.reports.iter().filter_map(|line| line.strip_prefix("reset in"));
                    lines.map(|streams| streams.split_whitespace().count()).sum::<usize>()
                };
                e.until("them to notice", PATIENCE, |e| reset_count(e) >= 2 * (round + 1)).await?;
                if pion {
                    // RFC 8831 §6.7: a data channel is closed in both directions. The peer resets its streams in
                    // response to our reset.
                    reset_theirs(e, round + 1).await?;
                }
            }
            By::Them => {
                e.tell_theirs("reset 1 2");
                reset_theirs(e, round + 1).await?;
                if pion {
                    reset_ours(e, round + 1).await?;
                }
            }
        }
        e.pause(Duration::from_millis(500)).await?;
    }
    for stream in 0..4 {
        e.post(By::Us, on(stream), 1000);
        e.post(By::Them, on(stream), 1000);
    }
    e.until("the messages after the reset", PATIENCE, Encounter::all_arrived).await?;
    let seen = if by == By::Us { &e.world.path.from_us } else { &e.world.path.from_them };
    must_show(&seen.borrow(), &[RE_CONFIG], "whoever asked")
}

async fn reset_ours(e: &mut Encounter<'_>, rounds: usize) -> Result<(), String> {
    e.tell_ours(|endpoint, now, id| endpoint.reset_streams(now, id, Direction::Outgoing, &[1, 2]))
        .map_err(|error| error.to_string())?;
    e.until("our reset", PATIENCE, |e| {
        let ours = e.ours();
        ours.refused > 0
            || ours.resets.iter().filter(|reset| reset.0 == Direction::Outgoing).count() >= rounds
    })
    .await?;
    if e.ours().refused > 0 { Err("they refused our reset".to_owned()) } else { Ok(()) }
}

async fn reset_theirs(e: &mut Encounter<'_>, rounds: usize) -> Result<(), String> {
    e.until("their reset", PATIENCE, |e| {
        let ours = e.ours();
        let theirs = ours.resets.iter().filter(|reset| reset.0 == Direction::Incoming);
        theirs.map(|reset| reset.1.len()).sum::<usize>() >= 2 * rounds
    })
    .await
}

/// Adds four streams, and sends a message on the last of them.
pub(super) async fn add_streams(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    match by {
        By::Us => {
            e.tell_ours(|endpoint, now, id| endpoint.add_streams(now, id, 4, 0))
                .map_err(|error| error.to_string())?;
            e.until("their word", PATIENCE, |e| {
                e.ours()
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::StreamsAdded { .. } | Event::AddFailed { .. }))
            })
            .await?;
        }
        By::Them => {
            e.tell_theirs("streams 4");
            e.until("their wish", PATIENCE, |e| {
                e.ours().events.iter().any(|event| matches!(event, Event::StreamsAdded { .. }))
            })
            .await?;
            // The peer must not use the new streams until our answer to its request has arrived.
            e.until("our answer", PATIENCE, |e| e.theirs.has_reported("streams")).await?;
        }
    }
    if let Some(failed) = e.ours().events.iter().find(|event| matches!(event, Event::AddFailed { .. })) {
        return Err(format!("{failed:?}"));
    }
    e.post(by, on(19), 1000);
    e.until("the message on the new stream", PATIENCE, Encounter::all_arrived).await
}

const SACK: u8 = 0x03;
const NR_SACK: u8 = 0x10;
const RE_CONFIG: u8 = 0x82;
const FORWARD_TSN: u8 = 0xc0;
const ASCONF: u8 = 0xc1;
const ASCONF_ACK: u8 = 0x80;
