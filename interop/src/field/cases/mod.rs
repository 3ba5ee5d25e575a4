//! The interoperability test cases that are run with every peer on a real network, and what each case requires.
//!
//! In every case, each message must be delivered intact and once, and ordered messages in order. Only messages that may
//! be abandoned can be missing. Every wait is bounded. Each script states its additional requirements.
//!
//! This module lists the test cases and their set-up. The scripts of the cases are in `plain`, `faults` and
//! `extensions`.

mod extensions;
mod faults;
mod plain;

use super::encounter::{Encounter, PATIENCE, Setup};
use super::http::{self, Asks, Load};
use super::{Column, LowerLayer, PeerStack};
use crate::cases::By;
use extensions::{add_streams, asconf, interleaved, nr_sack, partial, reset};
use faults::{killed, primary_cut, restart};
use plain::{abort, both, bulk, heartbeat, must_show, on, shutdown};
use std::fmt;

/// A test case that is run with a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// The handshake of an association. The given side sends the INIT.
    Handshake(By),
    /// 1000 messages in each direction, of all sizes, on 10 streams. Some are unordered.
    Mixed,
    /// The given side sends 10 MB with 2 % loss.
    Bulk(By),
    /// Messages of 200 kB, which are sent in fragments.
    Fragments,
    /// The given side starts the association. We enable every extension, and the peer only RE-CONFIG (RFC 6525). The
    /// handshake must succeed.
    Unequal(By),
    /// The given side shuts down gracefully while data is in flight.
    Shutdown(By),
    /// The given side sends an ABORT.
    Abort(By),
    /// The given side restarts without closing, and the other side detects the restart (RFC 9260 §5.2.4 A).
    Restart(By),
    /// The peer's program is killed during a transfer.
    Killed,
    /// The peer's program is killed during a transfer, and another program is started at the same address.
    Replaced,
    /// The path to the primary address is cut during a transfer.
    PrimaryCut,
    /// An idle association, on which both ends send HEARTBEATs.
    Heartbeat,
    /// The given side sends messages that may be abandoned (RFC 3758).
    Partial(By),
    /// DATA chunks of both sides are authenticated (RFC 4895).
    Auth,
    /// The given side adds an address and deletes another (RFC 5061).
    Asconf(By),
    /// The given side resets streams (RFC 6525).
    Reset(By),
    /// The given side adds streams (RFC 6525).
    AddStreams(By),
    /// Messages in I-DATA chunks (RFC 8260), one chunk per message.
    Interleaving,
    /// Messages in I-DATA chunks (RFC 8260), in fragments.
    Interleaved,
    /// The given side sends 10 MB with 2 % loss, and NR-SACKs replace SACKs (draft-natarajan-tsvwg-sctp-nrsack).
    NrSack(By),
    /// The messages of [`Mixed`](Self::Mixed) over IPv6. The given side starts the association, and closes it.
    V6Mixed(By),
    /// The given side sends 10 MB over IPv6 with 2 % loss.
    V6Bulk(By),
    /// Our client (`get`) fetches an object from the peer's server.
    HttpGet,
    /// The peer's client requests objects from our `serve`.
    HttpServe,
    /// The given side requests fifty objects of 1 MB at once. The number is the percentage of packets lost in each
    /// direction.
    HttpFifty(By, u8),
    /// The peer's client fetches an object from our `serve`, and is then killed. A new client starts from the same
    /// ports.
    HttpAgain,
    /// The peer's client requests objects from our `serve`. Its messages have this payload protocol identifier of
    /// WebRTC: 51 is a string, 53 is binary.
    HttpKind(u32),
}

impl Case {
    /// All test cases, in the order of the matrix of results.
    pub const ALL: [Self; 44] = [
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
        Self::Unequal(By::Us),
        Self::Unequal(By::Them),
        Self::NrSack(By::Us),
        Self::NrSack(By::Them),
        Self::V6Mixed(By::Us),
        Self::V6Mixed(By::Them),
        Self::V6Bulk(By::Us),
        Self::V6Bulk(By::Them),
        Self::HttpGet,
        Self::HttpServe,
        Self::HttpFifty(By::Them, 0),
        Self::HttpFifty(By::Them, 2),
        Self::HttpFifty(By::Us, 0),
        Self::HttpFifty(By::Us, 2),
        Self::HttpAgain,
        Self::HttpKind(51),
        Self::HttpKind(53),
    ];

    /// Returns whether the test case runs over IPv6.
    #[must_use]
    pub const fn is_v6(self) -> bool {
        matches!(self, Self::V6Mixed(_) | Self::V6Bulk(_))
    }

    /// Returns the feature that this test case needs and that the peer lacks, if any.
    #[must_use]
    pub const fn lacked_by(self, column: Column) -> Option<&'static str> {
        match (column.kind, self) {
            // aiortc's data channels have only the payload protocol identifiers of WebRTC.
            (PeerStack::Aiortc, Self::HttpFifty(..) | Self::HttpKind(_)) => None,
            (PeerStack::Aiortc, _) => Some("is not tried"),
            // RFC 8261 §6.1: an association over DTLS has one address at each end. A restarted end begins another DTLS
            // connection.
            (_, Self::PrimaryCut | Self::Asconf(_)) if column.carrier.is_secure() => Some("one address"),
            (_, Self::Restart(_) | Self::HttpAgain) if column.carrier.is_secure() => Some("no restart"),
            (PeerStack::Usrsctp | PeerStack::Linux, Self::HttpKind(_)) => Some("is pion's"),
            (PeerStack::Pion, Self::PrimaryCut) => Some("one address"),
            (PeerStack::Pion, Self::Auth) => Some("no AUTH"),
            (PeerStack::Pion, Self::Asconf(_)) => Some("no ASCONF"),
            (PeerStack::Pion, Self::AddStreams(_)) => Some("none to add"),
            (PeerStack::Pion, Self::Restart(By::Us)) => Some("no restart"),
            (PeerStack::Pion | PeerStack::Linux, Self::NrSack(_)) => Some("no NR-SACK"),
            _ => None,
        }
    }

    /// Returns the known fault of the peer that makes this test case fail: its number in `README.md`, and the text of
    /// the failure.
    #[must_use]
    pub const fn fault(self, column: Column) -> Option<(u8, &'static str)> {
        match (column.kind, self) {
            (PeerStack::Pion, Self::HttpGet | Self::HttpFifty(By::Us, _))
                if matches!(column.carrier, LowerLayer::Udp) =>
            {
                Some((7, "no connection within"))
            }
            (PeerStack::Linux, Self::Interleaved) => Some((9, "RFC 8260 2.1: a fragment number")),
            (PeerStack::Usrsctp, Self::Asconf(By::Them)) if matches!(column.carrier, LowerLayer::Udp) => {
                Some((8, "closed Some(Aborted(None))"))
            }
            _ => None,
        }
    }

    /// Returns the set-up of the association for this test case.
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
            Self::Unequal(_) => turn_on(
                &["auth", "asconf", "reconfig", "partial_reliability", "interleaving", "nr_sack"],
                &["reconfig"],
            ),
            Self::NrSack(_) => turn_on(&["nr_sack"], &["nr_sack"]),
            Self::HttpGet | Self::HttpServe | Self::HttpFifty(..) | Self::HttpAgain | Self::HttpKind(_) => {
                turn_on(&[], &["http"])
            }
            _ => {}
        }
        match self {
            Self::Auth => knobs.push(("auth_chunks", "data".to_owned())),
            Self::Heartbeat => {
                knobs.push(("hb_interval", "500ms".to_owned()));
                arguments.push("hb=500".to_owned());
            }
            Self::PrimaryCut => {
                // On a busy test machine, acknowledgements may come late. With a long RTO, packets whose
                // acknowledgements are late do not count as lost.
                knobs.extend([("rto_min", "1s".to_owned()), ("rto_max", "2s".to_owned())]);
                arguments.extend(["rto_min=1000".to_owned(), "rto_max=2000".to_owned()]);
            }
            _ => {}
        }
        if column.kind == PeerStack::Pion {
            knobs.push(("address_types", "no".to_owned()));
        }
        let begins = match self {
            Self::Handshake(by)
            | Self::Unequal(by)
            | Self::Restart(by)
            | Self::V6Mixed(by)
            | Self::V6Bulk(by) => by,
            // On IP the peer starts these associations. Our side then learns the peer's extensions from the INIT,
            // before our INIT ACK announces our extensions.
            Self::Auth | Self::Interleaving | Self::Interleaved | Self::AddStreams(_)
                if column.carrier == LowerLayer::Ip =>
            {
                By::Them
            }
            Self::Bulk(By::Them)
            | Self::Partial(By::Them)
            | Self::Shutdown(By::Them)
            | Self::NrSack(By::Them) => By::Them,
            _ => By::Us,
        };
        let (here, there) = match self {
            Self::PrimaryCut => (2, 2),
            Self::Heartbeat if column.kind != PeerStack::Pion && !column.carrier.is_secure() => (2, 2),
            // Over UDP, usrsctp sends from the address that the kernel chooses for the route. For packets to our new
            // address, the kernel chooses the peer's second address. So the second address must belong to the
            // association from its start.
            Self::Asconf(By::Us) => (1, 2),
            _ => (1, 1),
        };
        Setup { begins, knobs, arguments, v6: self.is_v6(), here, there }
    }

    /// Runs the script of the test case, and returns a note to print in the table of results.
    ///
    /// # Errors
    /// The condition that was violated.
    pub async fn run(self, e: &mut Encounter<'_>) -> Result<String, String> {
        e.up().await?;
        match self {
            Self::Handshake(_) => both(e, 1, 1).await?,
            Self::Unequal(_) => both(e, 100, 10).await?,
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
                must_show(&e.world.path.from_us.borrow(), &[AUTH], "us")?;
                must_show(&e.world.path.from_them.borrow(), &[AUTH], "them")?;
            }
            Self::Asconf(by) => asconf(e, by).await?,
            Self::Reset(by) => reset(e, by).await?,
            Self::AddStreams(by) => add_streams(e, by).await?,
            Self::Interleaving | Self::Interleaved => {
                interleaved(e, self == Self::Interleaved).await?;
                for (seen, who) in [(&e.world.path.from_us, "us"), (&e.world.path.from_them, "them")] {
                    must_show(&seen.borrow(), &[I_DATA], who)?;
                    if seen.borrow().count(DATA) > 0 {
                        return Err(format!("DATA from {who} where it was to be I-DATA"));
                    }
                }
            }
            Self::NrSack(by) => return nr_sack(e, by).await,
            Self::V6Mixed(by) => {
                both(e, 1000, 10).await?;
                shutdown(e, by).await?;
            }
            Self::V6Bulk(by) => {
                let note = bulk(e, by).await?;
                e.world.path.loss_ppm.set(0);
                shutdown(e, by).await?;
                return Ok(note);
            }
            Self::HttpGet | Self::HttpServe | Self::HttpFifty(..) | Self::HttpAgain | Self::HttpKind(_) => {
                return Err("is no association of ours".to_owned());
            }
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
            Self::Unequal(By::Us) => "extensions only we have, we begin",
            Self::Unequal(By::Them) => "the same, they begin",
            Self::NrSack(By::Us) => "NR-SACK, 2 % loss, we send",
            Self::NrSack(By::Them) => "NR-SACK, 2 % loss, they send",
            Self::V6Mixed(By::Us) => "IPv6: 1000 each way, we begin",
            Self::V6Mixed(By::Them) => "IPv6: 1000 each way, they begin",
            Self::V6Bulk(By::Us) => "IPv6: 10 MB, 2 % loss, we send",
            Self::V6Bulk(By::Them) => "IPv6: 10 MB, 2 % loss, they send",
            Self::HttpGet => "HTTP: get from them",
            Self::HttpServe => "HTTP: they get from serve",
            Self::HttpFifty(By::Them, 0) => "HTTP: they get 50 of 1 MB at once",
            Self::HttpFifty(By::Them, _) => "HTTP: they get 50 of 1 MB, 2 % loss",
            Self::HttpFifty(By::Us, 0) => "HTTP: we get 50 of 1 MB at once",
            Self::HttpFifty(By::Us, _) => "HTTP: we get 50 of 1 MB, 2 % loss",
            Self::HttpAgain => "HTTP: they restart at serve",
            Self::HttpKind(51) => "HTTP: WebRTC strings",
            Self::HttpKind(_) => "HTTP: WebRTC binary",
        })
    }
}

/// Runs a test case. The module `http` runs the HTTP cases, in which other processes own the associations.
pub async fn run(
    case: Case,
    world: super::path_emulator::EmulatedWorld,
    network: &mut super::peer_network::PeerNetwork,
) -> Result<String, String> {
    match case {
        Case::HttpGet => return http::get(world, network, Load::ONE).await,
        Case::HttpServe => return http::serve(world, network, Asks::Three).await,
        Case::HttpFifty(By::Us, loss) => return http::get(world, network, Load::fifty(loss)).await,
        Case::HttpFifty(By::Them, loss) => return http::serve(world, network, Asks::Fifty(loss)).await,
        Case::HttpAgain => return http::serve(world, network, Asks::Again).await,
        Case::HttpKind(kind) => return http::serve(world, network, Asks::InKind(kind)).await,
        _ => {}
    }
    let setup = case.setup(network.column);
    let mut encounter = Encounter::begin(world, network, setup).await?;
    let outcome = case.run(&mut encounter).await;
    encounter.end().await;
    outcome
}

const DATA: u8 = 0x00;
const AUTH: u8 = 0x0f;
const I_DATA: u8 = 0x40;
