//! Prints how large messages delay small messages of the same association, for each scheduler, with DATA and with
//! I-DATA.
//!
//!     cargo run --release --bin interleaving

fn main() {
    print!("{}", anabranch_benches::interleaving::table());
}
