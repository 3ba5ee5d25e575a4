//! Whose protocol a test is over, how it is set, and what the kernel has of it.

use crate::place::{Carrier, Listen, Url};
use crate::{Failure, knobs};
use anabranch_base::units::Bytes;
use anabranch_transport::engines::sctp::Config;
use anabranch_world::os::{KernelOptions, KernelProtocol};
use clap::ArgMatches;
use std::net::SocketAddr;

/// Whose protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protocol {
    /// Ours.
    Sctp,
    Kernel(KernelProtocol),
}

impl Protocol {
    pub(super) fn name(self, carrier: Carrier) -> &'static str {
        match self {
            Self::Sctp => carrier.transport(),
            Self::Kernel(KernelProtocol::Tcp) => "tcp",
            Self::Kernel(KernelProtocol::Mptcp) => "mptcp",
            Self::Kernel(KernelProtocol::Sctp) => "sctp-kernel",
        }
    }
}

pub(super) const FORMS: &str = "tcp://HOST:PORT, sctp://HOST:PORT (in UDP), sctp-ip://HOST:PORT, mptcp://HOST:PORT or \
                     sctp-kernel://HOST:PORT";

/// Protocol and scheme of what was written, with the rest.
fn of(text: &str) -> Result<(Protocol, Carrier, &str), Failure> {
    let wrong = |why: &str| Failure::Usage(format!("{text}: {why}; write {FORMS}"));
    let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
    Ok(match scheme {
        "tcp" => (Protocol::Kernel(KernelProtocol::Tcp), Carrier::Tcp, rest),
        "mptcp" => (Protocol::Kernel(KernelProtocol::Mptcp), Carrier::Tcp, rest),
        "sctp-kernel" => (Protocol::Kernel(KernelProtocol::Sctp), Carrier::Tcp, rest),
        "sctp" => (Protocol::Sctp, Carrier::SctpUdp, rest),
        "sctp-ip" => (Protocol::Sctp, Carrier::SctpIp, rest),
        _ => return Err(wrong("unknown scheme")),
    })
}

pub(super) fn of_url(text: &str) -> Result<(Protocol, Url), Failure> {
    let (protocol, carrier, rest) = of(text)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(',') && protocol != Protocol::Sctp {
        let told = format!("{text}: several addresses of one host are for sctp:// and sctp-ip://");
        return Err(Failure::Usage(told));
    }
    let wrong = || Failure::Usage(format!("{text}: no host and port; write {FORMS}"));
    let mut url = Url::parse(&format!("{}://{rest}/", carrier.scheme())).map_err(|_| wrong())?;
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if rest.contains('/') || !has_port {
        return Err(wrong());
    }
    text.clone_into(&mut url.text);
    Ok((protocol, url))
}

pub(super) fn of_listen(text: &str) -> Result<(Protocol, Listen), Failure> {
    let (protocol, carrier, rest) = of(text)?;
    let scheme = match carrier {
        Carrier::Tcp => "tcp",
        Carrier::SctpUdp => "sctp",
        Carrier::SctpIp => "sctp-ip",
    };
    Ok((protocol, Listen::parse(&format!("{scheme}://{rest}")).map_err(Failure::Usage)?))
}

/// How the transport is set.
pub(super) enum Knobs {
    Sctp(Box<Config>),
    Kernel(KernelOptions),
}

impl Knobs {
    pub(super) fn of(
        protocol: Protocol,
        matches: &ArgMatches,
        set: &[(String, String)],
    ) -> Result<Self, Failure> {
        let Protocol::Kernel(protocol) = protocol else {
            return Ok(Self::Sctp(Box::new(knobs::sctp(matches, set)?)));
        };
        if let Some(path) = knobs::key_file_of(matches) {
            return Err(Failure::Usage(format!("--key-file {path}: the kernel's protocols take no keys")));
        }
        let mut options = KernelOptions { protocol, ..KernelOptions::default() };
        for (key, value) in set {
            let bytes = || {
                let size = value.parse::<Bytes>();
                let size = size.map_err(|why| Failure::Usage(format!("--set {key}={value}: {why}")))?;
                Ok(Some(usize::try_from(size.0).unwrap_or(usize::MAX).min(1 << 30)))
            };
            match key.as_str() {
                "sndbuf" => options.sndbuf = bytes()?,
                "rcvbuf" => options.rcvbuf = bytes()?,
                "cc" if protocol != KernelProtocol::Sctp => options.congestion = Some(value.clone()),
                _ => {
                    let has = match protocol {
                        KernelProtocol::Sctp => "the kernel's SCTP has sndbuf and rcvbuf",
                        _ => "the kernel's protocols have cc, sndbuf and rcvbuf",
                    };
                    let told = format!("--set {key}={value}: {has}");
                    return Err(Failure::Usage(told));
                }
            }
        }
        Ok(Self::Kernel(options))
    }

    /// Says once what they leave open to attackers.
    pub(super) fn warn(&self) {
        if let Self::Sctp(config) = self {
            knobs::warn(config);
        }
    }

    pub(super) fn told(&self) -> Vec<(String, String)> {
        match self {
            Self::Sctp(config) => knobs::told(config, Carrier::SctpUdp),
            Self::Kernel(options) => {
                let mut told = Vec::new();
                let mut add = |name: &str, value: Option<String>| {
                    told.extend(value.map(|value| (name.to_owned(), value)));
                };
                add("cc", options.congestion.clone());
                add("sndbuf", options.sndbuf.map(|bytes| format!("{bytes}B")));
                add("rcvbuf", options.rcvbuf.map(|bytes| format!("{bytes}B")));
                told
            }
        }
    }
}

/// Whether the kernel has the protocol and the settings, for one of the addresses.
pub(super) fn possible(addresses: &[SocketAddr], options: &KernelOptions) -> Result<(), Failure> {
    let mut first = Ok(());
    for address in addresses {
        match options.possible(*address) {
            Ok(()) => return Ok(()),
            Err(why) => first = first.and(Err(why)),
        }
    }
    first.map_err(Failure::Host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let (protocol, url) = of_url("sctp-ip://[::1]:80").expect("a place");
        assert_eq!((protocol, url.carrier, url.port), (Protocol::Sctp, Carrier::SctpIp, 80));
        let (protocol, url) = of_url("mptcp://host:5/").expect("a place");
        assert_eq!(protocol, Protocol::Kernel(KernelProtocol::Mptcp));
        assert_eq!((url.host(), url.port, url.carrier), ("host", 5, Carrier::Tcp));
        for wrong in ["host:5", "tcp://host", "udp://host:5", "tcp://:5", "tcp://[::1]", "tcp://host:5/x"] {
            assert!(of_url(wrong).is_err(), "{wrong}");
        }
    }
}
