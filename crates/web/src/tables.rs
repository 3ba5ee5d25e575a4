//! The tables that the page's forms are made of: shipped pages, presets, transports with their settings, and keys of plans.
//! The page has no table of its own.

use anabranch_http::har::shipped;
use anabranch_lab::plan::contestant::CONTESTANT_KEYS;
use anabranch_lab::plan::{DefaultConditions, STANDARD, keys};
use anabranch_link::preset::PRESETS;
use anabranch_transport::Streams;
use anabranch_transports::Transports;
use serde::Serialize;

/// All tables.
#[derive(Debug, Serialize)]
pub struct Tables {
    /// The version of the program.
    pub version: &'static str,
    /// The pages that come with the program.
    pub pages: Vec<ShippedPage>,
    /// The named networks.
    pub presets: Vec<Preset>,
    /// The names of contestants, each with what it stands for.
    pub names: Vec<[&'static str; 2]>,
    /// The contestants of a race whose plan names none.
    pub default_contestants: Defaults,
    /// The transports of the simulated network.
    pub transports: Vec<TransportKeys>,
    /// The keys of plans.
    pub keys: Vec<PlanKey>,
}

/// The contestants of a race whose plan names none, by what is raced.
#[derive(Debug, Serialize)]
pub struct Defaults {
    usual: Vec<&'static str>,
    messages: Vec<&'static str>,
    cleartext: Vec<&'static str>,
    several_paths: Vec<&'static str>,
}

/// A page that comes with the program.
#[derive(Debug, Serialize)]
pub struct ShippedPage {
    name: String,
    objects: usize,
    bytes: u64,
    hosts: usize,
    source: String,
}

/// A named network.
#[derive(Debug, Serialize)]
pub struct Preset {
    name: &'static str,
    about: &'static str,
    settings: &'static str,
    source: &'static str,
}

/// A transport with the settings of its contestants.
#[derive(Debug, Serialize)]
pub struct TransportKeys {
    name: String,
    profiles: Vec<&'static str>,
    /// Whether it can race with a workload of messages.
    messages: bool,
    settings: Vec<Setting>,
}

/// A setting of a contestant. The value is empty if it depends on others.
#[derive(Debug, Serialize)]
pub struct Setting {
    key: &'static str,
    value: String,
    help: &'static str,
    source: &'static str,
}

/// A flag of a race, with its help.
#[derive(Debug, Serialize)]
pub struct PlanKey {
    name: &'static str,
    value: &'static str,
    help: &'static str,
    group: &'static str,
}

/// Returns all tables.
#[must_use]
pub fn all() -> Tables {
    let transports = crate::transports();
    let pages = shipped::NAMES.iter().filter_map(|name| shipped::shipped(name)).map(|page| ShippedPage {
        objects: page.objects.len(),
        bytes: page.body_bytes(),
        hosts: page.hosts.len(),
        name: page.name,
        source: page.source,
    });
    let presets = PRESETS.iter().map(|it| Preset {
        name: it.name,
        about: it.about,
        settings: it.settings,
        source: it.source,
    });
    let of_key = |key: &&keys::Key| !key.help.is_empty();
    let keys = keys::KEYS.iter().filter(of_key).map(|key| PlanKey {
        name: key.name,
        value: key.value,
        help: key.help,
        group: key.group.heading(),
    });
    Tables {
        version: env!("CARGO_PKG_VERSION"),
        pages: pages.collect(),
        presets: presets.collect(),
        names: STANDARD.iter().map(|it| [it.name, it.spec]).collect(),
        default_contestants: defaults(&transports),
        transports: of_transports(&transports),
        keys: keys.collect(),
    }
}

fn defaults(transports: &Transports) -> Defaults {
    let usual = DefaultConditions::default();
    Defaults {
        usual: usual.contestants(transports),
        messages: DefaultConditions { messages: true, ..usual }.contestants(transports),
        cleartext: DefaultConditions { cleartext: true, ..usual }.contestants(transports),
        several_paths: DefaultConditions { several_paths: true, ..usual }.contestants(transports),
    }
}

fn of_transports(transports: &Transports) -> Vec<TransportKeys> {
    let simulated = transports.iter().filter(|transport| transport.in_simulation().is_some());
    let of = |transport: &std::sync::Arc<anabranch_transports::Transport>| {
        let keys = CONTESTANT_KEYS.iter().filter(|key| key.is_of(&***transport));
        let keys =
            keys.map(|key| Setting { key: key.name, value: String::new(), help: key.help, source: "" });
        let engine = transport.profile(transport.default_profile());
        let knobs = engine.map(|engine| engine.knobs()).unwrap_or_default().into_iter();
        let knobs = knobs.map(|knob| Setting {
            key: knob.key,
            value: knob.value,
            help: knob.help,
            source: knob.source,
        });
        TransportKeys {
            name: transport.name().to_owned(),
            profiles: transport.profiles().to_vec(),
            messages: transport.capabilities().streams != Streams::Fresh,
            settings: keys.chain(knobs).collect(),
        }
    };
    simulated.map(of).collect()
}
