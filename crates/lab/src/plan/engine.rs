//! The engines' knobs, whichever engine it is.

use super::arm::Transport;

/// A knob with its value, as the engines' tables give it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knob {
    /// Its key.
    pub key: &'static str,
    /// Its value, in the form that `set` reads.
    pub value: String,
    /// Meaning and forms.
    pub help: &'static str,
    /// Where the value comes from.
    pub source: &'static str,
}

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    knobs: Vec<Knob>,
}

impl EngineConfig {
    /// The profile that a contestant has when it names none.
    #[must_use]
    pub fn default_profile(transport: Transport) -> &'static str {
        match transport {
            Transport::Tcp => "modern",
            Transport::Sctp => "rfc9260",
        }
    }

    /// The profiles of a transport.
    #[must_use]
    pub fn profiles(transport: Transport) -> &'static [&'static str] {
        match transport {
            Transport::Tcp => &["reno-2002", "linux-2.6", "ns2", "modern"],
            Transport::Sctp => &["rfc2960", "kame-2002", "lksctp-2.6", "ns2", "rfc9260", "modern"],
        }
    }

    /// The settings of a profile.
    #[must_use]
    pub fn profile(transport: Transport, name: &str) -> Option<Self> {
        let knob = |key, value: &str| Knob { key, value: value.to_owned(), help: "", source: "" };
        let shared = [("cc", "cubic"), ("iw", "10"), ("rto_min", "200ms"), ("delack", "40ms"), ("rcvbuf", "1MiB")];
        let mut knobs: Vec<Knob> = shared.iter().map(|(key, value)| knob(key, value)).collect();
        if transport == Transport::Sctp {
            knobs.push(knob("streams", "100"));
        }
        Self::profiles(transport).contains(&name).then_some(Self { knobs })
    }

    /// The settings of the default profile.
    #[must_use]
    pub fn default_of(transport: Transport) -> Self {
        Self::profile(transport, Self::default_profile(transport)).unwrap_or(Self { knobs: Vec::new() })
    }

    /// Every knob.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        self.knobs.clone()
    }

    /// Sets a knob.
    ///
    /// # Errors
    /// One line with the accepted forms.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match self.knobs.iter_mut().find(|knob| knob.key == key) {
            Some(knob) => value.clone_into(&mut knob.value),
            None => return Err(format!("no knob '{key}'")),
        }
        Ok(())
    }
}
