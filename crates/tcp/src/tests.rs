//! Tests that need access to the internals of an endpoint.

use crate::testing::transmit_all;
use crate::{Config, Endpoint, Event};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Rng};
use std::net::{IpAddr, SocketAddr};

/// A congestion controller for the test, with a large window and a fixed pacing rate. It records the time and the size
/// in bytes of each segment sent.
#[derive(Debug, Default)]
struct FixedRate(std::sync::Arc<std::sync::Mutex<Vec<(Instant, u64)>>>);

impl anabranch_congestion::Controller for FixedRate {
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.0.lock().expect("one thread").push((now, bytes));
    }
    fn pacing_rate(&self) -> Option<anabranch_base::BitRate> {
        anabranch_base::BitRate::from_bits_per_second(1_000_000)
    }
    fn on_acked(&mut self, _: Instant, _: anabranch_congestion::Acked) {}
    fn on_loss(&mut self, _: Instant, _: u64, _: bool) {}
    fn on_timeout(&mut self, _: Instant, _: u64) {}
    fn on_idle(&mut self, _: Duration, _: Duration) {}
    fn leave_slow_start(&mut self) {}
    fn set_mss(&mut self, _: u64) {}
    fn window(&self) -> u64 {
        1 << 20
    }
    fn ssthresh(&self) -> u64 {
        u64::MAX
    }
    fn name(&self) -> &'static str {
        "fixed"
    }
}

/// The connection reports each segment that it sends to the congestion controller, and sends segments at the
/// controller's pacing rate.
#[test]
fn a_controller_sees_what_leaves_and_sets_the_pace() {
    let ips = [1, 2].map(|n| IpAddr::from([10, 0, 0, n]));
    let mut ends = ips.map(|ip| Endpoint::new(Config::default(), vec![ip], Rng::new(1)));
    let mut now = Instant::ZERO;
    ends[1].listen(80, 0).expect("free");
    let id = ends[0].connect(now, None, SocketAddr::new(ips[1], 80)).expect("begun");
    let exchange = |ends: &mut [Endpoint; 2], now| {
        for from in [0, 1, 0, 1, 0, 1] {
            ends[from].handle_timeout(now);
            for packet in transmit_all(&mut ends[from], now) {
                ends[1 - from].handle_packet(now, packet.packet());
            }
        }
        while let Some(event) = ends[1].poll_event() {
            if let Event::Readable { id } = event {
                ends[1].recv(now, id, &mut [0; 50_000]).expect("it is open");
            }
        }
    };
    exchange(&mut ends, now);
    let controller = FixedRate::default();
    let sent = controller.0.clone();
    let connection = ends[0].slots.iter_mut().find_map(|slot| slot.connection.as_mut()).expect("it is open");
    let controller = anabranch_congestion::Algorithm::Other(Box::new(controller));
    connection.send.use_controller(&Config::default(), controller);
    let written = ends[0].send(now, id, &[7; 40_000]).expect("it is open") as u64;
    for _ in 0..1_000 {
        exchange(&mut ends, now);
        if sent.lock().expect("one thread").iter().map(|(_, bytes)| bytes).sum::<u64>() >= written {
            break;
        }
        now = ends.iter().filter_map(Engine::poll_timeout).min().expect("data waits").max(now);
    }
    let stats = ends[0].stats(id).expect("it lives");
    assert_eq!(
        (stats.bytes_sent, stats.data_segments_sent),
        (written, sent.lock().expect("one thread").len() as u64)
    );
    let sent = sent.lock().expect("one thread").clone();
    let (first, last) = (sent[0].0, sent[sent.len() - 1].0);
    let bytes: u64 = sent.iter().map(|(_, bytes)| bytes).sum();
    // At 1 Mbit/s a byte takes 8 us. The pacer may send the first ten packets together, and the time after the last
    // packet is not measured. The measured time may therefore be shorter than the time for all bytes, by the time for
    // about 11 packets. The test allows 12.
    let took = last.since(first).as_micros() as u64;
    assert!(took <= 8 * bytes && took + 8 * 12 * 1_500 >= 8 * bytes, "{took} us for {bytes} bytes");
}
