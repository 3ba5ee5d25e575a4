//! How fast a bulk transfer is simulated, beside ns-2 and ns-3 in the same run.

use anabranch_benches::peers;
use std::path::Path;

fn main() {
    let (seconds, runs) = (60, 9);
    for agent in ["tcp", "sctp"] {
        match peers::ns2(agent, seconds, runs) {
            Ok(speed) => println!("ns-2 {agent:5} {:10.0}/s {:?}", speed.rate(), speed.rates),
            Err(error) => println!("ns-2 {agent}: {error}"),
        }
    }
    for checksums in [false, true] {
        match peers::ns3(Path::new("/tmp"), seconds, 3, checksums) {
            Ok(speed) => println!("ns-3 tcp {:10.0}/s", speed.rate()),
            Err(error) => println!("ns-3: {error}"),
        }
    }
}
