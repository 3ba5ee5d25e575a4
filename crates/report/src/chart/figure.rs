//! A figure of the page: its drawing at two widths, a description in words, and the drawn numbers.
//!
//! Writes the parts that every figure has: heading, drawings for wide and narrow screens, a text alternative, a note,
//! and the data as CSV. The page's script shows the data as a table and saves it. The figure can be read without the
//! script.

use crate::svg::{escape, px};
use std::fmt::Write;

/// The widths at which figures are drawn, in SVG pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    /// A figure on a wide screen or on paper.
    Wide,
    /// The main figure at the top of the report, which has text beside it.
    Main,
    /// One of two figures side by side.
    Half,
    /// A figure on a narrow screen.
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

    /// Returns `narrow` for narrow drawings, and `other` for all other drawings.
    pub fn pick<T>(self, narrow: T, other: T) -> T {
        if self.is_narrow() { narrow } else { other }
    }

    fn class(self) -> &'static str {
        if self.is_narrow() { "narrow" } else { "wide" }
    }
}

/// The numbers that a figure shows, as CSV.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Data {
    csv: String,
}

impl Data {
    /// Creates data with these column names, which include units, and without further rows.
    pub fn new(columns: &[&str]) -> Self {
        let mut data = Self::default();
        data.row(columns);
        data
    }

    /// Adds a row with these cells.
    pub fn row<T: AsRef<str>>(&mut self, cells: &[T]) {
        self.csv += &anabranch_results::csv::line(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.csv.is_empty()
    }
}

/// The texts and the data of a figure. The drawing itself is not included.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure {
    /// The base name of the files of a saved figure: letters and hyphens.
    pub name: String,
    /// The heading, as HTML; may be empty.
    pub heading: String,
    /// The legend, as HTML; may be empty.
    pub legend: String,
    /// A description in words, for readers who cannot see the figure.
    pub shows: String,
    /// A note on how to read the figure, as HTML; may be empty.
    pub note: String,
    pub data: Data,
}

impl Figure {
    /// Writes the figure. `draw` draws at the given width and returns the height of the drawing. The figure contains a
    /// drawing for the width `wide`. If `wide` is not [`Width::Narrow`], the figure also contains a narrow drawing for
    /// small screens.
    pub fn render(&self, out: &mut String, wide: Width, draw: impl Fn(&mut String, Width) -> u32) {
        self.render_with(out, wide, &|_| String::new(), draw);
    }

    /// Like [`Figure::render`], but adds the `attributes` to the SVG element, where the page's script reads them.
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

    /// Writes the figure's data as CSV, in a collapsed element of the page.
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
