//! The options of an endpoint.

#[cfg(feature = "dtls")]
use crate::dtls::Dtls;
use anabranch_sctp::Config;
use anabranch_transport::sctp::LowerProtocol;
use std::net::IpAddr;

/// The options of an endpoint. By default the endpoint sends SCTP in UDP from a port that the system chooses, and uses
/// all addresses of the host. The endpoint has the profile `modern` and accepts no associations.
///
/// ```
/// use anabranch_tokio::{ConfigBuilder, Options};
///
/// let config = ConfigBuilder::new().streams(1000).receive_buffer(8 << 20).build()?;
/// let options = Options::default().listen(7).address("127.0.0.1".parse()?).config(config);
/// # drop(options);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The local addresses. If the list is empty, the endpoint uses all addresses of the host except link-local ones,
    /// and follows changes of the host's addresses.
    pub addresses: Vec<IpAddr>,
    /// The protocol that carries SCTP's packets: UDP or IP.
    pub carrier: LowerProtocol,
    /// The SCTP port on which associations are accepted; `None` if none are accepted.
    pub listen: Option<u16>,
    /// The maximum number of associations that wait until the program accepts or refuses them. If a peer connects while
    /// this number of associations wait, the peer's timers retry the handshake.
    pub backlog: usize,
    /// The maximum size of a received message in bytes; see [`RecvError::TooLong`](crate::RecvError::TooLong).
    pub max_receive: usize,
    /// The memory in bytes for the messages of all associations together: sent messages that are not acknowledged, and
    /// received messages that are not read. Each association may always use 1/8192 of this memory. If enough memory is
    /// left, an association may use more, up to its `sndbuf` and `rcvbuf`.
    pub memory: u64,
    /// The settings of the SCTP engine. They start from a profile; a program changes single settings by name or with a
    /// [`ConfigBuilder`](crate::ConfigBuilder).
    pub config: Config,
    /// The DTLS settings; `None` for SCTP without DTLS. An association over DTLS (RFC 8261) has only one path.
    #[cfg(feature = "dtls")]
    pub dtls: Option<Dtls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            carrier: LowerProtocol::Udp { port: 0 },
            listen: None,
            backlog: 256,
            max_receive: 16 << 20,
            memory: 1 << 30,
            // The engine's default profile has the literal values of RFC 9260. The default profile of this crate is
            // `modern`.
            config: Config::profile("modern").unwrap_or_default(),
            #[cfg(feature = "dtls")]
            dtls: None,
        }
    }
}

impl Options {
    /// Adds a local address.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Sets the local addresses, replacing earlier ones.
    #[must_use]
    pub fn addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.addresses = addresses.into_iter().collect();
        self
    }

    /// Sends packets in UDP from this port (RFC 6951). With port 0, the system chooses the port.
    #[must_use]
    pub fn udp(mut self, port: u16) -> Self {
        self.carrier = LowerProtocol::Udp { port };
        self
    }

    /// Sends packets directly on IP, as protocol 132. This requires the privilege to open raw sockets.
    #[must_use]
    pub fn ip(mut self) -> Self {
        self.carrier = LowerProtocol::Ip;
        self
    }

    /// Accepts associations on this SCTP port.
    #[must_use]
    pub fn listen(mut self, port: u16) -> Self {
        self.listen = Some(port);
        self
    }

    /// Sets the maximum number of associations that wait until the program accepts or refuses them.
    #[must_use]
    pub fn backlog(mut self, associations: usize) -> Self {
        self.backlog = associations;
        self
    }

    /// Sets the maximum size of a received message in bytes.
    #[must_use]
    pub fn max_receive(mut self, bytes: usize) -> Self {
        self.max_receive = bytes;
        self
    }

    /// Sets the amount of memory, in bytes, that the messages of all associations share.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the settings of the SCTP engine.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Uses DTLS below SCTP (RFC 8261), with these settings.
    #[cfg(feature = "dtls")]
    #[must_use]
    pub fn dtls(mut self, dtls: Dtls) -> Self {
        self.dtls = Some(dtls);
        self
    }
}
