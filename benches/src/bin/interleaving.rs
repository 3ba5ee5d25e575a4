//! What large messages cost the small ones beside them, by scheduler, with DATA and with I-DATA.
//!
//!     cargo run --release --bin interleaving

fn main() {
    print!("{}", anabranch_benches::interleaving::table());
}
