//! A figure of the page: its drawing at two widths, what it shows in words, and
//! its numbers.
//!
//! Owns the frame that every figure has: heading, drawing for wide and for
//! narrow screens, a text alternative, a note, and the data as CSV, which the
//! page's script shows as a table and saves. Nothing of it needs the script to be
//! read.

use crate::report::svg::{escape, px};
use std::fmt::Write;

/// How wide drawings are, our pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::report) enum Width {
    /// On a screen of a desk, and on paper.
    Wide,
    /// The main thing of the first screen, with something beside it.
    Main,
    /// One of two beside each other.
    Half,
    /// On a telephone.
    Narrow,
}

impl Width {
    pub fn pixels(self) -> u32 {
        match self {
            Self::Wide => 1040,
            Self::Main => 640,
            Self::Half => 516,
            Self::Narrow => 350,
        }
    }

    pub fn is_narrow(self) -> bool {
        self == Self::Narrow
    }

    fn class(self) -> &'static str {
        if self.is_narrow() { "narrow" } else { "wide" }
    }
}

/// The numbers of a figure.
#[derive(Clone, PartialEq, Debug, Default)]
pub(in crate::report) struct Data {
    csv: String,
}

impl Data {
    /// Columns with these names; units belong to the names.
    pub fn new(columns: &[&str]) -> Self {
        let mut data = Self::default();
        data.row(columns);
        data
    }

    /// One row more.
    pub fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        for (i, cell) in cells.iter().enumerate() {
            let cell = cell.as_ref();
            self.csv.push_str(if i > 0 { "," } else { "" });
            if cell.contains([',', '"', '\n']) {
                let _ = write!(self.csv, "\"{}\"", cell.replace('"', "\"\""));
            } else {
                self.csv.push_str(cell);
            }
        }
        self.csv.push('\n');
    }

    pub fn is_empty(&self) -> bool {
        self.csv.is_empty()
    }
}

/// What a figure is, besides its drawing.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct Figure {
    /// Name of its files, where it is saved: letters and hyphens.
    pub name: String,
    /// Heading, as HTML; may be empty.
    pub heading: String,
    /// Keys, as HTML; may be empty.
    pub legend: String,
    /// What it shows, in words, for who cannot see it.
    pub shows: String,
    /// How to read it, as HTML; may be empty.
    pub note: String,
    pub data: Data,
}

impl Figure {
    /// Writes it. `draw` draws at a width and gives the height; its first width is that of large screens.
    pub fn render(&self, out: &mut String, wide: Width, draw: impl Fn(&mut String, Width) -> u32) {
        self.render_with(out, wide, &|_| String::new(), draw);
    }

    /// The same, with attributes of the drawing that the page's script needs.
    pub fn render_with(
        &self,
        out: &mut String,
        wide: Width,
        attributes: &dyn Fn(Width) -> String,
        draw: impl Fn(&mut String, Width) -> u32,
    ) {
        let _ = write!(out, "<figure class=\"fig\" data-name=\"{}\">", escape(&self.name));
        if !self.heading.is_empty() {
            let _ = write!(out, "<h3>{}</h3>", self.heading);
        }
        out.push_str(&self.legend);
        if wide.is_narrow() {
            self.drawing(out, wide, &attributes(wide), &draw);
        } else {
            for width in [wide, Width::Narrow] {
                let _ = write!(out, "<div class=\"{}\">", width.class());
                self.drawing(out, width, &attributes(width), &draw);
                out.push_str("</div>");
            }
        }
        if !self.note.is_empty() {
            let _ = write!(out, "<p class=\"note\">{}</p>", self.note);
        }
        self.numbers(out);
        out.push_str("</figure>\n");
    }

    fn drawing(
        &self,
        out: &mut String,
        width: Width,
        attributes: &str,
        draw: impl Fn(&mut String, Width) -> u32,
    ) {
        let mut content = String::new();
        let height = draw(&mut content, width);
        let (w, h) = (px(f64::from(width.pixels())), px(f64::from(height)));
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" aria-label=\"{}\"{attributes}>{content}</svg>",
            escape(&self.shows)
        );
    }

    /// The data, to be opened.
    fn numbers(&self, out: &mut String) {
        if !self.data.is_empty() {
            let _ = write!(
                out,
                "<details class=\"data\"><summary>numbers</summary><pre class=\"csv\">{}</pre></details>",
                escape(&self.data.csv)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut data = Data::new(&["name", "page time (ms)"]);
        data.row(&["tcp:connections=6,iw=4", "2\"3"]);
        assert_eq!(data.csv, "name,page time (ms)\n\"tcp:connections=6,iw=4\",\"2\"\"3\"\n");
    }
}
