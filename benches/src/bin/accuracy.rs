//! Measures the precision of an emulated link: rate, delay, loss, and maximum throughput.
//!
//!     cargo run --release --bin accuracy [-- SECONDS [tun|veth]]
//!
//! Datagrams go from a near namespace through one link to a far namespace, where the kernel timestamps their arrival.
//! The expected result comes from the same link elements in memory, which get the same packets at the measured send
//! times. The program needs namespaces (root, or user namespaces). The figures are meaningful only on an idle machine,
//! so the machine's load average is printed. The last lines say ok or FAIL for each requirement, and the exit status is
//! 1 if one fails.

#![cfg(target_os = "linux")]

use anabranch_base::{Histogram, Instant, Rng};
use anabranch_emu::device::{Clock, DeviceKind};
use anabranch_emu::netns::{self, Namespace};
use anabranch_emu::record::RecordLevel;
use anabranch_emu::relay::{Relay, raise_thread_priority};
use anabranch_emu::report::PathReport;
use anabranch_emu::wiring::{AddressRange, LinkEnd, Wiring};
use anabranch_link::{Chain, LinkSpec, TestPacket};
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io::{IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An emulated link, and the two network namespaces that it connects.
struct Bench {
    wiring: Wiring,
    relay: Relay,
    near: IpAddr,
    far: IpAddr,
    spec: LinkSpec,
}

impl Bench {
    fn new(text: &str, choice: DeviceKind) -> Self {
        let spec = LinkSpec::parse(text).expect("a link");
        let ends = (Namespace::create().expect("a namespace"), Namespace::create().expect("a namespace"));
        let addresses = AddressRange::default();
        let joined = Wiring::join(std::slice::from_ref(&spec), ends, false, addresses, choice);
        let (wiring, mut pipes) = joined.unwrap_or_else(|error| panic!("{error}"));
        let pipe = pipes.pop().expect("a pipe");
        let relay =
            Relay::start(vec![pipe], &spec, 1, &Rng::new(1), Clock::begin(), RecordLevel::Counters, None);
        let relay = relay.unwrap_or_else(|error| panic!("{error}"));
        Self {
            wiring,
            relay,
            near: addresses.address(0, LinkEnd::Near),
            far: addresses.address(0, LinkEnd::Far),
            spec,
        }
    }

    fn end(self) -> PathReport {
        let unseen = self.wiring.unseen(0);
        PathReport { unseen, ..self.relay.stop().unwrap_or_else(|error| panic!("{error}")).report }
    }

    /// Sends one datagram every `gap` for the time `span`. A `gap` of 0 means as fast as possible. `bytes` is the
    /// packet size with IP and UDP headers. For each datagram, returns the send time and the arrival time (`None` if it
    /// did not arrive). Both are Unix times in nanoseconds.
    fn send(&self, bytes: usize, gap: Duration, span: Duration) -> Vec<(u64, Option<u64>)> {
        let target = SocketAddr::new(self.far, PORT);
        let receiver = self.wiring.far.run(|| UdpSocket::bind(target)).expect("a thread").expect("a socket");
        let sender =
            self.wiring.near.run(|| UdpSocket::bind((self.near, 0))).expect("a thread").expect("a socket");
        sender.connect(target).expect("connected");
        setsockopt(&receiver, ReceiveTimestampns, &true).expect("timestamps");
        let wide = 64 << 20;
        let _ = nix::sys::socket::setsockopt(&receiver, nix::sys::socket::sockopt::RcvBufForce, &wide);
        receiver.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let over = AtomicBool::new(false);
        let sending = || {
            // Raises the priority, because a late sender would measure its own delay. A sender without gaps never
            // sleeps, and must not get priority over all other threads.
            if !gap.is_zero() {
                raise_thread_priority();
            }
            let mut sent = Vec::new();
            let mut payload = vec![0; bytes - 28];
            let begin = now();
            let mut due = begin;
            while now() - begin < span.as_nanos() as u64 {
                let number = sent.len() as u32;
                payload[..4].copy_from_slice(&number.to_be_bytes());
                if !gap.is_zero() {
                    wait_until(due);
                    due += gap.as_nanos() as u64;
                }
                sent.push(now());
                // A send error is ignored, because a full device buffer loses packets like any other queue.
                let _ = sender.send(&payload);
            }
            wait_until(now() + self.spec.rtt().as_nanos() as u64 + 500_000_000);
            over.store(true, Ordering::Relaxed);
            sent
        };
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(&receiver, &over));
            let sent = scope.spawn(sending).join().expect("sent");
            let mut arrived = vec![None; sent.len()];
            for (number, at) in receiving.join().expect("received") {
                arrived[number as usize] = Some(at);
            }
            sent.into_iter().zip(arrived).collect()
        })
    }
}

/// Receives datagrams until `over` is set. Returns, for each datagram, its sequence number and the time in nanoseconds
/// at which the kernel received it.
fn receive(socket: &UdpSocket, over: &AtomicBool) -> Vec<(u32, u64)> {
    let mut got = Vec::new();
    let mut buffer = [0; 2048];
    while !over.load(Ordering::Relaxed) {
        let mut room = nix::cmsg_space!(nix::sys::time::TimeSpec);
        let mut into = [IoSliceMut::new(&mut buffer)];
        let Ok(message) = recvmsg::<()>(socket.as_raw_fd(), &mut into, Some(&mut room), MsgFlags::empty())
        else {
            continue;
        };
        let mut at = None;
        for control in message.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmTimestampns(time) = control {
                at = Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64);
            }
        }
        if let Some(at) = at {
            got.push((u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]), at));
        }
    }
    got
}

/// Returns the time of the wall clock in nanoseconds. The kernel timestamps packets with the same clock.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn wait_until(at: u64) {
    let until = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    let _ = rustix::thread::clock_nanosleep_absolute(rustix::thread::ClockId::Realtime, &until);
}

fn ms(nanos: i64) -> String {
    format!("{:+.3} ms", nanos as f64 / 1e6)
}

/// The requirements that were checked, in words, and whether each holds.
#[derive(Default)]
struct Verdicts(Vec<(String, bool)>);

impl Verdicts {
    fn add(&mut self, name: String, holds: bool) -> &'static str {
        self.0.push((name, holds));
        if holds { "ok" } else { "FAIL" }
    }

    /// Prints a line for each requirement. Returns whether there is at least one requirement and all hold.
    fn print(&self) -> bool {
        println!();
        for (name, holds) in &self.0 {
            println!("{}  {name}", if *holds { "ok  " } else { "FAIL" });
        }
        !self.0.is_empty() && self.0.iter().all(|(_, holds)| *holds)
    }
}

/// Returns whether the measured rate is within 1 % of the expected rate.
fn rate_is_right(measured: f64, expected: f64) -> bool {
    (measured / expected - 1.0).abs() <= 0.01
}

/// Returns whether the errors of the delay (in ns) are small: the median within 0.2 ms, the 99th percentile within 1
/// ms.
fn delay_is_right(median: i64, p99: i64) -> bool {
    median.abs() <= 200_000 && p99.abs() <= 1_000_000
}

/// Returns the bounds of the number of lost packets among `count` packets that are lost with the probability `share`.
/// The number is within the bounds with a probability of 99.9 %.
fn losses(count: f64, share: f64) -> (f64, f64) {
    let spread = 3.290_5 * (count * share * (1.0 - share)).sqrt();
    (count * share - spread, count * share + spread)
}

fn rate(choice: DeviceKind, seconds: u64, verdicts: &mut Verdicts) {
    println!(
        "\nrate: datagrams at 1.2 times the rate, packets of 1500 bytes; arrivals of all but the first over their span"
    );
    for (text, bits) in [("1mbit", 1e6), ("10mbit", 1e7), ("100mbit", 1e8), ("300mbit", 3e8)] {
        let bench = Bench::new(&format!("rate={text},rtt=20ms,queue=200p"), choice);
        let gap = Duration::from_nanos((12_000.0 / (1.2 * bits) * 1e9) as u64);
        let seen = bench.send(1500, gap, Duration::from_secs(seconds));
        let mut arrived: Vec<u64> = seen.iter().filter_map(|(_, arrived)| *arrived).collect();
        arrived.sort_unstable();
        let required = format!("rate {text} within 1 %");
        let (Some(first), Some(last), true) = (arrived.first(), arrived.last(), arrived.len() > 1) else {
            verdicts.add(required, false);
            continue;
        };
        let measured = (arrived.len() - 1) as f64 * 12_000.0 / ((last - first) as f64 / 1e9);
        let wrong = 100.0 * (measured / bits - 1.0);
        let verdict = verdicts.add(required, rate_is_right(measured, bits));
        println!("  {text:>8}: {:>9.4} Mbit/s ({wrong:+.3} %) {verdict}", measured / 1e6);
        drop(bench.end());
    }
}

fn delay(choice: DeviceKind, seconds: u64, verdicts: &mut Verdicts) {
    println!("\ndelay at 100mbit, rtt 40ms: arrival minus what the chain says for the same packets");
    for (text, share) in [("a quarter", 0.25), ("nine tenths", 0.9)] {
        let bench = Bench::new("rate=100mbit,rtt=40ms,queue=1000p", choice);
        let gap = Duration::from_nanos((120_000.0 / share) as u64);
        let seen = bench.send(1500, gap, Duration::from_secs(seconds));
        let (mut model, _) = bench.spec.build::<TestPacket>(1, &Rng::new(1)).expect("a chain");
        let begin = seen.first().map_or(0, |(sent, _)| *sent);
        let (mut errors, mut late): (Vec<i64>, _) = (Vec::new(), Histogram::default());
        let mut leave = |model: &mut Chain<TestPacket>, until: Instant| {
            while let Some(at) = model.next().filter(|at| *at <= until) {
                let Some(packet) = model.pop(at) else { continue };
                if let Some(arrived) = seen[packet.number as usize].1 {
                    errors.push(arrived as i64 - begin as i64 - at.as_nanos() as i64);
                    late.add(Duration::from_nanos(arrived.saturating_sub(begin + at.as_nanos())));
                }
            }
        };
        for (number, (sent, _)) in seen.iter().enumerate() {
            let at = Instant::from_nanos(sent - begin);
            leave(&mut model, at);
            model.push(at, TestPacket::numbered(1500, number as u64));
        }
        leave(&mut model, Instant::MAX);
        errors.sort_unstable();
        let required = format!("delay at {text} of 100 Mbit/s: median within 0.2 ms, p99 within 1 ms");
        if errors.is_empty() {
            verdicts.add(required, false);
            continue;
        }
        let at = |thousandths: usize| errors[(errors.len() - 1) * thousandths / 1000];
        let verdict = verdicts.add(required, delay_is_right(at(500), at(990)));
        let (median, p99, most) = (ms(at(500)), ms(at(990)), ms(at(1000)));
        println!(
            "  {text:>12} of the rate: median {median}, p99 {p99}, most {most}, {} packets: {verdict}",
            errors.len()
        );
        let report = bench.end();
        let late = &report.up.late;
        if late.count() > 0 {
            println!(
                "{:>26}: median {}, p99 {}",
                "of this the link's own",
                ms(late.percentile(0.5).as_nanos() as i64),
                ms(late.percentile(0.99).as_nanos() as i64)
            );
        }
    }
}

fn loss(choice: DeviceKind, seconds: u64, verdicts: &mut Verdicts) {
    println!("\nloss at 100mbit, against the 99.9 % interval of so many throws");
    for (text, share) in [("0.5%", 0.005), ("1%", 0.01), ("5%", 0.05)] {
        let bench = Bench::new(&format!("rate=100mbit,rtt=10ms,queue=1000p,loss={text}"), choice);
        let seen = bench.send(500, Duration::from_micros(100), Duration::from_secs(seconds));
        let report = bench.end();
        let lost = seen.iter().filter(|(_, arrived)| arrived.is_none()).count() as f64;
        let count = seen.len() as f64;
        let (least, most) = losses(count, share);
        let holds = count > 0.0 && (least..=most).contains(&lost);
        let verdict = verdicts.add(format!("loss {text} within its binomial interval (99.9 %)"), holds);
        println!(
            "  {text:>5}: {lost} of {count} did not arrive ({:.3} %), {} by the loss model; {least:.0} to {most:.0}: {verdict}",
            100.0 * lost / count,
            report.up.meter.lost_at_random.packets,
        );
    }
}

fn ceiling(choice: DeviceKind, seconds: u64, verdicts: &mut Verdicts) {
    println!("\nthe most that goes through, without rate or delay");
    for bytes in [1500, 100] {
        let bench = Bench::new("rate=unlimited,rtt=0ms", choice);
        let seen = bench.send(bytes, Duration::ZERO, Duration::from_secs(seconds));
        let report = bench.end();
        let cause = describe(&format!("datagrams, {bytes} B"), &report, seen.len(), seconds);
        verdicts.add(format!("ceiling of datagrams of {bytes} B: {cause}"), report.up.meter.left.packets > 0);
    }
    let bench = Bench::new("rate=unlimited,rtt=0ms", choice);
    let target = SocketAddr::new(bench.far, PORT);
    let listener = bench.wiring.far.run(|| TcpListener::bind(target)).expect("a thread").expect("a listener");
    let mut out = bench.wiring.near.run(|| TcpStream::connect(target)).expect("a thread").expect("connected");
    let begin = now();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let (mut inward, _) = listener.accept().expect("accepted");
            let mut buffer = vec![0; 1 << 18];
            while inward.read(&mut buffer).is_ok_and(|read| read > 0) {}
        });
        let block = vec![0; 1 << 18];
        while now() - begin < seconds * 1_000_000_000 {
            out.write_all(&block).expect("written");
        }
        out.shutdown(std::net::Shutdown::Write).expect("ended");
        reading.join().expect("read");
    });
    let report = bench.end();
    let cause = describe("TCP of the kernel", &report, report.up.meter.entered.packets as usize, seconds);
    verdicts.add(format!("ceiling of the kernel's TCP: {cause}"), report.up.meter.left.packets > 0);
}

/// Returns the cause that limits the throughput. `busy` is the share of the time in which the link's thread works.
/// `unseen` is the number of packets
/// that the kernel dropped before the link saw them.
fn cause(busy: f64, unseen: u64) -> &'static str {
    match (busy >= 0.85, unseen > 0) {
        (true, _) => "the link's one thread is at its limit, with two system calls a packet",
        (false, true) => {
            "more came than the link's thread took, which had not all of a processor: others wanted it"
        }
        (false, false) => "the sender gave no more; the link's thread had time left",
    }
}

/// Describes the measured throughput of the link and what limits it.
fn describe(name: &str, report: &PathReport, sent: usize, seconds: u64) -> String {
    let (up, down) = (&report.up.meter, &report.down.meter);
    let packets = up.left.packets + down.left.packets;
    let bits = up.left.bytes as f64 * 8.0 / seconds as f64;
    println!(
        "  {name:<18} {:.0} packets/s, {:.2} Gbit/s; sent {sent}, {} dropped before the link; the link's thread was busy \
         for {:.0} % of the time, {:.2} µs a packet",
        up.left.packets as f64 / seconds as f64,
        bits / 1e9,
        report.unseen[0],
        100.0 * report.busy.as_secs_f64() / seconds as f64,
        1e6 * report.busy.as_secs_f64() / packets.max(1) as f64,
    );
    let cause = cause(report.busy.as_secs_f64() / seconds as f64, report.unseen[0]);
    println!("{:>20} because {cause}", "");
    format!("{:.2} Gbit/s, because {cause}", bits / 1e9)
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .unwrap_or_default()
        .split(' ')
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seconds = words.first().and_then(|word| word.parse().ok()).unwrap_or(4);
    let choice = match words.get(1).map(String::as_str) {
        Some("tun") => DeviceKind::Tun,
        Some("veth") => DeviceKind::Veth,
        _ => DeviceKind::Auto,
    };
    netns::prepare().unwrap_or_else(|error| panic!("{error}"));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("{cores} cores, load {} at the beginning", load());
    let mut verdicts = Verdicts::default();
    rate(choice, seconds, &mut verdicts);
    delay(choice, seconds, &mut verdicts);
    loss(choice, seconds, &mut verdicts);
    ceiling(choice, seconds, &mut verdicts);
    println!("\nload {} at the end", load());
    if verdicts.print() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

const PORT: u16 = 4000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_hold_up_to_their_bounds() {
        assert!(rate_is_right(1.009e6, 1e6) && rate_is_right(0.991e6, 1e6));
        assert!(
            !rate_is_right(1.011e6, 1e6) && !rate_is_right(0.989e6, 1e6) && !rate_is_right(f64::NAN, 1e6)
        );
        assert!(delay_is_right(200_000, 1_000_000) && delay_is_right(-200_000, -5));
        assert!(!delay_is_right(200_001, 0) && !delay_is_right(-200_001, 0) && !delay_is_right(0, 1_000_001));
        // With 40,000 packets and a loss of 1 %, the bounds are 400 ± 3.2905 · 19.9 losses.
        let (least, most) = losses(40_000.0, 0.01);
        assert!((least - 334.5).abs() < 0.1 && (most - 465.5).abs() < 0.1, "{least} to {most}");
    }

    #[test]
    fn one_that_fails_is_a_failure_and_none_is_no_success() {
        let mut verdicts = Verdicts::default();
        assert!(!verdicts.print());
        assert_eq!(verdicts.add("this".to_owned(), true), "ok");
        assert!(verdicts.print());
        assert_eq!(verdicts.add("that".to_owned(), false), "FAIL");
        assert!(!verdicts.print());
    }

    #[test]
    fn a_ceiling_has_a_cause() {
        assert!(cause(0.97, 5).contains("one thread"));
        assert!(cause(0.5, 5).contains("processor") && cause(0.5, 0).contains("sender"));
    }
}
