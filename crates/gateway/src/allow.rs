//! Rules that determine which targets a gateway may connect to.
//!
//! A target that no rule allows is refused. A host name is allowed either by a rule with this name or by a rule with
//! its addresses. In both cases the addresses are checked after the name has been resolved, and the gateway connects
//! only to checked addresses. Therefore an attacker gains nothing by letting a name resolve to another address when the
//! gateway connects.
//!
//! | rule | addresses | ports, if the rule names none |
//! |---|---|---|
//! | `*`, `*.DOMAIN` | public addresses that are not this host's own | 80, 443, 8080, 8443 |
//! | `HOST` | all except loopback, link-local and the metadata services of clouds | all |
//! | `localhost` | as for `HOST`, and also loopback addresses | all |
//! | `ADDRESS[/BITS]` | these addresses | all |
//!
//! The owner of a name can let it resolve to any address. A wildcard allows names that nobody has checked, so it allows
//! only public addresses, as defined by the registries of RFC 6890. An IPv6 address that embeds an IPv4 address
//! (mapped, NAT64) is treated as that IPv4 address. Some IPv6 addresses make a relay forward packets to an embedded
//! address (6to4, Teredo, ISATAP). These addresses are allowed only by an address rule.

use anabranch_http::authority::is_name_byte;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The rules of a gateway. Without rules, no target is allowed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// A rule that allows targets: `HOST[:PORT]`, `*.DOMAIN[:PORT]`, `ADDRESS[/BITS][:PORT]` or `*[:PORT]`. PORT may be
/// `*`, which means every port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    pattern: HostPattern,
    ports: Ports,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ports {
    Every,
    /// The usual ports of web servers ([`WEB`]).
    Web,
    One(u16),
}

impl Ports {
    fn contains(self, port: u16) -> bool {
        match self {
            Self::Every => true,
            Self::Web => WEB.contains(&port),
            Self::One(one) => one == port,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum HostPattern {
    Any,
    /// A host name in lower case.
    Host(String),
    /// All names below a domain. The domain has a leading dot, for example `.example.com`.
    Below(String),
    Network(Network),
}

impl Rules {
    /// Creates the rules of a gateway. A target is allowed if at least one of `rules` allows it.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Returns whether there are no rules. Without rules, no target is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether `host` should be resolved, because some rule may allow one of its addresses. `host` is in lower
    /// case and without brackets.
    #[must_use]
    pub fn may_allow(&self, host: &str, port: u16) -> bool {
        if let Ok(ip) = host.parse() {
            return self.allow(host, SocketAddr::new(ip, port), &[]);
        }
        self.0.iter().any(|rule| {
            rule.ports.contains(port)
                && (matches!(rule.pattern, HostPattern::Network(..)) || rule.names(host).is_some())
        })
    }

    /// Returns whether `host` may be reached at `address`. `own` are the addresses of the gateway's host.
    #[must_use]
    pub fn allow(&self, host: &str, address: SocketAddr, own: &[IpAddr]) -> bool {
        let ip = plain(address.ip());
        self.0.iter().any(|rule| {
            let host_matches = match &rule.pattern {
                // A rule for a NAT64 prefix (RFC 6052) matches only IPv6 addresses with that prefix. The rule does not
                // match the IPv4 addresses that are embedded in those IPv6 addresses.
                HostPattern::Network(network) => {
                    let translated = plain(network.first) != network.first && network.contains(address.ip());
                    translated || network.contains(ip)
                }
                _ => rule.names(host).is_some_and(|exactly| match exactly {
                    true => !is_near(ip) || (host == "localhost" && ip.is_loopback()),
                    false => is_public(ip) && !own.contains(&ip),
                }),
            };
            host_matches && rule.ports.contains(address.port())
        })
    }
}

impl Rule {
    /// Compares `host` with the host name of the rule. Returns `Some(true)` if the names are equal, and `Some(false)`
    /// if a wildcard matches `host`. Returns `None` otherwise.
    fn names(&self, host: &str) -> Option<bool> {
        match &self.pattern {
            HostPattern::Any => Some(false),
            HostPattern::Host(name) if name == host => Some(true),
            HostPattern::Below(domain) if host.len() > domain.len() && host.ends_with(domain.as_str()) => {
                Some(false)
            }
            _ => None,
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |reason: &str| {
            format!(
                "{reason}; write HOST[:PORT], *.DOMAIN[:PORT], ADDRESS[/BITS][:PORT] or *[:PORT], IPv6 in brackets, PORT a number or *"
            )
        };
        // The last colon of an IPv6 address without brackets does not begin a port.
        let address = text.split_once('/').map_or(text, |(address, _)| address);
        let bare = address.parse::<Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':').filter(|(host, _)| !bare && !unclosed(host)) {
            None => (text, None),
            Some((host, "*")) => (host, Some(Ports::Every)),
            Some((host, port)) => {
                let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|&port: &u16| digits && port > 0);
                let port = port.ok_or_else(|| wrong("the port is neither a number from 1 to 65535 nor *"))?;
                (host, Some(Ports::One(port)))
            }
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let (address_text, bits) = match host.split_once('/') {
            None => (host, None),
            Some((address_text, bits)) => {
                (address_text, Some(bits.parse::<u8>().map_err(|_| wrong("BITS is no number"))?))
            }
        };
        let pattern = match (address_text.parse::<IpAddr>(), bits) {
            (Ok(ip), bits) => HostPattern::Network(Network::new(ip, bits).map_err(|reason| wrong(&reason))?),
            (Err(_), Some(_)) => return Err(wrong(&format!("'{address_text}' is not an address"))),
            (Err(_), None) if address_text == "*" => HostPattern::Any,
            (Err(_), None) => {
                let name = address_text.to_ascii_lowercase();
                let domain = name.strip_prefix('*');
                let rest = domain.map_or(name.as_str(), |domain| domain.strip_prefix('.').unwrap_or(""));
                if rest.is_empty() || !rest.bytes().all(is_name_byte) {
                    return Err(wrong(&format!("'{address_text}' is not a host name")));
                }
                match domain {
                    Some(domain) => HostPattern::Below(domain.to_owned()),
                    None => HostPattern::Host(name),
                }
            }
        };
        let wild = matches!(pattern, HostPattern::Any | HostPattern::Below(_));
        let ports = port.unwrap_or(if wild { Ports::Web } else { Ports::Every });
        Ok(Self { pattern, ports })
    }
}

/// A network prefix: all addresses that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    /// Returns the network of all addresses whose first `bits` bits equal those of `ip`. Without `bits`, the network
    /// has only the address `ip`.
    fn new(ip: IpAddr, bits: Option<u8>) -> Result<Self, String> {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(format!("an address of that kind has {most} bits"));
        }
        // Refuses an IPv4-mapped IPv6 network whose prefix is shorter than 96 bits. An IPv4-mapped network is stored as
        // an IPv4 network, but a shorter prefix would also cover IPv6 addresses that are not mapped.
        if ip.is_ipv6() && plain(ip).is_ipv4() && bits < MAPPED_BITS {
            return Err(format!("IPv4 within IPv6 begins after {MAPPED_BITS} bits"));
        }
        Ok(match ip.to_canonical() {
            first @ IpAddr::V4(_) if ip.is_ipv6() => Self { first, bits: bits - MAPPED_BITS },
            first => Self { first, bits },
        })
    }

    /// Returns whether `ip` belongs to this network.
    #[must_use]
    pub const fn contains(&self, ip: IpAddr) -> bool {
        let (network, ip, width) = match (self.first, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => (network.to_bits() as u128, ip.to_bits() as u128, 32),
            (IpAddr::V6(network), IpAddr::V6(ip)) => (network.to_bits(), ip.to_bits(), 128),
            _ => return false,
        };
        // For 0 bits the shift overflows and gives `None`, and every address matches.
        match (network ^ ip).checked_shr(width - self.bits as u32) {
            Some(differ) => differ == 0,
            None => true,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("{reason}; write ADDRESS[/BITS]");
        let (address_text, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address_text, bits)) => {
                (address_text, Some(bits.parse().map_err(|_| wrong("BITS is no number"))?))
            }
        };
        let ip = address_text.parse().map_err(|_| wrong(&format!("'{address_text}' is not an address")))?;
        Self::new(ip, bits).map_err(|reason| wrong(&reason))
    }
}

/// Returns whether `host`, the text before the last colon of a rule, ends inside the brackets of an IPv6 address. If
/// so, the colon belongs to the address, and no port follows it.
fn unclosed(host: &str) -> bool {
    host.starts_with('[') && !host.contains(']')
}

/// Returns the IPv4 address that is embedded in an IPv6 address (RFC 4291 §2.5.5.2, RFC 6052 §2.1). Any other address
/// is returned unchanged.
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

/// The number of bits in front of an embedded IPv4 address.
const MAPPED_BITS: u8 = 96;

/// Returns whether an address is near. An address is near in any of these cases:
/// - packets to it reach the gateway's host or a link of that host;
/// - it is not a unicast address;
/// - it belongs to a cloud's metadata service;
/// - it is an IPv6 address, and a relay would forward packets to an IPv4 address that is embedded in it.
fn is_near(ip: IpAddr) -> bool {
    if METADATA_SERVICES.iter().any(|network| network.contains(ip)) {
        return true;
    }
    match ip {
        // Addresses in 0.0.0.0/8 also reach this host.
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.octets()[0] == 0
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6 == Ipv6Addr::UNSPECIFIED
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || relayed(v6)
        }
    }
}

/// Returns whether a relay would forward packets for this IPv6 address to an IPv4 address that is embedded in it. The
/// embedded address is not examined, so it may be any address.
fn relayed(v6: Ipv6Addr) -> bool {
    match v6.segments() {
        // The first arm has the prefixes of 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214 §6.1) and local-use
        // translation (RFC 8215). The second arm has older forms that embed IPv4 addresses (RFC 4291 §2.5.5.1, RFC
        // 2765).
        [0x2002, ..] | [0x2001, 0, ..] | [_, _, _, _, 0 | 0x0200, 0x5efe, ..] | [0x64, 0xff9b, 1, ..] => true,
        [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => true,
        _ => false,
    }
}

/// Returns whether the address is globally reachable (RFC 6890 and its registries).
fn is_public(ip: IpAddr) -> bool {
    let within = |networks: &[Network]| networks.iter().any(|network| network.contains(ip));
    match ip {
        IpAddr::V4(_) => !is_near(ip) && !within(&NOT_PUBLIC_V4),
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == 0x2000 && !is_near(ip) && !within(&NOT_PUBLIC_V6),
    }
}

const fn v4(octets: [u8; 4], bits: u8) -> Network {
    let [a, b, c, d] = octets;
    Network { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
}

const fn v6(high: [u16; 3], low: u16, bits: u8) -> Network {
    Network { first: IpAddr::V6(Ipv6Addr::new(high[0], high[1], high[2], 0, 0, 0, 0, low)), bits }
}

/// The networks of the IPv4 special-purpose registry, without the addresses that [`is_near`] checks.
const NOT_PUBLIC_V4: [Network; 12] = [
    v4([10, 0, 0, 0], 8),
    v4([100, 64, 0, 0], 10),
    v4([172, 16, 0, 0], 12),
    v4([192, 0, 0, 0], 24),
    v4([192, 0, 2, 0], 24),
    v4([192, 88, 99, 0], 24),
    v4([192, 168, 0, 0], 16),
    v4([198, 18, 0, 0], 15),
    v4([198, 51, 100, 0], 24),
    v4([203, 0, 113, 0], 24),
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
];

/// The networks of the IPv6 special-purpose registry that are within 2000::/3.
const NOT_PUBLIC_V6: [Network; 3] =
    [v6([0x2001, 0, 0], 0, 23), v6([0x2001, 0xdb8, 0], 0, 32), v6([0x3fff, 0, 0], 0, 20)];

/// The addresses of the metadata services of Azure, Alibaba, Oracle, Amazon and Google that are not in 169.254.0.0/16.
const METADATA_SERVICES: [Network; 5] = [
    v4([168, 63, 129, 16], 32),
    v4([100, 100, 100, 200], 32),
    v4([192, 0, 0, 192], 32),
    v6([0xfd00, 0xec2, 0], 0x254, 128),
    v6([0xfd20, 0xce, 0], 0x254, 128),
];

/// The usual ports of web servers.
const WEB: [u16; 4] = [80, 443, 8080, 8443];

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
    fn names_networks_and_ports_are_distinguished() {
        assert!(allows(&["example.com"], "example.com", "192.0.2.1:8080"));
        assert!(!allows(&["example.com:80"], "example.com", "192.0.2.1:8080"));
        assert!(!allows(&["example.com"], "example.com.evil", "192.0.2.1:80"));
        assert!(allows(&["*.example.com:443"], "a.example.com", "8.8.8.8:443"));
        assert!(!allows(&["*.example.com"], "example.com", "8.8.8.8:443"));
        assert!(!allows(&["*.example.com"], "anexample.com", "8.8.8.8:443"));
        assert!(allows(&["192.0.2.0/24"], "anything", "192.0.2.77:1"));
        assert!(!allows(&["192.0.2.0/24:80"], "anything", "192.0.2.77:81"));
        assert!(!allows(&["192.0.2.0/25"], "anything", "192.0.2.200:80"));
        assert!(allows(&["0.0.0.0/0"], "anything", "127.0.0.1:80"));
        assert!(allows(&["2001:db8::/32"], "x", "[2001:db8:1::1]:80"));
        assert!(allows(&["[2001:db8::1]:80"], "x", "[2001:db8::1]:80"));
        assert!(!allows(&["[2001:db8::/64]:80"], "x", "[2001:db8::1]:81"));
        assert!(allows(&["*:443"], "x", "8.8.8.8:443"));
        assert!(!allows(&["*:443"], "x", "8.8.8.8:25"));
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
        // The two addresses belong to the gateway's own host. A wildcard does not allow them, but a rule with the name
        // or address does.
        for own in ["203.0.113.7:80", "[::ffff:203.0.113.7]:80"] {
            assert!(!allows(&["*"], "203.0.113.7", own) && !allows(&["*.example"], "a.example", own));
            assert!(allows(&["a.example"], "a.example", own) && allows(&["203.0.113.7"], "x", own));
        }
        assert!(allows(&["x"], "x", "10.1.2.3:80") && !allows(&["*"], "x", "10.1.2.3:80"));
        assert!(allows(&["localhost"], "localhost", "127.0.0.1:80"));
        assert!(allows(&["localhost:80"], "localhost", "[::1]:80"));
        assert!(!allows(&["localhost"], "other", "127.0.0.1:80"));
        assert!(!allows(&["localhost"], "localhost", "169.254.169.254:80"));
        assert!(allows(&["127.0.0.1"], "127.0.0.1", "127.0.0.1:80"));
        assert!(allows(&["127.0.0.0/8"], "x", "[::ffff:127.0.0.1]:80"));
        assert!(allows(&["::1"], "::1", "[::1]:80"));
    }

    #[test]
    fn a_wildcard_leads_to_public_addresses_and_ports_of_the_web() {
        for public in ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "[2606:4700::1]", "[2a00:1450::5]"]
        {
            for port in [80, 443, 8080, 8443] {
                for rule in ["*", "*.example"] {
                    assert!(
                        allows(&[rule], "a.example", &format!("{public}:{port}")),
                        "{rule} {public}:{port}"
                    );
                }
            }
            for port in [1, 22, 25, 79, 81, 445, 465, 587, 3306, 6379, 8000, 8081, 9899, 65535] {
                assert!(!allows(&["*"], "a.example", &format!("{public}:{port}")), "{public}:{port}");
                assert!(allows(&["*:*"], "a.example", &format!("{public}:{port}")), "{public}:{port}");
                assert!(allows(&[&format!("*.example:{port}")], "a.example", &format!("{public}:{port}")));
                assert!(allows(&["a.example"], "a.example", &format!("{public}:{port}")), "{public}:{port}");
            }
        }
        // The address 64:ff9b::808:808 stands for a public IPv4 host behind a NAT64 translator.
        assert!(allows(&["*"], "a.example", "[64:ff9b::808:808]:80"));
        for elsewhere in [
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "100.100.100.200",
            "127.0.0.1",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            let v4: Ipv4Addr = elsewhere.parse().expect("an address");
            let [a, b, c, d] = v4.octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            let forms = [
                elsewhere.to_owned(),
                format!("[::ffff:{elsewhere}]"),
                format!("[64:ff9b::{elsewhere}]"),
                format!("[64:ff9b:1::{elsewhere}]"),
                format!("[2002:{high:x}:{low:x}::1]"),
                format!("[2001:0:{high:x}:{low:x}::1]"),
                format!("[2001::{:x}:{:x}]", !high, !low),
                format!("[::{elsewhere}]"),
                format!("[::ffff:0:{elsewhere}]"),
                format!("[2606:4700::5efe:{elsewhere}]"),
                format!("[2606:4700::200:5efe:{elsewhere}]"),
            ];
            for form in forms {
                for rule in ["*", "*:*", "*:80", "*.example"] {
                    let target = format!("{form}:80");
                    assert!(!allows(&[rule], "a.example", &target), "{rule} {target}");
                }
            }
        }
        for elsewhere in [
            "::",
            "::1",
            "100::1",
            "2001:10::1",
            "2001:2::1",
            "2001:db8::1",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!allows(&["*", "*.example"], "a.example", &format!("[{elsewhere}]:80")), "{elsewhere}");
        }
        // A name in a rule may resolve to a private address, but not to the address of a metadata service.
        for (address, allowed) in [
            ("10.0.0.1", true),
            ("[fd12::1]", true),
            ("169.254.169.254", false),
            ("168.63.129.16", false),
            ("100.100.100.200", false),
            ("[fd00:ec2::254]", false),
            ("[2002:a9fe:a9fe::1]", false),
        ] {
            assert_eq!(allows(&["a.example"], "a.example", &format!("{address}:8")), allowed, "{address}");
        }
        for (rule, address) in [
            ("10.0.0.0/8", "10.1.2.3:25"),
            ("169.254.169.254", "169.254.169.254:80"),
            ("fd00:ec2::254", "[fd00:ec2::254]:80"),
            ("2002::/16", "[2002:808:808::1]:80"),
        ] {
            assert!(allows(&[rule], "x", address), "{rule} {address}");
        }
        // A target that is an address is checked before resolution.
        let any = rules(&["*"]);
        for host in ["10.0.0.1", "::ffff:10.0.0.1", "169.254.169.254", "fd00:ec2::254", "64:ff9b::a00:1"] {
            assert!(!any.may_allow(host, 80), "{host}");
        }
        assert!(any.may_allow("example.com", 80) && !any.may_allow("example.com", 25));
    }

    #[test]
    fn ipv4_within_ipv6_is_not_all_of_ipv4() {
        assert!(allows(&["::ffff:192.0.2.0/120"], "x", "192.0.2.77:80"));
        assert!(!allows(&["::ffff:192.0.2.0/120"], "x", "192.0.3.1:80"));
        // The rule allows IPv4 addresses only through the translator.
        assert!(allows(&["64:ff9b::/96"], "x", "[64:ff9b::a01:203]:80"));
        assert!(
            !allows(&["64:ff9b::/96"], "x", "127.0.0.1:80") && !allows(&["64:ff9b::/96"], "x", "0.0.0.0:80")
        );
        assert!(!allows(&["64:ff9b::a00:0/104"], "x", "[64:ff9b::b00:1]:80"));
        assert!(!allows(&["::/0"], "x", "[64:ff9b::7f00:1]:80") && !allows(&["::/0"], "x", "127.0.0.1:80"));
    }

    #[test]
    fn malformed_rules_are_refused() {
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
