//! Networks with a name.
//!
//! The access networks are those of the README of Tyler Treat's `comcast`
//! (github.com/tylertreat/comcast), where latency is added on one side only and
//! so is a round trip; its loss share is applied to either direction. It gives no
//! rate for a satellite, so that preset has the default's. The serial lines are
//! those of the slides "SCTP as Alternative Transport to TCP and UDP".

use crate::LinkSpec;
use crate::table::OfLink;

/// A named network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// The preset's name.
    pub name: &'static str,
    /// What it sets, in the form of [`LinkSpec::parse`](crate::LinkSpec::parse).
    pub settings: &'static str,
    /// Where the figures are from.
    pub source: &'static str,
}

impl OfLink for Preset {
    /// The preset's settings, but for what was set by hand before.
    fn set(link: &mut LinkSpec, name: &str) -> Result<(), String> {
        let Some(preset) = Self::named(name) else {
            let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
            return Err(format!("'{name}' is unknown; write one of {}", names.join(", ")));
        };
        link.set_beneath(LinkSpec::parse(preset.settings).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn take(_: &mut LinkSpec, _: &LinkSpec) {}
}

impl Preset {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// Every preset.
pub const PRESETS: &[Preset] = &[
    preset("gprs", "rate=50kbit,rtt=500ms,loss=2%", COMCAST),
    preset("edge", "rate=250kbit,rtt=300ms,loss=1.5%", COMCAST),
    preset("3g", "rate=750kbit,rtt=250ms,loss=1.5%", COMCAST),
    preset("dialup", "rate=40kbit,rtt=185ms,loss=2%", COMCAST),
    preset("dsl-poor", "rate=2mbit,rtt=70ms,loss=2%", COMCAST),
    preset("dsl", "rate=8mbit,rtt=40ms,loss=0.5%", COMCAST),
    preset("wifi", "rate=30mbit,rtt=40ms,loss=0.2%", COMCAST),
    preset("satellite", "rtt=1500ms,loss=0.2%", COMCAST),
    preset("serial-14.4", "rate=14400bit,rtt=0ms", SERIAL),
    preset("serial-32", "rate=32kbit,rtt=0ms", SERIAL),
    preset("serial-64", "rate=64kbit,rtt=0ms", SERIAL),
    preset("serial-128", "rate=128kbit,rtt=0ms", SERIAL),
];

const fn preset(name: &'static str, settings: &'static str, source: &'static str) -> Preset {
    Preset { name, settings, source }
}

const COMCAST: &str = "comcast README, network condition profiles (latency taken as round trip)";
const SERIAL: &str =
    "slides \"SCTP as Alternative Transport to TCP and UDP\", tested speeds (delay not stated: none)";
