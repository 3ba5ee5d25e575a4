//! The differences between two contestants as factors. A factor is a group of settings that can be changed from one
//! contestant's values to the other's.

use super::requests::{Aspect, Requests};
use super::settings::{Group, Part, SETTINGS, follows, implied, translated};
use crate::plan::{self, Contestant, PlanError, PointPlan};
use std::collections::BTreeMap;

/// The maximum number of factors. If more settings differ, all settings of one group (such as the windows) are joined
/// to one factor, beginning with the largest group. If each group has become one factor, up to [`MOST_GROUPS`] factors
/// are permitted.
pub const MOST: usize = 5;

/// The maximum number of factors if each group of settings is one factor.
pub const MOST_GROUPS: usize = 6;

/// A change of one setting in which two contestants differ: one contestant gets the other's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    group: Group,
    /// The new setting as a user types it, for example `iw=10`.
    pub setting: String,
    /// The value before the change, for example `2`.
    pub was: String,
    action: ChangeAction,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum ChangeAction {
    /// The change sets the plan key to this value, or to the key's default if the value is `None`.
    Key(String, Option<String>),
    /// The change sets this property to the other contestant's value. The property concerns how requests use
    /// connections and streams.
    Ride(Aspect),
}

/// A group of settings that are changed together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Factor {
    /// The group to which the settings belong.
    pub group: Group,
    /// The settings of the factor, each with its old and new value. There is at least one.
    pub changes: Vec<Change>,
}

impl Factor {
    /// Returns the new settings of the factor as a user types them, for example `iw=10`.
    #[must_use]
    pub fn typed(&self) -> String {
        self.changes.iter().map(|change| change.setting.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Returns whether `self` and `other` change the same settings, but in opposite directions.
    #[must_use]
    pub fn is_opposite(&self, other: &Self) -> bool {
        let same = |(one, other): (&Change, &Change)| match (&one.action, &other.action) {
            (ChangeAction::Key(one, _), ChangeAction::Key(other, _)) => one == other,
            (ChangeAction::Ride(one), ChangeAction::Ride(other)) => one == other,
            _ => false,
        };
        self.changes.len() == other.changes.len() && self.changes.iter().zip(&other.changes).all(same)
    }

    /// Returns the old values of the settings.
    #[must_use]
    pub fn was(&self) -> String {
        self.changes.iter().map(|change| change.was.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// A set of factors as a bit mask. Bit i is set if the set contains factor i.
pub type Set = u32;

/// The differences between two contestants. Changing them step by step turns one contestant into the other.
#[derive(Debug)]
pub struct Differences<'a> {
    point: &'a PointPlan,
    /// The contestant whose settings are changed.
    subject: &'a Contestant,
    own_requests: Requests,
    model_requests: Requests,
    /// The factors. There are at most [`MOST`], or at most [`MOST_GROUPS`] if each group of settings is one factor.
    pub factors: Vec<Factor>,
    /// The settings that differ between the contestants but cannot be changed, each with the reason.
    pub left_out: Vec<String>,
}

impl<'a> Differences<'a> {
    /// Returns the settings in which `subject` differs from `model` at `point`, grouped into factors. If all factors
    /// are changed, `subject` has the settings of `model`, except for the settings in `left_out`.
    ///
    /// # Errors
    /// [`PlanError`] when settings of a contestant contradict the workload.
    pub fn new(subject: &'a Contestant, model: &Contestant, point: &'a PointPlan) -> Result<Self, PlanError> {
        let (own_requests, model_requests) = (Requests::of(subject, point)?, Requests::of(model, point)?);
        let changes = changes(subject, model, point, (&own_requests, &model_requests))?;
        let factors = changes.into_iter().map(|change| Factor { group: change.group, changes: vec![change] });
        let mut experiment = Self {
            point,
            subject,
            own_requests,
            model_requests,
            factors: factors.collect(),
            left_out: Vec::new(),
        };
        while experiment.factors.len() > MOST && experiment.merge_largest() {}
        experiment.separate();
        Ok(experiment)
    }

    /// Returns the set of all factors.
    #[must_use]
    pub fn all(&self) -> Set {
        (1 << self.factors.len()) - 1
    }

    /// Returns `subject` with the factors in `set` changed to the values of `model` (see [`new`](Self::new)).
    ///
    /// # Errors
    /// [`PlanError`] when the changed settings contradict each other.
    pub fn with(&self, set: Set) -> Result<Contestant, PlanError> {
        let chosen = self.factors.iter().enumerate().filter(|(i, _)| set & (1 << i) != 0);
        let mut keys = Vec::new();
        let mut wanted = self.own_requests;
        for change in chosen.flat_map(|(_, factor)| &factor.changes) {
            match &change.action {
                ChangeAction::Key(key, value) => keys.push((key.clone(), value.clone())),
                ChangeAction::Ride(aspect) => wanted.take(*aspect, &self.model_requests),
            }
        }
        if wanted != self.own_requests {
            keys.extend(wanted.keys(&self.own_requests, self.subject, self.point));
        }
        let changed = self.subject.with(&keys)?;
        plan::fits(&changed, self.point)?;
        let issued = |contestant: &Contestant| self.point.workload.issue_times(contestant.streams());
        if issued(&changed) != issued(self.subject) {
            return Err(PlanError::at(
                &changed.text,
                "with it the workload is another: objects come at other times",
            ));
        }
        let requests = Requests::of(&changed, self.point)?;
        let objects = self.point.workload.page.objects.len();
        if let Some(aspect) =
            Aspect::ALL.into_iter().find(|aspect| !requests.alike(&wanted, *aspect, objects))
        {
            let limitation = format!("{} cannot be set by itself", wanted.typed_for(aspect, self.subject));
            return Err(PlanError::at(&changed.text, limitation));
        }
        Ok(changed)
    }

    /// Merges the factors of one group, the group with the most factors, into a single factor. Returns false if no
    /// group has two factors.
    fn merge_largest(&mut self) -> bool {
        let mut sizes: BTreeMap<Group, usize> = BTreeMap::new();
        for factor in &self.factors {
            *sizes.entry(factor.group).or_default() += 1;
        }
        // `max_by_key` returns the last maximum. Because of `rev`, that is the first of several equally large groups.
        let largest = sizes.into_iter().rev().max_by_key(|(_, size)| *size).filter(|(_, size)| *size > 1);
        largest.inspect(|(group, _)| self.merge(*group)).is_some()
    }

    fn merge(&mut self, group: Group) {
        let (own, mut rest): (Vec<Factor>, Vec<Factor>) =
            std::mem::take(&mut self.factors).into_iter().partition(|factor| factor.group == group);
        let changes = own.into_iter().flat_map(|factor| factor.changes).collect();
        let at = rest.iter().take_while(|factor| factor.group < group).count();
        rest.insert(at, Factor { group, changes });
        self.factors = rest;
    }

    /// Makes sure that each factor can be changed alone, and also after all others. If a factor cannot, it is merged
    /// with the other factors of its group. If its group has no other factor, it is left out.
    fn separate(&mut self) {
        loop {
            let all = self.all();
            let broken = (0..self.factors.len()).find_map(|i| {
                let one = 1 << i;
                [one, all & !one].into_iter().find_map(|set| self.with(set).err()).map(|error| (i, error))
            });
            let Some((i, error)) = broken else { return };
            let group = self.factors[i].group;
            if self.factors.iter().filter(|factor| factor.group == group).count() > 1 {
                self.merge(group);
            } else {
                let factor = self.factors.remove(i);
                self.left_out.push(format!("{}: {error}", factor.typed()));
            }
        }
    }
}

/// Returns a change of `subject` for every setting that differs from the setting of `model` and can be changed.
fn changes(
    subject: &Contestant,
    model: &Contestant,
    point: &PointPlan,
    (ours, theirs): (&Requests, &Requests),
) -> Result<Vec<Change>, PlanError> {
    let open_loop = point.workload.arrivals.is_some();
    let settings = |contestant: &Contestant| Ok(contestant.settings(&contestant.policy(open_loop)?));
    let (mine, other) = (settings(subject)?, settings(model)?);
    let can = model.transport.capabilities();
    let multistream = subject.transport.capabilities().is_multistream();
    let same = subject.transport.name() == model.transport.name();
    let mut changes = Vec::new();
    for setting in SETTINGS {
        let key = setting.key;
        let (group, value) = match setting.part {
            Part::Shared(group) | Part::Own(group) if same => (group, other.get(key).map(String::as_str)),
            Part::Shared(group) => (group, other.get(key).map(String::as_str)),
            Part::Own(group) => (group, implied(&can, key)),
            Part::Requests(_) | Part::No(_) => continue,
        };
        let differs = |key: &str| mine.get(key) != other.get(key);
        if same && follows(key).is_some_and(differs) {
            continue;
        }
        let (Some(was), Some(value)) = (mine.get(key), value) else { continue };
        // Only transports with TLS built in have early data. Other transports resume a session instead.
        let early = key == "resume" && value == "0rtt" && !subject.transport.capabilities().secure;
        let value = if early { "session" } else { value };
        // A value that the transport fixes has no knob, so it cannot be changed.
        if was == value || subject.transport.fixed().iter().any(|(fixed, _)| *fixed == key) {
            continue;
        }
        let Some(value) = settable(subject, key, was, value) else { continue };
        let new_setting = format!("{key}={value}");
        // The default value `all` cannot be written in a plan. To get it, the setting is removed.
        let value = (value != "all").then_some(value);
        changes.push(Change {
            group,
            setting: new_setting,
            was: was.clone(),
            action: ChangeAction::Key(key.to_owned(), value),
        });
    }
    changes.extend(security((subject, &mine), (model, &other), same));
    let objects = point.workload.page.objects.len();
    for aspect in Aspect::ALL {
        let possible = multistream || aspect != Aspect::Streams;
        if !possible || ours.alike(theirs, aspect, objects) {
            continue;
        }
        let mut changed = *ours;
        changed.take(aspect, theirs);
        let was = ours.typed_for(aspect, subject);
        let new_setting = changed.typed_for(aspect, subject);
        let bare = |text: &str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let was = match (bare(&new_setting), bare(&was)) {
            (Some((new, _)), Some((old, value))) if new == old => value,
            _ => was,
        };
        changes.push(Change {
            group: aspect.group(),
            setting: new_setting,
            was,
            action: ChangeAction::Ride(aspect),
        });
    }
    // The sort is stable, so the changes of a group keep the order of the table of settings.
    changes.sort_by_key(|change| change.group);
    Ok(changes)
}

/// Returns the changes that enable or disable the encryption of `subject`, so that it is encrypted if and only if
/// `model` is. The encryption is TLS above the transport or DTLS below it. A transport with TLS built in cannot be
/// changed. If the transports differ, encryption can be enabled or disabled, but not replaced by another kind.
fn security(
    (subject, mine): (&Contestant, &BTreeMap<String, String>),
    (model, other): (&Contestant, &BTreeMap<String, String>),
    same: bool,
) -> Vec<Change> {
    let group = Group::Security;
    let change = |key: &str, was: &str, new_value: &str, value: Option<&str>| Change {
        group,
        setting: format!("{key}={new_value}"),
        was: was.to_owned(),
        action: ChangeAction::Key(key.to_owned(), value.map(str::to_owned)),
    };
    let mut changes = Vec::new();
    if subject.is_secured() == model.is_secured() {
        return changes;
    }
    // If both contestants use the same transport, the comparison of their settings has already added the changes of
    // `tls` and `dtls`. Then only the keys that depend on `tls` or `dtls` (`resume`, `chain` and `group`) are added here.
    let layer = ["tls", "dtls"].into_iter().find_map(|key| Some((key, mine.get(key)?)));
    match layer.filter(|_| !same) {
        Some((key, was)) if subject.is_secured() => changes.push(change(key, was, "no", Some("no"))),
        Some((key, was)) => changes.push(change(key, was, "yes", Some("yes"))),
        None => {}
    }
    for (key, default) in [("resume", "full"), ("chain", "3kB"), ("group", "x25519mlkem768")] {
        match (mine.get(key), other.get(key)) {
            (Some(own), None) if own != default => changes.push(change(key, own, default, None)),
            (None, Some(own)) if same && own != default => changes.push(change(key, "none", own, Some(own))),
            _ => {}
        }
    }
    changes
}

/// Returns `value` in the form in which the engine of `subject` writes it, or unchanged if `key` is not a knob of the
/// engine. Returns `None` if the engine rejects the value, or if the knob already has it.
fn settable(subject: &Contestant, key: &str, was: &str, value: &str) -> Option<String> {
    if !subject.engine.knobs().iter().any(|knob| knob.key == key) {
        return Some(value.to_owned());
    }
    [Some(value), translated(key, value)].into_iter().flatten().find_map(|value| {
        let mut engine = subject.engine.clone();
        engine.set(key, value).ok()?;
        let now = engine.knobs().into_iter().find(|knob| knob.key == key)?.value;
        Some((now != was).then_some(now))
    })?
}
