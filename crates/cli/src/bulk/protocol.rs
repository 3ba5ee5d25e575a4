//! The transport protocol of a `bulk` test, its settings, and a check that the kernel supports both.

use crate::url::{Listen, Url};
use crate::{Failure, knobs};
use anabranch_transport::Settings;
use anabranch_transports::{Encryption, Transports, UrlScheme};
use clap::ArgMatches;

pub(super) const FORMS: &str = "tcp://HOST:PORT, https://HOST:PORT (TLS), sctp://HOST:PORT (in UDP), sctp-ip://HOST:PORT, \
                     https+sctp://HOST:PORT (over DTLS), h3://HOST:PORT (QUIC), mptcp://HOST:PORT or sctp-kernel://HOST:PORT";

/// Returns the scheme of the URL `text`, and the text after `://`.
fn of<'a>(text: &'a str, transports: &Transports) -> Result<(UrlScheme, &'a str), Failure> {
    let wrong = |reason: &str| Failure::Usage(format!("{text}: {reason}; write {FORMS}"));
    let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
    Ok((transports.scheme(scheme).ok_or_else(|| wrong("unknown scheme"))?, rest))
}

pub(super) fn of_url(text: &str, transports: &Transports) -> Result<Url, Failure> {
    let (scheme, rest) = of(text, transports)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(',') && scheme.encryption() == Encryption::Below {
        let message = format!("{text}: an association over DTLS has one address at each end (RFC 8261)");
        return Err(Failure::Usage(message));
    }
    if rest.contains(',') && !scheme.has_paths() {
        let message = format!("{text}: several addresses of one host are for sctp:// and sctp-ip://");
        return Err(Failure::Usage(message));
    }
    let wrong = || Failure::Usage(format!("{text}: no host and port; write {FORMS}"));
    let whole = format!("{rest}/");
    let url = Url::over(scheme, text, &whole, str::to_owned).map_err(|_| wrong())?;
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    if rest.contains('/') || !has_port {
        return Err(wrong());
    }
    Ok(url)
}

pub(super) fn of_listen(text: &str, transports: &Transports) -> Result<Listen, Failure> {
    let (scheme, rest) = of(text, transports)?;
    let wrong = |reason: &str| format!("--listen {text}: {reason}; write {}", Listen::FORMS);
    Listen::over(scheme, rest, wrong).map_err(Failure::Usage)
}

/// Returns the settings of the transport of `scheme`. `set` has the names and values of the knobs that the user set.
pub(super) fn settings(
    scheme: &UrlScheme,
    matches: &ArgMatches,
    set: &[(String, String)],
) -> Result<Box<dyn Settings>, Failure> {
    let ppid = matches.get_one::<u32>("ppid").copied();
    if scheme.can().kernel && (ppid.is_some() || set.iter().any(|(key, _)| key == "scheduler")) {
        let message =
            "--ppid and --scheduler are for sctp:// and sctp-ip://: the kernel's protocols have neither";
        return Err(Failure::Usage(message.to_owned()));
    }
    let mut transport_settings = knobs::tuned(matches, scheme, set)?;
    if ppid.is_some_and(|ppid| !transport_settings.set_message_protocol(ppid)) {
        let name = scheme.protocol().name().to_uppercase();
        return Err(Failure::Usage(format!("--ppid is for SCTP: {name} has no such identifier")));
    }
    Ok(transport_settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let url = of_url("sctp-ip://[::1]:80", &Transports::standard()).expect("a place");
        assert_eq!((url.scheme.name(), url.scheme.can().kernel, url.port), ("sctp-ip", false, 80));
        let url = of_url("mptcp://host:5/", &Transports::standard()).expect("a place");
        assert_eq!((url.host(), url.port, url.scheme.name()), ("host", 5, "mptcp"));
        assert!(url.scheme.can().kernel);
        for wrong in ["host:5", "tcp://host", "udp://host:5", "tcp://:5", "tcp://[::1]", "tcp://host:5/x"] {
            assert!(of_url(wrong, &Transports::standard()).is_err(), "{wrong}");
        }
    }
}
