//! A change of one assumption of a study. It sets a key of the plan, or a setting of contestants.
//!
//! For example, `mtu=1500` sets a key of the plan. `tcp:iw=10` sets a setting of the contestant `tcp`, and `*:iw=10`
//! sets it for every contestant. `sctp-*:nagle=no` sets it for the contestants whose names start with `sctp-`.

use anabranch_lab::plan::{Draft, PlanError};
use anabranch_results::{current_knob, label};
use std::fmt;

/// A parsed change, for example `tcp:iw=10`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Change {
    /// The pattern of the names of the contestants to change; `None` if the change sets a key of the plan.
    of: Option<String>,
    key: String,
    value: String,
}

impl Change {
    /// Parses the text of a change, for example `tcp:iw=10`.
    ///
    /// # Errors
    /// A one-line message that describes the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{text}' where KEY=VALUE or CONTESTANT:KEY=VALUE was expected, as rtt=80ms or tcp:iw=10")
        };
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let (of, key) = match key.split_once(':') {
            Some((of, key)) => (Some(of.to_owned()), key),
            None => (None, key),
        };
        if key.is_empty() || value.is_empty() || of.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { of, key: key.to_owned(), value: value.to_owned() })
    }

    /// Returns the plan key that the change sets. Returns `None` if the change sets a setting of contestants instead.
    #[must_use]
    pub fn factor(&self) -> Option<String> {
        self.of.is_none().then(|| self.key.clone())
    }

    /// Returns the key that the change sets, of the plan or of contestants.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the plan key that the change sets, and its value. Returns `None` if the change sets a setting of
    /// contestants instead.
    #[must_use]
    pub fn setting(&self) -> Option<(String, String)> {
        self.factor().map(|key| (key, self.value.clone()))
    }

    /// Returns the change that sets the same key for one contestant only.
    #[must_use]
    pub(crate) fn of_contestant(&self, name: &str) -> Self {
        Self { of: Some(name.to_owned()), ..self.clone() }
    }

    /// Returns whether the change applies to a plan with these contestants.
    #[must_use]
    pub fn is_of(&self, contestants: &[String]) -> bool {
        self.of.as_ref().is_none_or(|of| contestants.iter().any(|name| matches(of, name)))
    }

    /// Returns whether the change sets the protected setting `fixed` to a forbidden value, in a plan with these
    /// contestants. `fixed` is a key, optionally followed by `=` and a pattern of allowed values. Without a pattern,
    /// every value is forbidden. For example, the pattern `nth:10*` allows all values that start with `nth:10`.
    #[must_use]
    pub fn departs_from(&self, fixed: &str, contestants: &[String]) -> bool {
        let (key, values) = fixed.split_once('=').map_or((fixed, None), |(key, values)| (key, Some(values)));
        let (of, key) = key.split_once(':').map_or((None, key), |(of, key)| (Some(of), key));
        let same = match (&self.of, of) {
            (None, None) => true,
            (Some(own), Some(of)) => contestants.iter().any(|name| matches(own, name) && matches(of, name)),
            _ => false,
        };
        same && is_same_setting(&self.key, key) && !values.is_some_and(|values| matches(values, &self.value))
    }

    /// Returns whether the change sets a key to a value that the plan already has for it. If the plan lists several
    /// values for the key, the change's value must be one of them.
    #[must_use]
    pub fn is_level_of(&self, plan: &toml::Table) -> bool {
        let is = |value: &toml::Value| {
            value.as_str().map_or_else(|| value.to_string(), str::to_owned) == self.value
        };
        self.of.is_none()
            && plan
                .get(&self.key)
                .is_some_and(|value| value.as_array().map_or_else(|| is(value), |all| all.iter().any(is)))
    }

    /// Applies the change to a plan.
    ///
    /// # Errors
    /// A one-line message if the plan has no such key or no such contestant.
    pub fn apply(&self, draft: Draft) -> Result<Draft, String> {
        let Some(of) = &self.of else {
            let change = Draft::from_flags([(self.key.as_str(), self.value.as_str())]);
            return Ok(draft.overlaid(change.map_err(|error: PlanError| error.to_string())?));
        };
        let mut draft = draft;
        let mut met = false;
        for (text, _) in &mut draft.transports {
            if matches(of, label::shown(text)) {
                *text = with_setting(text, &self.key, &self.value);
                met = true;
            }
        }
        let names: Vec<&str> = draft.transports.iter().map(|(text, _)| label::shown(text)).collect();
        if met { Ok(draft) } else { Err(format!("no contestant '{of}'; there are {}", names.join(", "))) }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(of) = &self.of {
            write!(f, "{of}:")?;
        }
        write!(f, "{}={}", self.key, self.value)
    }
}

/// Returns whether a pattern selects a contestant, by name or by prefix.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    }
}

/// Returns whether two names mean the same setting: they are equal, or one is the other's name in an earlier version.
fn is_same_setting(a: &str, b: &str) -> bool {
    current_knob(a) == current_knob(b)
}

/// Returns the text that defines a contestant, with one setting added or replaced.
fn with_setting(text: &str, key: &str, value: &str) -> String {
    let (nick, spec) = label::split(text);
    let (transport, settings) = spec.split_once(':').unwrap_or((spec, ""));
    let is_changed = |one: &str| one.split('=').next().is_some_and(|own| is_same_setting(own, key));
    let other_settings = settings.split(',').filter(|one| !one.is_empty() && !is_changed(one));
    let mut settings: Vec<String> = other_settings.map(str::to_owned).collect();
    settings.push(format!("{key}={value}"));
    let nick = nick.map_or(String::new(), |nick| format!("{nick}="));
    format!("{nick}{transport}:{}", settings.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        let plan = "rtt = \"80ms\"\ntransport = [\"tcp=tcp:profile=reno-2002,iw=2\", \"s1=sctp\", \"s2=sctp:num_ostreams=2\"]";
        Draft::from_toml("plan", plan).expect("a plan")
    }

    fn changed(text: &str) -> Result<Vec<String>, String> {
        let draft = Change::parse(text)?.apply(draft())?;
        let rtt = draft.value("rtt").map(|values| format!("rtt={}", values.levels.join("|")));
        Ok(rtt.into_iter().chain(draft.transports.into_iter().map(|(text, _)| text)).collect())
    }

    #[test]
    fn keys_of_the_plan_and_settings_of_contestants_change() {
        assert_eq!(changed("rtt=160ms").expect("a key")[0], "rtt=160ms");
        assert_eq!(changed("tcp:iw=10").expect("a contestant")[1], "tcp=tcp:profile=reno-2002,iw=10");
        let all = changed("s*:num_ostreams=9").expect("two");
        assert_eq!(all[2..], ["s1=sctp:num_ostreams=9", "s2=sctp:num_ostreams=9"]);
        assert_eq!(all[1], "tcp=tcp:profile=reno-2002,iw=2", "not meant");
        // The name of an earlier version means the same setting.
        assert_eq!(changed("s2:streams=9").expect("one")[3], "s2=sctp:streams=9");
    }

    #[test]
    fn a_change_departs_from_what_is_fixed() {
        let names = ["tcp", "s1", "s2"].map(str::to_owned);
        for (change, fixed, departs) in [
            ("rtt=1s", "rtt", true),
            ("rtt=1s", "loss", false),
            ("loss=nth:10/shared", "loss=nth:10*", false),
            ("loss=10%", "loss=nth:10*", true),
            ("tcp:iw=2", "tcp:iw", true),
            ("tcp:iw=2", "s*:iw", false),
            ("*:iw=2", "s1:iw", true),
            ("s*:iw=2", "*:iw", true),
            ("u*:iw=2", "*:iw", false),
            ("iw=2", "*:iw", false),
        ] {
            let change = Change::parse(change).expect(change);
            assert_eq!(change.departs_from(fixed, &names), departs, "{change} from {fixed}");
        }
        let plan = "loss = ['0', '5%']\nruns = 3".parse().expect("a plan");
        for (change, is) in [("loss=5%", true), ("loss=6%", false), ("runs=3", true), ("*:loss=5%", false)] {
            assert_eq!(Change::parse(change).expect(change).is_level_of(&plan), is, "{change}");
        }
    }

    #[test]
    fn changes_that_match_nothing_are_errors() {
        for (change, expected) in [
            ("rtt", "KEY=VALUE"),
            (":iw=1", "KEY=VALUE"),
            ("udp:iw=1", "there are tcp, s1, s2"),
            ("weight=1", "weight"),
        ] {
            let error = changed(change).expect_err(change);
            assert!(error.contains(expected), "{change}: {error}");
        }
    }
}
