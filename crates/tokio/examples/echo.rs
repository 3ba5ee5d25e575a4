//! Sends back every message on the stream on which it arrived.
//!
//! `cargo run -p anabranch-tokio --example echo` runs both ends on loopback. Across a network, run `echo server
//! ADDRESS:UDP-PORT` at one end and `echo client ADDRESS:UDP-PORT` at the other.

use anabranch_tokio::{Association, Endpoint, Options, SendOptions};
use std::error::Error;
use std::net::SocketAddr;

/// The SCTP port. Its packets are carried in UDP.
const PORT: u16 = 7;

/// Creates an endpoint that accepts associations at this address. With UDP port 0, the system chooses a port.
pub async fn listen(at: SocketAddr) -> std::io::Result<Endpoint> {
    Endpoint::new(Options::default().address(at.ip()).udp(at.port()).listen(PORT)).await
}

/// Serves every association that arrives, until the endpoint ends.
pub async fn serve(endpoint: Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        if let Ok(association) = incoming.accept() {
            tokio::spawn(echo(association));
        }
    }
}

/// Sends back every message on its stream, with the same payload protocol identifier and ordering.
async fn echo(association: Association) {
    while let Ok(message) = association.recv().await {
        let options = SendOptions::new().ppid(message.ppid).unordered(message.unordered);
        if association.send(message.stream, message.bytes, &options).await.is_err() {
            break;
        }
    }
    println!("an association has ended: {}", association.closed().await);
}

/// Sends each of these messages on its own stream. Returns the answers in the order of the streams.
pub async fn ask(server: SocketAddr, messages: &[&str]) -> Result<Vec<String>, Box<dyn Error>> {
    let endpoint = Endpoint::new(Options::default()).await?;
    let association = endpoint.connect(&[server], PORT).await?;
    let mut streams = Vec::new();
    for message in messages {
        let (mut send, recv) = association.open_bi()?;
        send.send(message).await?;
        streams.push((send, recv));
    }
    let mut back = Vec::new();
    for (_, recv) in &mut streams {
        let message = recv.recv().await?;
        back.push(format!("stream {}: {}", message.stream, String::from_utf8_lossy(&message.bytes)));
    }
    association.close();
    endpoint.wait_idle().await;
    Ok(back)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        ["server", at] => {
            let endpoint = listen(at.parse()?).await?;
            println!("echoing on {}, SCTP port {PORT} in UDP", endpoint.local_addresses()[0]);
            serve(endpoint).await;
        }
        ["client", at] => {
            for line in ask(at.parse()?, &["one", "two", "three"]).await? {
                println!("{line}");
            }
        }
        [] => {
            let endpoint = listen("127.0.0.1:0".parse()?).await?;
            let at = endpoint.local_addresses()[0];
            tokio::spawn(serve(endpoint));
            for line in ask(at, &["one", "two", "three"]).await? {
                println!("{line}");
            }
        }
        _ => return Err("usage: echo [server ADDRESS:UDP-PORT | client ADDRESS:UDP-PORT]".into()),
    }
    Ok(())
}
