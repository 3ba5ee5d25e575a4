//! The minimum cost of moving a real packet on this machine: the copies and the checksums.
//!
//! In each round, the program writes 1452 bytes into a packet, computes its checksum, verifies it as the receiver
//! would, and copies the data out. No program that moves real packets with real checksums can be faster. The cost of a
//! transport above this minimum is the transport's own.

use anabranch_benches::{median, thread_cpu};
use anabranch_wire::checksum::Checksum;
use anabranch_wire::sctp::crc32c;
use std::hint::black_box;

fn main() {
    let payload = vec![7_u8; 1452];
    let mut packet = vec![0_u8; 1500];
    let mut sink = vec![0_u8; 1452];
    println!("{:>8}  what", "ns");
    show("copy of 1452 bytes, both in cache", || {
        black_box(&mut packet)[48..].copy_from_slice(black_box(&payload));
    });
    let body = packet[20..].to_vec();
    show("Internet checksum of 1480 bytes", || {
        let mut sum = Checksum::new();
        sum.add(black_box(&body));
        black_box(sum.finish());
    });
    show("CRC32c of 1480 bytes", || {
        black_box(crc32c::crc32c(black_box(&body)));
    });
    show("CRC32c of 28 bytes (a SACK)", || {
        black_box(crc32c::crc32c(black_box(&body[..28])));
    });
    show("a data packet of TCP: two copies, two checksums", || {
        packet[48..].copy_from_slice(black_box(&payload));
        for _ in 0..2 {
            let mut sum = Checksum::new();
            sum.add(black_box(&packet[20..]));
            black_box(sum.finish());
        }
        sink.copy_from_slice(black_box(&packet[48..]));
    });
    show("a data packet of SCTP: two copies, two checksums", || {
        packet[48..].copy_from_slice(black_box(&payload));
        for _ in 0..2 {
            black_box(crc32c::crc32c(black_box(&packet[20..])));
        }
        sink.copy_from_slice(black_box(&packet[48..]));
    });
}

fn show(name: &str, mut round: impl FnMut()) {
    const ROUNDS: u32 = 200_000;
    let times: Vec<f64> = (0..7)
        .map(|_| {
            let start = thread_cpu();
            for _ in 0..ROUNDS {
                round();
            }
            (thread_cpu() - start) * 1e9 / f64::from(ROUNDS)
        })
        .collect();
    println!("{:8.1}  {name}", median(&times));
}
