//! Runs a chat with 10,000 members over two paths, and measures the memory per association (both ends together).
//!
//! `cargo bench -p anabranch-tokio --bench chat -- [ASSOCIATIONS [LINES [storm | rfc9260 | dtls ENDPOINTS]]]`

#[cfg(target_os = "linux")]
#[path = "../tests/swarm/mod.rs"]
mod swarm;
#[path = "../tests/wait.rs"]
mod wait;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).filter(|given| given != "--bench").collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let number = |place: usize, usual: usize| given.get(place).map_or(Ok(usual), |given| given.parse());
    let (associations, lines) = (number(0, 10_000)?, number(1, 3)? as u32);
    let storm = given.get(2) == Some(&"storm");
    let dtls = if given.get(2) == Some(&"dtls") { Some(number(3, 1)?) } else { None };
    let rfc9260 = given.get(2) == Some(&"rfc9260");
    let associations = associations.next_multiple_of(8);
    let setup = swarm::Setup { associations, lines, seed: 1, storm, rfc9260, dtls };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let outcome = runtime.block_on(swarm::run(setup));
    println!("{setup:?}");
    println!("{} bytes an association at both ends together, once all are in", outcome.idle_bytes);
    println!("{} bytes once all is said and heard", outcome.after_lines);
    let swarm::Outcome { received: heard, dropped, paths, .. } = outcome;
    println!("{heard} lines were heard, {dropped} futures were dropped, {paths} paths came up later");
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}
