//! What a segment costs: two endpoints in memory, nothing between them but a
//! queue, real headers and checksums, the application's copies included.
//!
//! `cargo run --release -p anabranch-tcp --example segments [profile] [megabytes] [loss: one in n]`
//!
//! Prints nanoseconds a transmission (data and acknowledgements alike).

use anabranch_base::{Batch, Engine, Instant, Rng};
use anabranch_tcp::{Config, Endpoint, Event};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let profile = arguments.next().unwrap_or_else(|| "modern".to_owned());
    let megabytes: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let one_in: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let Some(config) = Config::profile(&profile) else {
        eprintln!("no such profile; there are {}", anabranch_tcp::PROFILES.join(", "));
        return;
    };
    #[expect(clippy::disallowed_methods, reason = "this measures the processor, not a protocol")]
    let start = std::time::Instant::now();
    let (packets, virtual_end) = transfer(&config, megabytes * 1_000_000, one_in);
    let elapsed = start.elapsed();
    let each = elapsed.as_nanos() as f64 / packets as f64;
    println!(
        "{profile}: {packets} transmissions in {:.3} s: {each:.0} ns each, {:.2} M/s (virtual time {virtual_end})",
        elapsed.as_secs_f64(),
        packets as f64 / elapsed.as_secs_f64() / 1e6
    );
}

/// Moves `bytes` one way over 100 Mbit/s and 20 ms; returns packets and the virtual end.
fn transfer(config: &Config, bytes: u64, one_in: u64) -> (u64, Instant) {
    const NANOS_A_BYTE: u64 = 80;
    const DELAY: u64 = 10_000_000;
    /// Most that a queue of one bandwidth-delay product delays.
    const QUEUE: u64 = 20_000_000;
    let ips: [IpAddr; 2] = [Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into()];
    let mut hosts = [0, 1].map(|i| Endpoint::new(config.clone(), vec![ips[i]], Rng::new(i as u64)));
    let _ = hosts[1].listen(80, 0);
    let mut now = Instant::ZERO;
    let Ok(client) = hosts[0].connect(now, None, SocketAddr::new(ips[1], 80)) else { return (1, now) };
    let mut server = None;
    let mut luck = Rng::new(7);
    let mut queues: [VecDeque<(Instant, Batch)>; 2] = [VecDeque::new(), VecDeque::new()];
    let mut free_at = [Instant::ZERO; 2];
    let mut pool: Vec<Batch> = Vec::new();
    let (mut left, mut got, mut packets) = (bytes, 0, 0);
    let chunk = vec![0x5a; 65_536];
    let mut sink = vec![0; 65_536];
    let mut writable = true;
    while got < bytes {
        for side in 0..2 {
            while let Some(event) = hosts[side].poll_event() {
                match event {
                    Event::Accepted { id, .. } => server = Some(id),
                    Event::Writable { .. } => writable = true,
                    Event::Readable { .. } => {
                        let Some(id) = server else { continue };
                        while let Ok(count @ 1..) = hosts[1].recv(now, id, &mut sink) {
                            got += count as u64;
                        }
                    }
                    _ => {}
                }
            }
            while side == 0 && writable && left > 0 {
                let most = (chunk.len() as u64).min(left) as usize;
                let taken = hosts[0].send(now, client, &chunk[..most]).unwrap_or(0);
                left -= taken as u64;
                writable = taken == most;
            }
            loop {
                let mut batch = pool.pop().unwrap_or_else(|| Batch::new(1));
                batch.clear();
                if !hosts[side].poll_transmit(now, &mut batch) {
                    pool.push(batch);
                    break;
                }
                packets += 1;
                let begin = free_at[side].max(now);
                if (one_in > 0 && luck.below(one_in) == 0) || begin.since(now).as_nanos() as u64 > QUEUE {
                    pool.push(batch);
                    continue;
                }
                free_at[side] = begin.plus_nanos((batch.stride() as u64 + 20) * NANOS_A_BYTE);
                queues[1 - side].push_back((free_at[side].plus_nanos(DELAY), batch));
            }
        }
        let flight = queues.iter().filter_map(|queue| queue.front().map(|(at, _)| *at)).min();
        let timer = hosts.iter().filter_map(Endpoint::poll_timeout).min();
        let Some(next) = flight.into_iter().chain(timer).min() else { break };
        now = next.max(now);
        for side in 0..2 {
            if queues[side].front().is_some_and(|(at, _)| *at <= now)
                && let Some((_, batch)) = queues[side].pop_front()
            {
                for packet in batch.packets() {
                    hosts[side].handle_packet(now, packet);
                }
                pool.push(batch);
            }
            if hosts[side].poll_timeout().is_some_and(|at| at <= now) {
                hosts[side].handle_timeout(now);
            }
        }
    }
    (packets, now)
}
