//! The engines' knobs, whichever engine it is.
//!
//! Keys, values, help and sources are the engines' own tables; nothing about
//! any one knob is known here.

use super::arm::Transport;
use anabranch_transport::engines::{sctp, tcp};

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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineConfig {
    /// TCP's.
    Tcp(Box<tcp::Config>),
    /// SCTP's.
    Sctp(Box<sctp::Config>),
    /// None of ours: the kernel's, and what it is told.
    Kernel(Kernel),
}

/// What a protocol of the kernel's is told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kernel {
    /// Congestion control, by the kernel's name, where the protocol takes one.
    pub congestion: Option<String>,
}

impl Kernel {
    /// Whether a congestion control of a kernel's may have this name.
    #[must_use]
    pub fn may_have(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !name.is_empty() && name.len() < LONGEST_NAME && name.bytes().all(plain)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match (key, &mut self.congestion) {
            ("cc", Some(congestion)) if Self::may_have(value) => value.clone_into(congestion),
            ("cc", Some(_)) => {
                return Err(format!("cc={value}: write a name of the kernel's, such as cubic"));
            }
            _ => return Err(format!("unknown key '{key}'")),
        }
        Ok(())
    }
}

/// Bytes that the kernel has for the name of a congestion control.
const LONGEST_NAME: usize = 16;

impl EngineConfig {
    /// The profile that a contestant has when it names none.
    #[must_use]
    pub const fn default_profile(transport: Transport) -> &'static str {
        match transport {
            Transport::Tcp => "modern",
            Transport::Sctp => "rfc9260",
            Transport::Mptcp | Transport::KernelSctp => "kernel",
        }
    }

    /// The profiles of a transport.
    #[must_use]
    pub fn profiles(transport: Transport) -> &'static [&'static str] {
        match transport {
            Transport::Tcp => tcp::PROFILES,
            Transport::Sctp => sctp::PROFILES,
            Transport::Mptcp | Transport::KernelSctp => &["kernel"],
        }
    }

    /// The settings of a profile; `None` when there is none of this name.
    #[must_use]
    pub fn profile(transport: Transport, name: &str) -> Option<Self> {
        match transport {
            Transport::Tcp => tcp::Config::profile(name).map(|config| Self::Tcp(Box::new(config))),
            Transport::Sctp => sctp::Config::profile(name).map(|config| Self::Sctp(Box::new(config))),
            Transport::Mptcp | Transport::KernelSctp => {
                (name == "kernel").then(|| Self::default_of(transport))
            }
        }
    }

    /// The settings of the default profile.
    #[must_use]
    pub fn default_of(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp(Box::default()),
            Transport::Sctp => Self::Sctp(Box::default()),
            Transport::Mptcp => Self::Kernel(Kernel { congestion: Some("cubic".to_owned()) }),
            Transport::KernelSctp => Self::Kernel(Kernel::default()),
        }
    }

    /// The largest write that it takes in one piece, bytes; `None`: any, in parts.
    #[must_use]
    pub fn largest_message(&self) -> Option<u64> {
        match self {
            Self::Tcp(_) | Self::Kernel(_) => None,
            // RFC 9260 §11.1.5 leaves it to the send buffer: a message is taken whole or not at all.
            Self::Sctp(config) => Some(config.sndbuf),
        }
    }

    /// Every knob.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        match self {
            Self::Tcp(config) => config
                .knobs()
                .into_iter()
                .map(|k| Knob { key: k.key, value: k.value, help: k.help, source: k.source })
                .collect(),
            Self::Sctp(config) => config
                .knobs()
                .into_iter()
                .map(|k| Knob { key: k.key, value: k.value, help: k.help, source: k.source })
                .collect(),
            Self::Kernel(kernel) => {
                let knob = |value: &String| Knob {
                    key: "cc",
                    value: value.clone(),
                    help: "congestion control, by the kernel's name",
                    source: "Linux net.ipv4.tcp_congestion_control = cubic; RFC 9438",
                };
                kernel.congestion.iter().map(knob).collect()
            }
        }
    }

    /// Sets a knob.
    ///
    /// # Errors
    /// One line with the accepted forms.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match self {
            Self::Tcp(config) => config.set(key, value).map_err(|error| error.to_string()),
            Self::Sctp(config) => config.set(key, value).map_err(|error| error.to_string()),
            Self::Kernel(kernel) => kernel.set(key, value),
        }
    }

    /// Finds knobs that cannot be together.
    ///
    /// # Errors
    /// One line that names them.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Kernel(_) => Ok(()),
            Self::Tcp(config) => config.check().map_err(|error| error.to_string()),
            Self::Sctp(config) => config.check().map_err(|error| error.to_string()),
        }
    }
}
