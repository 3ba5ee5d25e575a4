//! A result as text: one line a run, so that two results can be compared line by line.

use crate::results::Race;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// The race as JSON, ending in a line feed.
#[must_use]
pub fn render(race: &Race) -> String {
    let mut out = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut out, Shallow::default());
    let written = race.serialize(&mut serializer);
    assert!(written.is_ok(), "results are plain values: {written:?}");
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

/// Lines and indents down to the runs, none within a run.
#[derive(Default)]
struct Shallow {
    depth: usize,
    pretty: PrettyFormatter<'static>,
    compact: CompactFormatter,
}

/// Race, points, point, contestants, contestant, runs: what lies in a run is deeper.
const DEEPEST_WITH_LINES: usize = 6;

impl Shallow {
    fn lines(&self) -> bool {
        self.depth <= DEEPEST_WITH_LINES
    }
}

impl Formatter for Shallow {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.lines() { self.pretty.begin_array(out) } else { self.compact.begin_array(out) }
    }
    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let lines = self.lines();
        self.depth -= 1;
        if lines { self.pretty.end_array(out) } else { self.compact.end_array(out) }
    }
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if self.lines() {
            self.pretty.begin_array_value(out, first)
        } else {
            self.compact.begin_array_value(out, first)
        }
    }
    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lines() { self.pretty.end_array_value(out) } else { self.compact.end_array_value(out) }
    }
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.lines() { self.pretty.begin_object(out) } else { self.compact.begin_object(out) }
    }
    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let lines = self.lines();
        self.depth -= 1;
        if lines { self.pretty.end_object(out) } else { self.compact.end_object(out) }
    }
    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if self.lines() {
            self.pretty.begin_object_key(out, first)
        } else {
            self.compact.begin_object_key(out, first)
        }
    }
    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lines() { self.pretty.begin_object_value(out) } else { self.compact.begin_object_value(out) }
    }
    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.lines() { self.pretty.end_object_value(out) } else { self.compact.end_object_value(out) }
    }
}
