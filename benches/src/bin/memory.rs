//! Measures the speed of SCTP between two endpoints in one thread, which pass packets through memory. Other SCTP stacks
//! are measured in the same run for comparison.
//!
//!     cargo run --release --bin memory [-- --runs 5 --ours --skip-slow --bulk --size 1024 --mib 512 --depth 64]
//!
//! Packets have 1472 bytes. Each stack sends one ordered stream on a simulated clock, without a network and without
//! losses. Runs are interleaved, and medians are printed. A second table shows the CPU time of a packet with a long
//! send queue, and the part of this time that copies and checksums need. A long queue does not fit into the CPU caches,
//! so its bytes are read from memory.
//!
//! `--ours` leaves out the other stacks, and `--skip-slow` leaves out the slow ones. `--bulk` measures only the
//! throughput. `--size` selects one message size, and `--mib` sets the amount of data per run of our stack. `--depth`
//! is for a profiler: it makes a single run of our stack with this number of MiB queued.

use anabranch_base::cache;
use anabranch_benches::stacks::{self, BUFFER, DcSctp, Ours, Rtc, SctpProto, Settings, StackPair, Transfer};
use anabranch_benches::{median, thread_cpu};
use anabranch_wire::sctp::crc32c;
use std::collections::VecDeque;
use std::hint::black_box;

const SIZES: [usize; 4] = [64, 1 << 10, 8 << 10, 64 << 10];
const NAMES: [&str; 4] = ["anabranch", "rtc-sctp", "sctp-proto", "dcsctp"];

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let number = |flag: &str, default: usize| {
        let at = args.iter().position(|arg| arg == flag);
        at.and_then(|at| args.get(at + 1)).and_then(|n| n.parse().ok()).unwrap_or(default)
    };
    let runs = number("--runs", 5).max(1);
    let stacks = if has("--ours") {
        1
    } else if has("--skip-slow") {
        2
    } else {
        4
    };
    let sizes: Vec<usize> = match number("--size", 0) {
        0 => SIZES.to_vec(),
        size => vec![size],
    };
    if has("--depth") {
        let depth = number("--depth", 1) << 20;
        let settings = Settings { sndbuf: depth, ..Settings::default() };
        let transfer =
            measure(Ours::connected(settings), 1 << 10, depth, (number("--mib", 512) as u64) << 20)?;
        println!("{:.0}", transfer.cpu / transfer.packets as f64 * 1e9);
        return Ok(());
    }
    bulk(runs, stacks, &sizes, number("--mib", 512) as u64)?;
    if has("--bulk") {
        return Ok(());
    }
    queued(runs.min(3), stacks.min(2))?;
    measure_handshakes(stacks.min(2));
    Ok(())
}

/// Transfers the data twice. Only the second transfer is measured, because its windows are open and its buffers are in
/// memory.
fn measure(mut pair: impl StackPair, size: usize, depth: usize, total: u64) -> Result<Transfer, String> {
    stacks::transfer(&mut pair, size, 2 * depth as u64 + (2 << 20))?;
    stacks::transfer(&mut pair, size, total)
}

fn one(stack: usize, size: usize, total: u64) -> Result<Transfer, String> {
    let result = match stack {
        0 => measure(Ours::connected(Settings::default()), size, BUFFER, total),
        1 => measure(Rtc::connected(BUFFER), size, BUFFER, total),
        2 => measure(SctpProto::connected(BUFFER), size, BUFFER, total),
        _ => measure(DcSctp::connected(BUFFER), size, BUFFER, total),
    };
    result.map_err(|error| format!("{}: {error}", NAMES[stack]))
}

fn bulk(runs: usize, stacks: usize, sizes: &[usize], mib: u64) -> Result<(), String> {
    println!("GB/s of messages in order on one stream, by message size");
    print!("{:12}", "");
    for size in sizes {
        print!("{size:>10}");
    }
    println!();
    let mut table = vec![vec![Vec::new(); sizes.len()]; stacks];
    for run in 0..runs {
        for (column, &size) in sizes.iter().enumerate() {
            for (stack, figures) in table.iter_mut().enumerate() {
                // Slow stacks transfer less data, and make fewer runs.
                let total: u64 = match (stack, size) {
                    (0, 64) => mib << 18,
                    (0, _) => mib << 20,
                    (1, 64) => 24 << 20,
                    (1, _) => 256 << 20,
                    (_, 64) => 2 << 20,
                    _ => 16 << 20,
                };
                if stack >= 2 && run >= 3 {
                    continue;
                }
                let transfer = one(stack, size, total)?;
                figures[column].push(transfer.bytes as f64 / transfer.cpu / 1e9);
            }
        }
    }
    for (name, row) in NAMES.iter().zip(&table) {
        print!("{name:12}");
        for figures in row {
            print!("{:10.3}", median(figures));
        }
        println!();
    }
    if stacks > 1 {
        print!("{:12}", "ratio to 2nd");
        for (ours, theirs) in table[0].iter().zip(&table[1]) {
            print!("{:10.2}", median(ours) / median(theirs));
        }
        println!();
    }
    Ok(())
}

/// Measures the cost of a data packet at several lengths of the send queue.
fn queued(runs: usize, stacks: usize) -> Result<(), String> {
    const DEPTHS: [usize; 4] = [1 << 20, 16 << 20, 64 << 20, 256 << 20];
    println!("\nns a data packet, both ends, with so much queued (messages of 1 KiB)");
    println!("{:26}{:>10}{:>10}{:>10}{:>10}", "", "1 MiB", "16 MiB", "64 MiB", "256 MiB");
    let line = |name: &str, figures: &[Vec<f64>]| {
        print!("{name:26}");
        for figures in figures {
            print!("{:10.0}", median(figures));
        }
        println!();
    };
    for (stack, name) in NAMES.iter().enumerate().take(stacks) {
        let mut figures = [const { Vec::new() }; DEPTHS.len()];
        let (mut floors, mut own) = (figures.clone(), figures.clone());
        for _ in 0..runs {
            for (column, depth) in DEPTHS.into_iter().enumerate() {
                let total = 128 << 20;
                let transfer = match stack {
                    0 => {
                        let settings = Settings { sndbuf: depth, ..Settings::default() };
                        measure(Ours::connected(settings), 1 << 10, depth, total)
                    }
                    _ => measure(Rtc::connected(depth), 1 << 10, depth, total),
                }?;
                let cost = transfer.cpu / transfer.packets as f64 * 1e9;
                figures[column].push(cost);
                if stack == 0 {
                    let floor =
                        floor(depth, total as usize) * (transfer.bytes as f64 / transfer.packets as f64);
                    floors[column].push(floor);
                    own[column].push(cost - floor);
                }
            }
        }
        line(name, &figures);
        if stack == 0 {
            line("  copies and sums alone", &floors);
            line("  what we add to them", &own);
        }
    }
    Ok(())
}

/// Returns a lower bound for the CPU time of a transfer, in ns per byte: the time to copy the bytes and to compute
/// checksums. Bytes are appended to a send queue of `depth` bytes and read from its front into a packet. The packet is
/// checksummed twice, once for each end. Its bytes are delivered as in [`queued`], with a window of [`BUFFER`] bytes,
/// but without state for messages and chunks. The next bytes are prefetched, as in the engine.
fn floor(depth: usize, total: usize) -> f64 {
    const PIECE: usize = 1 << 10;
    /// How many bytes ahead of the read position the data is prefetched.
    const AHEAD: usize = 4 << 10;
    let message: Vec<u8> = (0..PIECE).map(|i| i as u8).collect();
    let mut waiting: VecDeque<u8> = VecDeque::with_capacity(depth);
    let mut arrived: VecDeque<u8> = VecDeque::with_capacity(BUFFER);
    let (mut packet, mut out, mut last) = (vec![0; PIECE + 28], vec![0; PIECE], vec![0; PIECE]);
    let copy = |from: &mut VecDeque<u8>, to: &mut [u8]| {
        // The capacity of the ring buffer is a multiple of the piece size, so no piece wraps around the end of the
        // ring.
        to.copy_from_slice(black_box(&from.as_slices().0[..PIECE]));
        from.drain(..PIECE);
    };
    let mut round = |bytes: usize| {
        for _ in 0..bytes / BUFFER {
            while waiting.len() + PIECE <= depth {
                waiting.extend(black_box(&message));
            }
            for _ in 0..BUFFER / PIECE {
                let (front, _) = waiting.as_slices();
                cache::prefetch_all(front.get(AHEAD..AHEAD + PIECE).unwrap_or_default());
                copy(&mut waiting, &mut packet[28..]);
                for _ in 0..2 {
                    black_box(crc32c::crc32c(black_box(&packet)));
                }
                arrived.extend(black_box(&packet[28..]));
            }
            for _ in 0..BUFFER / PIECE {
                copy(&mut arrived, &mut out);
                last.copy_from_slice(black_box(&out));
            }
        }
    };
    round(2 * depth);
    let begin = thread_cpu();
    round(total);
    (thread_cpu() - begin) * 1e9 / total as f64
}

/// Measures the CPU time to open an association with the four-way handshake. Associations are opened one after another.
fn measure_handshakes(stacks: usize) {
    println!(
        "\nus an association that is opened, both ends, with so many open before (handshake of four legs)"
    );
    print!("{:12}", "");
    let steps = [1_000, 2_000, 5_000, 10_000];
    for step in steps {
        print!("{:>10}", format!("to {step}"));
    }
    println!("{:>14}", "total to 10000");
    for (stack, name) in NAMES.iter().enumerate().take(stacks) {
        print!("{name:12}");
        let (mut done, mut all) = (0, 0.0);
        let mut ours = Ours::new(Settings::default());
        let mut rtc = Rtc::new(BUFFER);
        for step in steps {
            let begin = thread_cpu();
            for _ in done..step {
                if stack == 0 { ours.associate() } else { rtc.associate() }
            }
            let cpu = thread_cpu() - begin;
            print!("{:10.2}", cpu / f64::from(step - done) * 1e6);
            done = step;
            all += cpu;
        }
        println!("{:>12.1}ms", all * 1e3);
        assert!(stack > 0 || ours.open == 10_000, "some associations did not come up");
    }
    let mut ours = Ours::new(Settings::default());
    let mut times = Vec::new();
    for _ in 0..50 {
        let begin = thread_cpu();
        for _ in 0..100 {
            ours.associate();
        }
        times.push((thread_cpu() - begin) / 100.0 * 1e6);
        ours.release_all();
    }
    println!("anabranch, among fewer than 100 open: {:.2} us a handshake (median)", median(&times));
}
