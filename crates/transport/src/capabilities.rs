//! What a transport can do, as data: who asks decides by these and never by a transport's name.

/// How a session's streams are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Streams {
    /// There is one, number 0, from the handshake on.
    #[default]
    One,
    /// Numbered pairs, each of use again when its exchange is over.
    Reusable,
    /// A fresh one for each exchange; its number never comes back.
    Fresh,
}

/// Whether a transport has a feature that a contestant's key asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Feature {
    /// The transport has it not.
    #[default]
    No,
    /// The transport has it, always.
    Yes,
    /// An extension that one of its knobs turns on.
    Extension {
        /// The knob; `yes` turns it on.
        knob: &'static str,
        /// What the extension does, and which RFC says so: "RFC 6525 adds the streams".
        rule: &'static str,
    },
}

impl Feature {
    /// Whether the feature can be had.
    #[must_use]
    pub const fn is_there(self) -> bool {
        !matches!(self, Self::No)
    }
}

/// What may carry the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carriers {
    /// The protocol number on IP; `None`: never on IP itself.
    pub ip: Option<u8>,
    /// The well-known port in UDP; `None`: never in UDP.
    pub udp: Option<u16>,
}

/// Where a session's packets travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// The transport's protocol number of IP.
    Ip,
    /// UDP from this port.
    Udp {
        /// The local UDP port; 0 lets the world choose.
        port: u16,
    },
}

impl Carriers {
    /// What carries one end: UDP where that is wanted or nothing else can be, a server there at the well-known port.
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

    /// The port that addresses of a server have: of UDP, or 0 on IP.
    #[must_use]
    pub const fn server_port(self, in_udp: bool) -> u16 {
        match self.choose(in_udp, true) {
            Carrier::Udp { port } => port,
            Carrier::Ip => 0,
        }
    }

    /// There is a choice.
    #[must_use]
    pub const fn is_choice(self) -> bool {
        self.ip.is_some() && self.udp.is_some()
    }
}

/// What tables call the parts of a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    /// One session, and several.
    pub session: [&'static str; 2],
}

impl Default for Words {
    fn default() -> Self {
        Self { session: ["connection", "connections"] }
    }
}

/// What a transport can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// How streams are named.
    pub streams: Streams,
    /// The peer reads the end of a stream while the session goes on.
    pub half_close: bool,
    /// A write may be a message of its own, so its size matters.
    pub messages: bool,
    /// Messages may arrive without order.
    pub unordered: bool,
    /// Messages may be given up (a lifetime, a number of retransmissions).
    pub partial_reliability: Feature,
    /// Streams may be added to a session.
    pub grows: Feature,
    /// Several paths at once.
    pub paths: bool,
    /// Sessions go on when the addresses of their host change: the peer is told.
    pub moves: Feature,
    /// What is written before the handshake is done rides with it.
    pub early_data: bool,
    /// Nobody on the way can read or change what is sent.
    pub secure: bool,
    /// Its packets can go over a layer with handshakes of its own ([`Layer`](crate::protocol::Layer)).
    pub layered: bool,
    /// Endless downloads over it stand for what else is on a network.
    pub background: bool,
    /// What may carry it.
    pub carriers: Carriers,
    /// Whether the host itself speaks the transport: no engine of ours does in that world, so there are no traces of it.
    pub kernel: bool,
    /// What tables call its parts.
    pub words: Words,
}

impl Capabilities {
    /// A session carries several exchanges at once.
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
