//! Reads and writes race results in the older format `anabranch.race/2`, which came before `anabranch.race/3`.
//!
//! The older format has other names for some fields, and lacks the newer fields. All other fields have the same bytes.

use crate::stats::metrics;
use crate::{Object, Race, Run, changes, columns, label};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::fmt;

/// The name and version of the older format.
pub const SCHEMA: &str = "anabranch.race/2";

/// The fields that the older format lacks.
const NEWER: [&str; 11] = [
    "p75",
    "median_ratio",
    "median_ci95",
    "changes",
    "part_sums",
    "start_render_ns",
    "largest_image_ns",
    "byte_index_ns",
    "start_render_ms",
    "largest_image_ms",
    "byte_index_ms",
];

/// The fields whose names differ in the older format. Each entry has the field that contains the object, the present
/// name, and the older name. If the first text is empty, the entry applies in any field.
const RENAMED: [(&str, &str, &str); 5] = [
    ("points", "contestants", "arms"),
    ("contestants", "name", "arm"),
    ("experiment", "adverse_causes", "held_back_by"),
    ("", "alternatives", "either"),
    ("factors", "marginal_effect", "last"),
];

/// Knobs of SCTP with other names in the older format: the name, and the older name.
const KNOBS: [(&str, &str); 2] = [("num_ostreams", "streams"), ("max_instreams", "inbound")];

/// Returns the present name of a knob of SCTP, given its present or older name. Other names are returned unchanged.
#[must_use]
pub fn current_knob(name: &str) -> &str {
    KNOBS.iter().find(|(_, older)| *older == name).map_or(name, |(current, _)| current)
}

/// Reads a race of the older format, and computes the figures that the format lacks.
///
/// # Errors
/// A field is missing or of the wrong type.
pub fn read(mut value: Value) -> serde_json::Result<Race> {
    add_p75(&mut value);
    rename_knobs(&mut value, "");
    // The older field names are aliases of the present ones, so the same types can read them.
    let mut race: Race = serde_json::from_value(value)?;
    crate::SCHEMA.clone_into(&mut race.schema);
    for point in &mut race.points {
        let terms = point.terms();
        let runs = |name: &str| -> &[Run] {
            let found = point.contestants.iter().find(|contestant| contestant.name == name);
            found.map_or(&[], |contestant| &contestant.runs)
        };
        for comparison in &mut point.comparisons {
            let (a, b) =
                ((comparison.a.as_str(), runs(&comparison.a)), (comparison.b.as_str(), runs(&comparison.b)));
            let found = metrics::compare(a, b, &comparison.metric, terms);
            (comparison.median_ratio, comparison.median_ci95) = (found.median_ratio, found.median_ci95);
        }
    }
    changes::add_neighbors(&mut race.points);
    Ok(race)
}

/// Adds the 75th percentile, which is the upper quartile, to all statistics within `value`.
fn add_p75(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(high) = fields.get("quartiles").map(|quartiles| quartiles[1].clone()) {
                fields.insert("p75".to_owned(), high);
            }
            fields.values_mut().for_each(add_p75);
        }
        Value::Array(items) => items.iter_mut().for_each(add_p75),
        _ => {}
    }
}

/// Gives knobs of SCTP their current names, in the texts and settings of contestants. `within` is the field that
/// contains `value`.
fn rename_knobs(value: &mut Value, within: &str) {
    match value {
        Value::Object(fields) => {
            let is_sctp = fields.get("transport").is_some_and(|transport| transport == "sctp");
            for (current, older) in KNOBS {
                if within == "settings"
                    && is_sctp
                    && let Some(knob) = fields.remove(older)
                {
                    fields.insert(current.to_owned(), knob);
                }
            }
            fields.iter_mut().for_each(|(name, value)| rename_knobs(value, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_knobs(item, within)),
        Value::String(text) => {
            if let Some(current) = renamed_in(text) {
                *text = current;
            }
        }
        _ => {}
    }
}

/// Returns the text of an SCTP contestant with the current names of knobs; `None` if no name changes. The text has the
/// form `NICK=NAME:key=value,key=value`.
fn renamed_in(text: &str) -> Option<String> {
    let (name, settings) = text.split_once(':')?;
    if !label::split(name).1.contains("sctp") {
        return None;
    }
    let current = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let (current, _) = KNOBS.iter().find(|(_, older)| *older == key)?;
        Some(format!("{current}={value}"))
    };
    let pairs: Vec<String> =
        settings.split(',').map(|pair| current(pair).unwrap_or_else(|| pair.to_owned())).collect();
    let new = format!("{name}:{}", pairs.join(","));
    (new != text).then_some(new)
}

/// Converts the JSON text of a race, or of a part of it, to the older format. `within` is the field that contains the
/// part, for example `points`; empty for a whole race. `write` turns the converted value into text.
pub fn convert<T>(json: &str, within: &str, write: impl FnOnce(&Ordered) -> T) -> Option<T> {
    let mut value: Ordered = serde_json::from_str(json).ok()?;
    value.age(within);
    Some(write(&value))
}

/// A JSON value that keeps the order of its fields.
pub enum Ordered {
    /// The fields of an object.
    Object(Vec<(String, Ordered)>),
    /// The items of an array.
    Array(Vec<Ordered>),
    /// A value that is neither an object nor an array.
    Plain(Value),
}

impl Ordered {
    /// Replaces the names of all fields of this value by their older names. `within` is the field that contains this
    /// value.
    fn age(&mut self, within: &str) {
        match self {
            Self::Object(fields) if within == "settings" => {
                for (name, _) in fields.iter_mut() {
                    *name = older_knobs(name);
                }
                // Settings are in the order of their names.
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            }
            Self::Object(fields) => {
                fields.retain(|(name, _)| !NEWER.contains(&name.as_str()) || within == "plan");
                for (name, value) in fields {
                    if name == "runs" && within == "contestants" {
                        value.expand_objects();
                    }
                    // The plan holds the user's own keys, which keep their names. Only knobs get their older names.
                    if name == "plan" && within.is_empty() {
                        value.age_knobs();
                        continue;
                    }
                    match (name.as_str(), &mut *value) {
                        ("schema", Self::Plain(schema)) if within.is_empty() => *schema = SCHEMA.into(),
                        ("verdict", Self::Plain(verdict)) if verdict == "tie" => *verdict = "level".into(),
                        (_, value) => value.age(name),
                    }
                    let is_of = |container: &str| container.is_empty() || container == within;
                    let renamed = RENAMED.iter().find(|(container, new, _)| is_of(container) && name == new);
                    if let Some((_, _, older)) = renamed {
                        *name = (*older).to_owned();
                    }
                }
            }
            Self::Array(items) => items.iter_mut().for_each(|item| item.age(within)),
            Self::Plain(_) => self.age_knobs(),
        }
    }

    /// Gives the knobs in all texts within this value their older names.
    fn age_knobs(&mut self) {
        match self {
            Self::Object(fields) => fields.iter_mut().for_each(|(_, value)| value.age_knobs()),
            Self::Array(items) => items.iter_mut().for_each(Self::age_knobs),
            Self::Plain(Value::String(text)) => *text = older_knobs(text),
            Self::Plain(_) => {}
        }
    }
}

impl Ordered {
    /// Replaces the columns of objects in these runs by lists of objects.
    fn expand_objects(&mut self) {
        let Self::Array(runs) = self else { return };
        let columns = runs.iter_mut().filter_map(|run| match run {
            Self::Object(fields) => fields.iter_mut().find(|(name, _)| name == "objects"),
            _ => None,
        });
        let mut first: Vec<Object> = Vec::new();
        for (_, objects) in columns {
            let text = serde_json::to_string(objects).unwrap_or_default();
            let mut reader = serde_json::Deserializer::from_str(&text);
            let Ok(mut list) = columns::deserialize(&mut reader) else { continue };
            columns::complete(&mut list, &first);
            let text = serde_json::to_string(&list).unwrap_or_default();
            if first.is_empty() {
                first = list;
            }
            if let Ok(list) = serde_json::from_str(&text) {
                *objects = list;
            }
        }
    }
}

/// Returns the text with the older names of knobs. The current names occur in no other meaning.
fn older_knobs(text: &str) -> String {
    KNOBS.iter().fold(text.to_owned(), |text, (current, older)| text.replace(current, older))
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Ordered::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Ordered, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Ordered::Array(all))
    }

    fn visit_unit<E: Error>(self) -> Result<Ordered, E> {
        Ok(Ordered::Plain(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(fields) => {
                let mut map = to.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
            Self::Array(items) => to.collect_seq(items),
            Self::Plain(value) => value.serialize(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result with a contestant whose knobs have other names in the older format.
    const OLDER: &str = r#"{"schema":"anabranch.race/2","plan":{"transport":["a=sctp:streams=2,inbound=1","quic:streams=4"]},"points":[{"arms":[{"arm":"a=sctp:streams=2,inbound=1","settings":{"iw":"4","inbound":"1","streams":"2","transport":"sctp"}},{"arm":"quic:streams=4","settings":{"streams":"4","transport":"quic"}}]}]}"#;

    #[test]
    fn knobs_have_their_older_names_in_the_older_format() {
        let mut value: Value = serde_json::from_str(OLDER).expect("JSON");
        rename_knobs(&mut value, "");
        assert_eq!(value["plan"]["transport"][0], "a=sctp:num_ostreams=2,max_instreams=1");
        let arms = &value["points"][0]["arms"];
        assert_eq!(arms[0]["arm"], "a=sctp:num_ostreams=2,max_instreams=1");
        assert_eq!(
            (&arms[0]["settings"]["num_ostreams"], &arms[0]["settings"]["max_instreams"]),
            (&"2".into(), &"1".into())
        );
        assert_eq!(
            (&arms[1]["arm"], &arms[1]["settings"]["streams"]),
            (&"quic:streams=4".into(), &"4".into())
        );
        let newer = value.to_string();
        let older = convert(&newer, "", |value| serde_json::to_string(value).expect("JSON")).expect("a race");
        let (older, expected): (Value, Value) =
            (serde_json::from_str(&older).expect("JSON"), serde_json::from_str(OLDER).expect("JSON"));
        assert_eq!(older, expected);
        let settings = r#"{"settings":{"iw":"4","max_instreams":"1","num_ostreams":"2","transport":"sctp"}}"#;
        let older = convert(settings, "points", |value| serde_json::to_string(value).expect("JSON"));
        assert_eq!(
            older.expect("a part"),
            r#"{"settings":{"inbound":"1","iw":"4","streams":"2","transport":"sctp"}}"#
        );
    }
}
