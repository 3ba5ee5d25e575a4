//! Sends a message on each of three streams of one association to `echo_server`, and prints what comes back.
//!
//! `cargo run -p anabranch-tokio --example echo_client [ADDRESS:UDP-PORT]`

use anabranch_tokio::{Endpoint, Options};
use std::error::Error;
use std::net::SocketAddr;

/// The SCTP port behind the server's UDP port.
const PORT: u16 = 7;

/// What came back, by stream.
pub async fn ask(server: &[SocketAddr], messages: &[&'static str]) -> Result<Vec<String>, Box<dyn Error>> {
    let endpoint = Endpoint::new(Options::default()).await?;
    let association = endpoint.connect(server, PORT).await?;
    let mut streams = Vec::new();
    for message in messages {
        let (mut send, recv) = association.open_bi().await?;
        send.send_message(*message).await?;
        streams.push((send, recv));
    }
    let mut back = Vec::new();
    for (_send, recv) in &mut streams {
        let message = recv.recv_message(1 << 20).await?.ok_or("the server has closed the association")?;
        back.push(format!("stream {}: {}", recv.number(), String::from_utf8_lossy(&message)));
    }
    association.close();
    endpoint.wait_idle().await;
    Ok(back)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9899".to_owned()).parse()?;
    for line in ask(&[server], &["one", "two", "three"]).await? {
        println!("{line}");
    }
    Ok(())
}
