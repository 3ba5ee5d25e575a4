//! TLS of a contestant: `tls=yes`, and with it `resume=full|session` and `chain=3kB`. A transport that is secure by itself
//! has these two, and `resume=0rtt`, without the first. Or DTLS beneath its transport: `dtls=yes|1.2|1.3`, and with it
//! `chain=3kB`.

use crate::transports::Transport;
use anabranch_base::units::Bytes;
use anabranch_dtls::Version;
use anabranch_tls::{Pair, Surroundings, Visits};
use anabranch_transport::{Capabilities, Settings};

/// TLS on the connections of a contestant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Security {
    /// Whether its client has been at the server before.
    pub visits: Visits,
    /// Bytes of the server's certificates.
    pub chain: Bytes,
}

impl Security {
    /// What these keys of a contestant ask for, if they ask for any; the transport can do this.
    ///
    /// # Errors
    /// One line with the accepted forms.
    pub fn read(given: &[(&str, &str)], can: &Capabilities) -> Result<Option<Self>, String> {
        let value = |key: &str| given.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let (tls, resume, chain) = (value("tls"), value("resume"), value("chain"));
        if tls.is_some() && can.secure {
            return Err("tls: it has TLS 1.3 inside, always; leave it out".to_owned());
        }
        if tls.is_some() && can.is_multistream() {
            return Err("tls needs a byte stream; write dtls=yes".to_owned());
        }
        match tls {
            None if can.secure => {}
            Some("yes") => {}
            // Its keys are not the transport's at all.
            None if can.is_multistream() => return Ok(None),
            None | Some("no") => {
                let without = [("resume", resume), ("chain", chain)];
                return match without.into_iter().find_map(|(key, value)| Some((key, value?))) {
                    Some((key, value)) => Err(format!("{key}={value}: needs tls=yes")),
                    None => Ok(None),
                };
            }
            Some(other) => return Err(format!("tls={other}: write yes or no")),
        }
        let visits = match resume {
            None | Some("full") => Visits::Never,
            Some("session") => Visits::Before,
            Some("0rtt") if can.secure => Visits::Early,
            Some("0rtt") => {
                return Err("resume=0rtt is of quic; over tcp write full or session".to_owned());
            }
            Some(other) if can.secure => {
                return Err(format!("resume={other}: write full, session or 0rtt"));
            }
            Some(other) => return Err(format!("resume={other}: write full or session")),
        };
        Ok(Some(Self { visits, chain: certificates(chain, 60_000)? }))
    }

    /// Its keys with their values, and what is spoken.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 3] {
        let resume = match self.visits {
            Visits::Never => "full",
            Visits::Before => "session",
            Visits::Early => "0rtt",
        };
        [
            ("resume", resume.to_owned()),
            ("chain", self.chain.to_string()),
            ("cipher", Pair::SPOKEN.to_owned()),
        ]
    }

    /// Both ends of it, which speak this protocol (ALPN); `before`: the surroundings of the visits before the run, which
    /// over a transport that is secure by itself are its own, with its settings.
    ///
    /// # Errors
    /// One line.
    pub fn pair(
        &self,
        (transport, settings): (&Transport, &dyn Settings),
        protocol: &str,
        before: &Surroundings,
    ) -> Result<Pair, String> {
        let chain = self.chain.0 as usize;
        match transport.visit() {
            None => Pair::new(chain, self.visits, &[protocol], before),
            Some(visit) => Pair::with_visits(chain, self.visits, &[protocol], before, &|client, server| {
                visit(settings, client, server)
            }),
        }
    }
}

/// The bytes of a server's certificates.
fn certificates(chain: Option<&str>, most: u64) -> Result<Bytes, String> {
    match chain.map(|text| (text, text.parse::<Bytes>())) {
        None => Ok(Bytes(3_000)),
        Some((_, Ok(bytes))) if (1_500..=most).contains(&bytes.0) => Ok(bytes),
        Some((text, _)) => Err(format!("chain={text}: write a size from 1500B to {}kB", most / 1_000)),
    }
}

/// DTLS beneath the transport of a contestant (RFC 8261).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dtls {
    /// The version spoken, one of the two.
    pub version: Version,
    /// Bytes of the server's certificate.
    pub chain: Bytes,
}

impl Dtls {
    /// What these keys of a contestant ask for, if they ask for any; the transport can do this.
    ///
    /// # Errors
    /// One line with the accepted forms.
    pub fn read(given: &[(&str, &str)], can: &Capabilities) -> Result<Option<Self>, String> {
        if !can.layered {
            return Ok(None);
        }
        let value = |key: &str| given.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let version = match value("dtls") {
            // One version, so that all handshakes of a race are alike; the newer, as it has fewer round trips.
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
        // RFC 8261 §6.1: one address at each end, which stays; RFC 8261 §3: over UDP.
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

    /// Its keys with their values, and what is spoken.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 3] {
        let version = if self.version == Version::Only12 { "1.2" } else { "1.3" };
        [
            ("dtls", version.to_owned()),
            ("chain", self.chain.to_string()),
            ("cipher", anabranch_dtls::Pair::spoken(self.version).to_owned()),
        ]
    }

    /// Both ends of it.
    ///
    /// # Errors
    /// One line.
    pub fn pair(&self) -> Result<anabranch_dtls::Pair, String> {
        anabranch_dtls::Pair::new(self.version, self.chain.0 as usize)
    }
}
