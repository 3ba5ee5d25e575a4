//! The standard contestants, which have names of their own, and the contestants of a race whose plan names none.

use anabranch_results::label;
use anabranch_transports::Transports;

/// A standard contestant: a name that stands for a transport with settings. Users type the name where a transport is
/// expected, for example `http3`. Further settings may follow, as in `http3:cc=bbr`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standard {
    /// The name that users type and that results show.
    pub name: &'static str,
    /// The transport with its settings, in the syntax of `--transport`.
    pub spec: &'static str,
}

/// The standard contestants. They use the settings of browsers and servers today.
pub const STANDARD: [Standard; 8] = [
    Standard { name: "http1", spec: "tcp:connections=6,tls=yes,priority=yes" },
    Standard { name: "http2", spec: "tcp:http=2,tls=yes" },
    Standard { name: "http3", spec: "quic" },
    Standard { name: "sctp-dtls", spec: "sctp:dtls=yes,priority=yes" },
    Standard { name: "six-tls", spec: "tcp:connections=6,tls=yes" },
    Standard { name: "tcp-tls", spec: "tcp:tls=yes" },
    Standard { name: "six", spec: "tcp:connections=6" },
    Standard { name: "six-sctp", spec: "sctp:connections=6" },
];

/// The default contestants of a race: the transports that carry web pages today. All are encrypted, and all send objects
/// in the order of urgency.
pub const BARE_RACE: [&str; 4] = ["http1", "http2", "http3", "sctp-dtls"];

/// The contestants that stand for the browser that recorded a page: for HTTP/1.1, HTTP/2 and HTTP/3, each without TLS and
/// with it. HTTP/3 always has TLS.
pub const RECORDED: [[&str; 2]; 3] = [
    ["tcp:connections=6,priority=yes", "tcp:connections=6,tls=yes,priority=yes"],
    ["tcp:http=2", "tcp:http=2,tls=yes"],
    ["quic", "quic"],
];

/// The default contestants for a workload of messages, which have no requests. QUIC is not among them: the server would
/// have to open the streams for the messages, which a workload of messages does not support yet.
const BARE_MESSAGES: [&str; 3] = ["six-tls", "tcp-tls", "sctp-dtls"];

/// The default contestants of a race without encryption:
///
/// - six TCP connections, as browsers open them;
/// - one TCP connection;
/// - one SCTP association;
/// - six SCTP associations, which claim as much bandwidth as six connections.
pub const CLEARTEXT_RACE: [&str; 4] = ["six", "tcp", "sctp", "six-sctp"];

/// Returns the specification of a contestant with a standard name replaced by its transport and settings. The settings
/// after the name override those of the name. Text without a standard name is returned unchanged.
///
/// The text is a specification without a nickname, for example `http3:cc=bbr`, which becomes `quic:cc=bbr`.
#[must_use]
pub fn expanded(spec: &str) -> String {
    let (name, own) = spec.split_once(':').map_or((spec, None), |(name, own)| (name, Some(own)));
    let Some(standard) = STANDARD.iter().find(|standard| standard.name == name) else {
        return spec.to_owned();
    };
    let Some(own) = own else { return standard.spec.to_owned() };
    let (transport, settings) = standard.spec.split_once(':').unwrap_or((standard.spec, ""));
    let key = |pair: &str| pair.split('=').next().unwrap_or(pair).to_owned();
    let overridden = |pair: &&str| own.split(',').any(|other| key(other) == key(pair));
    let kept = settings.split(',').filter(|pair| !pair.is_empty() && !overridden(pair));
    let settings: Vec<&str> = kept.chain(own.split(',')).collect();
    format!("{transport}:{}", settings.join(","))
}

/// Returns the names with which the text of a contestant may begin: the standard contestants whose transports are in
/// `transports`, and the transports themselves.
#[must_use]
pub fn names(transports: &Transports) -> Vec<&str> {
    let has_transport = |standard: &&Standard| {
        let (transport, _) = standard.spec.split_once(':').unwrap_or((standard.spec, ""));
        transports.find(transport).is_some()
    };
    let standard = STANDARD.iter().filter(has_transport).map(|standard| standard.name);
    standard.chain(transports.names()).collect()
}

/// Returns the text of a contestant for a workload of messages. A standard contestant loses its order of requests,
/// because messages are not requested.
#[must_use]
pub fn for_messages(text: &str) -> String {
    let (nick, spec) = label::split(text);
    let (name, own) = spec.split_once(':').unwrap_or((spec, ""));
    let is_ordered = |standard: &&Standard| standard.name == name && standard.spec.ends_with(PRIORITY);
    let Some(standard) = STANDARD.iter().find(is_ordered).filter(|_| !own.contains("priority=")) else {
        return text.to_owned();
    };
    let spec = expanded(spec).replacen(PRIORITY, "", 1);
    match nick.or(own.is_empty().then_some(standard.name)) {
        Some(nick) => format!("{nick}={spec}"),
        None => spec,
    }
}

/// The setting that makes a standard contestant send objects in the order of urgency. It is at the end of the
/// contestant's specification.
const PRIORITY: &str = ",priority=yes";

/// Returns the standard name for a text that spells out a standard contestant under its own name, as earlier versions
/// wrote it. Other text is returned unchanged.
#[must_use]
pub fn current_name(text: &str) -> &str {
    let (Some(nick), spec) = label::split(text) else { return text };
    let spelled_out = |standard: &&Standard| {
        let without_priority = standard.spec.strip_suffix(PRIORITY);
        standard.name == nick && (standard.spec == spec || without_priority == Some(spec))
    };
    if STANDARD.iter().any(|standard| spelled_out(&standard)) { nick } else { text }
}

/// The properties of a race that determine its default contestants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DefaultConditions {
    /// Whether the plan asks for a race without encryption (`--cleartext`).
    pub cleartext: bool,
    /// Whether the plan has several networks. If so, all default contestants race without encryption, because an
    /// association over DTLS has only one path (RFC 8261 §6.1).
    pub several_paths: bool,
    /// Whether the workload consists of messages.
    pub messages: bool,
    /// Whether the race runs in the emulated network.
    pub emulated: bool,
}

/// The syntax in which a user writes background traffic, for help texts.
pub const BACKGROUND_FORM: &str = "tcp:flows=N";

impl DefaultConditions {
    /// Returns the default contestants of a race with these properties. Leaves out contestants whose transports are not
    /// in `transports`.
    #[must_use]
    pub fn contestants(self, transports: &Transports) -> Vec<&'static str> {
        let all: &[&str] = match self {
            Self { cleartext: true, .. } | Self { several_paths: true, .. } => &CLEARTEXT_RACE,
            Self { messages: true, .. } => &BARE_MESSAGES,
            _ => &BARE_RACE,
        };
        let there = |name: &str| {
            let spec = expanded(name);
            transports
                .find(spec.split(':').next().unwrap_or(&spec))
                .is_some_and(|one| !self.emulated || one.in_emulation().is_some())
        };
        all.iter().copied().filter(|text| there(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_settings_override_those_of_the_standard_name() {
        assert_eq!(expanded("http1"), "tcp:connections=6,tls=yes,priority=yes");
        assert_eq!(expanded("http3:cc=bbr"), "quic:cc=bbr");
        assert_eq!(expanded("http1:iw=4,connections=2"), "tcp:tls=yes,priority=yes,iw=4,connections=2");
        assert_eq!(expanded("sctp:num_ostreams=1"), "sctp:num_ostreams=1");
    }

    #[test]
    fn messages_have_no_order_of_requests() {
        assert_eq!(for_messages("sctp-dtls"), "sctp-dtls=sctp:dtls=yes");
        assert_eq!(for_messages("sctp-dtls:iw=4"), "sctp:dtls=yes,iw=4");
        assert_eq!(for_messages("mine=http1:iw=4"), "mine=tcp:connections=6,tls=yes,iw=4");
        assert_eq!(for_messages("tcp-tls"), "tcp-tls");
    }

    #[test]
    fn earlier_text_of_a_standard_contestant_gets_its_name() {
        assert_eq!(current_name("http1=tcp:connections=6,tls=yes,priority=yes"), "http1");
        assert_eq!(current_name("sctp-dtls=sctp:dtls=yes"), "sctp-dtls");
        assert_eq!(current_name("http1=tcp"), "http1=tcp");
        assert_eq!(current_name("tcp:cc=bbr"), "tcp:cc=bbr");
    }
}
