//! A contestant's transport on one host, whichever it is.

use crate::plan::Arm;
use crate::plan::engine::EngineConfig;
use anabranch_base::trace::TraceRecord;
use anabranch_sim::SimWorld;
use anabranch_transport::engines::sctp::PathChange;
use anabranch_transport::sctp::{Carrier, ENCAPSULATION_PORT, SctpHost};
use anabranch_transport::tcp::TcpHost;

/// A host's engine.
#[derive(Clone, Debug)]
pub enum Host {
    /// TCP.
    Tcp(TcpHost<SimWorld>),
    /// SCTP.
    Sctp(SctpHost<SimWorld>),
}

impl Host {
    /// Starts the contestant's transport on a host; `server`: at the well-known UDP port, if in UDP.
    ///
    /// # Errors
    /// Why the world does not let it.
    pub async fn start(world: SimWorld, arm: &Arm, server: bool) -> Result<Self, String> {
        let carrier = match (arm.encapsulated, server) {
            (false, _) => Carrier::Ip,
            (true, true) => Carrier::Udp { port: ENCAPSULATION_PORT },
            (true, false) => Carrier::Udp { port: 0 },
        };
        let wrong = |error: std::io::Error| error.to_string();
        let host = match &arm.engine {
            EngineConfig::Tcp(config) => {
                Self::Tcp(TcpHost::new(world, (**config).clone()).await.map_err(wrong)?)
            }
            EngineConfig::Sctp(config) => {
                let host = SctpHost::new(world, (**config).clone(), carrier, arm.paths).await;
                Self::Sctp(host.map_err(wrong)?)
            }
            EngineConfig::Kernel(_) => return Err("a virtual host has no kernel".to_owned()),
        };
        match &host {
            Self::Tcp(host) => host.set_tracing(true),
            Self::Sctp(host) => host.set_tracing(true),
        }
        Ok(host)
    }

    /// The settings that its engine runs with.
    #[must_use]
    pub fn engine(&self) -> EngineConfig {
        match self {
            Self::Tcp(host) => host.inspect(|engine| EngineConfig::Tcp(Box::new(engine.config().clone()))),
            Self::Sctp(host) => host.inspect(|engine| EngineConfig::Sctp(Box::new(engine.config().clone()))),
        }
    }

    /// Takes the trace.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceRecord> {
        match self {
            Self::Tcp(host) => host.take_trace(),
            Self::Sctp(host) => host.take_trace(),
        }
    }

    /// Retransmission timers that ran out, of the handshake too.
    #[must_use]
    pub fn timeouts(&self) -> u64 {
        match self {
            Self::Tcp(host) => host.inspect(|engine| engine.totals().timeouts),
            Self::Sctp(host) => host.inspect(|engine| {
                let sum = engine.totals().sum;
                sum.t3_expirations + sum.t1_expirations
            }),
        }
    }

    /// Paths that it found dead, or alive again; TCP has one, which is the connection.
    #[must_use]
    pub fn path_changes(&self) -> Vec<PathChange> {
        match self {
            Self::Tcp(_) => Vec::new(),
            Self::Sctp(host) => host.inspect(|engine| engine.totals().path_changes),
        }
    }

    /// Waits until no connection is alive.
    pub async fn idle(&self) {
        match self {
            Self::Tcp(host) => host.idle().await,
            Self::Sctp(host) => host.idle().await,
        }
    }
}
