//! Reads and writes race results in the older format `anabranch.race/2`, which came before `anabranch.race/3`.
//!
//! The older format has other names for some fields, and lacks the newer fields. All other fields have the same bytes.

use crate::stats::metrics;
use crate::{Race, Run, changes};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::fmt;

/// The name and version of the older format.
pub const SCHEMA: &str = "anabranch.race/2";

/// The fields that the older format lacks.
const NEWER: [&str; 4] = ["p75", "median_ratio", "median_ci95", "changes"];

/// The fields whose names differ in the older format. Each entry has the field that contains the object, the present
/// name, and the older name. If the first text is empty, the entry applies in any field.
const RENAMED: [(&str, &str, &str); 5] = [
    ("points", "contestants", "arms"),
    ("contestants", "name", "arm"),
    ("experiment", "adverse_causes", "held_back_by"),
    ("", "alternatives", "either"),
    ("factors", "marginal_effect", "last"),
];

/// Reads a race of the older format, and computes the figures that the format lacks.
///
/// # Errors
/// A field is missing or of the wrong type.
pub fn read(mut value: Value) -> serde_json::Result<Race> {
    add_p75(&mut value);
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
            Self::Object(fields) => {
                fields.retain(|(name, _)| !NEWER.contains(&name.as_str()) || within == "plan");
                for (name, value) in fields {
                    // The plan holds the user's own keys, which keep their names in the older format.
                    if name == "plan" && within.is_empty() {
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
            Self::Plain(_) => {}
        }
    }
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
