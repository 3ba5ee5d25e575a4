//! TLS of a contestant: `tls=yes`, and with it `resume=full|session` and `chain=3kB`. A transport that is secure by itself
//! has these two, and `resume=0rtt`, without the first.

use crate::transports::Transport;
use anabranch_base::units::Bytes;
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
            return Err("tls needs a byte stream; dtls is to come".to_owned());
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
        let chain = match chain.map(|text| (text, text.parse::<Bytes>())) {
            None => Bytes(3_000),
            Some((_, Ok(bytes))) if (1_500..=60_000).contains(&bytes.0) => bytes,
            Some((text, _)) => return Err(format!("chain={text}: write a size from 1500B to 60kB")),
        };
        Ok(Some(Self { visits, chain }))
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
