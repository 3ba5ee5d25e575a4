//! The objects of a run as columns: each field has one list with the values of all objects, in the order of the page.
//!
//! A result has up to a hundred thousand objects. As columns they take about a fifth of the space of one JSON object for
//! each. Columns lose nothing:
//!
//! - A column without information is left out: all columns if there are no objects. `connection`, `stream`, `background`
//!   and `failure` are left out if no object has them, `bytes` and parts of response times if they are 0 for all objects.
//! - A run whose objects have the names and sizes of the contestant's first run has no columns `name` and `bytes`.
//! - Each of `instants` counts from the instant before it, and the first counts from `issued_ns`.
//!
//! Older results have a list of objects instead of the columns, which is read as well.

use crate::{Instants, Object, Run, SendDetail, TimeBreakdown};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;

/// A column of numbers. A value that is not known is `null`.
type Numbers = Vec<Option<u64>>;

/// The columns as they are written.
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Columns {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    name: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bytes: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connection: Numbers,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stream: Numbers,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    issued_ns: Numbers,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    first_byte_ns: Numbers,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    delivered_ns: Numbers,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    background: Vec<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failure: Vec<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Why>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send_detail: Option<Detail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instants: Option<Gaps>,
}

/// Defines a group of columns of numbers.
macro_rules! group {
    ($(#[$about:meta])* $name:ident { $($field:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Default, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct $name {
            $(#[serde(default, skip_serializing_if = "Vec::is_empty")] $field: Numbers,)*
        }

        impl $name {
            /// Returns the columns from the rows of all objects. `None` if no object has a row.
            fn of(rows: &[Option<Vec<Option<u64>>>]) -> Option<Self> {
                rows.iter().any(Option::is_some).then(|| {
                    let mut at = 0..;
                    let mut column = || {
                        let index = at.next().unwrap_or(0);
                        rows.iter().map(|row| row.as_ref().and_then(|row| row[index])).collect()
                    };
                    Self { $($field: column(),)* }
                })
            }

            /// Returns the columns, in their order.
            fn columns(&mut self) -> Vec<&mut Numbers> {
                vec![$(&mut self.$field),*]
            }
        }
    };
}

group! {
    /// The parts of the response times.
    Why {
        connect_ns, secure_ns, queue_ns, send_ns, stalled_ns, ahead_ns, server_ns, recovery_ns, timeout_ns, wire_ns,
        blocked_ns,
    }
}

group! {
    /// The parts of `send_ns`.
    Detail { cwnd_ns, rwnd_ns, turn_ns }
}

group! {
    /// The instants, each as the time since the one before it.
    Gaps {
        assigned_ns, req_sent_ns, req_copy_ns, req_in_ns, serving_ns, written_ns, sent_ns, copy_ns, complete_ns,
    }
}

/// Leaves out the columns that are 0 in all rows, except the column `kept`. An object without a row is `null` in each
/// column.
fn leave_out_zeros(columns: Vec<&mut Numbers>, has_row: &[bool], kept: usize) {
    for (index, column) in columns.into_iter().enumerate() {
        let is_zero = |(value, has_row): (&Option<u64>, &bool)| !has_row || *value == Some(0);
        if index != kept && column.iter().zip(has_row).all(is_zero) {
            column.clear();
        }
    }
}

/// Returns the rows of a group of `count` objects. A row is `None` if all of its values are.
fn rows(columns: Vec<&mut Numbers>, count: usize) -> Result<Vec<Option<Vec<Option<u64>>>>, String> {
    let lengths = columns.iter().map(|column| column.len()).filter(|length| *length > 0);
    check(lengths, count)?;
    let row = |at: usize| {
        let known = columns.iter().filter_map(|column| column.get(at));
        let has_row = known.clone().any(Option::is_some);
        has_row.then(|| columns.iter().map(|column| column.get(at).copied().unwrap_or(Some(0))).collect())
    };
    Ok((0..count).map(row).collect())
}

fn check(mut lengths: impl Iterator<Item = usize>, count: usize) -> Result<(), String> {
    match lengths.find(|length| *length != count) {
        Some(length) => Err(format!("a column of {length} values for {count} objects")),
        None => Ok(()),
    }
}

const fn times(at: &Instants) -> [u64; 9] {
    [
        at.assigned_ns,
        at.req_sent_ns,
        at.req_copy_ns,
        at.req_in_ns,
        at.serving_ns,
        at.written_ns,
        at.sent_ns,
        at.copy_ns,
        at.complete_ns,
    ]
}

/// Returns the instants of an object as gaps.
fn gaps(object: &Object) -> Option<Vec<Option<u64>>> {
    let at = times(object.instants.as_ref()?);
    let before = std::iter::once(object.issued_ns.unwrap_or(0)).chain(at);
    // The instants do not decrease. Wrapping keeps every value, even one that would contradict that.
    Some(at.iter().zip(before).map(|(at, before)| Some(at.wrapping_sub(before))).collect())
}

/// Returns the instants whose gaps are `row`.
fn instants(row: &[Option<u64>], issued: Option<u64>) -> Instants {
    let mut at = issued.unwrap_or(0);
    let mut next = row.iter().map(|gap| {
        at = at.wrapping_add(gap.unwrap_or(0));
        at
    });
    let mut next = || next.next().unwrap_or(0);
    Instants {
        assigned_ns: next(),
        req_sent_ns: next(),
        req_copy_ns: next(),
        req_in_ns: next(),
        serving_ns: next(),
        written_ns: next(),
        sent_ns: next(),
        copy_ns: next(),
        complete_ns: next(),
    }
}

impl Columns {
    fn of(objects: &[Object]) -> Self {
        let numbers = |of: fn(&Object) -> Option<u64>| objects.iter().map(of).collect::<Numbers>();
        let known =
            |column: Numbers| if column.iter().any(Option::is_some) { column } else { Numbers::new() };
        let whys: Vec<_> = objects.iter().map(|object| object.why.map(|why| why.parts().to_vec())).collect();
        let detail = |detail: SendDetail| [detail.cwnd_ns, detail.rwnd_ns, detail.turn_ns].map(Some).to_vec();
        let details: Vec<_> = objects.iter().map(|object| object.send_detail.map(detail)).collect();
        let present =
            |rows: &[Option<Vec<Option<u64>>>]| rows.iter().map(Option::is_some).collect::<Vec<_>>();
        let (mut why, mut send_detail) = (Why::of(&whys), Detail::of(&details));
        if let Some(why) = &mut why {
            leave_out_zeros(why.columns(), &present(&whys), WIRE);
        }
        if let Some(detail) = &mut send_detail {
            leave_out_zeros(detail.columns(), &present(&details), 0);
        }
        let is_named = objects.iter().any(|object| !object.name.is_empty());
        let has_bytes = objects.iter().any(|object| object.bytes > 0);
        let is_background = objects.iter().any(|object| object.background);
        let has_failure = objects.iter().any(|object| object.failure.is_some());
        Self {
            name: objects.iter().filter(|_| is_named).map(|object| object.name.clone()).collect(),
            bytes: objects.iter().filter(|_| has_bytes).map(|object| object.bytes).collect(),
            connection: known(numbers(|object| object.connection)),
            stream: known(numbers(|object| object.stream)),
            issued_ns: numbers(|object| object.issued_ns),
            first_byte_ns: numbers(|object| object.first_byte_ns),
            delivered_ns: numbers(|object| object.delivered_ns),
            background: objects.iter().filter(|_| is_background).map(|object| object.background).collect(),
            failure: objects.iter().filter(|_| has_failure).map(|object| object.failure.clone()).collect(),
            why,
            send_detail,
            instants: Gaps::of(&objects.iter().map(gaps).collect::<Vec<_>>()),
        }
    }

    /// Returns the objects. They have no names and no bytes if the run has no columns of these.
    fn objects(self) -> Result<Vec<Object>, String> {
        let count = self.bytes.len().max(self.issued_ns.len());
        let times = [&self.issued_ns, &self.first_byte_ns, &self.delivered_ns];
        check(times.iter().map(|column| column.len()), count)?;
        let optional = [
            self.name.len(),
            self.bytes.len(),
            self.connection.len(),
            self.stream.len(),
            self.background.len(),
            self.failure.len(),
        ];
        check(optional.into_iter().filter(|length| *length > 0), count)?;
        let whys = rows(self.why.unwrap_or_default().columns(), count)?;
        let details = rows(self.send_detail.unwrap_or_default().columns(), count)?;
        let all_gaps = rows(self.instants.unwrap_or_default().columns(), count)?;
        let mut names = self.name.into_iter();
        let mut failures = self.failure.into_iter();
        let object = |at: usize| {
            let issued_ns = self.issued_ns[at];
            Object {
                name: names.next().unwrap_or_default(),
                bytes: self.bytes.get(at).copied().unwrap_or(0),
                connection: self.connection.get(at).copied().flatten(),
                stream: self.stream.get(at).copied().flatten(),
                issued_ns,
                first_byte_ns: self.first_byte_ns[at],
                delivered_ns: self.delivered_ns[at],
                background: self.background.get(at).copied().unwrap_or(false),
                failure: failures.next().flatten(),
                why: whys[at].as_deref().map(breakdown),
                send_detail: details[at].as_deref().map(detail),
                instants: all_gaps[at].as_deref().map(|row| instants(row, issued_ns)),
            }
        };
        Ok((0..count).map(object).collect())
    }
}

/// The index of `wire_ns` among the columns of [`Why`]. No response is without it, so it says which objects have a row.
const WIRE: usize = 9;

fn breakdown(row: &[Option<u64>]) -> TimeBreakdown {
    TimeBreakdown::from_parts(std::array::from_fn(|part| row.get(part).copied().flatten()))
}

fn detail(row: &[Option<u64>]) -> SendDetail {
    let mut next = row.iter().map(|value| value.unwrap_or(0));
    let mut next = || next.next().unwrap_or(0);
    SendDetail { cwnd_ns: next(), rwnd_ns: next(), turn_ns: next() }
}

/// Writes the objects of a run as columns.
pub fn serialize<S: Serializer>(objects: &[Object], to: S) -> Result<S::Ok, S::Error> {
    Columns::of(objects).serialize(to)
}

/// Reads the objects of a run: columns, or a list of objects.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Object>, D::Error> {
    from.deserialize_any(Reader)
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Vec<Object>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("columns of objects, or a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<Object>, A::Error> {
        Columns::deserialize(MapAccessDeserializer::new(map))?.objects().map_err(A::Error::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<Object>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }
}

/// Gives objects that were read without names the names of the objects of the first run, and likewise their sizes.
pub fn complete(objects: &mut [Object], first: &[Object]) {
    if objects.len() != first.len() || objects.iter().any(|object| !object.name.is_empty()) {
        return;
    }
    let has_bytes = objects.iter().any(|object| object.bytes > 0);
    for (object, first) in objects.iter_mut().zip(first) {
        object.name.clone_from(&first.name);
        if !has_bytes {
            object.bytes = first.bytes;
        }
    }
}

/// Reads and writes the runs of a contestant. Only the first run has the names and sizes of the objects, unless they
/// differ.
pub mod runs {
    use super::{Deserialize, Deserializer, Object, Run, Serializer, complete};

    /// Returns whether the objects of two runs have the same names and sizes.
    fn is_like(run: &Run, first: &Run) -> bool {
        let of = |object: &Object| (object.name.clone(), object.bytes);
        run.objects.iter().map(of).eq(first.objects.iter().map(of))
    }

    /// Writes the runs.
    pub fn serialize<S: Serializer>(runs: &[Run], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(runs.iter().enumerate().map(|(at, run)| {
            let mut run = run.clone();
            if at > 0 && is_like(&run, &runs[0]) {
                for object in &mut run.objects {
                    (object.name, object.bytes) = (String::new(), 0);
                }
            }
            run
        }))
    }

    /// Reads the runs.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Run>, D::Error> {
        let mut runs = Vec::<Run>::deserialize(from)?;
        if let Some((first, others)) = runs.split_first_mut() {
            others.iter_mut().for_each(|run| complete(&mut run.objects, &first.objects));
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Race;

    /// Returns the objects of the run of the full example, and one that the server's time alone explains.
    fn objects() -> Vec<Object> {
        let race = Race::from_json(include_str!("../tests/data/race-full.json")).expect("a result");
        let mut objects = race.points[0].contestants[0].runs[0].objects.clone();
        assert_eq!(objects.len(), 2);
        let part = Some(0);
        let why = breakdown(&[Some(100), part, part, part, part, part, part, part, part, part, None]);
        let detail = SendDetail { cwnd_ns: 0, rwnd_ns: 0, turn_ns: 0 };
        objects[0] = Object { why: Some(why), send_detail: Some(detail), ..objects[0].clone() };
        let why = TimeBreakdown { server_ns: Some(7), connect_ns: None, ..why };
        objects.push(Object { why: Some(why), issued_ns: Some(1), ..objects[0].clone() });
        objects
    }

    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct Holder(#[serde(with = "super")] Vec<Object>);

    fn text(objects: &[Object]) -> String {
        serde_json::to_string(&Holder(objects.to_vec())).expect("JSON")
    }

    #[test]
    fn columns_and_rows_are_read_as_the_same_objects() {
        let objects = objects();
        let rows = serde_json::to_string(&objects).expect("JSON");
        for text in [text(&objects), rows] {
            let read: Holder = serde_json::from_str(&text).expect("objects");
            assert_eq!(read.0, objects, "{text}");
        }
        assert_eq!(text(&[]), "{}");
        for text in ["{}", "[]"] {
            let none: Holder = serde_json::from_str(text).expect("no objects");
            assert_eq!(none.0, []);
        }
    }

    #[test]
    fn columns_without_information_are_left_out() {
        let objects = objects();
        let all = text(&objects);
        for column in ["\"background\"", "\"failure\"", "\"server_ns\":[0,null,7]", "\"cwnd_ns\":[0,null,0]"]
        {
            assert!(all.contains(column), "{column}: {all}");
        }
        assert!(!all.contains("\"ahead_ns\"") && !all.contains("\"rwnd_ns\""), "{all}");
        // The instants of the example are 1 ns apart.
        assert!(all.contains("\"assigned_ns\":[1,null,0],\"req_sent_ns\":[1,null,1]"), "{all}");
        let first = text(&objects[..1]);
        assert!(!first.contains("background") && !first.contains("failure"), "{first}");
    }

    #[test]
    fn columns_of_different_lengths_are_refused() {
        let text = text(&objects()).replace("\"bytes\":[10000,", "\"bytes\":[10000,1,");
        let error = serde_json::from_str::<Holder>(&text).expect_err("too long").to_string();
        assert!(error.contains("a column of 3 values for 4 objects"), "{error}");
        let error = serde_json::from_str::<Holder>(r#"{"bytes":[1]}"#).expect_err("no columns").to_string();
        assert!(error.contains("a column of 0 values for 1 objects"), "{error}");
    }

    #[test]
    fn names_and_sizes_stand_only_in_the_first_run() {
        let mut race = Race::from_json(include_str!("../tests/data/race-full.json")).expect("a result");
        let runs = &mut race.points[0].contestants[0].runs;
        let mut other = runs[0].clone();
        other.objects[0].name = "/another".to_owned();
        let mut longer = runs[0].clone();
        longer.objects[0].bytes = 10_001;
        *runs = vec![runs[0].clone(), runs[0].clone(), other, longer];
        let text = crate::json::render_as(&race, crate::json::Format::Whole);
        assert_eq!(text.matches("\"/b\"").count(), 3, "{text}");
        assert_eq!(text.matches("\"bytes\":[1000").count(), 3, "{text}");
        assert_eq!(Race::from_json(&text).expect("a result"), race);
    }
}
