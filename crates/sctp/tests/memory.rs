//! Associations that share a memory budget: their total memory must be bounded, no matter what their peers do, and a
//! well-behaved peer must make progress.

use anabranch_base::time::Duration;
use anabranch_base::{Budget, Engine, Instant, RecvBatch, Rng, SendBatch};
use anabranch_sctp::testing::Pair;
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message};
use std::net::SocketAddr;

fn shared(budget: &Budget) -> Config {
    let mut config = Config::profile("modern").expect("a profile");
    config.memory = Some(budget.clone());
    config
}

/// A server with a number of associations, all with the same client.
struct Peers {
    ends: [Endpoint; 2],
    now: Instant,
    /// The ids of the associations: first those at the client, then those at the server.
    ids: [Vec<AssociationId>; 2],
}

impl Peers {
    fn new(server: Config, count: u16, rcvbuf: u64) -> Self {
        let addresses = [1, 2].map(|n| SocketAddr::from(([10, 0, 0, n], 0)));
        let mut client = Config::profile("modern").expect("a profile");
        client.rcvbuf = rcvbuf;
        let ends = [
            Endpoint::new(client, vec![addresses[0]], Rng::new(1)),
            Endpoint::new(server, vec![addresses[1]], Rng::new(2)),
        ];
        let mut peers = Self { ends, now: Instant::ZERO, ids: [Vec::new(), Vec::new()] };
        peers.ends[1].listen(80).expect("free");
        for _ in 0..count {
            let id = peers.ends[0].associate(peers.now, Associate::to(addresses[1], 80)).expect("begun");
            peers.ids[0].push(id);
            peers.turn(|_| true);
        }
        assert_eq!(peers.ids[1].len(), usize::from(count));
        peers
    }

    /// Advances time by 10 ms and carries the packets for which `passes` returns true.
    fn turn(&mut self, passes: impl Fn(&[u8]) -> bool) {
        self.now += Duration::from_millis(10);
        for from in [0, 1, 0, 1] {
            self.ends[from].handle_timeout(self.now);
            let (mut batch, mut arrived) = (SendBatch::new(1), RecvBatch::new(1));
            while self.ends[from].poll_transmit(self.now, &mut batch) {
                if passes(batch.bytes()) {
                    arrived.receive(&mut batch);
                    self.ends[1 - from].handle_batch(self.now, &mut arrived);
                }
                batch.clear();
            }
            while let Some(event) = self.ends[from].poll_event() {
                if let Event::Accepted { id, .. } = event {
                    self.ids[1].push(id);
                }
            }
        }
    }

    /// Makes the server send on each association, until the association's send buffer is full. Returns the number of
    /// bytes accepted.
    fn give(&mut self, bytes: &[u8]) -> u64 {
        let mut taken = 0;
        for &id in &self.ids[1] {
            while let Ok(more @ 1..) = self.ends[1].send_pieces(self.now, id, Message::default(), bytes, 1400)
            {
                taken += more as u64;
            }
        }
        taken
    }

    /// Returns the number of bytes in all send buffers of the server.
    fn buffered(&self) -> u64 {
        self.ids[1].iter().filter_map(|&id| self.ends[1].info(id)).map(|info| info.buffered).sum()
    }
}

/// The send buffer is small for a peer that accepts little data, and large for a peer that accepts much.
#[test]
fn send_buffers_follow_what_the_peer_takes() {
    let budget = Budget::new(64 << 20, 100);
    let mut peers = Peers::new(shared(&budget), 20, 3_000);
    let piece = vec![7; 100_000];
    for _ in 0..100 {
        peers.give(&piece);
        peers.turn(|_| true);
    }
    // If each send buffer had 4 MiB, all send buffers together would hold 80 MB.
    assert!(peers.buffered() < 20 * 120_000, "{}", peers.buffered());
    let mut peers = Peers::new(shared(&budget), 1, 4 << 20);
    let (id, mut into) = (peers.ids[0][0], vec![0; 1 << 20]);
    let (mut most, mut read) = (0, 0);
    for _ in 0..200 {
        peers.give(&piece);
        most = most.max(peers.buffered());
        peers.turn(|_| true);
        while let Ok((bytes @ 1.., _)) = peers.ends[0].recv_bytes(peers.now, id, 0, &mut into, |_| true) {
            read += bytes;
        }
    }
    assert!(most > 2_000_000 && read > 20_000_000, "{most} bytes at a time, {read} in all");
}

/// Many associations send at full speed until their peers' windows are closed. Together these associations hold at most
/// the budget, and a later association can still send.
#[test]
fn send_buffers_are_bounded_together() {
    let (total, count) = (16 << 20, 60);
    let budget = Budget::new(total, u64::from(count));
    let mut peers = Peers::new(shared(&budget), count, 2 << 20);
    let piece = vec![7; 100_000];
    for _ in 0..300 {
        peers.give(&piece);
        peers.turn(|_| true);
    }
    assert!(peers.buffered() < total, "{}", peers.buffered());
    // Without a shared budget, the send buffers would hold 130 MB.
    let mut late = Peers::new(shared(&budget), 1, 1 << 20);
    let (id, mut into, mut read) = (late.ids[0][0], vec![0; 100_000], 0);
    for _ in 0..200 {
        late.give(&piece);
        late.turn(|_| true);
        while let Ok((bytes @ 1.., _)) = late.ends[0].recv_bytes(late.now, id, 0, &mut into, |_| true) {
            read += bytes;
        }
    }
    assert!(read > 1_000_000, "{read}");
    drop((peers, late));
    assert_eq!(budget.room(), Budget::new(total, u64::from(count)).room(), "all is given back");
}

/// All associations together hold a bounded amount of received data, whether this data waits behind a gap or for the
/// application. When the gap is closed, the transfer continues, and no data is lost.
#[test]
fn receive_buffers_are_bounded_together() {
    let (total, count) = (8 << 20, 40);
    let budget = Budget::new(total, u64::from(count));
    let mut peers = Peers::new(shared(&budget), count, 1 << 20);
    let full = budget.room();
    let mut sent = 0;
    for turn in 0..400 {
        for &id in &peers.ids[0].clone() {
            if turn < 200 && peers.ends[0].send(peers.now, id, Message::default(), &[7; 1400]).is_ok() {
                sent += 1400;
            }
        }
        peers.turn(|_| true);
    }
    // Returns the number of bytes that are acknowledged but not yet read.
    let waits = |id: &AssociationId| peers.ends[0].info(*id).map_or(0, |info| info.buffered as usize);
    let unread = sent - peers.ids[0].iter().map(waits).sum::<usize>();
    assert!((100_000..total as usize).contains(&unread), "{unread} of {sent}");
    assert!(budget.room() < full);
    let (mut into, mut read) = (vec![0; 65_536], 0);
    for _ in 0..20_000 {
        for &id in &peers.ids[1].clone() {
            if let Ok((bytes, _)) = peers.ends[1].recv_bytes(peers.now, id, 0, &mut into, |_| true) {
                read += bytes;
            }
        }
        if read == sent {
            break;
        }
        peers.turn(|_| true);
    }
    assert_eq!(read, sent, "nothing is lost");
    assert_eq!(budget.room(), full, "all is given back");
}

/// A link of 100 Mbit/s with a round trip of 200 ms or more is filled, just as without a shared budget.
#[test]
fn a_long_fat_link_is_filled() {
    let carried = |config: Config| {
        let (mut pair, id, there) = Pair::associated(&config);
        pair.network.delay = Duration::from_millis(100);
        let (piece, mut into, mut carried) = (vec![7; 1 << 16], vec![0; 1 << 20], 0);
        let [begin, end] = [10, 14].map(|seconds| pair.now + Duration::from_secs(seconds));
        while pair.now < end {
            while pair.a.send_pieces(pair.now, id, Message::default(), &piece, 1 << 16).is_ok() {}
            let next = pair.now + Duration::from_millis(5);
            pair.run(next, |_| false);
            while let Ok((bytes @ 1.., _)) = pair.b.recv_bytes(pair.now, there, 0, &mut into, |_| true) {
                carried += if pair.now > begin { bytes } else { 0 };
            }
        }
        carried / 4
    };
    let [alone, among] =
        [Config::profile("modern").expect("a profile"), shared(&Budget::new(256 << 20, 1280))].map(carried);
    println!("{alone} bytes a second alone, {among} among others");
    assert!(among > 12_500_000 && among > alone / 10 * 9, "{alone} and {among} bytes a second");
}

/// Single bytes arrive on an unlimited number of streams. The memory that each stream needs besides its data is charged
/// to the window, so the window closes.
#[test]
fn streams_that_were_added_count() {
    let mut config = Config::profile("modern").expect("a profile");
    config.rcvbuf = 1 << 20;
    let (mut pair, id, there) = Pair::associated(&config);
    pair.a.add_streams(pair.now, id, 60_000, 0).expect("asked");
    pair.settle();
    let streams = pair.a.info(id).expect("there").outbound_streams;
    assert!(streams > 60_000, "{streams}");
    let (mut into, mut read) = ([0; 10], 0);
    for first in (0..streams).step_by(200) {
        let group = first..streams.min(first + 200);
        for stream in group.clone() {
            let message = Message { stream, ..Message::default() };
            pair.a.send(pair.now, id, message, b"x").expect("room");
        }
        pair.settle();
        for stream in group {
            read += u32::from(matches!(pair.b.recv(pair.now, there, stream, &mut into), Ok(Some(_))));
        }
    }
    // Each stream in use beyond the number that the handshake granted counts as 768 bytes. Only the part of this memory
    // above 512 KiB reduces the window.
    assert!((700..4_000).contains(&read), "{read}");
}
