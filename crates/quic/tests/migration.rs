//! A client whose address changes during a transfer (RFC 9000 §9), and an attacker who fakes such a change.

use crate::validation::{DatagramInFlight, at, events, give, pair, sends, settle, size};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant};
use anabranch_quic::{Config, Endpoint, Event, Id};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const BYTES: usize = 2_000_000;

/// A transfer of [`BYTES`] from a server to a client on one stream, and the network between them.
struct Transfer {
    ends: [Endpoint; 2],
    ids: [Id; 2],
    now: Instant,
    /// The client's public address.
    client: SocketAddr,
    written: usize,
    read: usize,
    /// The bytes that the server has received from each address (`received_from`), and the bytes that it has sent to
    /// each address (`sent_to`).
    received_from: BTreeMap<SocketAddr, usize>,
    sent_to: BTreeMap<SocketAddr, usize>,
}

impl Transfer {
    fn new() -> Self {
        let mut ends = pair(&Config::default());
        let now = Instant::ZERO;
        let near = ends[0].connect(now, at(2, 443)).expect("begun");
        settle(&mut ends, now);
        assert_eq!(ends[0].send(now, near, 0, b"ask"), Ok(3));
        settle(&mut ends, now);
        let accepted = events(&mut ends[1]).into_iter().find_map(|event| match event {
            Event::Accepted { id, .. } => Some(id),
            _ => None,
        });
        let ids = [near, accepted.expect("accepted")];
        let (came, went) = Default::default();
        Self { ends, ids, now, client: at(1, 1000), written: 0, read: 0, received_from: came, sent_to: went }
    }

    /// Runs both ends for a millisecond, and delivers their packets. Server packets to an address other than the
    /// client's public address are lost. Returns copies of the client's packets.
    fn step(&mut self) -> Vec<DatagramInFlight> {
        self.now += Duration::from_millis(1);
        let ([near, far], now) = (&mut self.ends, self.now);
        for end in [&mut *near, &mut *far] {
            if end.poll_timeout().is_some_and(|due| due <= now) {
                end.handle_timeout(now);
            }
        }
        let piece = [7; 10_000];
        let left = BYTES - self.written;
        if left > 0 {
            self.written += far.send(now, self.ids[1], 0, &piece[..left.min(piece.len())]).expect("taken");
            if self.written == BYTES {
                far.finish(now, self.ids[1], 0);
            }
        }
        let up = sends(near, now);
        for sent in &up {
            *self.received_from.entry(self.client).or_default() += sent.bytes.len();
            give(far, now, &DatagramInFlight { source: self.client, ..sent.clone() });
        }
        for sent in sends(far, now) {
            *self.sent_to.entry(sent.target).or_default() += sent.bytes.len();
            // A NAT translates the client's address, so the client does not know its public address.
            if sent.target == self.client {
                give(near, now, &DatagramInFlight { target: at(1, 1000), ..sent });
            }
        }
        let mut buffer = [0; 65_536];
        while let (read @ 1.., _) = near.recv(now, self.ids[0], 0, &mut buffer) {
            self.read += read;
        }
        up
    }

    fn until(&mut self, read: usize) {
        for _ in 0..20_000 {
            if self.read >= read {
                return;
            }
            self.step();
        }
        panic!("{} of {read} bytes", self.read);
    }

    fn of(bytes: &BTreeMap<SocketAddr, usize>, address: SocketAddr) -> usize {
        bytes.get(&address).copied().unwrap_or(0)
    }
}

/// RFC 9000 §9.3, §8.2: the client's address changes, and the transfer continues at the new address. Until the new
/// address is validated, the server sends to it at most three times the bytes received from it. The test also accepts
/// one datagram of 1,200 bytes.
#[test]
fn a_transfer_goes_on_at_another_address() {
    let mut transfer = Transfer::new();
    transfer.until(BYTES / 4);
    let (old, new) = (transfer.client, at(3, 2000));
    transfer.client = new;
    // The server has received the first packet from the new address, but has not validated that address.
    let mut rounds = 0;
    while Transfer::of(&transfer.received_from, new) == 0 {
        transfer.step();
        rounds += 1;
        assert!(rounds < 1_000, "the client says nothing");
    }
    let (came, went) = (Transfer::of(&transfer.received_from, new), Transfer::of(&transfer.sent_to, new));
    // RFC 9000 §8.2.1 does not allow padding of a PATH_CHALLENGE datagram to 1,200 bytes beyond three times the
    // received bytes. quinn always pads the datagram, so this test accepts one such datagram.
    assert!(went > 0 && went <= (3 * came).max(1_200), "{went} bytes for {came}");
    transfer.until(BYTES);
    assert_eq!(transfer.read, BYTES);
    assert_eq!(transfer.ends[1].peer(transfer.ids[1]), Some(new));
    let after = Transfer::of(&transfer.sent_to, old);
    assert!(Transfer::of(&transfer.sent_to, new) > BYTES / 2, "the rest went there, {after} to the old one");
}

/// RFC 9000 §9.3.1: an attacker sends the client's packet from a victim's address. The server must send to the victim
/// at most three times the packet's bytes. The test also accepts one datagram of 1,200 bytes. The client must get the
/// rest of the transfer.
#[test]
fn a_spoofed_source_cannot_redirect_a_transfer() {
    let mut transfer = Transfer::new();
    transfer.until(BYTES / 4);
    // The attacker replaces the source address of the client's next packet with the victim's address.
    let victim = at(9, 9);
    let mut stolen = Vec::new();
    let client = transfer.client;
    for _ in 0..1_000 {
        transfer.client = victim;
        stolen = transfer.step();
        transfer.client = client;
        if !stolen.is_empty() {
            break;
        }
    }
    let came = size(&stolen);
    assert!(came > 0 && came == Transfer::of(&transfer.received_from, victim), "{came}");
    transfer.until(BYTES);
    // The server's timers may send more bytes to the victim later. These bytes must also be within the limit.
    for _ in 0..10_000 {
        transfer.step();
    }
    let went = Transfer::of(&transfer.sent_to, victim);
    assert!(went > 0 && went <= (3 * came).max(1_200), "{went} bytes for {came}");
    assert_eq!(transfer.ends[1].peer(transfer.ids[1]), Some(client), "it is back with the client");
}
