//! Two endpoints on loopback, for the other tests.
#![cfg(target_os = "linux")]

use anabranch_tokio::{Association, ConfigBuilder, Endpoint, Options};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;
use tokio::time::timeout;

pub use crate::wait::{LONG, soon};

/// A server that listens on port 80, and a client.
pub struct EndpointPair {
    pub server: Endpoint,
    pub client: Endpoint,
}

/// Returns the first `count` loopback addresses.
pub fn addresses(count: u8) -> Vec<IpAddr> {
    (1..=count).map(|last| [127, 0, 0, last].into()).collect()
}

/// Returns options with the profile `modern` and these changed settings.
pub fn options(addresses: &[IpAddr], settings: &[(&str, &str)]) -> Options {
    let config = settings.iter().fold(ConfigBuilder::new(), |config, (key, value)| config.set(key, value));
    Options::default().addresses(addresses.iter().copied()).config(config.build().expect("settings"))
}

impl EndpointPair {
    pub async fn alone() -> Self {
        Self::with(options(&addresses(1), &[])).await
    }

    /// Creates both endpoints with these options.
    pub async fn with(options: Options) -> Self {
        let server = Endpoint::new(options.clone().listen(80)).await.expect("an endpoint");
        let client = Endpoint::new(options).await.expect("an endpoint");
        Self { server, client }
    }

    /// Opens an association. Returns the client's handle and the server's handle.
    pub async fn associate(&self) -> (Association, Association) {
        let accepting = async { self.server.accept().await.expect("somebody").accept() };
        let both = async { tokio::join!(self.client.connect(self.server.local_addresses(), 80), accepting) };
        let (ours, theirs) = timeout(LONG, both).await.expect("in time");
        (ours.expect("associated"), theirs.expect("associated"))
    }

    pub async fn up(settings: &[(&str, &str)]) -> (Self, Association, Association) {
        let ends = Self::with(options(&addresses(1), settings)).await;
        let (ours, theirs) = ends.associate().await;
        (ends, ours, theirs)
    }
}

/// Polls `future` once and drops it.
pub async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}
