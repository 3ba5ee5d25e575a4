//! An unchanged axum application over SCTP: axum sees each stream of an association as a connection. The example serves
//! on loopback, sends two requests at the same time over one association, and ends: `cargo run -p anabranch-tokio
//! --example axum`.

use anabranch_tokio::{Endpoint, Options, RecvStream, SendStream};
use axum::Router;
use axum::routing::get;
use std::error::Error;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Join, join};
use tokio::sync::mpsc;

type Io = Join<RecvStream, SendStream>;

/// The streams that peers open, as a listener for axum's server.
struct Streams {
    arriving: mpsc::Receiver<Io>,
}

impl Streams {
    fn of(endpoint: Endpoint) -> Self {
        let (give, arriving) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                let Ok(association) = incoming.accept() else { continue };
                let give = give.clone();
                tokio::spawn(async move {
                    while let Ok((send, recv)) = association.accept_bi().await {
                        if give.send(join(recv, send)).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { arriving }
    }
}

impl axum::serve::Listener for Streams {
    type Io = Io;
    type Addr = u16;

    async fn accept(&mut self) -> (Io, u16) {
        match self.arriving.recv().await {
            Some(io) => {
                let number = io.writer().number();
                (io, number)
            }
            // The endpoint has ended, and no further stream arrives. `accept` cannot return an error, so it waits
            // forever.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<u16> {
        Ok(80)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let here = "127.0.0.1".parse()?;
    let options = Options::default().address(here).listen(80);
    let server = Endpoint::new(options).await?;
    let at = server.local_addresses().to_vec();
    let application = Router::new()
        .route("/", get(async || "hello over SCTP\n"))
        .route("/slow", get(async || "this one was on another stream\n"));
    tokio::spawn(async move { axum::serve(Streams::of(server), application).await });

    let client = Endpoint::new(Options::default().address(here)).await?;
    let association = client.connect(&at, 80).await?;
    let (one, other) = tokio::join!(ask(&association, "/slow"), ask(&association, "/"));
    print!("{}\n{}", one?, other?);
    association.close();
    client.wait_idle().await;
    Ok(())
}

/// Sends one request on a new stream and returns the response.
async fn ask(association: &anabranch_tokio::Association, path: &str) -> Result<String, Box<dyn Error>> {
    let (mut send, mut recv) = association.open_bi()?;
    send.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    // SCTP has no half-close, so the stream does not end after the response. A real client would use the length in the
    // HTTP header. This example waits for the last line of the response.
    while !answer.ends_with(b"SCTP\n") && !answer.ends_with(b"stream\n") {
        if recv.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8(answer)?)
}
