//! Presets: networks with a name, each with the rate, delay, jitter, loss and queue of both directions, and the source
//! of these values.
//!
//! The values of the older access networks are from the README of Tyler Treat's `comcast`
//! (github.com/tylertreat/comcast). That tool delays the packets of one direction only, so its latency is taken as the
//! round-trip time. `comcast` applies its loss rate to each direction, and so do these presets. The values of the
//! serial lines are from the slides "SCTP as Alternative Transport to TCP and UDP".
//!
//! For today's networks, the field `source` names the source of each measured value, and lists the values that are
//! assumed. Flags such as `--jitter`, `--queue` or `--loss` change the values.
//!
//! Mobile networks and Wi-Fi lose packets in bursts (Gilbert-Elliott). The cited sources give the percentages of lost
//! packets. The uplink of each network has its own rate. The preset `NAME/random` loses the same percentage, but each
//! packet independently of the others. In `wifi-lossy`, the bursts and the uplink are assumed, and the study `today`
//! depends on them. The bursts and the uplink of `wifi-weak` have sources.

use crate::LinkSpec;
use crate::table::OfLink;
use anabranch_base::spelling::nearest;

/// A named network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// The preset's name.
    pub name: &'static str,
    /// The kind of network, in a few words for users.
    pub about: &'static str,
    /// The settings of the network, in the form that [`LinkSpec::parse`](crate::LinkSpec::parse) reads.
    pub settings: &'static str,
    /// The source of the values in `settings`.
    pub source: &'static str,
}

impl OfLink for Preset {
    /// Applies the preset's settings, except for keys that the user has set explicitly. `text` is the preset's name, or
    /// NAME/random for independent losses in place of bursts.
    fn set(link: &mut LinkSpec, text: &str) -> Result<(), String> {
        let (name, random) = match text.split_once('/') {
            None => (text, false),
            Some((name, "random")) => (name, true),
            Some((name, other)) => {
                return Err(format!("'{other}' is unknown; write {name} or {name}/random"));
            }
        };
        let Some(preset) = Self::named(name) else {
            let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
            let other =
                OTHER_NAMES.iter().find(|(other, _)| *other == name.to_lowercase()).map(|(_, ours)| *ours);
            let near = other.or_else(|| nearest(name, &names));
            let hint = near.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default();
            return Err(format!("'{name}' is unknown{hint}; write one of {}", names.join(", ")));
        };
        let mut network = LinkSpec::parse(preset.settings).map_err(|error| error.to_string())?;
        if random {
            for side in [&mut network.up, &mut network.down] {
                side.loss = side.loss.independent();
            }
        }
        link.set_defaults_from(network);
        Ok(())
    }

    fn take(_: &mut LinkSpec, _: &LinkSpec) {}
}

impl Preset {
    /// Returns the preset with this name. Case does not matter, because people write LTE and 3G.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name.eq_ignore_ascii_case(name))
    }
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    preset(
        "gprs",
        "very slow mobile, 2G (GPRS)",
        "down-rate=50kbit,up-rate=20kbit,rtt=500ms,jitter=0ms,loss=ge:1%/49%,queue=1bdp",
        COMCAST_RADIO,
    ),
    preset(
        "edge",
        "very slow mobile, 2G (EDGE)",
        "down-rate=250kbit,up-rate=50kbit,rtt=300ms,jitter=0ms,loss=ge:0.75%/49.25%,queue=1bdp",
        COMCAST_RADIO,
    ),
    preset(
        "3g",
        "slow mobile, 3G",
        "down-rate=750kbit,up-rate=250kbit,rtt=250ms,jitter=0ms,loss=ge:0.75%/49.25%,queue=1bdp",
        COMCAST_RADIO,
    ),
    preset(
        "lte",
        "mobile, 4G",
        "down-rate=13mbit,up-rate=6mbit,rtt=70ms,jitter=5ms,loss=ge:0.05%/49.95%,queue=4bdp",
        "rates: medians of Huang et al., \"A Close Examination of Performance and Power Characteristics of 4G LTE \
         Networks\", MobiSys 2012; round trip: WebPageTest's LTE profile; bursts of two: the \
         model of cellular networks in str0m-netem 0.2; jitter, share of lost packets (0.1 %), queue: assumed",
    ),
    preset(
        "lte-recorded",
        "mobile, 4G, whose rate was recorded while walking",
        "down-trace=lte-walking,up-rate=6mbit,rtt=70ms,jitter=0ms,loss=ge:0.05%/49.95%,queue=150p",
        "downlink: 20 s of trace-1553204803-ts-walking of github.com/Soheil-ab/DeepCC.v1.0 (Abbasloo, Yen and Chao, IEEE \
         JSAC 2021), 6 Mbit/s in the mean; other rate, round trip and losses: as lte; queue: assumed",
    ),
    preset(
        "5g",
        "fast mobile, 5G",
        "down-rate=166mbit,up-rate=21mbit,rtt=33ms,jitter=3ms,loss=ge:0.05%/49.95%,queue=4bdp",
        "rates: Ookla, global 5G medians of Q3 2021; round trip: Ookla, US operators, Q1 2021; losses: as lte; jitter, \
         queue: assumed",
    ),
    preset("dialup", "telephone modem", "rate=40kbit,rtt=185ms,jitter=0ms,loss=2%,queue=1bdp", COMCAST),
    preset("dsl-poor", "poor DSL", "rate=2mbit,rtt=70ms,jitter=0ms,loss=2%,queue=1bdp", COMCAST),
    preset("dsl", "DSL", "rate=8mbit,rtt=40ms,jitter=0ms,loss=0.5%,queue=1bdp", COMCAST),
    preset(
        "vdsl",
        "fast DSL",
        "down-rate=25mbit,up-rate=3mbit,rtt=28ms,jitter=2ms,loss=0.1%,queue=4bdp",
        "round trip: FCC, 13th Measuring Broadband America (2022), DSL 23 to 34 ms idle; rates: the FCC's benchmark of \
         2015 (25/3); jitter, loss, queue: assumed",
    ),
    preset(
        "cable",
        "cable",
        "down-rate=100mbit,up-rate=20mbit,rtt=18ms,jitter=2ms,loss=0.1%,queue=4bdp",
        "round trip: FCC, 13th Measuring Broadband America (2022), cable 12 to 24 ms idle; rates: the FCC's benchmark of \
         2024 (100/20); jitter, loss, queue: assumed",
    ),
    preset(
        "fibre",
        "fibre",
        "rate=300mbit,rtt=10ms,jitter=500us,loss=0.01%,queue=2bdp",
        "round trip: FCC, 13th Measuring Broadband America (2022), fiber 7 to 14 ms idle; rate, jitter, loss, queue: \
         assumed",
    ),
    preset(
        "wifi",
        "Wi-Fi",
        "down-rate=30mbit,up-rate=15mbit,rtt=40ms,jitter=0ms,loss=ge:0.1%/49.9%,queue=1bdp",
        COMCAST_RADIO,
    ),
    preset(
        "wifi-weak",
        "weak Wi-Fi",
        "down-rate=30mbit,up-rate=15mbit,rtt=40ms,jitter=0ms,loss=ge:2.5%/47.5%,queue=1bdp",
        "rates and round trip: as wifi; share of lost packets (5 %) and bursts of two: the model \
         of lossy Wi-Fi in str0m-netem 0.2; jitter (none), queue: assumed",
    ),
    preset(
        "wifi-lossy",
        "Wi-Fi with losses in bursts",
        "rate=30mbit,rtt=40ms,jitter=2ms,loss=ge:0.5%/25%,queue=1bdp",
        "rate and round trip: comcast README, Wi-Fi, with the same rate up; bursts of four packets that lose 2 % in all, \
         jitter, queue: assumed",
    ),
    preset(
        "starlink",
        "satellites in low orbit",
        "down-rate=178mbit,up-rate=17mbit,rtt=50ms,jitter=5ms,down-loss=0.4%,up-loss=0.45%,down-queue=3560kB,\
         up-queue=552kB",
        "Michel et al., \"A First Look at Starlink Performance\", IMC 2022: median rates, median round trip 50 ms \
         (quartiles 40 and 60), loss of light traffic; queues: by its 99th percentile of round trips under load (210 ms \
         down, 310 ms up), less 50 ms",
    ),
    preset(
        "satellite",
        "geostationary satellite",
        "down-rate=82mbit,up-rate=4.5mbit,rtt=600ms,jitter=10ms,loss=0.2%,queue=1bdp",
        "geostationary. Rates (medians) and least round trip: Michel et al., IMC 2022; loss: comcast README; jitter, \
         queue: assumed",
    ),
    preset("serial-14.4", "serial line", "rate=14400bit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
    preset("serial-32", "serial line", "rate=32kbit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
    preset("serial-64", "serial line", "rate=64kbit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
    preset("serial-128", "serial line", "rate=128kbit,rtt=0ms,jitter=0ms,loss=0,queue=1bdp", SERIAL),
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

const fn preset(
    name: &'static str,
    about: &'static str,
    settings: &'static str,
    source: &'static str,
) -> Preset {
    Preset { name, about, settings, source }
}

const COMCAST: &str = "comcast README, network condition profiles: rate, latency (taken as round trip), loss; jitter \
                       (none), queue: assumed";
const COMCAST_RADIO: &str = "comcast README, network condition profiles: rate down, latency (taken as round trip), share \
                             of lost packets; rate up: Firefox's throttling profiles (GPRS, Regular 2G, Regular 3G, \
                             Wi-Fi), whose rates down are the same; bursts of two: the models \
                             of cellular networks and Wi-Fi in str0m-netem 0.2; jitter (none), queue: assumed";
const SERIAL: &str = "slides \"SCTP as Alternative Transport to TCP and UDP\": tested speeds; all else (nothing, a queue of \
                      1bdp): assumed";

#[cfg(test)]
mod tests {
    use super::*;

    /// Each preset must set all keys, because a default value would not describe the preset's network.
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

    /// A preset with the suffix `/random` loses packets independently. In both directions, the mean share of lost
    /// packets is the same as without the suffix.
    #[test]
    fn a_preset_can_lose_packets_independently() {
        let link = |text: &str| LinkSpec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        for (name, share) in [
            ("gprs", "2%"),
            ("3g", "1.5%"),
            ("lte-recorded", "0.1%"),
            ("wifi", "0.2%"),
            ("wifi-weak", "5%"),
            ("dsl", "0.5%"),
        ] {
            let link = link(&format!("preset={name}/random"));
            assert_eq!((link.up.loss.to_string(), link.down.loss.to_string()), (share.into(), share.into()));
        }
        assert_eq!(link("loss=3%,preset=wifi/random").down.loss.to_string(), "3%");
        let error = LinkSpec::parse("preset=wifi/bursts").expect_err("no such option").to_string();
        assert!(error.contains("write wifi or wifi/random"), "{error}");
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
