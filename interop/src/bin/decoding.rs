//! Prints the packets that our SCTP decoder and dcsctp's decoder treat differently: `cargo run --release --bin
//! decoding`.
//!
//! The environment variable `INPUTS` sets the number of inputs (default 100,000), and `SEED` sets their seed.
//! `CORPUS=new` runs our stack with dcsctp again and prints their packets, which can be stored as `corpus/packets.hex`.

use anabranch_interop::decoding::{collect, compare, corpus, kinds};

fn main() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if std::env::var_os("CORPUS").is_some() {
        for packet in collect() {
            println!("{}", packet.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
        return;
    }
    let corpus = corpus();
    let inputs = number("INPUTS").unwrap_or(100_000);
    println!("{} packets with chunks of types {:02x?}; {inputs} inputs", corpus.len(), kinds(&corpus));
    let comparison = compare(&corpus, inputs, number("SEED").unwrap_or(1));
    println!("{:>8}  both take it", comparison.both_take);
    println!("{:>8}  neither takes it", comparison.neither_takes);
    for (rule, count) in &comparison.explained {
        println!("{count:>8}  {}", rule.text());
    }
    for (what, (count, bytes)) in &comparison.unexplained {
        println!("UNEXPLAINED {count:>8} {what}: {bytes:02x?}");
    }
    println!("{:>8}  dcsctp panicked", comparison.panics);
}
