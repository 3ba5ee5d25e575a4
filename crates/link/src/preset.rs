//! Presets: named networks with rate, delay, jitter, loss and queue of both directions, and the source of these values.
//!
//! The values of the older access networks are from the README of Tyler Treat's `comcast`
//! (github.com/tylertreat/comcast). That tool adds latency on one side only, so its latency is a round-trip time.
//! `comcast` applies its loss rate to either direction. The values of the serial lines are from the slides "SCTP as
//! Alternative Transport to TCP and UDP".
//!
//! For today's networks, each measured value has its source beside it, and all other values are marked as assumed.
//! Flags such as `--jitter`, `--queue` or `--loss` change the values.

use crate::LinkSpec;
use crate::table::OfLink;
use anabranch_base::spelling::nearest;

/// A named network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// The preset's name.
    pub name: &'static str,
    /// The settings of the network, in the form that [`LinkSpec::parse`](crate::LinkSpec::parse) reads.
    pub settings: &'static str,
    /// The source of the values in `settings`.
    pub source: &'static str,
}

impl OfLink for Preset {
    /// Applies the preset's settings, except for keys that the user has set explicitly.
    fn set(link: &mut LinkSpec, name: &str) -> Result<(), String> {
        let Some(preset) = Self::named(name) else {
            let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
            let other =
                OTHER_NAMES.iter().find(|(other, _)| *other == name.to_lowercase()).map(|(_, ours)| *ours);
            let near = other.or_else(|| nearest(name, &names));
            let hint = near.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default();
            return Err(format!("'{name}' is unknown{hint}; write one of {}", names.join(", ")));
        };
        link.set_defaults_from(LinkSpec::parse(preset.settings).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn take(_: &mut LinkSpec, _: &LinkSpec) {}
}

impl Preset {
    /// Returns the preset with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    preset("gprs", "rate=50kbit,rtt=500ms,jitter=0ms,loss=2%,queue=1bdp", COMCAST),
    preset("edge", "rate=250kbit,rtt=300ms,jitter=0ms,loss=1.5%,queue=1bdp", COMCAST),
    preset("3g", "rate=750kbit,rtt=250ms,jitter=0ms,loss=1.5%,queue=1bdp", COMCAST),
    preset(
        "lte",
        "down-rate=13mbit,up-rate=6mbit,rtt=70ms,jitter=5ms,loss=0.1%,queue=4bdp",
        "rates: medians of Huang et al., \"A Close Examination of Performance and Power Characteristics of 4G LTE \
         Networks\", MobiSys 2012; round trip: WebPageTest's LTE profile; jitter, loss, queue: assumed",
    ),
    preset(
        "lte-recorded",
        "down-trace=lte-walking,up-rate=6mbit,rtt=70ms,jitter=0ms,loss=0.1%,queue=150p",
        "downlink: 20 s of trace-1553204803-ts-walking of github.com/Soheil-ab/DeepCC.v1.0 (Abbasloo, Yen and Chao, IEEE \
         JSAC 2021), 6 Mbit/s in the mean; other rate and round trip: as lte; loss, queue: assumed",
    ),
    preset(
        "5g",
        "down-rate=166mbit,up-rate=21mbit,rtt=33ms,jitter=3ms,loss=0.1%,queue=4bdp",
        "rates: Ookla, global 5G medians of Q3 2021; round trip: Ookla, US operators, Q1 2021; jitter, loss, queue: \
         assumed",
    ),
    preset("dialup", "rate=40kbit,rtt=185ms,jitter=0ms,loss=2%,queue=1bdp", COMCAST),
    preset("dsl-poor", "rate=2mbit,rtt=70ms,jitter=0ms,loss=2%,queue=1bdp", COMCAST),
    preset("dsl", "rate=8mbit,rtt=40ms,jitter=0ms,loss=0.5%,queue=1bdp", COMCAST),
    preset(
        "vdsl",
        "down-rate=25mbit,up-rate=3mbit,rtt=28ms,jitter=2ms,loss=0.1%,queue=4bdp",
        "round trip: FCC, 13th Measuring Broadband America (2022), DSL 23 to 34 ms idle; rates: the FCC's benchmark of \
         2015 (25/3); jitter, loss, queue: assumed",
    ),
    preset(
        "cable",
        "down-rate=100mbit,up-rate=20mbit,rtt=18ms,jitter=2ms,loss=0.1%,queue=4bdp",
        "round trip: FCC, 13th Measuring Broadband America (2022), cable 12 to 24 ms idle; rates: the FCC's benchmark of \
         2024 (100/20); jitter, loss, queue: assumed",
    ),
    preset(
        "fibre",
        "rate=300mbit,rtt=10ms,jitter=500us,loss=0.01%,queue=2bdp",
        "round trip: FCC, 13th Measuring Broadband America (2022), fiber 7 to 14 ms idle; rate, jitter, loss, queue: \
         assumed",
    ),
    preset("wifi", "rate=30mbit,rtt=40ms,jitter=0ms,loss=0.2%,queue=1bdp", COMCAST),
    preset(
        "wifi-lossy",
        "rate=30mbit,rtt=40ms,jitter=2ms,loss=ge:0.5%/25%,queue=1bdp",
        "rate and round trip: comcast README, Wi-Fi; bursts of four packets that lose 2 % in all, jitter, queue: assumed",
    ),
    preset(
        "starlink",
        "down-rate=178mbit,up-rate=17mbit,rtt=50ms,jitter=5ms,down-loss=0.4%,up-loss=0.45%,down-queue=3560kB,\
         up-queue=552kB",
        "Michel et al., \"A First Look at Starlink Performance\", IMC 2022: median rates, median round trip 50 ms \
         (quartiles 40 and 60), loss of light traffic; queues: by its 99th percentile of round trips under load (210 ms \
         down, 310 ms up), less 50 ms",
    ),
    preset(
        "satellite",
        "down-rate=82mbit,up-rate=4.5mbit,rtt=600ms,jitter=10ms,loss=0.2%,queue=1bdp",
        "geostationary. Rates (medians) and least round trip: Michel et al., IMC 2022; loss: comcast README; jitter, \
         queue: assumed",
    ),
    preset("serial-14.4", "rate=14400bit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
    preset("serial-32", "rate=32kbit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
    preset("serial-64", "rate=64kbit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
    preset("serial-128", "rate=128kbit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
];

/// Alternative names of some presets.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("4g", "lte"),
    ("2g", "gprs"),
    ("umts", "3g"),
    ("nr", "5g"),
    ("adsl", "dsl"),
    ("docsis", "cable"),
    ("ftth", "fibre"),
    ("wlan", "wifi"),
    ("leo", "starlink"),
    ("geo", "satellite"),
    ("modem", "dialup"),
];

const fn preset(name: &'static str, settings: &'static str, source: &'static str) -> Preset {
    Preset { name, settings, source }
}

const COMCAST: &str = "comcast README, network condition profiles: rate, latency (taken as round trip), loss; jitter \
                       (none), queue: assumed";
const SERIAL: &str = "slides \"SCTP as Alternative Transport to TCP and UDP\": tested speeds; all else (nothing, a queue of \
                      1bdp): assumed";

#[cfg(test)]
mod tests {
    use super::*;

    /// Each preset sets all keys, because a default would not describe its network.
    #[test]
    fn each_preset_says_all_there_is_of_a_network() {
        for preset in PRESETS {
            let keys: Vec<&str> =
                preset.settings.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
            let has = |key: &str| {
                keys.contains(&key)
                    || ["up-", "down-"].iter().all(|side| {
                        let has = |key: &str| keys.contains(&&*format!("{side}{key}"));
                        has(key) || (key == "rate" && has("trace"))
                    })
            };
            for key in ["rate", "jitter", "loss", "queue"] {
                assert!(has(key), "{}: {key}", preset.name);
            }
            assert!(has("rtt") || has("delay"), "{}: delay", preset.name);
            LinkSpec::parse(preset.settings).unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            assert!(preset.source.len() > 20, "{}: no source", preset.name);
        }
    }

    /// An explicit setting takes precedence over the preset's setting, and also over the preset's recorded trace.
    #[test]
    fn a_rate_by_hand_takes_the_place_of_a_recorded_one() {
        let link = |text: &str| LinkSpec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(link("preset=lte-recorded").down.trace.is_some());
        for rate in ["rate=1mbit", "down-rate=1mbit"] {
            let link = link(&format!("{rate},preset=lte-recorded"));
            assert!(link.down.trace.is_none(), "{rate}");
            assert_eq!(
                link.down.mean_rate(),
                anabranch_base::BitRate::from_bits_per_second(1_000_000),
                "{rate}"
            );
        }
        assert!(link("preset=lte-recorded,up-rate=1mbit").down.trace.is_some());
    }

    #[test]
    fn names_of_others_are_answered_with_ours() {
        for (name, near) in
            [("4g", "'lte'"), ("FTTH", "'fibre'"), ("fiber", "'fibre'"), ("starlnik", "'starlink'")]
        {
            let error = LinkSpec::parse(&format!("preset={name}")).expect_err(name).to_string();
            assert!(error.contains(&format!("(did you mean {near}?)")), "{error}");
        }
        for (_, ours) in OTHER_NAMES {
            assert!(Preset::named(ours).is_some(), "{ours}");
        }
    }
}
