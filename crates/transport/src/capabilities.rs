//! The features of a transport, as data. Other crates decide by these features, and never by a transport's name.

/// How the streams of a session are numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Streams {
    /// A session has one stream, number 0, from the handshake on.
    #[default]
    One,
    /// A session has numbered stream pairs. When the exchange on a pair is over, the next exchange can use the same
    /// pair.
    Reusable,
    /// Each exchange (one request and its response) has a fresh stream, whose number is never used again.
    Fresh,
}

/// Whether a transport has a feature that a program may request, such as partial reliability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Feature {
    /// The transport does not have the feature.
    #[default]
    No,
    /// The transport always has the feature.
    Yes,
    /// The feature is provided by an extension. One of the transport's knobs turns the extension on.
    Extension {
        /// The knob whose value `yes` turns the extension on.
        knob: &'static str,
        /// A clause for error messages that names the RFC and the benefit of the extension. For example, "RFC 6525 adds
        /// the streams" means that a session needs RFC 6525 to add streams.
        rule: &'static str,
    },
}

impl Feature {
    /// Returns whether the transport has the feature, with or without turning on an extension.
    #[must_use]
    pub const fn is_available(self) -> bool {
        !matches!(self, Self::No)
    }
}

/// The lower protocols, IP and UDP, that may carry a transport's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LowerProtocols {
    /// The IP protocol number of the transport; `None` if the transport cannot run directly on IP.
    pub ip: Option<u8>,
    /// The well-known UDP port of the transport; `None` if the transport cannot run in UDP.
    pub udp: Option<u16>,
}

/// The lower protocol that carries a session's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LowerProtocol {
    /// IP, with the transport's own protocol number.
    Ip,
    /// UDP, from this local port.
    Udp {
        /// The local UDP port. If it is 0, the host chooses a free port.
        port: u16,
    },
}

impl LowerProtocols {
    /// Returns the lower protocol of one endpoint. This is UDP if `in_udp` is set or if the transport can run only in
    /// UDP. In UDP, a server uses the transport's well-known UDP port, and a client uses any free port.
    #[must_use]
    pub const fn choose(self, in_udp: bool, server: bool) -> LowerProtocol {
        match (self.ip, self.udp) {
            (None, Some(port)) if server => LowerProtocol::Udp { port },
            (Some(_), Some(port)) if in_udp && server => LowerProtocol::Udp { port },
            (None, Some(_)) => LowerProtocol::Udp { port: 0 },
            (Some(_), Some(_)) if in_udp => LowerProtocol::Udp { port: 0 },
            _ => LowerProtocol::Ip,
        }
    }

    /// Returns the port in the addresses of a server: the UDP port, or 0 if the transport runs directly on IP.
    #[must_use]
    pub const fn server_port(self, in_udp: bool) -> u16 {
        match self.choose(in_udp, true) {
            LowerProtocol::Udp { port } => port,
            LowerProtocol::Ip => 0,
        }
    }

    /// Returns whether the transport can run both directly on IP and in UDP.
    #[must_use]
    pub const fn is_choice(self) -> bool {
        self.ip.is_some() && self.udp.is_some()
    }
}

/// The transport's own terms, as they appear in printed tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// The word for a session in singular and plural, for example "connection" and "connections".
    pub session: [&'static str; 2],
}

impl Default for Words {
    fn default() -> Self {
        Self { session: ["connection", "connections"] }
    }
}

/// The features of a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// How the streams of a session are numbered.
    pub streams: Streams,
    /// Whether a side can end its direction of a stream while the session continues.
    pub half_close: bool,
    /// Whether the transport carries data in messages. If so, the message boundaries depend on how a program divides
    /// its data into writes.
    pub messages: bool,
    /// Whether messages may be delivered out of order.
    pub unordered: bool,
    /// Whether messages may be abandoned after a lifetime or a number of retransmissions.
    pub partial_reliability: Feature,
    /// Whether streams may be added to an existing session.
    pub can_add_streams: Feature,
    /// Whether a session can use several paths at the same time.
    pub paths: bool,
    /// Whether the transport notifies the peer when the host's addresses change, so that a session survives the change.
    pub survives_address_change: Feature,
    /// Whether data that the application writes during the handshake is sent together with the handshake's packets.
    pub early_data: bool,
    /// Whether the transport itself encrypts and authenticates the data that it sends.
    pub secure: bool,
    /// Whether the transport's packets can pass through a layer with its own handshake
    /// ([`Layer`](crate::protocol::Layer)).
    pub layered: bool,
    /// Whether endless downloads over this transport can serve as background traffic.
    pub background: bool,
    /// The lower protocols that may carry the transport.
    pub carriers: LowerProtocols,
    /// Whether the host's kernel implements the transport. In that case none of this project's engines runs, and no
    /// trace is recorded.
    pub kernel: bool,
    /// The transport's own terms, as they appear in printed tables.
    pub words: Words,
}

impl Capabilities {
    /// Returns whether a session can carry several exchanges at the same time.
    #[must_use]
    pub const fn is_multistream(&self) -> bool {
        !matches!(self.streams, Streams::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_protocol_follows_the_request_where_possible() {
        let both = LowerProtocols { ip: Some(132), udp: Some(9899) };
        assert_eq!([both.choose(false, true), both.choose(false, false)], [LowerProtocol::Ip; 2]);
        assert_eq!(both.choose(true, true), LowerProtocol::Udp { port: 9899 });
        assert_eq!(both.choose(true, false), LowerProtocol::Udp { port: 0 });
        assert_eq!((both.server_port(false), both.server_port(true)), (0, 9899));
        let udp = LowerProtocols { ip: None, udp: Some(443) };
        assert_eq!(
            (udp.choose(false, true), udp.server_port(false)),
            (LowerProtocol::Udp { port: 443 }, 443)
        );
        let ip = LowerProtocols { ip: Some(6), udp: None };
        assert_eq!((ip.choose(true, true), ip.server_port(true)), (LowerProtocol::Ip, 0));
        assert!(both.is_choice() && !udp.is_choice() && !ip.is_choice());
    }
}
