//! One association over two paths: when one path fails, messages continue over the other.
//!
//! `cargo run -p anabranch-tokio --example multihoming` runs both ends on loopback, with 127.0.0.1 and 127.0.0.2.
//! Across a network, or with two `--path` of `anabranch link`, run `multihoming server` at one end and `multihoming
//! client ADDRESS,ADDRESS [MESSAGES]` at the other.

use anabranch_tokio::{
    Association, ConfigBuilder, ENCAPSULATION_PORT, Endpoint, Options, PathInfo, PathState, SendOptions,
};
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The SCTP port. Its packets are carried in UDP.
const PORT: u16 = 5000;
/// The interval between messages.
const EVERY: Duration = Duration::from_millis(50);

/// Options of both ends. After the first timeout on a path, new data uses the other path (RFC 7829).
fn options(addresses: &[IpAddr]) -> Options {
    let config = ConfigBuilder::new().potentially_failed(Some(0)).build().expect("nothing contradicts");
    Options::default().addresses(addresses.iter().copied()).config(config)
}

/// Sends back every message of every association.
async fn serve(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        let Ok(association) = incoming.accept() else { continue };
        tokio::spawn(async move {
            while let Ok(message) = association.recv().await {
                if association.send(message.stream, message.bytes, &SendOptions::new()).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Returns a line about a path: its role, and whether it is usable.
fn describe(path: &PathInfo) -> String {
    let state = match path.state {
        PathState::Unconfirmed => "not yet verified",
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially failed",
        PathState::Inactive => "failed",
    };
    let role = if path.primary { "primary" } else { "backup" };
    format!("path to {}: {role}, {state}", path.address)
}

/// Sends `messages` messages at a fixed interval, and prints the paths whenever a path changes its state. Returns the
/// state of the paths at the end.
async fn send_messages(association: &Association, messages: u32) -> Result<Vec<PathInfo>, Box<dyn Error>> {
    let (mut send, mut recv) = association.open_bi()?;
    let (mut known, mut paths) = (Vec::new(), Vec::new());
    let mut slowest = Duration::ZERO;
    let start = Instant::now();
    for number in 0..messages {
        sleep_until(start + EVERY * number).await;
        let sent = Instant::now();
        send.send(number.to_string()).await?;
        let back = recv.recv().await?;
        assert_eq!(back.bytes, number.to_string());
        slowest = slowest.max(sent.elapsed());
        paths = association.info().ok_or("the association has ended")?.paths;
        let lines: Vec<_> = paths.iter().map(describe).collect();
        if lines != known {
            println!("after message {number}, {:.1} s", start.elapsed().as_secs_f64());
            lines.iter().for_each(|line| println!("  {line}"));
            known = lines;
        }
    }
    println!("{messages} messages there and back, the slowest in {} ms", slowest.as_millis());
    Ok(paths)
}

/// Connects to all addresses of the server. The first address is the primary path.
async fn run_client(
    client: &Endpoint,
    server: &[SocketAddr],
    messages: u32,
) -> Result<Vec<PathInfo>, Box<dyn Error>> {
    let association = client.connect(server, PORT).await?;
    let paths = send_messages(&association, messages).await?;
    association.close();
    client.wait_idle().await;
    Ok(paths)
}

/// Runs both ends on this host, each with two addresses.
pub async fn on_loopback() -> Result<Vec<PathInfo>, Box<dyn Error>> {
    let both: Vec<IpAddr> = vec!["127.0.0.1".parse()?, "127.0.0.2".parse()?];
    let server = Endpoint::new(options(&both).listen(PORT)).await?;
    let client = Endpoint::new(options(&both)).await?;
    let addresses = server.local_addresses().to_vec();
    tokio::spawn(serve(server));
    run_client(&client, &addresses, 20).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        ["server"] => {
            let server = Endpoint::new(options(&[]).udp(ENCAPSULATION_PORT).listen(PORT)).await?;
            serve(server).await;
        }
        ["client", addresses, ref messages @ ..] => {
            let messages = messages.first().map_or(Ok(100), |messages| messages.parse())?;
            let server: Result<Vec<_>, _> = addresses
                .split(',')
                .map(|address| address.parse().map(|address| SocketAddr::new(address, ENCAPSULATION_PORT)))
                .collect();
            run_client(&Endpoint::new(options(&[])).await?, &server?, messages).await?;
        }
        [] => drop(on_loopback().await?),
        _ => return Err("usage: multihoming [server | client ADDRESS,ADDRESS [MESSAGES]]".into()),
    }
    Ok(())
}
