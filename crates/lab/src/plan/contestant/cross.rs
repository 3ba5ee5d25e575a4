//! Parses background traffic, for example `tcp:flows=2`. The accepted keys are `flows` and the keys of the transport's
//! engine.

use super::parse::pairs;
use crate::plan::error::{PlanError, unknown};
use anabranch_transport::Settings;
use anabranch_transports::{Transport, Transports};
use std::sync::Arc;

/// The background traffic of a run: downloads that share the network with the contestants.
#[derive(Clone, Debug)]
pub struct BackgroundTraffic {
    /// The number of endless downloads that run at the same time.
    pub flows: usize,
    /// The transport of the downloads.
    pub transport: Arc<Transport>,
    /// The settings of the transport's engine.
    pub engine: Box<dyn Settings>,
}

impl BackgroundTraffic {
    /// Parses the background traffic from `text`.
    ///
    /// # Errors
    /// [`PlanError`] with an example of the accepted form.
    pub fn parse(text: &str, place: &str, transports: &Transports) -> Result<Self, PlanError> {
        let possible = |other: &&Arc<Transport>| other.capabilities().background && !other.is_kernel_only();
        let example = transports.iter().find(possible).map_or("", |other| other.name());
        let wrong = |why: String| PlanError::at(place, format!("'{text}': {why}; write {example}:flows=2"));
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let Some(transport) = transports.find(name).filter(possible) else {
            return Err(wrong(format!("'{name}' is no background traffic")));
        };
        let pairs = pairs(rest, place, transports)?;
        let profile = pairs.iter().find(|(key, _)| *key == "profile");
        let profile = profile.map_or(transport.default_profile(), |(_, profile)| profile);
        let mut engine = transport
            .profile(profile)
            .ok_or_else(|| PlanError::at(place, unknown("profile", profile, transport.profiles())))?;
        let mut flows = 1;
        for (key, value) in pairs {
            match key {
                "flows" => {
                    let accepted = value.parse().ok().filter(|n| (1..=1000).contains(n));
                    flows = accepted.ok_or_else(|| wrong("flows is a number from 1 to 1000".to_owned()))?;
                }
                "profile" => {}
                _ => engine.set(key, value).map_err(|what| PlanError::at(place, what))?,
            }
        }
        Ok(Self { flows, transport: transport.clone(), engine })
    }
}
