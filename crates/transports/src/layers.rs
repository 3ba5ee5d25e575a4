//! The security of a transport on one host, in experiments and on real networks: TLS above the transport, DTLS below
//! it, or encryption within it.

use anabranch_dtls::DtlsLayer;
use anabranch_tls::{Client, HostTls, Server, TlsHost};
use anabranch_transport::Host;
use anabranch_transport::protocol::StartOptions;
use anabranch_world::World;
use std::rc::Rc;

/// How one host secures a transport: above the transport, below it, or within it.
pub enum Security {
    /// TLS on the only stream of each session, with the settings of clients and of servers. The text is the name in the
    /// certificates of all servers.
    Above(Client, Server, &'static str),
    /// DTLS below the transport's packets. A client requires that the server's certificate has this name.
    Below(anabranch_dtls::HostConfig, Option<String>),
    /// The transport itself encrypts.
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
    /// Returns the start parameters. If the security belongs below or within the transport, the parameters contain it.
    /// Security above the transport is returned separately, because [`over`](Self::over) adds it later.
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

    /// If this is [`Security::Above`], adds TLS above `host`, a started transport. Otherwise returns `host` unchanged.
    ///
    /// # Errors
    /// A one-line text, if the server's name is neither a DNS name nor an IP address.
    pub fn over<W: World>(self, world: &W, host: Rc<dyn Host>) -> Result<Rc<dyn Host>, String> {
        match self {
            Self::Above(client, server, name) => {
                Ok(Rc::new(TlsHost::new(world.clone(), host, client, server, name)?))
            }
            _ => Ok(host),
        }
    }
}
