//! The effect of large messages on small messages of the same association, by scheduler, with DATA and with I-DATA.
//!
//!     cargo run --release --bin interleaving

fn main() {
    print!("{}", anabranch_benches::interleaving::table());
}
