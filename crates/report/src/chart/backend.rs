//! The drawing backend of plotters. It writes SVG whose colours are variables of the style sheet, so that one drawing
//! serves light screens, dark screens and paper.
//!
//! Plotters represents a colour as red, green and blue. This backend stores the index of an [`Ink`] in green, and
//! leaves red and blue at zero. Plotters has whole pixels only. A plotters pixel is a tenth of an SVG pixel, so that a
//! curve of a thousand points is smooth.

use crate::svg::{escape, px};
use plotters::style::{Color, RGBAColor, RGBColor};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontTransform,
};
use std::convert::Infallible;
use std::fmt::Write;

/// The number of pixels of the crate `plotters` per SVG pixel.
pub(crate) const FINE: i32 = 10;

/// The width of a character and the height of a line, as parts of the font size. The width is that of digits in the
/// page's fonts.
pub(crate) const CHARACTER: f64 = 0.56;
pub(crate) const LINE: f64 = 1.15;

/// A colour that the style sheet defines, as an index into [`INKS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ink(u8);

impl Ink {
    /// Returns the colour whose variable in the style sheet has this name.
    pub fn named(name: &str) -> Self {
        let index = INKS.iter().position(|known| *known == name);
        assert!(index.is_some(), "{name} is no colour of the style sheet");
        Self(index.unwrap_or(0) as u8)
    }

    /// Returns the colour of a contestant, given the contestant's index in the plan.
    pub fn contestant(index: usize) -> Self {
        Self((index % CONTESTANTS) as u8)
    }

    /// Returns the name of the colour's variable in the style sheet.
    pub fn name(self) -> &'static str {
        INKS[usize::from(self.0) % INKS.len()]
    }

    /// Encodes the colour as a colour of the crate `plotters`, with the opacity `alpha`.
    pub fn rgba(self, alpha: f64) -> RGBAColor {
        RGBColor(0, self.0, 0).mix(alpha)
    }
}

/// The number of different colours for contestants. Further contestants use these colours again.
pub(crate) const CONTESTANTS: usize = 8;

const INKS: [&str; 29] = [
    "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "ink", "soft", "faint", "rule", "mark", "limit", "paper",
    "accent", "connect", "secure", "queue", "turn", "cwnd", "rwnd", "stalled", "ahead", "server", "recovery",
    "timeout", "wire", "blocked",
];

/// An SVG drawing in progress.
pub(crate) struct Svg<'a> {
    out: &'a mut String,
    size: (u32, u32),
}

impl<'a> Svg<'a> {
    /// Starts a drawing that is appended to `out`. `width` and `height` are in SVG pixels.
    pub fn new(out: &'a mut String, (width, height): (u32, u32)) -> Self {
        Self { out, size: (width * FINE as u32, height * FINE as u32) }
    }

    /// Writes an SVG shape, with the tooltip `title` unless `title` is empty.
    pub fn titled(&mut self, shape: &str, title: &str) {
        let tag = shape.split(' ').next().unwrap_or_default();
        let _ = match title {
            "" => write!(self.out, "<{shape}/>"),
            title => write!(self.out, "<{shape}><title>{}</title></{tag}>", escape(title)),
        };
    }
}

/// Converts a coordinate of the crate `plotters` to SVG pixels, as text.
pub(crate) fn at(value: i32) -> String {
    px(f64::from(value) / f64::from(FINE))
}

/// Returns the SVG attributes of a stroke: colour, width and opacity, for example `stroke="var(--c1)"
/// stroke-width="1.5"`.
fn stroke(color: BackendColor, width: u32) -> String {
    let ink = Ink(color.rgb.1).name();
    let mut text = format!("stroke=\"var(--{ink})\"");
    let wide = f64::from(width) / f64::from(FINE);
    if (wide - 1.0).abs() > 1e-9 {
        let _ = write!(text, " stroke-width=\"{}\"", px(wide));
    }
    if color.alpha < 1.0 {
        let _ = write!(text, " opacity=\"{}\"", px(color.alpha));
    }
    if ink == "limit" {
        text.push_str(" stroke-dasharray=\"2 3\"");
    }
    text
}

fn fill(color: BackendColor) -> String {
    let ink = Ink(color.rgb.1).name();
    let opacity = if color.alpha < 1.0 { format!(" opacity=\"{}\"", px(color.alpha)) } else { String::new() };
    format!("fill=\"var(--{ink})\"{opacity}")
}

/// Returns SVG path data, for example `M1 2L3 4`. Drops repeated points, and points inside a straight horizontal or
/// vertical line.
fn path_data(path: impl IntoIterator<Item = BackendCoord>) -> String {
    let mut points: Vec<BackendCoord> = Vec::new();
    for point in path {
        let [.., before, last] = points[..] else {
            points.push(point);
            continue;
        };
        let flat = |axis: fn(BackendCoord) -> i32, other: fn(BackendCoord) -> i32| {
            axis(before) == axis(last)
                && axis(last) == axis(point)
                && (other(last) - other(before)).signum() == (other(point) - other(last)).signum()
        };
        if flat(|p| p.0, |p| p.1) || flat(|p| p.1, |p| p.0) {
            points.pop();
        }
        points.push(point);
    }
    let mut text = String::with_capacity(points.len() * 8);
    let mut from: Option<BackendCoord> = None;
    for point in points {
        let _ = match from {
            None => write!(text, "M{} {}", at(point.0), at(point.1)),
            Some(last) if last == point => Ok(()),
            Some(last) if last.1 == point.1 => write!(text, "H{}", at(point.0)),
            Some(last) if last.0 == point.0 => write!(text, "V{}", at(point.1)),
            Some(_) => write!(text, "L{} {}", at(point.0), at(point.1)),
        };
        from = Some(point);
    }
    text
}

/// The result of drawing to a string, which cannot fail.
type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl DrawingBackend for Svg<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, _: BackendCoord, _: BackendColor) -> Drawn {
        // Plotters draws no single pixels here, because the methods below draw all content as shapes.
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        if style.color().alpha > 0.0 {
            let data = path_data(path);
            let stroke = stroke(style.color(), style.stroke_width());
            let _ = write!(self.out, "<path fill=\"none\" {stroke} d=\"{data}\"/>");
        }
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        filled: bool,
    ) -> Drawn {
        if style.color().alpha > 0.0 {
            let paint = if filled {
                fill(style.color())
            } else {
                format!("fill=\"none\" {}", stroke(style.color(), style.stroke_width()))
            };
            let (wide, high) = (bottom_right.0 - upper_left.0, bottom_right.1 - upper_left.1);
            let _ = write!(
                self.out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {paint}/>",
                at(upper_left.0),
                at(upper_left.1),
                at(wide.max(0)),
                at(high.max(0))
            );
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        filled: bool,
    ) -> Drawn {
        let paint = if filled {
            fill(style.color())
        } else {
            format!("fill=\"none\" {}", stroke(style.color(), style.stroke_width()))
        };
        let _ = write!(
            self.out,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {paint}/>",
            at(center.0),
            at(center.1),
            at(radius as i32)
        );
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Drawn {
        if style.color().alpha > 0.0 {
            let data = path_data(corners);
            let _ = write!(self.out, "<path {} d=\"{data}Z\"/>", fill(style.color()));
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Drawn {
        let size = style.size() / f64::from(FINE);
        let anchor = match style.anchor().h_pos {
            HPos::Left => "",
            HPos::Center => " class=\"mid\"",
            HPos::Right => " class=\"end\"",
        };
        // The crate `plotters` anchors a text at a corner of its box, but SVG anchors it at its baseline.
        let down = match style.anchor().v_pos {
            VPos::Top => size * 0.8,
            VPos::Center => size * 0.35,
            VPos::Bottom => -size * 0.2,
        };
        let (x, y) = (f64::from(x) / f64::from(FINE), f64::from(y) / f64::from(FINE));
        let ink = Ink(style.color().rgb.1).name();
        for (number, line) in text.split('\n').enumerate().filter(|(_, line)| !line.is_empty()) {
            let down = down + number as f64 * size * LINE;
            let rotation = match style.transform() {
                FontTransform::None | FontTransform::Rotate180 => {
                    format!("x=\"{}\" y=\"{}\"", px(x), px(y + down))
                }
                FontTransform::Rotate270 | FontTransform::Rotate90 => {
                    format!("transform=\"translate({} {}) rotate(-90)\"", px(x + down), px(y))
                }
            };
            let _ = write!(
                self.out,
                "<text{anchor} {rotation} font-size=\"{}\" fill=\"var(--{ink})\">{}</text>",
                px(size),
                escape(line)
            );
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok(((text.chars().count() as f64 * style.size() * CHARACTER) as u32, style.size() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_short_and_the_same() {
        let steps = [(0, 0), (10, 0), (20, 0), (20, 5), (20, 15), (30, 40)];
        assert_eq!(path_data(steps), "M0 0H2V1.5L3 4");
        // The test path goes to the right and then back. The two segments must not be merged into one.
        assert_eq!(path_data([(0, 0), (20, 0), (10, 0)]), "M0 0H2H1");
    }

    #[test]
    fn every_ink_is_in_the_style_sheet() {
        let sheet = crate::STYLE;
        for ink in INKS {
            // The style sheet defines each colour twice, for light and for dark screens. Paper always uses the light
            // colour.
            assert_eq!(sheet.matches(&format!("--{ink}:")).count(), 2, "{ink}");
        }
    }
}
