//! Tests Max.Burst (RFC 9260 §6.1 D) while the clock stands still. A host that reads many packets at once processes all
//! of them at one instant.

use anabranch_base::{Engine, Instant, Rng};
use anabranch_sctp::testing::transmit_all;
use anabranch_sctp::{Associate, Config, Endpoint, Event, Message};
use std::net::SocketAddr;

/// A burst is acknowledged at the instant at which it was sent, and another burst follows. If only one burst were
/// allowed per instant, the fifth packet would wait forever for a SACK.
#[test]
fn a_burst_acknowledged_at_its_own_instant_is_followed_by_another() {
    let addresses = [SocketAddr::from(([10, 0, 0, 1], 0)), SocketAddr::from(([10, 0, 0, 2], 0))];
    let config = Config::default();
    assert_eq!(config.max_burst, Some(4));
    let mut ends =
        addresses.map(|a| Endpoint::new(config.clone(), vec![a], Rng::new(a.ip().is_ipv4().into())));
    let now = Instant::from_nanos(1_000_000_000);
    ends[1].listen(80).expect("a free port");
    let id = ends[0].associate(now, Associate::to(addresses[1], 80)).expect("begun");
    for stream in 0..50 {
        let message = Message { stream: stream % 10, unordered: true, ..Message::default() };
        ends[0].send(now, id, message, &[7; 1_400]).expect("room");
    }
    let (mut heard, mut buffer) = (0, vec![0; 2_000]);
    for turn in 0..200 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        let mut data = 0;
        for packet in transmit_all(&mut ends[from], now) {
            data += usize::from(packet.bytes.len() > 1_000);
            ends[to].handle_packet(now, packet.packet());
        }
        assert!(data <= 4, "{data} packets at once");
        while let Some(event) = ends[to].poll_event() {
            if let Event::Readable { id, stream } = event {
                while let Ok(Some(received)) = ends[to].recv(now, id, stream, &mut buffer) {
                    heard += received.bytes;
                }
            }
        }
    }
    assert_eq!(heard, 50 * 1_400, "all at one instant");
}
