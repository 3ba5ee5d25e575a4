//! An endpoint over a channel of datagrams, such as DTLS, a tunnel, or a queue in memory.
//!
//! A channel of datagrams leads to one peer, so SCTP uses no addresses. No addresses are listed or announced, and no IP
//! or UDP header counts toward the packet size. In the engine, both ends have the unspecified address.
//!
//! Implements RFC 8261 §6.1 (SCTP over DTLS, the base protocol).

use super::{Associate, Endpoint};
use crate::config::Config;
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The unspecified address. It stands for both ends of a datagram channel, because such a channel has no addresses.
pub(crate) const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Associate {
    /// Returns the parameters of an association with `peer_port` over a datagram channel
    /// ([`Endpoint::over_datagrams`]). All other parameters have their defaults.
    ///
    /// ```
    /// use anabranch_sctp::Associate;
    ///
    /// // RFC 8841 §5: WebRTC uses port 5000 at both ends.
    /// let ask = Associate { local_port: Some(5000), ..Associate::to_port(5000) };
    /// assert_eq!(ask.peer_port, 5000);
    /// ```
    #[must_use]
    pub fn to_port(peer_port: u16) -> Self {
        Self::to(NOWHERE, peer_port)
    }
}

impl Endpoint {
    /// Creates an endpoint that sends its packets to one peer through a channel of datagrams, such as DTLS. The
    /// endpoint has the profile `modern`. `mtu` is the size in bytes of the largest datagram that the channel takes, at
    /// most 65,535. This size does not include IP and UDP headers. All randomness comes from `rng`: use
    /// `Rng::from_os()`, or a seeded generator in tests.
    ///
    /// Pass received datagrams to [`handle_datagram`](Self::handle_datagram). The datagrams to send are the payloads of
    /// the packets from [`poll_transmit`](Engine::poll_transmit). Ignore the addresses of those packets.
    ///
    /// ```
    /// use anabranch_base::{Engine, Instant, Rng, SendBatch};
    /// use anabranch_sctp::{Associate, Endpoint};
    ///
    /// let mut endpoint = Endpoint::over_datagrams(1200, Rng::from_os()?);
    /// let now = Instant::ZERO;
    /// let id = endpoint.associate(now, Associate::to_port(5000))?;
    /// assert_eq!(endpoint.fragment_size(id), 1200 - 12 - 16, "less the headers of SCTP and DATA alone");
    ///
    /// let mut batch = SendBatch::new(1);
    /// assert!(endpoint.poll_transmit(now, &mut batch), "an INIT");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn over_datagrams(mtu: u32, rng: Rng) -> Self {
        let config = Config::profile("modern").unwrap_or_default();
        Self::over_datagrams_with(config, mtu, rng)
    }

    /// Like [`over_datagrams`](Self::over_datagrams), with a configuration. The settings that concern addresses
    /// (`asconf`, `address_types`) are always off (RFC 8261 §6.1), and so is `ecn`, because a datagram carries no ECN
    /// mark. `zero_checksum=yes` omits the checksum if the peer accepts packets without a checksum (RFC 9653). Set it
    /// only if the channel is DTLS, or detects errors as reliably as DTLS.
    ///
    /// ```
    /// # use anabranch_base::Rng;
    /// # use anabranch_sctp::{Config, Endpoint};
    /// let mut config = Config::profile("modern").expect("a shipped profile");
    /// config.set("zero_checksum", "yes")?;
    /// let mut endpoint = Endpoint::over_datagrams_with(config, 1200, Rng::from_os()?);
    /// endpoint.listen(5000)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn over_datagrams_with(config: Config, mtu: u32, rng: Rng) -> Self {
        let mut endpoint = Self::new(config.without_addresses(), vec![NOWHERE], rng);
        endpoint.has_addresses = false;
        endpoint.set_mtu(NOWHERE.ip(), mtu);
        endpoint
    }

    /// Handles a datagram received from the datagram channel. The datagram holds one SCTP packet.
    ///
    /// ```
    /// # use anabranch_base::{Engine, Instant, Rng, SendBatch};
    /// # use anabranch_sctp::{Associate, AssociateError, Endpoint};
    /// # let [mut a, mut b] = [1, 2].map(|seed| Endpoint::over_datagrams(1200, Rng::new(seed)));
    /// # b.listen(5000).expect("nobody else does");
    /// # let now = Instant::ZERO;
    /// a.associate(now, Associate::to_port(5000))?;
    /// let mut batch = SendBatch::new(1);
    /// a.poll_transmit(now, &mut batch);
    /// for packet in batch.packets() {
    ///     b.handle_datagram(now, packet.payload);
    /// }
    /// batch.clear();
    /// assert!(b.poll_transmit(now, &mut batch), "an INIT ACK");
    /// # Ok::<(), AssociateError>(())
    /// ```
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        let packet = Packet { source: NOWHERE, target: NOWHERE, ecn: Ecn::NotEct, tag: 0, payload: datagram };
        self.handle_packet(now, packet);
    }

    /// Returns `config` without the settings that an endpoint over a channel of datagrams cannot use.
    pub(super) fn fit(&self, config: Config) -> Config {
        if self.has_addresses { config } else { config.without_addresses() }
    }
}
