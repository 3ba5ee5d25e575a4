//! QUIC as an entry in lists of transports: its description, and how it starts.

use crate::config::{Config, PROFILES};
use crate::host::{Options, Source, start, start_over};
use crate::shards::{Shard, Steered};
use anabranch_tls::HostTls;
use anabranch_transport::capabilities::{Capabilities, LowerProtocol, LowerProtocols, Streams};
use anabranch_transport::network::{Member, Sharing};
use anabranch_transport::protocol::{
    Http, Opening, Protocol, RunnableProtocol, Scheme, StartOptions, Starting,
};
use anabranch_transport::{Host, Settings};
use anabranch_world::World;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The UDP port of HTTP/3 (RFC 9114 §3.1.1). Packet decoders expect QUIC on this port.
const PORT: u16 = 443;

/// The transport entry for QUIC, based on quinn.
#[derive(Clone, Copy, Debug)]
pub struct Quic;

impl Protocol for Quic {
    fn name(&self) -> &'static str {
        "quic"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            streams: Streams::Fresh,
            half_close: true,
            secure: true,
            carriers: LowerProtocols { ip: None, udp: Some(PORT) },
            ..Capabilities::default()
        }
    }

    fn schemes(&self) -> &'static [Scheme] {
        // The scheme of HTTP/3, named after its ALPN protocol ID. No URL scheme is registered for HTTP/3 alone, because
        // RFC 9114 §3.1 uses `https`.
        const HTTP3: Scheme =
            Scheme { name: "h3", url: Some("h3"), port: PORT, in_udp: true, http: Some(Http::Http3) };
        &[HTTP3]
    }

    fn profiles(&self) -> &'static [&'static str] {
        &PROFILES
    }

    fn default_profile(&self) -> &'static str {
        PROFILES[0]
    }

    fn profile(&self, name: &str) -> Option<Box<dyn Settings>> {
        Config::profile(name).map(|config| Box::new(config) as Box<dyn Settings>)
    }

    fn share(&self, threads: u32) -> Option<Sharing> {
        let steering = Arc::new(Steered::new(threads)?);
        let members = (0..threads).map(|index| Some(Member(Arc::new(Shard::new(index, threads)?))));
        Some(Sharing { steering, members: members.collect::<Option<_>>()? })
    }

    fn has_logs(&self) -> bool {
        true
    }

    fn is_routed(&self) -> bool {
        true
    }

    fn fixed(&self) -> &'static [(&'static str, &'static str)] {
        // quinn-proto 0.11 always uses a max_ack_delay of 25 ms. It has no minimum timeout that could be listed here:
        // instead, it adds max_ack_delay to each timeout (RFC 9002 §6.2.1).
        &[("delack", "25ms")]
    }

    fn caveat(&self) -> Option<&'static str> {
        Some(
            "loss recovery, pacing and acknowledgements are those of the library quinn with every congestion control; it \
             does not restore the congestion window if a loss turns out to be false",
        )
    }
}

impl<W: World> RunnableProtocol<W> for Quic {
    fn start(&self, world: W, begin: StartOptions) -> Starting {
        Box::pin(async move {
            let (config, tls, port) = parts(&begin)?;
            Ok(Rc::new(start(world, port, config, tls, Options::default()).await?) as Rc<dyn Host>)
        })
    }

    fn open(&self, world: W, opening: Opening<W>) -> Starting {
        Box::pin(async move {
            let Opening { start: begin, socket, member, logs, .. } = opening;
            let (config, tls, port) = parts(&begin)?;
            let shard = member.and_then(|member| member.content());
            let options = Options { source: Source::Routed, shard, logs };
            let host = match socket {
                None => start(world, port, config, tls, options).await?,
                Some(socket) => start_over(world, socket, config, tls, options)?,
            };
            Ok(Rc::new(host) as Rc<dyn Host>)
        })
    }
}

/// Returns the settings, the certificates and the UDP port for starting an endpoint.
fn parts(begin: &StartOptions) -> io::Result<(Config, HostTls, u16)> {
    let config = begin.settings.downcast::<Config>()?;
    let tls = begin.credentials.as_ref().and_then(|tls| tls.downcast_ref::<HostTls>()).cloned();
    let tls = tls.ok_or_else(|| io::Error::other("QUIC begins with certificates only"))?;
    let port = match begin.carrier {
        LowerProtocol::Udp { port } => port,
        LowerProtocol::Ip => 0,
    };
    Ok((config, tls, port))
}
