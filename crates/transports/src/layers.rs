//! The security of a transport on one host, for races and for real networks: TLS above it, DTLS below it, or within it.

use anabranch_dtls::DtlsLayer;
use anabranch_tls::{Client, HostTls, Server, TlsHost};
use anabranch_transport::Host;
use anabranch_transport::protocol::StartOptions;
use anabranch_world::World;
use std::rc::Rc;

/// The security of a transport on one host, by its place.
pub enum Security {
    /// TLS on the one stream of sessions. All servers have certificates with this name.
    Above(Client, Server, &'static str),
    /// DTLS below the transport's packets. A client requires this name of the server's certificate.
    Below(anabranch_dtls::HostConfig, Option<String>),
    /// The transport encrypts by itself.
    Within(HostTls),
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Above(..) => "Above",
            Self::Below(..) => "Below",
            Self::Within(_) => "Within",
        })
    }
}

impl Security {
    /// Adds what stands within or below the transport to the parameters of its start. Returns them with the rest, which
    /// stands above it.
    pub fn begin<W: World>(self, world: &W, start: StartOptions) -> (StartOptions, Option<Self>) {
        match self {
            Self::Within(ends) => (StartOptions { credentials: Some(Rc::new(ends)), ..start }, None),
            Self::Below(ends, name) => {
                let layer = DtlsLayer::new(world.clone(), ends, name.as_deref());
                (StartOptions { layer: Some(Rc::new(layer)), ..start }, None)
            }
            above @ Self::Above(..) => (start, Some(above)),
        }
    }

    /// Adds what stands above the transport to a started host.
    ///
    /// # Errors
    /// One line about a name that certificates cannot have.
    pub fn over<W: World>(self, world: &W, host: Rc<dyn Host>) -> Result<Rc<dyn Host>, String> {
        match self {
            Self::Above(client, server, name) => {
                Ok(Rc::new(TlsHost::new(world.clone(), host, client, server, name)?))
            }
            _ => Ok(host),
        }
    }
}
