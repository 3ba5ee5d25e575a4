//! Estimates how far down a page an image is, without computing a layout.
//!
//! The position is the sum of heights: those of images and frames, those in inline styles, and those of text lines in
//! the default font. Style sheets are not applied. An image without a height counts as 0, like an image that is not
//! loaded yet. Chromium behaves similarly: it selects the lazy images at its first layout, before it has applied style
//! sheets or loaded images.

use super::length::{VIEWPORT_HEIGHT, VIEWPORT_WIDTH, pixels};

/// The distance in pixels below the viewport within which Chromium loads lazy images on a fast network.
pub const LAZY_IMAGE_MARGIN: f64 = 1250.0;
/// The distance in pixels below the viewport within which Chromium loads lazy frames.
pub const LAZY_FRAME_MARGIN: f64 = 2500.0;

/// The layout state of the parser: the current position in the page while its document is parsed.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The top of the current line, in pixels from the top of the page.
    top: f64,
    /// The width in use on the current line, and the height of the line, in pixels.
    line: (f64, f64),
    open: Vec<Open>,
}

/// An open element: it has begun and not ended.
#[derive(Debug)]
struct Open {
    name: Vec<u8>,
    top: f64,
    height: Option<f64>,
    is_hidden: bool,
    /// Whether this is a `<details>` element without `open`, which displays only its summary.
    is_closed: bool,
}

impl Flow {
    /// Begins an element called `name` with the inline style `style`. `attribute` returns the value of an attribute.
    pub(super) fn begin(
        &mut self,
        name: &[u8],
        style: Option<&str>,
        attribute: impl Fn(&[u8]) -> Option<String>,
    ) {
        let is_block = is_block(name) || style.is_some_and(is_displayed_as_block);
        if name == b"br" || is_block {
            self.end_line();
        }
        if is_void(name) || self.open.len() == MAX_DEPTH {
            return;
        }
        let is_inside_hidden = match self.open.last() {
            Some(parent) if name == b"summary" => parent.is_hidden,
            _ => self.is_hidden(),
        };
        let is_hidden =
            is_inside_hidden || attribute(b"hidden").is_some() || style.is_some_and(is_not_displayed);
        let height = style.filter(|_| is_block);
        let heights = height.map(|style| [declared(style, "height"), declared(style, "min-height")]);
        let mut height = heights.and_then(|heights| heights.into_iter().flatten().reduce(f64::max));
        if is_table(name) {
            height = height.or_else(|| dimension(&attribute(b"height")?));
        }
        let is_closed = name == b"details" && attribute(b"open").is_none();
        self.open.push(Open { name: name.to_vec(), top: self.top, height, is_hidden, is_closed });
    }

    /// Ends the innermost element called `name`, and all elements in it.
    pub(super) fn end(&mut self, name: &[u8]) {
        let Some(place) = self.open.iter().rposition(|open| open.name == name) else { return };
        if is_block(name) || self.open[place].height.is_some() {
            self.end_line();
        }
        for open in self.open.drain(place..).rev() {
            if open.is_hidden {
                // A hidden element takes no space, so the position returns to the start of the element.
                (self.top, self.line) = (open.top, (0.0, 0.0));
            } else if let Some(height) = open.height {
                // A table is at least as high as its rows.
                let least = if is_table(&open.name) { self.top } else { 0.0 };
                self.top = (open.top + height).max(least);
            }
        }
    }

    /// Adds text.
    pub(super) fn text(&mut self, text: &[u8]) {
        if self.is_hidden() {
            return;
        }
        let letters = String::from_utf8_lossy(text)
            .split_whitespace()
            .map(|word| word.chars().count() + 1)
            .sum::<usize>();
        if letters == 0 {
            return;
        }
        let width = self.line.0 + letters as f64 * LETTER_WIDTH;
        let lines = (width / LINE_WIDTH).floor();
        if lines > 0.0 {
            self.top += self.line.1.max(LINE_HEIGHT) + (lines - 1.0) * LINE_HEIGHT;
            self.line.1 = 0.0;
        }
        self.line = (width - lines * LINE_WIDTH, self.line.1.max(LINE_HEIGHT));
    }

    /// Places a box of the given size on the current line. Returns the position of its top.
    pub(super) fn place_box(&mut self, width: f64, height: f64) -> f64 {
        if self.line.0 > 0.0 && self.line.0 + width > LINE_WIDTH {
            self.end_line();
        }
        self.line = (self.line.0 + width, self.line.1.max(height));
        self.top
    }

    /// Returns whether an element that begins here would not be displayed.
    pub(super) fn is_hidden(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_hidden || open.is_closed)
    }

    /// Returns whether the innermost open element is called `name`.
    pub(super) fn is_inside(&self, name: &[u8]) -> bool {
        self.open.last().is_some_and(|open| open.name == name)
    }

    fn end_line(&mut self) {
        self.top += self.line.1;
        self.line = (0.0, 0.0);
    }
}

/// Returns whether a lazy element at `top` is near enough to the viewport to be loaded.
pub(super) fn is_near(top: f64, margin: f64) -> bool {
    top <= VIEWPORT_HEIGHT + margin
}

/// Returns the width and height of an element from its attributes and inline style; 0 for a size that is not specified.
pub(super) fn size(width: Option<&str>, height: Option<&str>, style: Option<&str>) -> (f64, f64) {
    let of_style = |name: &str| style.and_then(|style| declared(style, name));
    let width = of_style("width").or(width.and_then(dimension));
    let height = of_style("height").or(height.and_then(dimension));
    (width.unwrap_or(0.0).clamp(0.0, MAX_SIZE), height.unwrap_or(0.0).clamp(0.0, MAX_SIZE))
}

/// Parses the value of a size attribute. HTML's rules for dimension values allow digits, optionally a fraction, and
/// then any text that does not begin with a percent sign.
fn dimension(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let length = text[..end].parse::<f64>().ok().filter(|_| !text[end..].starts_with('%'));
    length.map(|length| length.min(MAX_SIZE))
}

/// Returns the length in pixels that an inline style declares for the property `name`. The last declaration counts.
fn declared(style: &str, name: &str) -> Option<f64> {
    let lengths = declarations(style, name).filter_map(pixels).filter(|length| *length >= 0.0);
    lengths.last().map(|length| length.min(MAX_SIZE))
}

fn declarations<'a>(style: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    style.split(';').filter_map(move |declaration| {
        let (key, value) = declaration.split_once(':')?;
        let value = value.trim();
        let value = value.strip_suffix("!important").unwrap_or(value).trim_end();
        key.trim().eq_ignore_ascii_case(name).then_some(value)
    })
}

/// Returns whether the inline style `style` hides an element.
pub(super) fn is_not_displayed(style: &str) -> bool {
    declarations(style, "display").last().is_some_and(|value| value.eq_ignore_ascii_case("none"))
}

fn is_displayed_as_block(style: &str) -> bool {
    let blocks = ["block", "flex", "grid", "table", "list-item", "inline-block", "flow-root"];
    declarations(style, "display")
        .last()
        .is_some_and(|value| blocks.iter().any(|one| value.eq_ignore_ascii_case(one)))
}

fn is_block(name: &[u8]) -> bool {
    const BLOCKS: [&[u8]; 41] = [
        b"address",
        b"article",
        b"aside",
        b"blockquote",
        b"body",
        b"center",
        b"dd",
        b"details",
        b"dialog",
        b"div",
        b"dl",
        b"dt",
        b"fieldset",
        b"figcaption",
        b"figure",
        b"footer",
        b"form",
        b"h1",
        b"h2",
        b"h3",
        b"h4",
        b"h5",
        b"h6",
        b"header",
        b"hr",
        b"html",
        b"li",
        b"main",
        b"menu",
        b"nav",
        b"ol",
        b"p",
        b"pre",
        b"section",
        b"summary",
        b"table",
        b"tbody",
        b"tfoot",
        b"thead",
        b"tr",
        b"ul",
    ];
    BLOCKS.contains(&name)
}

/// Returns whether an element called `name` is a table or a row, which have `height` attributes.
fn is_table(name: &[u8]) -> bool {
    matches!(name, b"table" | b"tr")
}

/// Whether an element called `name` has no end tag.
fn is_void(name: &[u8]) -> bool {
    const VOID: [&[u8]; 14] = [
        b"area", b"base", b"br", b"col", b"embed", b"frame", b"hr", b"img", b"input", b"link", b"meta",
        b"source", b"track", b"wbr",
    ];
    VOID.contains(&name)
}

/// The width of the viewport without the margins of the body.
const LINE_WIDTH: f64 = VIEWPORT_WIDTH - 16.0;
/// The height of a line of text in the default font, in CSS pixels.
const LINE_HEIGHT: f64 = 18.0;
/// The average width of a letter in the default font.
const LETTER_WIDTH: f64 = 7.0;
/// The maximum number of nested elements, as in Chromium.
const MAX_DEPTH: usize = 512;
/// The maximum length in pixels. Longer lengths are reduced to it. It is near the limit of Chromium's coordinates.
const MAX_SIZE: f64 = 33_554_431.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_and_lines_add_up() {
        let mut flow = Flow::default();
        assert_eq!(flow.place_box(100.0, 50.0), 0.0);
        // The first of these two boxes still fits on the line of the previous box. The second box begins the next line.
        assert_eq!(flow.place_box(1164.0, 80.0), 0.0);
        assert_eq!(flow.place_box(10.0, 10.0), 80.0);
        flow.begin(b"div", Some("color: red; HEIGHT: 1000px"), |_| None);
        assert_eq!(flow.place_box(1.0, 1.0), 90.0);
        flow.end(b"div");
        assert_eq!(flow.place_box(0.0, 0.0), 1090.0);
        flow.begin(b"p", None, |_| None);
        flow.text(&b"word ".repeat(100));
        flow.end(b"p");
        // 500 characters, each 7 pixels wide, fill two lines and a part of a third line.
        assert_eq!(flow.place_box(0.0, 0.0), 1090.0 + 3.0 * 18.0);
        flow.begin(b"section", Some("display:none;height:500px"), |_| None);
        assert!(flow.is_hidden());
        flow.text(b"unseen");
        flow.end(b"section");
        assert!(!flow.is_hidden());
        assert_eq!(flow.place_box(0.0, 0.0), 1144.0);
        assert!(is_near(1970.0, LAZY_IMAGE_MARGIN) && !is_near(1971.0, LAZY_IMAGE_MARGIN));
    }

    #[test]
    fn sizes_come_from_attributes_and_style() {
        assert_eq!(size(Some("30"), Some("40px"), None), (30.0, 40.0));
        assert_eq!(size(Some("50%"), Some("x"), Some("height: 10vh; width: 1px!important")), (1.0, 72.0));
        assert_eq!(size(None, Some("1e9"), Some("height:-3px")), (0.0, 1.0));
    }

    #[test]
    fn no_document_is_too_deep() {
        let mut flow = Flow::default();
        for _ in 0..100_000 {
            flow.begin(b"div", None, |_| None);
        }
        for _ in 0..100_000 {
            flow.end(b"div");
            flow.end(b"nothing");
        }
        assert_eq!(flow.place_box(0.0, 0.0), 0.0);
    }
}
