//! The transport protocol of a `bulk` test, its settings, and a check that the kernel supports both.

use crate::place::{Carrier, Listen, Url};
use crate::{Failure, knobs};
use anabranch_base::units::Bytes;
use anabranch_transport::sctp::Config;
use anabranch_world::os::KernelOptions;
use clap::ArgMatches;
use std::net::SocketAddr;

pub(super) const FORMS: &str = "tcp://HOST:PORT, https://HOST:PORT (TLS), sctp://HOST:PORT (in UDP), sctp-ip://HOST:PORT, \
                     https+sctp://HOST:PORT (over DTLS), h3://HOST:PORT (QUIC), mptcp://HOST:PORT or sctp-kernel://HOST:PORT";

/// Returns the carrier that the scheme of the URL `text` names, and the text after `://`.
fn of(text: &str) -> Result<(Carrier, &str), Failure> {
    let wrong = |why: &str| Failure::Usage(format!("{text}: {why}; write {FORMS}"));
    let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
    Ok((Carrier::named(scheme).ok_or_else(|| wrong("unknown scheme"))?, rest))
}

pub(super) fn of_url(text: &str) -> Result<Url, Failure> {
    let (carrier, rest) = of(text)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(',') && carrier.is_over_dtls() {
        let message = format!("{text}: an association over DTLS has one address at each end (RFC 8261)");
        return Err(Failure::Usage(message));
    }
    if rest.contains(',') && (carrier.is_kernels() || carrier.is_http3()) {
        let message = format!("{text}: several addresses of one host are for sctp:// and sctp-ip://");
        return Err(Failure::Usage(message));
    }
    let wrong = || Failure::Usage(format!("{text}: no host and port; write {FORMS}"));
    let whole = format!("{rest}/");
    let url = Url::over(carrier, text, &whole, str::to_owned).map_err(|_| wrong())?;
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if rest.contains('/') || !has_port {
        return Err(wrong());
    }
    Ok(url)
}

pub(super) fn of_listen(text: &str) -> Result<Listen, Failure> {
    let (carrier, rest) = of(text)?;
    let wrong = |why: &str| format!("--listen {text}: {why}; write {}", Listen::FORMS);
    Listen::over(carrier, rest, wrong).map_err(Failure::Usage)
}

/// The settings of the transport, by its implementation.
pub(super) enum Knobs {
    Ours(Box<Config>),
    Quinn(Box<anabranch_quic::Config>),
    Kernel(KernelOptions),
}

impl Knobs {
    pub(super) fn of(
        carrier: Carrier,
        matches: &ArgMatches,
        set: &[(String, String)],
    ) -> Result<Self, Failure> {
        if carrier.is_http3() {
            if matches.contains_id("ppid") {
                return Err(Failure::Usage("--ppid is for SCTP: QUIC has no such identifier".to_owned()));
            }
            if let Some(path) = knobs::key_file_of(matches) {
                return Err(Failure::Usage(format!(
                    "--key-file {path}: QUIC has certificates; leave it out"
                )));
            }
            return Ok(Self::Quinn(Box::new(knobs::quic(set)?)));
        }
        let Some(protocol) = carrier.kernel() else {
            let mut config = knobs::sctp(matches, set)?;
            config.ppid = matches.get_one::<u32>("ppid").copied().unwrap_or(0);
            return Ok(Self::Ours(Box::new(config)));
        };
        if matches.contains_id("ppid") || set.iter().any(|(key, _)| key == "scheduler") {
            let told =
                "--ppid and --scheduler are for sctp:// and sctp-ip://: the kernel's protocols have neither";
            return Err(Failure::Usage(told.to_owned()));
        }
        if let Some(path) = knobs::key_file_of(matches) {
            return Err(Failure::Usage(format!("--key-file {path}: the kernel's protocols have no keys")));
        }
        let mut options = KernelOptions { protocol, ..KernelOptions::default() };
        let has_names = protocol.has_congestion_names();
        for (key, value) in set {
            let bytes = || {
                let size = value.parse::<Bytes>();
                let size = size.map_err(|why| Failure::Usage(format!("--set {key}={value}: {why}")))?;
                Ok(Some(usize::try_from(size.0).unwrap_or(usize::MAX).min(1 << 30)))
            };
            match key.as_str() {
                "sndbuf" => options.sndbuf = bytes()?,
                "rcvbuf" => options.rcvbuf = bytes()?,
                "cc" if has_names => options.congestion = Some(value.clone()),
                _ => {
                    let has = match has_names {
                        false => format!("the kernel's {protocol} has sndbuf and rcvbuf"),
                        true => "the kernel's protocols have cc, sndbuf and rcvbuf".to_owned(),
                    };
                    let message = format!("--set {key}={value}: {has}");
                    return Err(Failure::Usage(message));
                }
            }
        }
        Ok(Self::Kernel(options))
    }

    /// Warns once about weaknesses of these settings.
    pub(super) fn warn(&self) {
        if let Self::Ours(config) = self {
            knobs::warn(config);
        }
    }

    pub(super) fn settings(&self) -> Vec<(String, String)> {
        match self {
            Self::Ours(config) => knobs::describe(config),
            Self::Quinn(config) => knobs::describe_quic(config),
            Self::Kernel(options) => {
                let mut settings = Vec::new();
                let mut add = |name: &str, value: Option<String>| {
                    settings.extend(value.map(|value| (name.to_owned(), value)));
                };
                add("cc", options.congestion.clone());
                add("sndbuf", options.sndbuf.map(|bytes| format!("{bytes}B")));
                add("rcvbuf", options.rcvbuf.map(|bytes| format!("{bytes}B")));
                settings
            }
        }
    }
}

/// Checks that the kernel supports the protocol and `options` for at least one of the addresses.
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
    use anabranch_world::kernel::KernelProtocol;

    #[test]
    fn places_are_read() {
        let url = of_url("sctp-ip://[::1]:80").expect("a place");
        assert_eq!((url.carrier.name(), url.carrier.kernel(), url.port), ("sctp-ip", None, 80));
        let url = of_url("mptcp://host:5/").expect("a place");
        assert_eq!((url.host(), url.port, url.carrier.name()), ("host", 5, "mptcp"));
        assert_eq!(url.carrier.kernel(), Some(KernelProtocol::Mptcp));
        for wrong in ["host:5", "tcp://host", "udp://host:5", "tcp://:5", "tcp://[::1]", "tcp://host:5/x"] {
            assert!(of_url(wrong).is_err(), "{wrong}");
        }
    }
}
