//! The features of a transport, as data. Code decides by these and never by a transport's name.

/// How the streams of a session are numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Streams {
    /// There is one stream, number 0, from the handshake on.
    #[default]
    One,
    /// Numbered stream pairs, each reusable when its exchange is over.
    Reusable,
    /// A fresh stream for each exchange; its number is never reused.
    Fresh,
}

/// Whether a transport has a feature that a contestant's key can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Feature {
    /// The transport does not have the feature.
    #[default]
    No,
    /// The transport always has the feature.
    Yes,
    /// An extension that one of its knobs turns on.
    Extension {
        /// The knob; `yes` turns it on.
        knob: &'static str,
        /// What the extension does and the RFC that defines it, such as "RFC 6525 adds the streams".
        rule: &'static str,
    },
}

impl Feature {
    /// Whether the feature is available, if need be by turning on an extension.
    #[must_use]
    pub const fn is_there(self) -> bool {
        !matches!(self, Self::No)
    }
}

/// The protocols that may carry a transport's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carriers {
    /// The IP protocol number; `None` if the transport cannot run directly on IP.
    pub ip: Option<u8>,
    /// The well-known UDP port; `None` if the transport cannot run in UDP.
    pub udp: Option<u16>,
}

/// The protocol that carries a session's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// IP, with the transport's own protocol number.
    Ip,
    /// UDP, from this local port.
    Udp {
        /// The local UDP port; 0 lets the world choose.
        port: u16,
    },
}

impl Carriers {
    /// Returns the carrier of one endpoint: UDP if it is wanted or the only choice. A server in UDP uses the well-known
    /// port.
    #[must_use]
    pub const fn choose(self, in_udp: bool, server: bool) -> Carrier {
        match (self.ip, self.udp) {
            (None, Some(port)) if server => Carrier::Udp { port },
            (Some(_), Some(port)) if in_udp && server => Carrier::Udp { port },
            (None, Some(_)) => Carrier::Udp { port: 0 },
            (Some(_), Some(_)) if in_udp => Carrier::Udp { port: 0 },
            _ => Carrier::Ip,
        }
    }

    /// The port in a server's addresses: the UDP port, or 0 on IP.
    #[must_use]
    pub const fn server_port(self, in_udp: bool) -> u16 {
        match self.choose(in_udp, true) {
            Carrier::Udp { port } => port,
            Carrier::Ip => 0,
        }
    }

    /// Whether the transport can run both on IP and in UDP.
    #[must_use]
    pub const fn is_choice(self) -> bool {
        self.ip.is_some() && self.udp.is_some()
    }
}

/// The names of a transport's parts in tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// The word for a session, singular and plural.
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
    /// How streams are numbered.
    pub streams: Streams,
    /// Whether the peer can read the end of a stream while the session continues.
    pub half_close: bool,
    /// Whether a write may be a message of its own, so that the size of writes matters.
    pub messages: bool,
    /// Whether messages may be delivered out of order.
    pub unordered: bool,
    /// Whether messages may be abandoned (after a lifetime or a number of retransmissions).
    pub partial_reliability: Feature,
    /// Whether streams may be added to a session.
    pub grows: Feature,
    /// Whether a session can use several paths at once.
    pub paths: bool,
    /// Whether sessions survive a change of the host's addresses by telling the peer.
    pub moves: Feature,
    /// Whether data written before the handshake is done is sent with the handshake.
    pub early_data: bool,
    /// Whether the transport itself encrypts and authenticates what it sends.
    pub secure: bool,
    /// Whether its packets can go over a layer with handshakes of its own ([`Layer`](crate::protocol::Layer)).
    pub layered: bool,
    /// Whether endless downloads over this transport serve as background traffic.
    pub background: bool,
    /// The protocols that may carry it.
    pub carriers: Carriers,
    /// Whether the host's kernel implements the transport. Then no engine of ours runs, and there are no traces.
    pub kernel: bool,
    /// The names of its parts in tables.
    pub words: Words,
}

impl Capabilities {
    /// Whether a session carries several exchanges at once.
    #[must_use]
    pub const fn is_multistream(&self) -> bool {
        !matches!(self.streams, Streams::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carrier_is_what_there_is() {
        let both = Carriers { ip: Some(132), udp: Some(9899) };
        assert_eq!([both.choose(false, true), both.choose(false, false)], [Carrier::Ip; 2]);
        assert_eq!(both.choose(true, true), Carrier::Udp { port: 9899 });
        assert_eq!(both.choose(true, false), Carrier::Udp { port: 0 });
        assert_eq!((both.server_port(false), both.server_port(true)), (0, 9899));
        let udp = Carriers { ip: None, udp: Some(443) };
        assert_eq!((udp.choose(false, true), udp.server_port(false)), (Carrier::Udp { port: 443 }, 443));
        let ip = Carriers { ip: Some(6), udp: None };
        assert_eq!((ip.choose(true, true), ip.server_port(true)), (Carrier::Ip, 0));
        assert!(both.is_choice() && !udp.is_choice() && !ip.is_choice());
    }
}
