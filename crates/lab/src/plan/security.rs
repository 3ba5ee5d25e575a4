//! The keys for the encryption of a contestant:
//! - `tls=yes` enables TLS. It allows the keys `resume=full|session`, `chain=3kB` and
//!   `group=x25519mlkem768|x25519`.
//! - A transport with TLS built in has no `tls`, but accepts the three others, also `resume=0rtt`.
//! - `dtls=yes|1.2|1.3` enables DTLS below the transport. It allows the key `chain=3kB`.

use anabranch_base::units::Bytes;
use anabranch_dtls::Version;
use anabranch_tls::{KeyExchange, Pair, PairSettings, ResumptionMode, Surroundings};
use anabranch_transport::{Capabilities, Settings};
use anabranch_transports::Transport;

/// The TLS settings of a contestant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Security {
    /// Whether the client resumes TLS sessions of earlier visits to the server, and whether it sends early data.
    pub resumption: ResumptionMode,
    /// The size of the server's certificate chain in bytes.
    pub chain: Bytes,
    /// The key exchange that the server selects.
    pub key_exchange: KeyExchange,
}

impl Security {
    /// Interprets the TLS keys of a contestant. Returns `None` if it does not use TLS. `can` are the transport's
    /// capabilities.
    ///
    /// # Errors
    /// One line with the accepted forms.
    pub fn read(given: &[(&str, &str)], can: &Capabilities) -> Result<Option<Self>, String> {
        let value = |key: &str| given.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let [tls, resume, chain, group] = ["tls", "resume", "chain", "group"].map(value);
        if tls.is_some() && can.secure {
            return Err("tls: it has TLS 1.3 inside, always; leave it out".to_owned());
        }
        if tls.is_some() && can.is_multistream() {
            return Err("tls needs a byte stream; write dtls=yes".to_owned());
        }
        match tls {
            None if can.secure => {}
            Some("yes") => {}
            // TLS does not run over a multi-stream transport. The other keys are then not TLS settings, and are not
            // checked here.
            None if can.is_multistream() => return Ok(None),
            None | Some("no") => {
                let without = [("resume", resume), ("chain", chain), ("group", group)];
                return match without.into_iter().find_map(|(key, value)| Some((key, value?))) {
                    Some((key, value)) => Err(format!("{key}={value}: needs tls=yes")),
                    None => Ok(None),
                };
            }
            Some(other) => return Err(format!("tls={other}: write yes or no")),
        }
        let resumption = match resume {
            None | Some("full") => ResumptionMode::Never,
            Some("session") => ResumptionMode::Before,
            Some("0rtt") if can.secure => ResumptionMode::Early,
            Some("0rtt") => {
                return Err("resume=0rtt is of quic; over tcp write full or session".to_owned());
            }
            Some(other) if can.secure => {
                return Err(format!("resume={other}: write full, session or 0rtt"));
            }
            Some(other) => return Err(format!("resume={other}: write full or session")),
        };
        let key_exchange = match group {
            None | Some("x25519mlkem768") => KeyExchange::X25519MlKem768,
            Some("x25519") => KeyExchange::X25519,
            Some(other) => return Err(format!("group={other}: write x25519mlkem768 or x25519")),
        };
        Ok(Some(Self { resumption, chain: certificates(chain, 60_000)?, key_exchange }))
    }

    /// Returns the TLS keys with their values, and the cipher.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 4] {
        let resume = match self.resumption {
            ResumptionMode::Never => "full",
            ResumptionMode::Before => "session",
            ResumptionMode::Early => "0rtt",
        };
        [
            ("resume", resume.to_owned()),
            ("chain", self.chain.to_string()),
            ("group", self.key_exchange.name().to_ascii_lowercase()),
            ("cipher", PairSettings::CIPHER.to_owned()),
        ]
    }

    /// Creates the TLS configurations of client and server. `protocol` is the application protocol (ALPN). A client
    /// that resumes sessions gets its tickets in handshakes before the run. These handshakes use the clock and the
    /// random numbers of `before`. A transport with TLS built in performs these handshakes itself, with `settings`.
    ///
    /// # Errors
    /// One line that says why the configurations cannot be created.
    pub fn pair(
        &self,
        (transport, settings): (&Transport, &dyn Settings),
        protocol: &str,
        before: &Surroundings,
    ) -> Result<Pair, String> {
        let pair_settings = PairSettings {
            chain: self.chain.0 as usize,
            resumption: self.resumption,
            key_exchange: self.key_exchange,
        };
        match transport.visit() {
            None => Pair::new(pair_settings, &[protocol], before),
            Some(visit) => Pair::with_resumption(pair_settings, &[protocol], before, &|client, server| {
                visit(settings, client, server)
            }),
        }
    }
}

/// Parses the size of a server's certificate chain in bytes.
fn certificates(chain: Option<&str>, most: u64) -> Result<Bytes, String> {
    match chain.map(|text| (text, text.parse::<Bytes>())) {
        None => Ok(Bytes(3_000)),
        Some((_, Ok(bytes))) if (700..=most).contains(&bytes.0) => Ok(bytes),
        Some((text, _)) => Err(format!("chain={text}: write a size from 700B to {}kB", most / 1_000)),
    }
}

/// The settings of DTLS below the transport of a contestant (RFC 8261).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dtls {
    /// The DTLS version. Client and server offer only this version.
    pub version: Version,
    /// The size of the server's certificate chain in bytes.
    pub chain: Bytes,
}

impl Dtls {
    /// Interprets the DTLS settings of a contestant. Returns `None` if the contestant does not use DTLS. `can` is the
    /// set of the transport's capabilities.
    ///
    /// # Errors
    /// One line with the accepted forms.
    pub fn read(given: &[(&str, &str)], can: &Capabilities) -> Result<Option<Self>, String> {
        if !can.layered {
            return Ok(None);
        }
        let value = |key: &str| given.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let version = match value("dtls") {
            // A contestant offers a single version, so that all its handshakes are alike. `yes` means 1.3, because its
            // handshake needs fewer round trips.
            Some("yes" | "1.3") => Version::Only13,
            Some("1.2") => Version::Only12,
            None | Some("no") => {
                return match value("chain") {
                    Some(chain) => Err(format!("chain={chain}: needs dtls=yes")),
                    None => Ok(None),
                };
            }
            Some(other) => return Err(format!("dtls={other}: write yes (1.3), 1.2, 1.3 or no")),
        };
        // RFC 8261 §6.1: each host has a single address, which does not change. RFC 8261 §3: DTLS runs over UDP.
        let alone = |key: &str, accepted: &str| match value(key) {
            Some(value) if value != accepted => Err(format!(
                "{key}={value}: an association under DTLS has one path and its addresses stay (RFC 8261); leave one of \
                 them out"
            )),
            _ => Ok(()),
        };
        alone("paths", "1")?;
        alone("asconf", "no")?;
        if let Some(encap) = value("encap") {
            return Err(format!("encap={encap}: DTLS is carried by UDP itself; leave one of them out"));
        }
        Ok(Some(Self { version, chain: certificates(value("chain"), 30_000)? }))
    }

    /// Returns the DTLS settings of a plan as names and values, and the cipher that results from them.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 3] {
        let version = if self.version == Version::Only12 { "1.2" } else { "1.3" };
        [
            ("dtls", version.to_owned()),
            ("chain", self.chain.to_string()),
            ("cipher", anabranch_dtls::Pair::spoken(self.version).to_owned()),
        ]
    }

    /// Creates the DTLS configurations of client and server.
    ///
    /// # Errors
    /// One line that says why the configurations cannot be created.
    pub fn pair(&self) -> Result<anabranch_dtls::Pair, String> {
        anabranch_dtls::Pair::new(self.version, self.chain.0 as usize)
    }
}
