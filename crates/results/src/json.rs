//! Writes results as JSON text with one line per run, so that two results can be compared line by line.

use crate::{Point, Race, version2};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// The format of a result file: its version, and the runs that it describes in full detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// `anabranch.race/3`. Only the runs of [`Point::drawn_runs`] have the parts of the objects' response times.
    #[default]
    Drawn,
    /// `anabranch.race/3` with the parts of the response times of all runs.
    Whole,
    /// The older format `anabranch.race/2`, for readers that do not know the newer one. It has every detail.
    Two,
}

/// Renders the race as JSON, ending in a line feed.
#[must_use]
pub fn render(race: &Race) -> String {
    render_as(race, Format::Drawn)
}

/// Renders the race as JSON in this format, ending in a line feed.
#[must_use]
pub fn render_as(race: &Race, format: Format) -> String {
    if race.points.is_empty() {
        return written(race, Shallow::default(), format, "") + "\n";
    }
    let (mut text, after) = around_points(race, format);
    for (index, one) in race.points.iter().enumerate() {
        text += &point(one, index == 0, format);
    }
    text + &after
}

/// Returns the text before and after the points of a race. The caller writes each point between the two texts, as
/// [`point`] renders it.
#[must_use]
pub fn around_points(race: &Race, format: Format) -> (String, String) {
    let frame = Race {
        schema: race.schema.clone(),
        plan: race.plan.clone(),
        world: race.world,
        host: race.host.clone(),
        warnings: race.warnings.clone(),
        calibrations: race.calibrations.clone(),
        points: Vec::new(),
        expectations: race.expectations.clone(),
    };
    let text = render_as(&frame, format);
    // `EMPTY` begins with a line feed. JSON escapes line feeds in keys and strings, so `EMPTY` occurs only once in the
    // text.
    let (before, after) = text.split_once(EMPTY).unwrap_or((&text, ""));
    (format!("{before}\n  \"points\": ["), format!("\n  ],{after}"))
}

const EMPTY: &str = "\n  \"points\": [],";

/// Renders one point exactly as [`render_as`] writes it within its race. `first` is set for the first point of the race.
#[must_use]
pub fn point(point: &Point, first: bool, format: Format) -> String {
    let mut within = Shallow::default();
    for _ in 0..POINT_DEPTH {
        let array = within.begin_array(&mut io::sink());
        assert!(array.is_ok(), "{array:?}");
    }
    let separator = if first { "" } else { "," };
    let text = match format {
        Format::Drawn => {
            let mut point = point.clone();
            point.keep_drawn_detail();
            written(&point, within, format, "points")
        }
        Format::Whole | Format::Two => written(point, within, format, "points"),
    };
    format!("{separator}\n    {text}")
}

/// The nesting depth of a point in the JSON document. The two outer levels are the race and its list of points.
const POINT_DEPTH: usize = 2;

/// Returns a race or a part of it as text. `within` is the field that contains the part; empty for a whole race.
fn written(value: &impl Serialize, formatter: Shallow, format: Format, within: &str) -> String {
    if format == Format::Two {
        let json = serde_json::to_string(value).unwrap_or_default();
        let older =
            version2::convert(&json, within, |older| written(older, formatter, Format::Whole, within));
        return older.unwrap_or_default();
    }
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, formatter);
    let written = value.serialize(&mut serializer);
    assert!(written.is_ok(), "results are plain values: {written:?}");
    String::from_utf8_lossy(&out).into_owned()
}

/// A JSON formatter with indented lines down to the list of runs. Each run is on one line.
#[derive(Default)]
struct Shallow {
    depth: usize,
    pretty: PrettyFormatter<'static>,
    compact: CompactFormatter,
}

/// The deepest level with line breaks: race, points, point, contestants, contestant, runs. The contents of a run are
/// deeper, so they stay on one line.
const DEEPEST_WITH_LINES: usize = 6;

/// Calls a method of the JSON formatter: the pretty formatter down to a certain depth, and the compact formatter below
/// it.
macro_rules! by_depth {
    ($own:ident.$method:ident($($argument:ident),*)) => {
        if $own.depth <= DEEPEST_WITH_LINES {
            $own.pretty.$method($($argument),*)
        } else {
            $own.compact.$method($($argument),*)
        }
    };
}

impl Formatter for Shallow {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        by_depth!(self.begin_array(out))
    }
    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let written = by_depth!(self.end_array(out));
        self.depth -= 1;
        written
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        by_depth!(self.begin_array_value(out, first))
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by_depth!(self.end_array_value(out))
    }
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        by_depth!(self.begin_object(out))
    }
    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let written = by_depth!(self.end_object(out));
        self.depth -= 1;
        written
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        by_depth!(self.begin_object_key(out, first))
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by_depth!(self.begin_object_value(out))
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        by_depth!(self.end_object_value(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_one_by_one_are_the_bytes_of_all_at_once() {
        let mut race = Race::from_json(include_str!("../tests/data/race-full.json")).expect("a result");
        // A warning of this race looks like the empty list of points. The writer must not mistake the warning for that
        // list.
        race.warnings.push("\n  \"points\": [],".to_owned());
        race.points = race.points.iter().cycle().take(4).cloned().collect();
        assert_eq!(race.points.len(), 4);
        for format in [Format::Whole, Format::Two] {
            let whole = written(&race, Shallow::default(), format, "") + "\n";
            assert!(render_as(&race, format) == whole, "{format:?}");
        }
    }

    #[test]
    fn the_older_version_has_its_old_bytes() {
        let old = include_str!("../tests/data/race-2.json");
        let race = Race::from_json(old).expect("a result of the older version");
        assert_eq!(race.schema, crate::SCHEMA);
        assert_eq!(render_as(&race, Format::Two), old);
    }
}
