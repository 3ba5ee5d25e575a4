//! The test cases of the QUIC interop runner, under the same names. A case has files, a network, and conditions. The
//! module `meeting` checks in every case that all files have arrived.
//!
//! The cases differ from those of the runner in three respects. Files are smaller and the network is faster (a transfer
//! has 5 MB at 20 Mbit/s, not 10 MB at 10 Mbit/s). All cases use HTTP/3. The case with many handshakes makes twelve
//! parallel connections instead of fifty, and loses 25 % of the packets in each direction.

use super::headers::PacketType;
use super::meeting::Meeting;
use super::relay::Impairments;
use super::{Pair, Stack};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A test case of the QUIC interop runner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names of the runner, each with its conditions at `check`")]
pub enum Case {
    Handshake,
    Transfer,
    Retry,
    Resumption,
    ZeroRtt,
    Http3,
    Multiconnect,
    TransferLoss,
    TransferCorruption,
    KeyUpdate,
    RebindPort,
    RebindAddr,
    VersionNegotiation,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Case {
    /// All cases.
    pub const ALL: [Self; 13] = [
        Self::Handshake,
        Self::Transfer,
        Self::Retry,
        Self::Resumption,
        Self::ZeroRtt,
        Self::Http3,
        Self::Multiconnect,
        Self::TransferLoss,
        Self::TransferCorruption,
        Self::KeyUpdate,
        Self::RebindPort,
        Self::RebindAddr,
        Self::VersionNegotiation,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Transfer => "transfer",
            Self::Retry => "retry",
            Self::Resumption => "resumption",
            Self::ZeroRtt => "zerortt",
            Self::Http3 => "http3",
            Self::Multiconnect => "multiconnect",
            Self::TransferLoss => "transferloss",
            Self::TransferCorruption => "transfercorruption",
            Self::KeyUpdate => "keyupdate",
            Self::RebindPort => "rebind-port",
            Self::RebindAddr => "rebind-addr",
            Self::VersionNegotiation => "versionnegotiation",
        }
    }

    /// Returns the case name that is passed to the client if another project's QUIC stack is the client.
    #[must_use]
    pub const fn told_to_client(self) -> &'static str {
        match self {
            Self::TransferLoss | Self::TransferCorruption | Self::RebindPort | Self::RebindAddr => "transfer",
            _ => self.name(),
        }
    }

    /// Returns the case name that is passed to the server if another project's QUIC stack is the server.
    #[must_use]
    pub fn told_to_server(self, client: Stack) -> &'static str {
        if self.is_refusal(client) { "versionnegotiation-only" } else { self.told_to_client() }
    }

    /// Returns whether the client must fail with an error message. In the case of version negotiation, our client must
    /// fail, because it supports only QUIC version 1.
    #[must_use]
    pub fn is_refusal(self, client: Stack) -> bool {
        self == Self::VersionNegotiation && client == Stack::Ours
    }

    /// Returns the names and sizes of the files that the client fetches.
    #[must_use]
    pub fn files(self, pair: Pair) -> Vec<(String, usize)> {
        let sizes: &[usize] = match self {
            Self::Handshake | Self::VersionNegotiation => &[1 << 10],
            Self::Transfer => &[1 << 20, 3 << 19, 5 << 19],
            Self::Retry => &[10 << 10],
            Self::Resumption => &[5 << 10, 10 << 10],
            Self::ZeroRtt => &[32; 40],
            Self::Http3 => &[5 << 10, 10 << 10, 500 << 10],
            Self::Multiconnect => &[1 << 10; 12],
            Self::TransferLoss | Self::TransferCorruption => &[2 << 20],
            Self::RebindPort | Self::RebindAddr => &[3 << 20],
            // Our client updates its keys after it has sent a random number of packets, from 10 to 1000. On a busy
            // machine it may send only one packet, an acknowledgement, for ten packets from the server. The file must
            // therefore be large. With a quiche server the file is larger still, because quiche never starts a key
            // update.
            Self::KeyUpdate if pair == Pair { client: Stack::Ours, server: Stack::Quiche } => &[16 << 20],
            Self::KeyUpdate => &[4 << 20],
        };
        // With long file names, the requests produce more 0-RTT data.
        let width = if self == Self::ZeroRtt { 240 } else { 2 };
        sizes.iter().enumerate().map(|(number, &size)| (format!("file{number:0width$}"), size)).collect()
    }

    /// Returns the impairments of the network. A quiche server stalls when packets that were in flight to the old
    /// address are lost (README, fault 11). With a quiche server, the old address therefore remains reachable.
    #[must_use]
    pub fn impairments(self, server: Stack) -> Impairments {
        let fair = Impairments { old_address_stays: server == Stack::Quiche, ..Impairments::FAIR };
        match self {
            Self::Multiconnect => Impairments { lost_ppm: 250_000, in_a_row: 2, ..fair },
            Self::TransferLoss => Impairments { lost_ppm: 20_000, ..fair },
            Self::TransferCorruption => Impairments { damaged_ppm: 20_000, ..fair },
            Self::RebindPort => Impairments { rebind_after: Some(150), ..fair },
            Self::RebindAddr => Impairments { rebind_after: Some(150), rebind_address: true, ..fair },
            _ => fair,
        }
    }

    /// If our client runs `load` in this case, returns the number of objects in each of two connections, and the size
    /// of one object in bytes. The client is not `get`, because `get` does not keep its TLS session for a second
    /// connection. `load` discards the content of the objects.
    #[must_use]
    pub fn load(self, client: Stack) -> Option<(usize, usize)> {
        match (self, client) {
            (Self::Resumption, Stack::Ours) => Some((1, 5 << 10)),
            (Self::ZeroRtt, Stack::Ours) => Some((20, 32)),
            _ => None,
        }
    }

    /// Returns whether the client's flow-control windows start small, so that they have to grow.
    #[must_use]
    pub fn is_narrow(self) -> bool {
        self.told_to_client() == Self::Transfer.name()
    }

    /// Returns whether each file is fetched by a client of its own.
    #[must_use]
    pub fn is_client_each(self) -> bool {
        self == Self::Multiconnect
    }

    /// Checks that the run `meeting` met the conditions of the test case. Returns a remark for the table of results.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn check(self, meeting: &Meeting) -> Result<String, String> {
        let seen = &meeting.seen;
        if self.is_refusal(meeting.pair.client) {
            return check_negotiation(meeting, false);
        }
        let handshakes = match self {
            Self::Resumption | Self::ZeroRtt => 2,
            Self::Multiconnect => self.files(meeting.pair).len(),
            _ => 1,
        };
        expect_handshakes(meeting, handshakes)?;
        let retries = seen.from_server.iter().filter(|header| header.kind == PacketType::Retry).count();
        if self != Self::Retry && retries > 0 {
            return Err(format!("{retries} Retry packets, where none was asked for"));
        }
        match self {
            Self::Handshake | Self::Transfer => Ok(String::new()),
            Self::Retry => check_retry(meeting),
            Self::Resumption => check_resumption(meeting, false),
            Self::ZeroRtt => {
                check_resumption(meeting, true)?;
                check_early(meeting)
            }
            Self::Http3 => check_streams(meeting),
            Self::Multiconnect | Self::TransferLoss if seen.lost == 0 => Err("nothing was lost".into()),
            Self::Multiconnect | Self::TransferLoss => Ok(format!("{} lost", seen.lost)),
            Self::TransferCorruption if seen.damaged == 0 => Err("nothing was damaged".into()),
            Self::TransferCorruption => Ok(format!("{} damaged", seen.damaged)),
            Self::KeyUpdate => check_key_phases(meeting),
            Self::RebindPort | Self::RebindAddr => check_paths(meeting, self == Self::RebindAddr),
            Self::VersionNegotiation => check_negotiation(meeting, true),
        }
    }
}

/// Counts the server's connection IDs, to check the number of handshakes. A server chooses a connection ID for each
/// connection that it answers.
fn expect_handshakes(meeting: &Meeting, expected: usize) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    for header in &meeting.seen.from_server {
        if matches!(header.kind, PacketType::Initial | PacketType::Handshake) {
            ids.insert(&header.source);
        }
    }
    if ids.len() == expected {
        return Ok(());
    }
    Err(format!("{} handshakes, {expected} expected", ids.len()))
}

// RFC 9000 §8.1.2: the client repeats the token. §17.2.5.3: the client also continues its packet numbers. This function
// cannot check packet numbers, because they are encrypted. The server would reject wrong packet numbers.
fn check_retry(meeting: &Meeting) -> Result<String, String> {
    let retry = meeting.seen.from_server.iter().find(|header| header.kind == PacketType::Retry);
    let retry = retry.ok_or("no Retry packet")?;
    let mut initials = meeting.seen.from_clients.iter().filter(|header| header.kind == PacketType::Initial);
    if initials.any(|header| header.token == retry.token && header.target == retry.source) {
        return Ok(String::new());
    }
    Err("no Initial with the token of the Retry".into())
}

/// Checks that the server sends a certificate in the first handshake, and none in the second. If `early` is set, the
/// server must accept early data in the second handshake.
fn check_resumption(meeting: &Meeting, early: bool) -> Result<String, String> {
    let mut by_connection: BTreeMap<String, (usize, bool, bool)> = BTreeMap::new();
    let datagrams = meeting.client_side()?;
    for datagram in datagrams.into_iter().filter(|datagram| datagram.source == meeting.front) {
        // The first source connection ID is enough, because all packets of a datagram have the same one.
        let Some(id) = datagram.source_ids.into_iter().next() else { continue };
        let number = by_connection.len();
        let entry = by_connection.entry(id).or_insert((number, false, false));
        entry.1 |= datagram.messages.iter().any(|kind| kind == "11");
        entry.2 |= datagram.extensions.iter().any(|kind| kind == "42");
    }
    let mut connections: Vec<_> = by_connection.into_values().collect();
    connections.sort_unstable();
    match connections[..] {
        [(_, true, _), (_, false, accepted)] if accepted || !early => Ok(String::new()),
        [(_, true, _), (_, false, _)] => Err("the server has not accepted early data".into()),
        [(_, true, _), (_, true, _)] => Err("a certificate in the second handshake: not resumed".into()),
        _ => Err(format!("handshakes with (certificate, early data): {connections:?}")),
    }
}

/// Checks that requests are sent as 0-RTT data. The 0-RTT packets together must be at least half as long as the names
/// of all requested files together.
fn check_early(meeting: &Meeting) -> Result<String, String> {
    let early: usize = meeting
        .seen
        .from_clients
        .iter()
        .filter(|header| header.kind == PacketType::ZeroRtt)
        .map(|header| header.bytes)
        .sum();
    let files = meeting.case.files(meeting.pair);
    let count = meeting.case.load(meeting.pair.client).map_or(files.len() - 1, |(objects, _)| objects);
    let names: usize = files.iter().rev().take(count).map(|(name, _)| name.len()).sum();
    if early < names / 2 {
        return Err(format!("{early} bytes in 0-RTT packets, names are {names}"));
    }
    Ok(format!("{:.1} kB early", early as f64 / 1e3))
}

/// Checks that the client sends all requests before the server has sent more than 30 STREAM frames of
/// responses.
fn check_streams(meeting: &Meeting) -> Result<String, String> {
    let mut requested = BTreeSet::new();
    let mut answers = 0;
    let port = meeting.front.port();
    for datagram in meeting.client_side()? {
        // Client requests are on streams 0, 4, 8, and so on (RFC 9000 §2.1).
        let streams =
            datagram.streams.iter().filter(|stream| stream.parse::<u64>().is_ok_and(|id| id % 4 == 0));
        if datagram.target.port() == port {
            requested.extend(streams.cloned());
        } else {
            answers += streams.count();
        }
        if answers > 30 {
            break;
        }
    }
    let expected = meeting.case.files(meeting.pair).len();
    if requested.len() < expected {
        return Err(format!("streams {requested:?} of {expected} when answers had begun"));
    }
    Ok(String::new())
}

/// Checks that both ends have sent packets of both key phases.
fn check_key_phases(meeting: &Meeting) -> Result<String, String> {
    let mut packets = BTreeMap::new();
    for datagram in meeting.client_side()? {
        let is_server = datagram.source.port() == meeting.front.port();
        for phase in datagram.key_phases {
            *packets.entry((is_server, phase)).or_insert(0) += 1;
        }
    }
    let count = |is_server, phase| packets.get(&(is_server, phase)).copied().unwrap_or(0);
    if [(false, false), (false, true), (true, false), (true, true)]
        .iter()
        .all(|&(end, phase)| count(end, phase) > 0)
    {
        return Ok(String::new());
    }
    Err(format!(
        "packets of phases 0 and 1: client {} and {}, server {} and {}",
        count(false, false),
        count(false, true),
        count(true, false),
        count(true, true)
    ))
}

// RFC 9000 §9.3: an endpoint MUST perform path validation when it detects a change of the peer's address, unless it has
// validated that address before. This function also checks that the client answers a challenge to each new address.
fn check_paths(meeting: &Meeting, addresses: bool) -> Result<String, String> {
    if meeting.seen.rebound == 0 {
        return Err("the client was never given another port".into());
    }
    let server = meeting.back;
    let mut paths = Vec::new();
    let mut challenged = BTreeMap::new();
    let mut responses = BTreeSet::new();
    for datagram in meeting.server_side()? {
        if datagram.source == server {
            if !paths.contains(&datagram.target) {
                if !paths.is_empty() && datagram.challenges.is_empty() {
                    return Err(format!("the first packet to {} is no PATH_CHALLENGE", datagram.target));
                }
                paths.push(datagram.target);
            }
            for data in datagram.challenges {
                challenged.insert(data, datagram.target);
            }
        } else {
            responses.extend(datagram.responses);
        }
    }
    let hosts: BTreeSet<_> = paths.iter().map(|path| path.ip()).collect();
    if paths.len() < 2 || (addresses && hosts.len() < 2) {
        return Err(format!("the server has sent to {paths:?} only"));
    }
    let answered: BTreeSet<_> =
        challenged.iter().filter(|(data, _)| responses.contains(*data)).map(|(_, path)| path).collect();
    if let Some(path) = paths[1..].iter().find(|path| !answered.contains(path)) {
        return Err(format!("no PATH_CHALLENGE to {path} was answered"));
    }
    let known = if meeting.pair.server == Stack::Quiche { " [11]" } else { "" };
    Ok(format!("{} paths{known}", paths.len()))
}

// RFC 9000 §17.2.1: a Version Negotiation packet swaps the source and destination connection IDs of the client's
// packet.
fn check_negotiation(meeting: &Meeting, goes_on: bool) -> Result<String, String> {
    let first = meeting.seen.from_clients.first().ok_or("the client sent nothing")?;
    let mut negotiations =
        meeting.seen.from_server.iter().filter(|header| header.kind == PacketType::VersionNegotiation);
    if !negotiations.any(|header| header.source == first.target && header.target == first.source) {
        return Err("no Version Negotiation packet with the ids of the client's first".into());
    }
    if goes_on && !(first.version != 1 && meeting.seen.from_clients.iter().any(|header| header.version == 1))
    {
        return Err("the client did not begin with another version and go on with 1".into());
    }
    Ok(String::new())
}
