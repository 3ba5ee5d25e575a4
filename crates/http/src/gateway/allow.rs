//! Which targets a gateway may be asked for.
//!
//! What is not allowed is refused. A name is allowed by its name, or by where it
//! leads; in any case its addresses are looked at after it was resolved, and
//! only those are connected to that passed: a name that leads somewhere else
//! the second time gains nothing. The gateway's own host and link (loopback,
//! link-local, where clouds keep their secrets) are reached only by who writes
//! their addresses, or `localhost`, into a rule; the other addresses of the host
//! by who writes them or exactly the name that leads there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// What may be reached; nothing, if empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// `HOST[:PORT]`, `*.DOMAIN[:PORT]`, `ADDRESS[/BITS][:PORT]` or `*[:PORT]`; without a port, every port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    what: What,
    port: Option<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    Any,
    /// In lower case.
    Host(String),
    /// With the dot: `.example.com`.
    Below(String),
    Network(IpAddr, u8),
}

impl Rules {
    /// All of `rules` are allowed.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `host` (in lower case, without brackets) is worth resolving: some rule may allow where it leads.
    #[must_use]
    pub fn may_allow(&self, host: &str, port: u16) -> bool {
        self.0.iter().any(|rule| {
            rule.port.is_none_or(|of| of == port)
                && (matches!(rule.what, What::Network(..)) || rule.names(host).is_some())
        })
    }

    /// `host` may be reached at `address`, where the gateway's host has the addresses `own`.
    #[must_use]
    pub fn allow(&self, host: &str, address: SocketAddr, own: &[IpAddr]) -> bool {
        let ip = plain(address.ip());
        self.0.iter().any(|rule| {
            let there = match &rule.what {
                // A translator's network (RFC 6052) is allowed as it was written: it says nothing of IPv4's own.
                What::Network(network, bits) => {
                    let translated = plain(*network) != *network && contains(*network, *bits, address.ip());
                    translated || contains(*network, *bits, ip)
                }
                _ => rule.names(host).is_some_and(|exactly| {
                    let near = is_near(ip) || (!exactly && own.contains(&ip));
                    !near || (exactly && host == "localhost" && ip.is_loopback())
                }),
            };
            there && rule.port.is_none_or(|port| port == address.port())
        })
    }
}

impl Rule {
    /// The host is meant by its name; and whether by exactly this name.
    fn names(&self, host: &str) -> Option<bool> {
        match &self.what {
            What::Any => Some(false),
            What::Host(name) if name == host => Some(true),
            What::Below(domain) if host.len() > domain.len() && host.ends_with(domain.as_str()) => {
                Some(false)
            }
            _ => None,
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "{why}; write HOST[:PORT], *.DOMAIN[:PORT], ADDRESS[/BITS][:PORT] or *[:PORT], IPv6 in brackets"
            )
        };
        // An IPv6 address without brackets has no port behind it.
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        let bare = address.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':').filter(|(host, _)| !bare && !unclosed(host)) {
            None => (text, None),
            Some((host, port)) => {
                let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|&port: &u16| digits && port > 0);
                (host, Some(port.ok_or_else(|| wrong("the port is no number from 1 to 65535"))?))
            }
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let (place, bits) = match host.split_once('/') {
            None => (host, None),
            Some((place, bits)) => (place, Some(bits.parse::<u8>().map_err(|_| wrong("BITS is no number"))?)),
        };
        let what = match (place.parse::<IpAddr>(), bits) {
            (Ok(ip), bits) => {
                let most = if ip.is_ipv4() { 32 } else { 128 };
                let bits = bits.unwrap_or(most);
                if bits > most {
                    return Err(wrong(&format!("an address of that kind has {most} bits")));
                }
                // Fewer bits are no network of IPv4, and what leads to IPv4 is looked at as that.
                if ip.is_ipv6() && plain(ip).is_ipv4() && bits < MAPPED_BITS {
                    return Err(wrong(&format!("IPv4 within IPv6 begins after {MAPPED_BITS} bits")));
                }
                match ip.to_canonical() {
                    v4 @ IpAddr::V4(_) if ip.is_ipv6() => What::Network(v4, bits - MAPPED_BITS),
                    ip => What::Network(ip, bits),
                }
            }
            (Err(_), Some(_)) => return Err(wrong(&format!("'{place}' is no address"))),
            (Err(_), None) if place == "*" => What::Any,
            (Err(_), None) => {
                let name = place.to_ascii_lowercase();
                let domain = name.strip_prefix('*');
                let rest = domain.map_or(name.as_str(), |domain| domain.strip_prefix('.').unwrap_or(""));
                if rest.is_empty() || !rest.bytes().all(is_name_byte) {
                    return Err(wrong(&format!("'{place}' is no name of a host")));
                }
                match domain {
                    Some(domain) => What::Below(domain.to_owned()),
                    None => What::Host(name),
                }
            }
        };
        Ok(Self { what, port })
    }
}

/// The end of it is not the end of a bracketed address.
fn unclosed(host: &str) -> bool {
    host.starts_with('[') && !host.contains(']')
}

/// What a name of a host is made of.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// The address that a packet to this one would go to: IPv4 in IPv6 (RFC 4291 §2.5.5.2, RFC 6052 §2.1) taken out.
fn plain(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => ip.to_canonical(),
    }
}

/// Bits before the IPv4 address in those.
const MAPPED_BITS: u8 = 96;

/// It is the gateway's own host or link, or no host at all.
fn is_near(ip: IpAddr) -> bool {
    match ip {
        // 0.0.0.0/8 leads to this host, too.
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.octets()[0] == 0
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback() || v6 == Ipv6Addr::UNSPECIFIED || v6.is_unicast_link_local() || v6.is_multicast()
        }
    }
}

fn contains(network: IpAddr, bits: u8, ip: IpAddr) -> bool {
    let (network, ip, width) = match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => {
            (u128::from(network.to_bits()), u128::from(ip.to_bits()), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(ip)) => (network.to_bits(), ip.to_bits(), 128),
        _ => return false,
    };
    let away = u32::from(width - bits);
    // All of them are away where no bit counts.
    (network ^ ip).checked_shr(away).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules::new(texts.iter().map(|text| text.parse().expect("a rule")).collect())
    }

    fn allows(texts: &[&str], host: &str, address: &str) -> bool {
        let address: SocketAddr = address.parse().expect("an address");
        let rules = rules(texts);
        let allowed = rules.allow(host, address, &["203.0.113.7".parse().expect("an address")]);
        assert!(!allowed || rules.may_allow(host, address.port()), "{host} would not even be resolved");
        allowed
    }

    #[test]
    fn nothing_is_allowed_by_default() {
        assert!(!allows(&[], "example.com", "192.0.2.1:80"));
        assert!(Rules::default().is_empty());
    }

    #[test]
    fn names_networks_and_ports_are_told_apart() {
        assert!(allows(&["example.com"], "example.com", "192.0.2.1:8080"));
        assert!(!allows(&["example.com:80"], "example.com", "192.0.2.1:8080"));
        assert!(!allows(&["example.com"], "example.com.evil", "192.0.2.1:80"));
        assert!(allows(&["*.example.com:443"], "a.example.com", "192.0.2.1:443"));
        assert!(!allows(&["*.example.com"], "example.com", "192.0.2.1:443"));
        assert!(!allows(&["*.example.com"], "anexample.com", "192.0.2.1:443"));
        assert!(allows(&["192.0.2.0/24"], "anything", "192.0.2.77:1"));
        assert!(!allows(&["192.0.2.0/24:80"], "anything", "192.0.2.77:81"));
        assert!(!allows(&["192.0.2.0/25"], "anything", "192.0.2.200:80"));
        assert!(allows(&["0.0.0.0/0"], "anything", "127.0.0.1:80"));
        assert!(allows(&["2001:db8::/32"], "x", "[2001:db8:1::1]:80"));
        assert!(allows(&["[2001:db8::1]:80"], "x", "[2001:db8::1]:80"));
        assert!(!allows(&["[2001:db8::/64]:80"], "x", "[2001:db8::1]:81"));
        assert!(allows(&["*:443"], "x", "192.0.2.1:443"));
        assert!(!allows(&["*:443"], "x", "192.0.2.1:25"));
        assert!(!rules(&["a:80"]).may_allow("b", 80));
        assert!(rules(&["10.0.0.0/8"]).may_allow("b", 80));
    }

    #[test]
    fn a_name_does_not_lead_to_the_gateways_own_host_or_link() {
        for near in [
            "127.0.0.1:80",
            "127.9.9.9:80",
            "0.0.0.0:80",
            "169.254.169.254:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "[::1]:80",
            "[::]:80",
            "[fe80::1]:80",
            "[ff02::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[64:ff9b::7f00:1]:80",
            "[::ffff:169.254.169.254]:80",
        ] {
            assert!(!allows(&["*"], "innocent.example", near), "{near}");
            assert!(!allows(&["innocent.example"], "innocent.example", near), "{near}");
        }
        // The host's own, by a rule that was not written for it.
        for own in ["203.0.113.7:80", "[::ffff:203.0.113.7]:80"] {
            assert!(!allows(&["*"], "203.0.113.7", own) && !allows(&["*.example"], "a.example", own));
            assert!(allows(&["a.example"], "a.example", own) && allows(&["203.0.113.7"], "x", own));
        }
        assert!(allows(&["*"], "x", "10.1.2.3:80"));
        assert!(allows(&["localhost"], "localhost", "127.0.0.1:80"));
        assert!(allows(&["localhost:80"], "localhost", "[::1]:80"));
        assert!(!allows(&["localhost"], "other", "127.0.0.1:80"));
        assert!(!allows(&["localhost"], "localhost", "169.254.169.254:80"));
        assert!(allows(&["127.0.0.1"], "127.0.0.1", "127.0.0.1:80"));
        assert!(allows(&["127.0.0.0/8"], "x", "[::ffff:127.0.0.1]:80"));
        assert!(allows(&["::1"], "::1", "[::1]:80"));
    }

    #[test]
    fn ipv4_within_ipv6_is_not_all_of_ipv4() {
        assert!(allows(&["::ffff:192.0.2.0/120"], "x", "192.0.2.77:80"));
        assert!(!allows(&["::ffff:192.0.2.0/120"], "x", "192.0.3.1:80"));
        // Through the translator, and only there.
        assert!(allows(&["64:ff9b::/96"], "x", "[64:ff9b::a01:203]:80"));
        assert!(
            !allows(&["64:ff9b::/96"], "x", "127.0.0.1:80") && !allows(&["64:ff9b::/96"], "x", "0.0.0.0:80")
        );
        assert!(!allows(&["64:ff9b::a00:0/104"], "x", "[64:ff9b::b00:1]:80"));
        assert!(!allows(&["::/0"], "x", "[64:ff9b::7f00:1]:80") && !allows(&["::/0"], "x", "127.0.0.1:80"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for wrong in [
            "64:ff9b::/32",
            "64:ff9b::/0",
            "64:ff9b::/95",
            "::ffff:10.0.0.0/8",
            "",
            ":80",
            "a:",
            "a:0",
            "a:70000",
            "a:+1",
            "a b",
            "1.2.3.4/33",
            "name/8",
            "*x",
            "*.",
            "[::1",
            "::1/129",
            "http://x/",
        ] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }
}
