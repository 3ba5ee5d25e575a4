//! Draws charts with the crate `plotters`: axes with round ticks, and the content between the axes.
//!
//! This module has everything that all charts share: margins, grid, labels, linear and logarithmic axes. It also adds
//! shapes that the crate `plotters` lacks: dots and boxes with tooltips.

mod backend;
mod figure;

use super::svg::{Scale, time_labels};
use backend::{CHARACTER, FINE, LINE, Svg, at};
pub(super) use backend::{CONTESTANTS, Ink};
pub(super) use figure::{Data, Figure, Width};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Drawable, PathElement, PointCollection, Polygon, Text};
use plotters::prelude::Cartesian2d;
use plotters::style::{Color, FontFamily, FontStyle, IntoFont, ShapeStyle, TextStyle};
use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{BackendCoord, DrawingErrorKind};
use std::convert::Infallible;
use std::fmt::Write;
use std::ops::Range;

/// The drawing area of a chart, between its two axes.
pub(super) type Plot<'a, 'b> = ChartContext<'a, Svg<'b>, Cartesian2d<Axis, Axis>>;

/// A point of a chart: its value on the horizontal axis and its value on the vertical axis.
pub(super) type ChartPoint = (f64, f64);

/// One axis: its range, and its ticks with labels.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    ticks: Vec<(f64, String)>,
    /// Whether the labels are names at equal distances. Numbers have few ticks instead.
    has_names: bool,
    /// The name of the quantity on the axis, with its unit.
    pub name: String,
}

impl Axis {
    /// Returns an axis without ticks. `from` may be larger than `to`.
    pub fn bare(from: f64, to: f64) -> Self {
        let to = if to == from { from + 1.0 } else { to };
        Self { from, to, logarithmic: false, ticks: Vec::new(), has_names: false, name: String::new() }
    }

    /// Returns a linear axis for times in milliseconds, with about `count` ticks.
    pub fn time(from: f64, to: f64, count: usize) -> Self {
        let axis = Self::bare(from, to);
        let ticks = Scale::new(axis.from, axis.to, 0.0, 1.0).ticks(count);
        let labels = time_labels(&ticks);
        Self { ticks: ticks.into_iter().zip(labels).collect(), ..axis }
    }

    /// Returns a linear axis with about `count` ticks. `label` formats the label of a tick.
    pub fn linear(from: f64, to: f64, count: usize, label: impl Fn(f64) -> String) -> Self {
        let axis = Self::bare(from, to);
        let ticks = Scale::new(axis.from, axis.to, 0.0, 1.0).ticks(count);
        Self { ticks: ticks.into_iter().map(|tick| (tick, label(tick))).collect(), ..axis }
    }

    /// Returns a logarithmic axis for positive values. It has ticks at 1, 2 and 5 times each power of ten. A wide range
    /// has ticks at 1 and 3 times each power. A very wide range has ticks only at the powers.
    pub fn logarithmic(from: f64, to: f64, label: impl Fn(f64) -> String) -> Self {
        let from = from.max(1e-12);
        let to = to.max(from * 1.001);
        let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
        let steps: &[f64] = if to / from > 3e3 {
            &[1.0]
        } else if to / from > 60.0 {
            &[1.0, 3.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let ticks = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        let ticks = ticks.filter(|tick| *tick >= from * 0.999 && *tick <= to * 1.001);
        let ticks = ticks.map(|tick| (tick, label(tick))).collect();
        Self { from, to, logarithmic: true, ticks, has_names: false, name: String::new() }
    }

    /// Returns a vertical axis of names. The first name is at 0, at the top, and each further name at the next whole
    /// number.
    pub fn names(names: &[String]) -> Self {
        let ticks = names.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect();
        let (from, to) = (names.len() as f64 - 0.5, -0.5);
        Self { from, to, logarithmic: false, ticks, has_names: true, name: String::new() }
    }

    /// Returns a horizontal axis of names. The first name is at 0, at the left, and each further name at the next whole
    /// number.
    pub fn levels(names: &[String]) -> Self {
        let (from, to) = (-0.5, names.len() as f64 - 0.5);
        Self { from, to, ..Self::names(names) }
    }

    /// Sets the name of the quantity on the axis.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Removes the labels of the ticks, but keeps the grid.
    pub fn unlabelled(mut self) -> Self {
        self.ticks.iter_mut().for_each(|(_, label)| label.clear());
        self
    }

    /// Arranges the names on a horizontal axis of `width` SVG pixels, so that none covers another. Names that are too
    /// long for one row are put in two or three rows in turn, one below the other. If three rows are too few, some
    /// names are left out. Returns the axis with the number of its rows.
    fn arranged(&self, width: u32) -> (Self, u32) {
        let count = self.ticks.len();
        let longest = self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        if !self.has_names || longest == 0 {
            return (self.clone(), 1);
        }
        let room = f64::from(width) / count as f64;
        let needed = ((longest as f64 * LABEL * CHARACTER + NAME_GAP) / room).ceil().max(1.0) as usize;
        let rows = needed.min(MOST_ROWS);
        let step = needed.div_ceil(rows);
        let arrange = |(i, (tick, label)): (usize, &(f64, String))| match i % step {
            0 => (*tick, "\n".repeat(i / step % rows) + label),
            _ => (*tick, String::new()),
        };
        (Self { ticks: self.ticks.iter().enumerate().map(arrange).collect(), ..self.clone() }, rows as u32)
    }

    /// Returns the value at the start of the axis.
    pub fn range_start(&self) -> f64 {
        self.from
    }

    fn share(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(1e-12) / self.from).log10() / (self.to / self.from).log10()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }

    fn label(&self, value: f64) -> String {
        let own = |(tick, _): &&(f64, String)| *tick == value;
        self.ticks.iter().find(own).map_or(String::new(), |(_, label)| label.clone())
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.share(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        use plotters::coord::ranged1d::KeyPointWeight;
        match hint.weight() {
            KeyPointWeight::Bold => self.ticks.iter().map(|(tick, _)| *tick).collect(),
            KeyPointWeight::Any => Vec::new(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }
}

/// The size of a chart, and the margins that its labels need, in SVG pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub width: u32,
    pub height: u32,
    /// The space to the left of the plot, for labels.
    pub left: u32,
    /// The height in pixels of the space below the plot, for labels.
    pub bottom: u32,
}

impl Frame {
    /// Returns a frame of this size, with room for numbers on both axes.
    pub fn new(width: u32, height: u32) -> Self {
        Self { width, height, left: 52, bottom: 34 }
    }
}

/// The font size of labels in charts, in SVG pixels.
const LABEL: f64 = 11.0;
/// The space between two names on a horizontal axis, in SVG pixels.
const NAME_GAP: f64 = 6.0;
/// The most rows of names below a chart.
const MOST_ROWS: usize = 3;
/// The margin at the right of the plot, in SVG pixels.
const RIGHT: u32 = 14;

fn text_style(size: f64, ink: Ink) -> TextStyle<'static> {
    let font = (FontFamily::SansSerif, size * f64::from(FINE), FontStyle::Normal).into_font();
    TextStyle { color: ink.rgba(1.0).to_backend_color(), ..TextStyle::from(font) }
}

/// Draws a chart at the end of `out`. The caller writes the `<svg>` element around it.
pub(super) fn draw(
    out: &mut String,
    frame: Frame,
    [x, y]: [&Axis; 2],
    content: impl FnOnce(&mut Plot<'_, '_>),
) -> u32 {
    let (x, rows) = x.arranged(frame.width.saturating_sub(frame.left + RIGHT));
    let more = (f64::from(rows - 1) * LABEL * LINE).ceil() as u32;
    let frame = Frame { height: frame.height + more, bottom: frame.bottom + more, ..frame };
    let area = Svg::new(out, (frame.width, frame.height)).into_drawing_area();
    let fine = |pixels: u32| pixels * FINE as u32;
    let built = ChartBuilder::on(&area)
        .margin_top(fine(10))
        .margin_right(fine(RIGHT))
        .x_label_area_size(fine(frame.bottom))
        .y_label_area_size(fine(frame.left))
        .build_cartesian_2d(x.clone(), y.clone());
    let Ok(mut plot) = built else { return frame.height };
    let label = |axis: &Axis| {
        let axis = axis.clone();
        move |value: &f64| axis.label(*value)
    };
    let (x_label, y_label) = (label(&x), label(y));
    let grid = ShapeStyle { color: Ink::named("rule").rgba(1.0), filled: false, stroke_width: fine(1) };
    let axis = ShapeStyle { color: Ink::named("faint").rgba(1.0), filled: false, stroke_width: fine(1) };
    // The maximum number of labels is the number of ticks, so that the crate `plotters` omits no label.
    let mut mesh = plot.configure_mesh();
    mesh.x_labels(x.ticks.len().max(1))
        .y_labels(y.ticks.len().max(1))
        .max_light_lines(0)
        .bold_line_style(grid)
        .light_line_style(ShapeStyle { color: Ink::named("rule").rgba(0.0), ..grid })
        .axis_style(axis)
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .label_style(text_style(LABEL, Ink::named("soft")))
        .axis_desc_style(text_style(LABEL, Ink::named("soft")))
        .set_all_tick_mark_size(fine(4));
    if x.ticks.is_empty() {
        mesh.disable_x_mesh().disable_x_axis();
    }
    if y.ticks.is_empty() {
        mesh.disable_y_mesh().disable_y_axis();
    }
    if !x.name.is_empty() {
        mesh.x_desc(x.name.clone());
    }
    if !y.name.is_empty() {
        mesh.y_desc(y.name.clone());
    }
    let _ = mesh.draw();
    content(&mut plot);
    frame.height
}

/// Draws a line through `points`.
pub(super) fn line(
    plot: &mut Plot<'_, '_>,
    points: impl IntoIterator<Item = ChartPoint>,
    ink: Ink,
    width: f64,
) {
    faint_line(plot, points, (ink, 1.0), width);
}

/// Draws a line with opacity `alpha` through `points`.
pub(super) fn faint_line(
    plot: &mut Plot<'_, '_>,
    points: impl IntoIterator<Item = ChartPoint>,
    (ink, alpha): (Ink, f64),
    width: f64,
) {
    let stroke_width = (width * f64::from(FINE)) as u32;
    let style = ShapeStyle { color: ink.rgba(alpha), filled: false, stroke_width };
    let points: Vec<ChartPoint> = points.into_iter().collect();
    if !points.is_empty() {
        let _ = plot.draw_series([PathElement::new(points, style)]);
    }
}

/// Returns the corners of a stepped curve. It begins at `from`, jumps to each of `points`, and is level in between.
pub(super) fn steps(from: ChartPoint, points: impl IntoIterator<Item = ChartPoint>) -> Vec<ChartPoint> {
    let mut corners = vec![from];
    let mut level = from.1;
    for (x, y) in points {
        corners.extend([(x, level), (x, y)]);
        level = y;
    }
    corners
}

/// Fills the polygon with these corners.
pub(super) fn area(plot: &mut Plot<'_, '_>, points: Vec<ChartPoint>, ink: Ink, alpha: f64) {
    if points.len() > 2 {
        let _ = plot.draw_series([Polygon::new(points, ink.rgba(alpha))]);
    }
}

/// The position of a text relative to its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LabelPosition {
    Right,
    Left,
    Above,
    Over,
}

/// Draws a text near a point.
pub(super) fn text(
    plot: &mut Plot<'_, '_>,
    at: ChartPoint,
    position: LabelPosition,
    ink: Ink,
    content: &str,
) {
    let (h, v) = match position {
        LabelPosition::Right => (HPos::Left, VPos::Center),
        LabelPosition::Left => (HPos::Right, VPos::Center),
        LabelPosition::Above => (HPos::Center, VPos::Bottom),
        LabelPosition::Over => (HPos::Center, VPos::Center),
    };
    let style = text_style(LABEL, ink).pos(Pos::new(h, v));
    let _ = plot.draw_series([Text::new(content.to_owned(), at, style)]);
}

/// The shape of a [`Mark`] in a chart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Shape {
    /// A disc with this radius in SVG pixels.
    Dot(f64),
    /// A disc with this radius at every point. All discs are in one SVG path.
    Dots(f64),
    /// A box with two points as opposite corners. If both points have the same vertical position, the box is centred
    /// vertically on this position and has this height in SVG pixels.
    Box(f64),
}

/// A shape in a chart, with a tooltip.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub points: Vec<ChartPoint>,
    pub shape: Shape,
    pub ink: Ink,
    pub alpha: f64,
    pub title: String,
}

impl Mark {
    pub fn dot(at: ChartPoint, radius: f64, ink: Ink, title: impl Into<String>) -> Self {
        Self { points: vec![at], shape: Shape::Dot(radius), ink, alpha: 1.0, title: title.into() }
    }

    pub fn many(points: Vec<ChartPoint>, shape: Shape, ink: Ink) -> Self {
        Self { points, shape, ink, alpha: 1.0, title: String::new() }
    }

    pub fn bar(from: ChartPoint, to: ChartPoint, height: f64, ink: Ink, title: impl Into<String>) -> Self {
        Self { points: vec![from, to], shape: Shape::Box(height), ink, alpha: 1.0, title: title.into() }
    }

    pub fn faint(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }
}

impl<'a> PointCollection<'a, ChartPoint> for &'a Mark {
    type Point = &'a ChartPoint;
    type IntoIter = &'a [ChartPoint];

    fn point_iter(self) -> &'a [ChartPoint] {
        &self.points
    }
}

impl Drawable<Svg<'_>> for Mark {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        mut points: I,
        svg: &mut Svg<'_>,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let Some((x, y)) = points.next() else { return Ok(()) };
        let fine = |pixels: f64| (pixels * f64::from(FINE)) as i32;
        let opacity = if self.alpha < 1.0 { format!(" opacity=\"{}\"", self.alpha) } else { String::new() };
        let paint = format!("fill=\"var(--{})\"{opacity}", self.ink.name());
        let shape = match self.shape {
            Shape::Dot(radius) => {
                format!("circle cx=\"{}\" cy=\"{}\" r=\"{}\" {paint}", at(x), at(y), at(fine(radius)))
            }
            Shape::Dots(radius) => {
                // Each disc is a line of zero length with round ends, so that all discs fit into one SVG path.
                let mut path = format!("M{} {}h0", at(x), at(y));
                for (x, y) in points {
                    let _ = write!(path, "M{} {}h0", at(x), at(y));
                }
                format!(
                    "path fill=\"none\" stroke=\"var(--{})\" stroke-width=\"{}\" stroke-linecap=\"round\"{opacity} d=\"{path}\"",
                    self.ink.name(),
                    at(fine(radius * 2.0))
                )
            }
            Shape::Box(height) => {
                let (x2, y2) = points.next().unwrap_or((x, y));
                let (top, tall) =
                    if y == y2 { (y - fine(height) / 2, fine(height)) } else { (y.min(y2), (y - y2).abs()) };
                let (left, wide) = (x.min(x2), (x - x2).abs());
                format!(
                    "rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {paint}",
                    at(left),
                    at(top),
                    at(wide),
                    at(tall)
                )
            }
        };
        svg.titled(&shape, &self.title);
        Ok(())
    }
}

/// Draws marks (symbols at the data points).
pub(super) fn marks(plot: &mut Plot<'_, '_>, marks: impl IntoIterator<Item = Mark>) {
    let _ = plot.draw_series(marks);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_axes() {
        let mut out = String::new();
        let (x, y) = (Axis::time(0.0, 100.0, 4), Axis::linear(0.0, 10.0, 2, |v| v.to_string()));
        let frame = Frame { width: 200, height: 100, left: 40, bottom: 20 };
        draw(&mut out, frame, [&x, &y], |plot| {
            marks(plot, [Mark::dot((50.0, 5.0), 2.0, Ink::named("c1"), "half & half")]);
        });
        // The plot spans x = 40 to 186 and y = 10 to 79.9, in SVG pixels. The lower edge is not 80, because the crate
        // `plotters` makes the vertical range 0.1 SVG pixels shorter (one pixel of `plotters`).
        assert!(out.contains("<circle cx=\"113\" cy=\"44.9\" r=\"2\" fill=\"var(--c1)\"><title>half &amp; half</title></circle>"), "{out}");
    }

    #[test]
    fn long_names_are_put_in_rows() {
        let names: Vec<String> = ["1x9kB", "5x9kB", "10x9kB", "100x9kB"].map(str::to_owned).into();
        let labels = |width| {
            let (axis, rows) = Axis::levels(&names).arranged(width);
            (axis.ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>().join("|"), rows)
        };
        // The longest name takes 49 pixels with its gap.
        assert_eq!(labels(200), ("1x9kB|5x9kB|10x9kB|100x9kB".to_owned(), 1));
        assert_eq!(labels(196), ("1x9kB|\n5x9kB|10x9kB|\n100x9kB".to_owned(), 2));
        assert_eq!(labels(80), ("1x9kB|\n5x9kB|\n\n10x9kB|100x9kB".to_owned(), 3));
        assert_eq!(labels(60), ("1x9kB||\n10x9kB|".to_owned(), 3));
        assert_eq!(Axis::linear(0.0, 1e9, 9, |v| v.to_string()).arranged(60).1, 1);
        let draw_in = |width| {
            let mut out = String::new();
            let frame = Frame { width, height: 100, left: 0, bottom: 20 };
            let (x, y) = (Axis::levels(&names), Axis::bare(0.0, 1.0));
            let height = draw(&mut out, frame, [&x, &y], |_| ());
            let names = out.match_indices("x9kB</text>").count();
            (height, names, out)
        };
        let (height, names, narrow) = draw_in(196 + RIGHT);
        assert_eq!((height, names), (113, 4), "{narrow}");
        let top = |name: &str| {
            let before = narrow.split(&format!(">{name}<")).next().expect("a text");
            let y = before.rsplit("y=\"").next().and_then(|rest| rest.split('"').next());
            y.and_then(|y| y.parse::<f64>().ok()).expect("its place")
        };
        assert_eq!(top("1x9kB"), top("10x9kB"));
        assert!((top("5x9kB") - top("1x9kB") - LABEL * LINE).abs() < 0.02, "{narrow}");
        assert_eq!(draw_in(300).0, 100);
    }

    #[test]
    fn a_logarithmic_axis_has_round_ticks() {
        let ticks = |from, to| {
            Axis::logarithmic(from, to, |v| v.to_string()).ticks.iter().map(|t| t.0).collect::<Vec<_>>()
        };
        assert_eq!(ticks(9.0, 200.0), [10.0, 20.0, 50.0, 100.0, 200.0]);
        assert_eq!(ticks(1.0, 100_000.0), [1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
        let axis = Axis::logarithmic(1.0, 100.0, |v| v.to_string());
        assert!((axis.share(10.0) - 0.5).abs() < 1e-12);
    }
}
