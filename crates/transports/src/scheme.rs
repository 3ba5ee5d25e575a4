//! The schemes of URLs and addresses, each with its transport and its encryption.
//!
//! Most schemes are declared by a transport. Two schemes are derived. `https` adds TLS above the byte stream of `http`.
//! `https+sctp` adds DTLS (RFC 8261) below the first transport in the list that runs in UDP and supports a layer below
//! it. This transport is SCTP in UDP.

use crate::registry::{Transport, Transports};
use anabranch_transport::{Capabilities, Http, LowerProtocol, Protocol, Scheme};
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

/// The position of a scheme's encryption relative to the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// Traffic is not encrypted.
    None,
    /// TLS on the only stream of each session.
    Above,
    /// DTLS below the transport's packets.
    Below,
    /// The transport itself encrypts.
    Within,
}

/// A scheme of URLs and addresses on real networks. Schemes are compared and ordered by their position in the list.
#[derive(Clone, Debug)]
pub struct UrlScheme {
    order: usize,
    scheme: Scheme,
    transport: Arc<Transport>,
    encryption: Encryption,
}

impl PartialEq for UrlScheme {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for UrlScheme {}

impl PartialOrd for UrlScheme {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UrlScheme {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

impl UrlScheme {
    /// Returns the scheme's name, as results show it and as users write it in a server's listening addresses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.scheme.name
    }

    /// Returns the scheme as it is written in HTTP URLs. If the scheme carries no HTTP, returns [`name`](Self::name).
    #[must_use]
    pub fn url(&self) -> &'static str {
        self.scheme.url.unwrap_or(self.scheme.name)
    }

    /// Returns the default port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.scheme.port
    }

    /// Returns how HTTP runs over the sessions; `None` if the scheme does not carry HTTP.
    #[must_use]
    pub fn http(&self) -> Option<Http> {
        self.scheme.http
    }

    /// Returns the position of the encryption relative to the transport.
    #[must_use]
    pub fn encryption(&self) -> Encryption {
        self.encryption
    }

    /// Returns whether traffic is encrypted.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.encryption != Encryption::None
    }

    /// Returns whether URLs of this scheme begin with `http:` or `https:`. These two are registered (RFC 9110 §4.2),
    /// and all HTTP clients use them.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        matches!(self.scheme.url, Some("http" | "https"))
    }

    /// Returns the transport that this scheme selects.
    #[must_use]
    pub fn transport(&self) -> &Arc<Transport> {
        &self.transport
    }

    /// Returns the protocol that runs on real networks.
    #[must_use]
    pub fn protocol(&self) -> &dyn Protocol {
        match self.transport.in_emulation() {
            Some(protocol) => &**protocol,
            None => self.transport.deref().deref(),
        }
    }

    /// Returns the capabilities of this scheme's protocol on real networks.
    #[must_use]
    pub fn can(&self) -> Capabilities {
        self.protocol().capabilities()
    }

    /// Returns whether a URL may list several addresses of one host. Over DTLS it may not, because DTLS has one path
    /// (RFC 8261 §6.1).
    #[must_use]
    pub fn has_paths(&self) -> bool {
        let can = self.can();
        can.paths && !can.kernel && self.encryption != Encryption::Below
    }

    /// Returns whether this program sends the packets directly on IP, which needs raw sockets.
    #[must_use]
    pub fn needs_raw_sockets(&self) -> bool {
        !self.can().kernel && !self.scheme.in_udp
    }

    /// Returns whether the transport has ports of its own. If it runs in UDP, its ports exist in addition to the UDP
    /// port.
    #[must_use]
    pub fn has_own_ports(&self) -> bool {
        let can = self.can();
        !can.kernel && can.carriers.ip.is_some()
    }

    /// Returns the transport's port for a URL or an address with the port `port`. If the transport runs in UDP and has
    /// ports of its own, `port` is the UDP port, and the transport's port is `inner`.
    #[must_use]
    pub fn transport_port(&self, port: u16, inner: u16) -> u16 {
        if self.has_own_ports() && self.scheme.in_udp { inner } else { port }
    }

    /// Returns the protocol directly below the transport: UDP with the port `port`, or IP.
    #[must_use]
    pub fn carrier(&self, port: u16) -> LowerProtocol {
        if self.scheme.in_udp { LowerProtocol::Udp { port } } else { LowerProtocol::Ip }
    }
}

impl Transports {
    /// Returns the URL schemes of all transports that run on real networks, in the order of [`iter`](Self::iter). The
    /// derived schemes over TLS and DTLS come after all of these.
    #[must_use]
    pub fn schemes(&self) -> Vec<UrlScheme> {
        let mut all: Vec<UrlScheme> = Vec::new();
        for transport in self.iter() {
            let Some(protocol) = transport.in_emulation() else { continue };
            let encryption =
                if protocol.capabilities().secure { Encryption::Within } else { Encryption::None };
            for &scheme in protocol.schemes() {
                let (order, transport) = (all.len(), transport.clone());
                all.push(UrlScheme { order, scheme, transport, encryption });
            }
        }
        // TLS runs on any byte stream. Therefore `https` is derived from the unencrypted scheme whose URLs begin with
        // `http`.
        let plain = all.iter().find(|one| one.scheme.url == Some("http") && !one.is_secure()).cloned();
        if let Some(plain) = plain {
            let scheme = Scheme { name: "https", url: Some("https"), port: 443, ..plain.scheme };
            all.push(UrlScheme { order: all.len(), scheme, encryption: Encryption::Above, ..plain });
        }
        let layered = |one: &&UrlScheme| one.scheme.in_udp && !one.is_secure() && one.can().layered;
        let layered = all.iter().find(layered).cloned();
        if let Some(below) = layered {
            const NAME: &str = "https+sctp";
            let scheme = Scheme { name: NAME, url: Some(NAME), port: anabranch_dtls::PORT, ..below.scheme };
            all.push(UrlScheme { order: all.len(), scheme, encryption: Encryption::Below, ..below });
        }
        all
    }

    /// Returns the scheme with the name `name`, whether or not the scheme carries HTTP.
    #[must_use]
    pub fn scheme(&self, name: &str) -> Option<UrlScheme> {
        self.schemes().into_iter().find(|one| one.name() == name)
    }

    /// Returns the scheme whose URLs begin with `url`, if the scheme carries HTTP.
    #[must_use]
    pub fn url_scheme(&self, url: &str) -> Option<UrlScheme> {
        self.schemes().into_iter().find(|one| one.scheme.url == Some(url))
    }

    /// Returns the first transport that has a scheme and runs an engine of this project on real networks. If a program
    /// uses only transports of the kernel, the program's knobs apply to this transport.
    #[must_use]
    pub fn first_engine(&self) -> Option<&Arc<Transport>> {
        let is_one = |transport: &&Arc<Transport>| {
            let protocol = transport.in_emulation();
            protocol.is_some_and(|it| !it.capabilities().kernel && !it.schemes().is_empty())
        };
        self.iter().find(is_one)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use anabranch_transport::protocol::{StartOptions, Starting};
    use anabranch_transport::{RunnableProtocol, Settings, Streams};
    use anabranch_world::World;
    use std::io;

    /// A transport that never uses a stream number twice ([`Streams::Fresh`]) and carries HTTP/1.1.
    #[derive(Debug)]
    struct Fresh;

    impl Protocol for Fresh {
        fn name(&self) -> &'static str {
            "fresh"
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { streams: Streams::Fresh, ..Capabilities::default() }
        }

        fn schemes(&self) -> &'static [Scheme] {
            const URL: Option<&str> = Some("http+fresh");
            &[Scheme { name: "fresh", url: URL, port: 1, in_udp: true, http: Some(Http::StreamPairs) }]
        }

        fn profiles(&self) -> &'static [&'static str] {
            &[]
        }

        fn default_profile(&self) -> &'static str {
            ""
        }

        fn profile(&self, _: &str) -> Option<Box<dyn Settings>> {
            None
        }
    }

    impl<W: World> RunnableProtocol<W> for Fresh {
        fn start(&self, _: W, _: StartOptions) -> Starting {
            Box::pin(async { Err(io::ErrorKind::Unsupported.into()) })
        }
    }

    #[test]
    fn schemes_are_those_of_transports_and_of_layers() {
        let of = |scheme: &UrlScheme| (scheme.name(), scheme.http(), scheme.encryption());
        let all: Vec<_> = Transports::standard().schemes().iter().map(of).collect();
        let expected = [
            ("tcp", Some(Http::OneStream), Encryption::None),
            ("sctp", Some(Http::StreamPairs), Encryption::None),
            ("sctp-ip", Some(Http::StreamPairs), Encryption::None),
            ("h3", Some(Http::Http3), Encryption::Within),
            ("mptcp", None, Encryption::None),
            ("sctp-kernel", None, Encryption::None),
            ("https", Some(Http::OneStream), Encryption::Above),
            ("https+sctp", Some(Http::StreamPairs), Encryption::Below),
        ];
        let expected = expected.into_iter().filter(|one| cfg!(feature = "quic") || one.0 != "h3");
        assert_eq!(all, expected.collect::<Vec<_>>());
    }

    /// A transport that never uses a stream number twice can carry HTTP/3 or HTTP/1.1. The scheme alone decides which
    /// of them is used.
    #[test]
    fn fresh_streams_are_not_http3() {
        let fresh = Transport::simulated(Fresh).and_emulated(Arc::new(Fresh));
        let scheme = Transports::standard().with(fresh).url_scheme("http+fresh").expect("a scheme");
        assert_eq!((scheme.http(), scheme.can().streams), (Some(Http::StreamPairs), Streams::Fresh));
    }

    #[test]
    fn ports_and_paths_are_those_of_the_carrier() {
        let scheme = |name| Transports::standard().scheme(name).expect("a scheme");
        let port = |name| scheme(name).transport_port(9899, 80);
        assert_eq!(["tcp", "sctp", "sctp-ip", "https+sctp"].map(port), [9899, 80, 9899, 80]);
        let raw = |name| scheme(name).needs_raw_sockets();
        assert_eq!(["tcp", "sctp", "sctp-ip", "mptcp"].map(raw), [false, false, true, false]);
        let paths = |name| scheme(name).has_paths();
        assert_eq!(["tcp", "sctp", "https+sctp", "mptcp"].map(paths), [false, true, false, false]);
    }
}
