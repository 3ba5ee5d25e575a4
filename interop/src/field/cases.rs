//! What is tried with every peer on a real network, and what has to hold.
//!
//! Common to all: each message is delivered intact and once, in order where
//! order was asked for, and none is missing but those that could be given up;
//! nothing takes for ever. What a case adds is said at its script.

use super::encounter::{Encounter, PATIENCE, Setup};
use super::http;
use super::place::{OURS, THEIRS};
use super::{Carrier, Column, Kind};
use crate::cases::By;
use crate::peer::{How, Seen};
use anabranch_base::Rng;
use anabranch_base::time::Duration;
use anabranch_sctp::{AddressChange, CloseReason, Direction, Event, PathState, Reliability};
use anabranch_world::World;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// Who sends the INIT.
    Handshake(By),
    /// 1000 messages each way, of all sizes, on 10 streams, some unordered.
    Mixed,
    /// 10 MB with 2 % lost.
    Bulk(By),
    /// Messages of 200 kB.
    Fragments,
    /// Graceful close with data on its way.
    Shutdown(By),
    /// ABORT.
    Abort(By),
    /// One end begins again without a word: the other notices (RFC 9260 §5.2.4 A).
    Restart(By),
    /// The program is killed in the middle of a transfer.
    Killed,
    /// The same, and another one waits in its place.
    Replaced,
    /// The way to the primary address is cut in the middle of a transfer.
    PrimaryCut,
    /// Idle, both ends ask whether the other is still there.
    Heartbeat,
    /// Messages that may be given up (RFC 3758).
    Partial(By),
    /// DATA is authenticated (RFC 4895).
    Auth,
    /// An address is added, another removed (RFC 5061).
    Asconf(By),
    /// Streams begin anew (RFC 6525).
    Reset(By),
    /// More streams (RFC 6525).
    AddStreams(By),
    /// I-DATA (RFC 8260), a chunk a message.
    Interleaving,
    /// I-DATA, messages in fragments.
    Interleaved,
    /// Over IPv6: the messages of [`Mixed`](Self::Mixed); whoever has begun closes.
    V6Mixed(By),
    /// Over IPv6: 10 MB with 2 % lost.
    V6Bulk(By),
    /// `get` from a server of theirs.
    HttpGet,
    /// Their client at `serve`.
    HttpServe,
}

impl Case {
    /// All of them, in the order of the matrix.
    pub const ALL: [Self; 33] = [
        Self::Handshake(By::Us),
        Self::Handshake(By::Them),
        Self::Mixed,
        Self::Bulk(By::Us),
        Self::Bulk(By::Them),
        Self::Fragments,
        Self::Shutdown(By::Us),
        Self::Shutdown(By::Them),
        Self::Abort(By::Us),
        Self::Abort(By::Them),
        Self::Restart(By::Us),
        Self::Restart(By::Them),
        Self::Killed,
        Self::Replaced,
        Self::PrimaryCut,
        Self::Heartbeat,
        Self::Partial(By::Us),
        Self::Partial(By::Them),
        Self::Auth,
        Self::Asconf(By::Us),
        Self::Asconf(By::Them),
        Self::Reset(By::Us),
        Self::Reset(By::Them),
        Self::AddStreams(By::Us),
        Self::AddStreams(By::Them),
        Self::Interleaving,
        Self::Interleaved,
        Self::V6Mixed(By::Us),
        Self::V6Mixed(By::Them),
        Self::V6Bulk(By::Us),
        Self::V6Bulk(By::Them),
        Self::HttpGet,
        Self::HttpServe,
    ];

    /// Over IPv6.
    #[must_use]
    pub const fn is_v6(self) -> bool {
        matches!(self, Self::V6Mixed(_) | Self::V6Bulk(_))
    }

    /// What a peer does not have.
    #[must_use]
    pub const fn lacked_by(self, column: Column) -> Option<&'static str> {
        match (column.kind, self) {
            (Kind::Pion, Self::PrimaryCut) => Some("one address"),
            (Kind::Pion, Self::Auth) => Some("no AUTH"),
            (Kind::Pion, Self::Asconf(_)) => Some("no ASCONF"),
            (Kind::Pion, Self::AddStreams(_)) => Some("none to add"),
            (Kind::Pion, Self::Restart(By::Us)) => Some("no restart"),
            _ => None,
        }
    }

    /// What is known to go wrong by the peer's fault: its number in `README.md`, and how the run
    /// says so.
    #[must_use]
    pub const fn fault(self, column: Column) -> Option<(u8, &'static str)> {
        match (column.kind, self) {
            (Kind::Pion, Self::HttpGet) => Some((7, "no connection within")),
            (Kind::Linux, Self::Interleaved) => Some((9, "RFC 8260 2.1: a fragment number")),
            (Kind::Usrsctp, Self::Asconf(By::Them)) if matches!(column.carrier, Carrier::Udp) => {
                Some((8, "closed Some(Aborted(None))"))
            }
            _ => None,
        }
    }

    /// What the association is begun with.
    #[must_use]
    pub fn setup(self, column: Column) -> Setup {
        let mut knobs: Vec<(&'static str, String)> = Vec::new();
        let mut arguments: Vec<String> = Vec::new();
        let mut turn_on = |ours: &[&'static str], theirs: &[&str]| {
            knobs.extend(ours.iter().map(|key| (*key, "yes".to_owned())));
            arguments.extend(theirs.iter().map(|key| format!("{key}=1")));
        };
        match self {
            Self::Partial(_) => turn_on(&["partial_reliability"], &["pr"]),
            Self::Auth => turn_on(&["auth"], &["auth", "auth_data"]),
            Self::Asconf(_) => turn_on(&["auth", "asconf"], &["auth", "asconf"]),
            Self::Reset(_) | Self::AddStreams(_) => turn_on(&["reconfig"], &["reconfig"]),
            Self::Interleaving | Self::Interleaved => turn_on(&["interleaving"], &["idata"]),
            Self::HttpGet | Self::HttpServe => turn_on(&[], &["http"]),
            _ => {}
        }
        match self {
            Self::Auth => knobs.push(("auth_chunks", "data".to_owned())),
            Self::Heartbeat => {
                knobs.push(("hb_interval", "500ms".to_owned()));
                arguments.push("hb=500".to_owned());
            }
            Self::PrimaryCut => {
                // A loaded machine answers late: what is late must not look lost.
                knobs.extend([("rto_min", "1s".to_owned()), ("rto_max", "2s".to_owned())]);
                arguments.extend(["rto_min=1000".to_owned(), "rto_max=2000".to_owned()]);
            }
            _ => {}
        }
        if column.kind == Kind::Pion {
            knobs.push(("address_types", "no".to_owned()));
        }
        let begins = match self {
            Self::Handshake(by) | Self::Restart(by) | Self::V6Mixed(by) | Self::V6Bulk(by) => by,
            // Whoever knows of the other's extensions first.
            Self::Auth | Self::Interleaving | Self::Interleaved | Self::AddStreams(_)
                if column.carrier == Carrier::Ip =>
            {
                By::Them
            }
            Self::Bulk(By::Them) | Self::Partial(By::Them) | Self::Shutdown(By::Them) => By::Them,
            _ => By::Us,
        };
        let (here, there) = match self {
            Self::PrimaryCut => (2, 2),
            Self::Heartbeat if column.kind != Kind::Pion => (2, 2),
            // usrsctp sends UDP from whatever address the kernel takes for the way there.
            Self::Asconf(By::Us) => (1, 2),
            _ => (1, 1),
        };
        Setup { begins, knobs, arguments, v6: self.is_v6(), here, there }
    }

    /// Runs its script; a note for the matrix.
    ///
    /// # Errors
    /// What did not hold.
    pub async fn run(self, e: &mut Encounter<'_>) -> Result<String, String> {
        e.up().await?;
        match self {
            Self::Handshake(_) => both(e, 1, 1).await?,
            Self::Mixed => both(e, 1000, 10).await?,
            Self::Bulk(by) => return bulk(e, by).await,
            Self::Fragments => {
                for number in 0..10 {
                    for by in [By::Us, By::Them] {
                        e.post(by, on(number % 3), 200_000);
                    }
                }
                e.until("the messages", PATIENCE, Encounter::all_arrived).await?;
            }
            Self::Shutdown(by) => shutdown(e, by).await?,
            Self::Abort(by) => abort(e, by).await?,
            Self::Restart(by) => restart(e, by).await?,
            Self::Killed => return killed(e, false).await,
            Self::Replaced => return killed(e, true).await,
            Self::PrimaryCut => return primary_cut(e).await,
            Self::Heartbeat => return heartbeat(e).await,
            Self::Partial(by) => return partial(e, by).await,
            Self::Auth => {
                both(e, 100, 10).await?;
                must_show(&e.world.road.from_us.borrow(), &[AUTH], "us")?;
                must_show(&e.world.road.from_them.borrow(), &[AUTH], "them")?;
            }
            Self::Asconf(by) => asconf(e, by).await?,
            Self::Reset(by) => reset(e, by).await?,
            Self::AddStreams(by) => add_streams(e, by).await?,
            Self::Interleaving | Self::Interleaved => {
                interleaved(e, self == Self::Interleaved).await?;
                for (seen, who) in [(&e.world.road.from_us, "us"), (&e.world.road.from_them, "them")] {
                    must_show(&seen.borrow(), &[I_DATA], who)?;
                    if seen.borrow().count(DATA) > 0 {
                        return Err(format!("DATA from {who} where it was to be I-DATA"));
                    }
                }
            }
            Self::V6Mixed(by) => {
                both(e, 1000, 10).await?;
                shutdown(e, by).await?;
            }
            Self::V6Bulk(by) => {
                let note = bulk(e, by).await?;
                e.world.road.loss_ppm.set(0);
                shutdown(e, by).await?;
                return Ok(note);
            }
            Self::HttpGet | Self::HttpServe => return Err("is no association of ours".to_owned()),
        }
        Ok(String::new())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake(By::Us) => "handshake, we begin",
            Self::Handshake(By::Them) => "handshake, they begin",
            Self::Mixed => "1000 messages each way, 10 streams",
            Self::Bulk(By::Us) => "10 MB, 2 % loss, we send",
            Self::Bulk(By::Them) => "10 MB, 2 % loss, they send",
            Self::Fragments => "messages of 200 kB",
            Self::Shutdown(By::Us) => "shutdown by us",
            Self::Shutdown(By::Them) => "shutdown by them",
            Self::Abort(By::Us) => "abort by us",
            Self::Abort(By::Them) => "abort by them",
            Self::Restart(By::Us) => "restart by us",
            Self::Restart(By::Them) => "restart by them",
            Self::Killed => "peer killed in a transfer",
            Self::Replaced => "peer replaced in a transfer",
            Self::PrimaryCut => "two paths, the primary cut",
            Self::Heartbeat => "heartbeat",
            Self::Partial(By::Us) => "PR-SCTP, we send",
            Self::Partial(By::Them) => "PR-SCTP, they send",
            Self::Auth => "AUTH",
            Self::Asconf(By::Us) => "ASCONF by us",
            Self::Asconf(By::Them) => "ASCONF by them",
            Self::Reset(By::Us) => "stream reset by us",
            Self::Reset(By::Them) => "stream reset by them",
            Self::AddStreams(By::Us) => "more streams by us",
            Self::AddStreams(By::Them) => "more streams by them",
            Self::Interleaving => "I-DATA",
            Self::Interleaved => "I-DATA, fragments",
            Self::V6Mixed(By::Us) => "IPv6: 1000 each way, we begin",
            Self::V6Mixed(By::Them) => "IPv6: 1000 each way, they begin",
            Self::V6Bulk(By::Us) => "IPv6: 10 MB, 2 % loss, we send",
            Self::V6Bulk(By::Them) => "IPv6: 10 MB, 2 % loss, they send",
            Self::HttpGet => "HTTP: get from them",
            Self::HttpServe => "HTTP: they get from serve",
        })
    }
}

const DATA: u8 = 0x00;
const HEARTBEAT: u8 = 0x04;
const HEARTBEAT_ACK: u8 = 0x05;
const AUTH: u8 = 0x0f;
const I_DATA: u8 = 0x40;
const RE_CONFIG: u8 = 0x82;
const FORWARD_TSN: u8 = 0xc0;
const ASCONF: u8 = 0xc1;
const ASCONF_ACK: u8 = 0x80;

fn must_show(seen: &Seen, kinds: &[u8], who: &str) -> Result<(), String> {
    match kinds.iter().find(|&&kind| seen.count(kind) == 0) {
        Some(kind) => Err(format!("no chunk of type {kind:#04x} from {who}")),
        None => Ok(()),
    }
}

fn on(stream: u16) -> How {
    How { stream, ..How::default() }
}

/// Any stream, size and order.
fn mixed(rng: &mut Rng, streams: u64) -> (How, usize) {
    let how = How { unordered: rng.below(4) == 0, ..on(rng.below(streams) as u16) };
    let most = [20, 500, 1_300, 6_000][rng.below(4) as usize];
    let size = if rng.below(50) == 0 { 40_000 } else { 4 + rng.below(most) as usize };
    (how, size)
}

/// So many messages each way, and all arrive.
async fn both(e: &mut Encounter<'_>, count: usize, streams: u64) -> Result<(), String> {
    for _ in 0..count {
        for by in [By::Us, By::Them] {
            let (how, size) = mixed(&mut e.rng, streams);
            e.post(by, how, size);
        }
    }
    e.until("the messages", PATIENCE, Encounter::all_arrived).await
}

/// 10 MB with 2 % of the packets lost each way, 2 ms apart; the rate for the matrix.
async fn bulk(e: &mut Encounter<'_>, by: By) -> Result<String, String> {
    e.world.road.delay.set(Duration::from_millis(2));
    e.world.road.loss_ppm.set(20_000);
    let begun = e.world.now();
    for number in 0..1000 {
        e.post(by, on(number % 10), 10_000);
    }
    e.until("10 MB", Duration::from_secs(120), Encounter::all_arrived).await?;
    let taken = e.world.now().since(begun);
    Ok(format!("{:.1} s", taken.as_secs_f64()))
}

/// Messages on ten streams; large ones from them first, so that it shows whose fragments are wrong.
async fn interleaved(e: &mut Encounter<'_>, fragments: bool) -> Result<(), String> {
    for by in [By::Them, By::Us] {
        for number in 0..50 {
            let size = if fragments { 5_000 } else { 4 + e.rng.below(1_000) as usize };
            e.post(by, How { unordered: number % 4 == 0, ..on(number % 10) }, size);
        }
        e.until("the messages", PATIENCE, Encounter::all_arrived).await?;
    }
    Ok(())
}

/// Closes with data still on its way, both ways; all of it arrives.
async fn shutdown(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    for _ in 0..30 {
        let (how, size) = mixed(&mut e.rng, 10);
        e.post(by, how, size);
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
    // A peer's program may hear of the end before it has read the last messages.
    e.until("what was sent before it", Duration::from_secs(5), Encounter::all_arrived).await?;
    let reason = e.ours().closed;
    if reason == Some(CloseReason::Shutdown) { Ok(()) } else { Err(format!("we closed by {reason:?}")) }
}

/// Ends at once.
async fn abort(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
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

/// One end forgets everything and begins again from the same ports; data flows in the association
/// that has begun anew.
async fn restart(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    match by {
        By::Us => {
            let before = e.theirs.said.len();
            e.theirs.inbox = crate::traffic::Ledger::default();
            e.start_us(By::Us).await?;
            e.until("our second association", PATIENCE, |e| e.ours().up).await?;
            e.until("word of the restart", PATIENCE, |e| {
                e.theirs.said[before..].iter().any(|line| line == "restarted")
            })
            .await?;
            // The peer's next message is the first of an association again.
            both(e, 10, 10).await
        }
        By::Them => {
            // Nothing of their end gets out: a kernel would say goodbye.
            let all: Vec<_> = THEIRS.iter().map(|&ip| IpAddr::V4(ip)).collect();
            e.world.road.cut.borrow_mut().extend(all);
            e.kill_them().await?;
            e.pause(Duration::from_millis(300)).await?;
            e.world.road.cut.borrow_mut().clear();
            e.start_them(By::Them)?;
            e.forget_ours();
            e.until("their second association", PATIENCE, |e| e.theirs.up).await?;
            e.until("word of the restart", PATIENCE, |e| {
                e.ours().heard.iter().any(|event| matches!(event, Event::Restarted { .. }))
            })
            .await?;
            both(e, 10, 10).await
        }
    }
}

/// Their program is killed while both send: our side ends with a reason, and soon.
async fn killed(e: &mut Encounter<'_>, replaced: bool) -> Result<String, String> {
    for number in 0..300 {
        for by in [By::Us, By::Them] {
            e.post(by, on(number % 10), 10_000);
        }
    }
    e.world.road.delay.set(Duration::from_millis(2));
    e.until("the middle", PATIENCE, |e| e.theirs.inbox.arrived > 20).await?;
    e.kill_them().await?;
    let begun = e.world.now();
    if replaced {
        e.start_them(By::Us)?;
    }
    // RFC 9260 §8.1 with our settings: nine timeouts of at most a second.
    e.until("our end", Duration::from_secs(15), |e| e.ours().closed.is_some()).await?;
    let taken = e.world.now().since(begun);
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

/// Two addresses each; the first of both is cut off while both send.
async fn primary_cut(e: &mut Encounter<'_>) -> Result<String, String> {
    both(e, 10, 10).await?;
    e.until("both paths", PATIENCE, |e| {
        let ours = e.ours();
        let info = ours.id.and_then(|id| ours.endpoint.info(id));
        info.is_some_and(|info| info.paths.iter().filter(|path| path.state == PathState::Active).count() == 2)
    })
    .await?;
    e.world.road.delay.set(Duration::from_millis(2));
    for number in 0..300 {
        for by in [By::Us, By::Them] {
            e.post(by, on(number % 10), 5_000);
        }
    }
    e.until("the middle", PATIENCE, |e| e.theirs.inbox.arrived > 50).await?;
    e.world.road.cut.borrow_mut().insert(IpAddr::V4(OURS[0]));
    let begun = e.world.now();
    e.until("the rest", Duration::from_secs(60), Encounter::all_arrived).await?;
    let taken = e.world.now().since(begun);
    if !e.ours().heard.iter().any(|event| matches!(event, Event::PathDown { path: 0, .. })) {
        e.until("word of the path", PATIENCE, |e| {
            e.ours().heard.iter().any(|event| matches!(event, Event::PathDown { path: 0, .. }))
        })
        .await?;
    }
    Ok(format!("{:.1} s", taken.as_secs_f64()))
}

/// Nothing is said for a while but HEARTBEATs, both ways, and each is answered.
async fn heartbeat(e: &mut Encounter<'_>) -> Result<String, String> {
    both(e, 1, 1).await?;
    let theirs = e.place.column.kind != Kind::Pion;
    e.pause(Duration::from_secs(4)).await?;
    let (us, them) = (&e.world.road.from_us, &e.world.road.from_them);
    must_show(&us.borrow(), &[HEARTBEAT], "us")?;
    must_show(&them.borrow(), &[HEARTBEAT_ACK], "them")?;
    if theirs {
        must_show(&them.borrow(), &[HEARTBEAT], "them")?;
        must_show(&us.borrow(), &[HEARTBEAT_ACK], "us")?;
    }
    let note = if theirs { String::new() } else { "ours only".to_owned() };
    both(e, 1, 1).await.map(|()| note)
}

/// Messages that may be given up among some that may not be, with loss.
async fn partial(e: &mut Encounter<'_>, by: By) -> Result<String, String> {
    e.world.road.delay.set(Duration::from_millis(2));
    e.world.road.loss_ppm.set(50_000);
    for _ in 0..20 {
        for _ in 0..20 {
            let stream = e.rng.below(6) as u16;
            let reliability = match stream {
                5 => Reliability::Full,
                stream if stream % 2 == 0 => Reliability::Retransmissions(0),
                _ => Reliability::Lifetime(Duration::from_millis(20 + e.rng.below(50))),
            };
            let how = How { stream, unordered: stream == 1 || stream == 2, reliability };
            // One packet each: what peers do with parts of a message is a matter of its own.
            let size = 4 + e.rng.below(1000) as usize;
            e.post(by, how, size);
        }
        e.pause(Duration::from_millis(40)).await?;
    }
    e.world.road.loss_ppm.set(0);
    e.until("the messages that must arrive", PATIENCE, Encounter::all_arrived).await?;
    e.pause(Duration::from_secs(2)).await?;
    for stream in 0..6 {
        e.post(by, on(stream), 10);
    }
    e.until("the messages at the end", PATIENCE, Encounter::all_arrived).await?;
    let (seen, who, inbox) = match by {
        By::Us => (e.world.road.from_us.borrow(), "us", e.theirs.inbox.outstanding()),
        By::Them => (e.world.road.from_them.borrow(), "them", e.ours().inbox.outstanding()),
    };
    must_show(&seen, &[FORWARD_TSN], who)?;
    Ok(format!("{inbox} given up"))
}

/// A second address joins, the first leaves, and messages go on.
async fn asconf(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    let port = e.place.column.udp_port();
    match by {
        By::Us => {
            let (old, new) = (IpAddr::V4(OURS[0]), IpAddr::V4(OURS[1]));
            let is = |event: &Event, address: IpAddr, wanted: AddressChange| matches!(event, Event::LocalAddress { address: told, change, .. } if *told == address && *change == wanted);
            e.tell_ours(|endpoint, now, _| endpoint.add_address(now, SocketAddr::new(new, port), 1500));
            e.until("the peer's word on the new address", PATIENCE, |e| {
                e.ours().heard.iter().any(|event| is(event, new, AddressChange::Added))
            })
            .await?;
            both(e, 10, 10).await?;
            e.tell_ours(|endpoint, now, _| endpoint.remove_address(now, old));
            e.until("the peer's word on the old address", PATIENCE, |e| {
                e.ours().heard.iter().any(|event| is(event, old, AddressChange::Removed))
            })
            .await?;
            e.world.road.cut.borrow_mut().insert(old);
            both(e, 10, 10).await?;
            must_show(&e.world.road.from_them.borrow(), &[ASCONF_ACK], "them")
        }
        By::Them => {
            let (old, new) = (THEIRS[0], THEIRS[1]);
            e.tell_theirs(&format!("add {new}"));
            e.until("their new address", PATIENCE, |e| {
                e.ours()
                    .heard
                    .iter()
                    .any(|event| matches!(event, Event::PathAdded { address, .. } if *address == new))
            })
            .await?;
            e.until("it to work", PATIENCE, |e| {
                e.ours()
                    .heard
                    .iter()
                    .any(|event| matches!(event, Event::PathUp { address, .. } if *address == new))
            })
            .await?;
            both(e, 10, 10).await?;
            e.tell_theirs(&format!("remove {old}"));
            e.until("their old address to go", PATIENCE, |e| {
                e.ours()
                    .heard
                    .iter()
                    .any(|event| matches!(event, Event::PathRemoved { address, .. } if *address == old))
            })
            .await?;
            e.world.road.cut.borrow_mut().insert(IpAddr::V4(old));
            both(e, 10, 10).await?;
            must_show(&e.world.road.from_them.borrow(), &[ASCONF], "them")
        }
    }
}

/// Two of four streams begin anew; the other side is told; the order goes on from zero.
async fn reset(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    for round in 0..2 {
        for stream in 0..4 {
            for _ in 0..5 {
                e.post(By::Us, on(stream), 100);
                e.post(By::Them, on(stream), 100);
            }
        }
        e.until("the messages before the reset", PATIENCE, Encounter::all_arrived).await?;
        let pion = e.place.column.kind == Kind::Pion;
        match by {
            By::Us => {
                reset_ours(e, round + 1).await?;
                let told = |e: &Encounter<'_>| {
                    let lines = e.theirs.said.iter().filter_map(|line| line.strip_prefix("reset in"));
                    lines.map(|streams| streams.split_whitespace().count()).sum::<usize>()
                };
                e.until("them to notice", PATIENCE, |e| told(e) >= 2 * (round + 1)).await?;
                if pion {
                    // RFC 8831 §6.7: a data channel closes both ways, theirs in answer.
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
    let seen = if by == By::Us { &e.world.road.from_us } else { &e.world.road.from_them };
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

/// Four more streams, and a message on the last.
async fn add_streams(e: &mut Encounter<'_>, by: By) -> Result<(), String> {
    both(e, 10, 10).await?;
    match by {
        By::Us => {
            e.tell_ours(|endpoint, now, id| endpoint.add_streams(now, id, 4, 0))
                .map_err(|error| error.to_string())?;
            e.until("their word", PATIENCE, |e| {
                e.ours()
                    .heard
                    .iter()
                    .any(|event| matches!(event, Event::StreamsAdded { .. } | Event::AddFailed { .. }))
            })
            .await?;
        }
        By::Them => {
            e.tell_theirs("streams 4");
            e.until("their wish", PATIENCE, |e| {
                e.ours().heard.iter().any(|event| matches!(event, Event::StreamsAdded { .. }))
            })
            .await?;
            // They have to hear our answer before they may use them.
            e.until("our answer", PATIENCE, |e| e.theirs.has_said("streams")).await?;
        }
    }
    if let Some(failed) = e.ours().heard.iter().find(|event| matches!(event, Event::AddFailed { .. })) {
        return Err(format!("{failed:?}"));
    }
    e.post(by, on(19), 1000);
    e.until("the message on the new stream", PATIENCE, Encounter::all_arrived).await
}

/// What is not an association of ours is of `http`.
///
/// # Errors
/// What did not hold.
pub async fn run(
    case: Case,
    world: super::road::Field,
    place: &mut super::place::Place,
) -> Result<String, String> {
    match case {
        Case::HttpGet => return http::get(world, place).await,
        Case::HttpServe => return http::serve(world, place).await,
        _ => {}
    }
    let setup = case.setup(place.column);
    let mut encounter = Encounter::begin(world, place, setup).await?;
    let outcome = case.run(&mut encounter).await;
    encounter.end().await;
    outcome
}
