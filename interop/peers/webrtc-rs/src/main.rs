//! An SCTP end in webrtc-sctp, whose packets are UDP datagrams without encryption.
//!
//! `webrtc-rs listen LOCAL BUFFER` has a receive buffer of BUFFER bytes and reads all messages. It prints a line when it
//! listens and a line for each message. After the first message it sends a small message each second. `webrtc-rs connect
//! LOCAL PEER SIZE..` sends a message of each size, in bytes, and stays until it is killed.

use bytes::Bytes;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use webrtc_sctp::association::{Association, Config};
use webrtc_sctp::chunk::chunk_payload_data::PayloadProtocolIdentifier;

const PORT: u16 = 5000;
const LARGEST: u32 = 1 << 20;

fn config(socket: UdpSocket, buffer: u32) -> Config {
    Config {
        net_conn: Arc::new(socket),
        max_receive_buffer_size: buffer,
        max_message_size: LARGEST,
        name: String::new(),
        local_port: PORT,
        remote_port: PORT,
    }
}

async fn listen(local: &str, buffer: u32) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind(local).await?;
    println!(": ready");
    // The source of the first datagram becomes the peer.
    let (_, peer) = socket.peek_from(&mut [0; 1]).await?;
    socket.connect(peer).await?;
    let association = Association::server(config(socket, buffer)).await?;
    let stream = association.accept_stream().await.ok_or("no stream")?;
    let mut message = vec![0; LARGEST as usize];
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            read = stream.read_sctp(&mut message) => println!(": message {}", read?.0),
            _ = seconds.tick() => {
                stream.write_sctp(&Bytes::from_static(b"here"), PayloadProtocolIdentifier::Binary).await?;
            }
        }
    }
}

async fn connect(local: &str, peer: &str, sizes: &[&str]) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind(local).await?;
    socket.connect(peer).await?;
    let association = Association::client(config(socket, LARGEST)).await?;
    let stream = association.open_stream(1, PayloadProtocolIdentifier::Binary).await?;
    for size in sizes {
        let message = Bytes::from(vec![7; size.parse()?]);
        stream.write_sctp(&message, PayloadProtocolIdentifier::Binary).await?;
    }
    println!(": connected");
    std::future::pending().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<&str>>()[..] {
        ["listen", local, buffer] => listen(local, buffer.parse()?).await,
        ["connect", local, peer, ref sizes @ ..] => connect(local, peer, sizes).await,
        _ => Err("webrtc-rs listen LOCAL BUFFER, or webrtc-rs connect LOCAL PEER SIZE..".into()),
    }
}
