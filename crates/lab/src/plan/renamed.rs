//! Knobs that an earlier version called by another name. A plan may use these names until version 0.2.

use super::bare;
use super::draft::Draft;
use anabranch_results::label;
use anabranch_transports::{Transport, Transports};

impl Draft {
    /// Gives the knobs in the texts of contestants their current names, and records a line for each. The tables that
    /// name such a contestant get its new text.
    pub fn rename_knobs(&mut self, transports: &Transports) {
        for at in 0..self.transports.len() {
            let (text, place) = self.transports[at].clone();
            let (nick, spec) = label::split(&text);
            let Some((name, settings)) = spec.split_once(':') else { continue };
            let expanded = bare::expanded(name);
            let transport = expanded.split(':').next().and_then(|name| transports.find(name));
            let Some(transport) = transport else { continue };
            let mut renamed = Vec::new();
            let settings = current(settings, transport, &mut renamed);
            if renamed.is_empty() {
                continue;
            }
            let nick = nick.map_or(String::new(), |nick| format!("{nick}="));
            let new = format!("{nick}{name}:{settings}");
            for (old, now) in renamed {
                self.renamed.push(format!("{place} {text}: {old}: now {now}; the old name works until 0.2"));
            }
            for table in self.expects.iter_mut().chain(&mut self.causes) {
                let levels = table.entries.iter_mut().flat_map(|(_, levels)| levels);
                levels.filter(|level| **level == text).for_each(|level| level.clone_from(&new));
            }
            self.transports[at].0 = new;
        }
    }
}

/// Returns settings of the form `key=value,key=value` with the current names of knobs. Adds each old name with the
/// current one to `renamed`.
fn current(settings: &str, transport: &Transport, renamed: &mut Vec<(String, &'static str)>) -> String {
    let mut pairs = Vec::new();
    for pair in settings.split(',') {
        let current = pair.split_once('=').and_then(|(key, value)| {
            let now = transport.current_knob(key)?;
            renamed.push((key.to_owned(), now));
            Some(format!("{now}={value}"))
        });
        pairs.push(current.unwrap_or_else(|| pair.to_owned()));
    }
    pairs.join(",")
}
