//! Plays a peer that has more addresses than the packetdrill script can name.
//!
//! The peer lists its addresses when the association is set up, answers the HEARTBEATs that verify them, and checks to
//! which address the engine sends data. The script sees only the first address, and no HEARTBEATs of the others.
//!
//! Implements RFC 9260 §5.1.2 (addresses in INIT and INIT ACK) and the peer's part of §5.4 (path verification).

use super::Stage;
use crate::script::{Body, Node, Value};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Chunk types (RFC 9260 §3.3.5, §3.3.6; RFC 4820 §3).
const HEARTBEAT: u8 = 4;
const HEARTBEAT_ACK: u8 = 5;
const PAD: u8 = 132;

/// An error: the engine sent a packet with DATA to another address than the script expects.
#[derive(Debug)]
pub(crate) struct StageError {
    pub(crate) reason: String,
    pub(crate) expected: String,
    pub(crate) observed: String,
}

/// The peer of a script: its addresses, and the expected destination address of each packet with DATA.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The addresses of the peer. The packets of the script use only the first one.
    addresses: Vec<IpAddr>,
    /// For each expected packet with DATA, its destination address: an index into `addresses`, counted from 1.
    destinations: Vec<u8>,
    /// The number of packets with DATA that the engine has sent so far. It selects the next entry of `destinations`.
    data_packets: usize,
}

impl Peer {
    /// Creates the peer that `stage` describes. The first address of the peer is `first`, and its other addresses are
    /// the next higher ones.
    pub(crate) fn new(stage: &Stage, first: IpAddr) -> Self {
        let next = |n: u8| -> IpAddr {
            match first {
                IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits().wrapping_add(n.into())).into(),
                IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits().wrapping_add(n.into())).into(),
            }
        };
        let addresses = (0..stage.peer_addresses.max(1)).map(next).collect();
        Self { addresses, destinations: stage.destinations.clone(), data_packets: 0 }
    }

    /// Returns whether the peer has addresses that the script cannot name.
    pub(crate) fn is_multihomed(&self) -> bool {
        self.addresses.len() > 1
    }

    /// Returns the position of an address in the peer's list, from 1.
    pub(crate) fn number(&self, address: IpAddr) -> Option<usize> {
        self.addresses.iter().position(|&own| own == address).map(|at| at + 1)
    }

    /// RFC 9260 §5.1.2: adds the peer's other addresses to an INIT or INIT ACK. A chunk in which the script lists
    /// addresses or gives a length is left unchanged.
    pub(crate) fn introduced<'a>(&self, body: &'a Body) -> Cow<'a, Body> {
        let Body::Chunks(chunks) = body else { return Cow::Borrowed(body) };
        let lists = |chunk: &Node| chunk.items.iter().any(|item| item.name.ends_with("_ADDRESS"));
        let opens = |chunk: &Node| {
            matches!(chunk.name.as_str(), "INIT" | "INIT_ACK")
                && chunk.field("len").is_none_or(Value::is_any)
                && !lists(chunk)
        };
        if !self.is_multihomed() || !chunks.iter().any(opens) {
            return Cow::Borrowed(body);
        }
        let mut chunks = chunks.clone();
        for chunk in chunks.iter_mut().filter(|chunk| opens(chunk)) {
            chunk.items.extend(self.addresses[1..].iter().map(|&address| {
                let name = if address.is_ipv4() { "IPV4_ADDRESS" } else { "IPV6_ADDRESS" };
                Node { name: name.to_owned(), ..Node::default() }.with("addr", Value::Address(address))
            }));
        }
        Cow::Owned(Body::Chunks(chunks))
    }

    /// RFC 9260 §5.4 and §8.3: returns the answer to a HEARTBEAT if `target` is an address that the script cannot name.
    /// `chunks` are the bytes after the common header.
    pub(crate) fn answer(&self, target: IpAddr, chunks: &[u8]) -> Option<Vec<u8>> {
        self.number(target).filter(|&number| number > 1)?;
        let (&[HEARTBEAT, _, high, low], _) = chunks.split_first_chunk()? else { return None };
        let length = usize::from(u16::from_be_bytes([high, low])).max(4);
        let whole = chunks.get(..length.next_multiple_of(4))?;
        // RFC 8899 §6.2.1.1: a path MTU probe ends with a PAD chunk. No other chunk may follow.
        let rest = &chunks[whole.len()..];
        if !matches!(rest.first(), None | Some(&PAD)) {
            return None;
        }
        let mut answer = whole.to_vec();
        answer[..2].copy_from_slice(&[HEARTBEAT_ACK, 0]);
        Some(answer)
    }

    /// Checks the destination address of a packet that the engine sent and that matched the script's expectation.
    pub(crate) fn check_destination(&mut self, seen: &[Node], target: IpAddr) -> Result<(), StageError> {
        let carries_data = seen.iter().any(|chunk| matches!(chunk.name.as_str(), "DATA" | "I_DATA"));
        if self.destinations.is_empty() || !carries_data {
            return Ok(());
        }
        self.data_packets += 1;
        let drawn = Body::Chunks(seen.to_vec()).to_string();
        let number = self.number(target).unwrap_or_default();
        let seen = format!("{drawn} towards {number} ({target})");
        let Some(&wanted) = self.destinations.get(self.data_packets - 1) else {
            return Err(StageError {
                reason: "the stage has no turn for this packet with DATA".to_owned(),
                expected: self.destinations_listed(),
                observed: seen,
            });
        };
        if usize::from(wanted) == number {
            return Ok(());
        }
        let address = self.addresses[usize::from(wanted) - 1];
        Err(StageError {
            reason: format!("packet {} with DATA goes to another address", self.data_packets),
            expected: format!("{drawn} towards {wanted} ({address})"),
            observed: seen,
        })
    }

    /// Checks that the number of packets with DATA that the engine has sent equals the number of destinations in the
    /// stage.
    pub(crate) fn check_end(&self) -> Result<(), StageError> {
        if self.data_packets == self.destinations.len() {
            return Ok(());
        }
        Err(StageError {
            reason: "the script ends before the turns that its stage lists".to_owned(),
            expected: self.destinations_listed(),
            observed: format!("{} packets with DATA", self.data_packets),
        })
    }

    fn destinations_listed(&self) -> String {
        format!("{} packets with DATA, towards {:?}", self.destinations.len(), self.destinations)
    }
}
