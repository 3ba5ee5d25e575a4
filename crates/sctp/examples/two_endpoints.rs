//! Runs two SCTP endpoints without a network. The program itself carries the packets, loses every fifth packet, and
//! sets the clock. So seconds of protocol time pass in milliseconds, and every run prints the same lines. Each of the
//! three messages has its own stream, so a lost packet delays only the messages in that packet.
//!
//! `cargo run -p anabranch-sctp --example two_endpoints`

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng, SendBatch};
use anabranch_sctp::{Associate, Config, Endpoint, Event, Message};
use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const NAMES: [&str; 2] = ["client", "server"];
const ONE_WAY: Duration = Duration::from_millis(20);

struct PacketInFlight {
    arrives: Instant,
    to: usize,
    bytes: Vec<u8>,
}

/// Runs both endpoints until neither has anything to do. Returns a line for each event.
pub fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let addresses = [SocketAddr::from(([10, 0, 0, 1], 0)), SocketAddr::from(([10, 0, 0, 2], 0))];
    // With fixed seeds, every run has the same result. A program with real peers uses `Rng::from_os()`.
    let mut ends = [CLIENT, SERVER]
        .map(|end| Endpoint::new(Config::default(), vec![addresses[end]], Rng::new(end as u64)));
    let mut now = Instant::ZERO;
    ends[SERVER].listen(80)?;
    let id = ends[CLIENT].associate(now, Associate::to(addresses[SERVER], 80))?;
    for stream in 0..3 {
        let text = format!("message on stream {stream}, of {} bytes", 1000 * (stream + 1));
        let message = format!("{text:width$}", width = 1000 * usize::from(stream + 1));
        ends[CLIENT].send(now, id, Message { stream, ..Message::default() }, message.as_bytes())?;
    }
    ends[CLIENT].shutdown(now, id);

    let mut lines = Vec::new();
    let mut in_flight: VecDeque<PacketInFlight> = VecDeque::new();
    let mut batch = SendBatch::new(1);
    let mut sent = 0;
    loop {
        for end in [CLIENT, SERVER] {
            let name = NAMES[end];
            batch.clear();
            while ends[end].poll_transmit(now, &mut batch) {
                for packet in batch.packets() {
                    sent += 1;
                    if sent % 5 == 0 {
                        lines.push(format!("{now}  {name}: packet {sent} is lost"));
                    } else {
                        let bytes = packet.payload.to_vec();
                        in_flight.push_back(PacketInFlight { arrives: now + ONE_WAY, to: 1 - end, bytes });
                    }
                }
                batch.clear();
            }
            while let Some(event) = ends[end].poll_event() {
                match event {
                    Event::Established { .. } => lines.push(format!("{now}  {name}: the association is up")),
                    Event::Readable { id, stream } => {
                        let mut buffer = [0; 4000];
                        while let Some(received) = ends[end].recv(now, id, stream, &mut buffer)? {
                            let message = String::from_utf8_lossy(&buffer[..received.bytes]);
                            lines.push(format!("{now}  {name}: {}", message.trim_end()));
                        }
                    }
                    Event::Closed { reason, .. } => {
                        lines.push(format!("{now}  {name}: the association has ended: {reason:?}"))
                    }
                    _ => {}
                }
            }
        }

        // Advances the clock to the next arrival of a packet or expiry of a timer. If no packet is in flight and no
        // timer runs, the example has ended.
        let arrival = in_flight.front().map(|packet| packet.arrives);
        let timers = ends.iter().filter_map(Engine::poll_timeout);
        let Some(next) = arrival.into_iter().chain(timers).min() else { return Ok(lines) };
        now = next;
        while in_flight.front().is_some_and(|packet| packet.arrives <= now) {
            let Some(packet) = in_flight.pop_front() else { break };
            let (source, target) = (addresses[1 - packet.to], addresses[packet.to]);
            let payload = &packet.bytes;
            ends[packet.to].handle_packet(now, Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload });
        }
        for end in &mut ends {
            if end.poll_timeout().is_some_and(|at| at <= now) {
                end.handle_timeout(now);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in run()? {
        println!("{line}");
    }
    Ok(())
}
