//! Sends back every message, each on the stream it came on.
//!
//! `cargo run -p anabranch-tokio --example echo_server [ADDRESS [UDP-PORT]]`, beside `echo_client`. Ctrl-C ends it.

use anabranch_tokio::{Association, Carrier, ENCAPSULATION_PORT, Endpoint, Options};
use std::error::Error;
use std::net::IpAddr;

/// The SCTP port behind the UDP port.
const PORT: u16 = 7;

/// The largest message that is sent back, bytes.
const LARGEST: usize = 1 << 20;

/// An endpoint that accepts associations there.
pub async fn listen(address: IpAddr, udp_port: u16) -> std::io::Result<Endpoint> {
    let carrier = Carrier::Udp { port: udp_port };
    Endpoint::new(Options { addresses: vec![address], carrier, listen: Some(PORT), ..Options::default() })
        .await
}

/// Serves every association that comes, until the endpoint ends.
pub async fn serve(endpoint: Endpoint) {
    while let Some(association) = endpoint.accept().await {
        tokio::spawn(echo(association));
    }
}

/// Every stream of an association is echoed by a task of its own, so none waits for another.
async fn echo(association: Association) {
    while let Ok((mut send, mut recv)) = association.accept_bi().await {
        tokio::spawn(async move {
            while let Ok(Some(message)) = recv.recv_message(LARGEST).await {
                if send.send_message(message).await.is_err() {
                    return;
                }
            }
        });
    }
    println!("an association has ended: {}", association.closed().await);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given = std::env::args().skip(1);
    let address = given.next().as_deref().unwrap_or("127.0.0.1").parse()?;
    let udp_port = given.next().map_or(Ok(ENCAPSULATION_PORT), |port| port.parse())?;
    let endpoint = listen(address, udp_port).await?;
    println!("echoing on {}, SCTP port {PORT} in UDP", endpoint.local_addresses()[0]);
    serve(endpoint).await;
    Ok(())
}
