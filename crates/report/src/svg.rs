//! Helper functions for all figures: escaping, readable numbers, scales and ticks.

use std::fmt::Write;

/// Escapes `text` for the content of SVG and HTML elements and for quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML 1.0 §2.2 forbids control characters. Only names from input files can contain them.
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Formats a contestant's name as HTML that may break after punctuation.
pub(super) fn name(text: &str) -> String {
    let broken = escape(text).replace(':', ":<wbr>").replace(',', ",<wbr>");
    format!("<span class=\"name\">{broken}</span>")
}

/// Returns the text if it has at most `width` characters, otherwise its beginning and its end with an ellipsis between
/// them.
pub(super) fn shortened(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width || width < 3 {
        return text.to_owned();
    }
    let head = (width - 1) / 2;
    let tail = width - 1 - head;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail)).collect()
}

/// Formats a coordinate in pixels, to a hundredth of a pixel.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a value with about three digits, for example `1 234`, `123`, `12.3`, `1.23` or `0.12`.
pub(super) fn format_value(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 || value == 0.0 {
        grouped(value)
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Formats a whole number with a narrow space between groups of three digits.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if value < 0.0 && digits != "0" { format!("−{out}") } else { out }
}

/// Formats a number together with its noun, for example `1 object` or `72 objects`.
pub(super) fn format_count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number as f64), if number == 1 { "" } else { "s" })
}

/// Formats milliseconds for people, for example `940 ms`, `3.21 s` or `12.3 s`.
pub(super) fn span(ms: f64) -> String {
    if ms >= 10_000.0 {
        format!("{:.1}\u{a0}s", ms / 1e3)
    } else if ms >= 1_000.0 {
        format!("{:.2}\u{a0}s", ms / 1e3)
    } else {
        format!("{}\u{a0}ms", format_value(ms))
    }
}

/// Formats two times in one unit, for example `1.55 – 1.80 s`.
pub(super) fn interval(low: f64, high: f64) -> String {
    if high >= 1_000.0 {
        let decimals = if high >= 10_000.0 { 1 } else { 2 };
        format!("{:.decimals$} – {:.decimals$}\u{a0}s", low / 1e3, high / 1e3)
    } else {
        format!("{} – {}\u{a0}ms", format_value(low), format_value(high))
    }
}

/// Formats a number of bytes in decimal units.
pub(super) fn bytes(count: f64) -> String {
    match count {
        c if c >= 1e9 => format!("{}\u{a0}GB", format_value(c / 1e9)),
        c if c >= 1e6 => format!("{}\u{a0}MB", format_value(c / 1e6)),
        c if c >= 1e3 => format!("{}\u{a0}kB", format_value(c / 1e3)),
        c => format!("{c:.0}\u{a0}B"),
    }
}

/// A linear scale from values to pixels.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    left: f64,
    width: f64,
}

impl Scale {
    /// Returns a scale that maps the values `from` to `to` onto `width` pixels starting at `left`.
    pub fn new(from: f64, to: f64, left: f64, width: f64) -> Self {
        Self { from, to: if to > from { to } else { from + 1.0 }, left, width }
    }

    /// Returns the pixel position of `value`, clamped to the scale.
    pub fn at(&self, value: f64) -> f64 {
        self.left + self.width * ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Returns about `count` round values on the scale, for the ticks of an axis.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let rough = (self.to - self.from) / count.max(1) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * power).find(|step| *step >= rough * 0.999);
        let step = step.unwrap_or(power * 10.0);
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last.min(first + 100)).map(|n| n as f64 * step).collect()
    }
}

/// Returns the labels of an axis's ticks, which are in milliseconds. All labels have the same unit.
pub(super) fn time_labels(ticks: &[f64]) -> Vec<String> {
    let seconds = ticks.iter().any(|tick| *tick >= 2000.0);
    let (scale, unit) = if seconds { (1e-3, "s") } else { (1.0, "ms") };
    let step = ticks.windows(2).map(|pair| (pair[1] - pair[0]) * scale).next().unwrap_or(1.0);
    let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 3.0) as usize;
    let label = |(i, tick): (usize, &f64)| {
        let value = format!("{:.decimals$}", tick * scale);
        // Only the last tick has the unit in its label.
        if i + 1 == ticks.len() { format!("{value}\u{a0}{unit}") } else { value }
    };
    ticks.iter().enumerate().map(label).collect()
}

/// Draws a line with CSS class `class`.
pub(super) fn line(out: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = write!(out, r#"<path class="{class}" d="M{} {}L{} {}"/>"#, px(x1), px(y1), px(x2), px(y2));
}

/// Draws a text with CSS class `class`, which also decides how the text is anchored.
pub(super) fn text(out: &mut String, class: &str, (x, y): (f64, f64), content: &str) {
    let _ = write!(out, r#"<text class="{class}" x="{}" y="{}">{}</text>"#, px(x), px(y), escape(content));
}

/// Converts nanoseconds to milliseconds.
pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns the unit of an axis without the part in brackets. The note beside the figure has the full text.
pub(super) fn short_unit(unit: &str) -> &str {
    unit.split(" (").next().unwrap_or(unit)
}

/// Formats a number for an axis, without an exponent.
pub(super) fn plain(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.0}M", v / 1e6),
        v if v >= 1e4 => format!("{:.0}k", v / 1e3),
        v if v >= 10.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{}", (v * 10.0).round() / 10.0),
        0.0 => "0".to_owned(),
        v => format!("{}", (v * 1000.0).round() / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_set_for_people() {
        assert_eq!(format_value(1234.5), "1\u{202f}234");
        assert_eq!(
            (format_value(99.96), format_value(0.0), format_value(0.126)),
            ("100.0".into(), "0".into(), "0.13".into())
        );
        assert_eq!(grouped(-1_234_567.0), "−1\u{202f}234\u{202f}567");
        assert_eq!((span(3214.0), span(940.0)), ("3.21\u{a0}s".into(), "940\u{a0}ms".into()));
        assert_eq!(name("tcp:iw=1,<x"), "<span class=\"name\">tcp:<wbr>iw=1,<wbr>&lt;x</span>");
        assert_eq!(bytes(1_060_460.0), "1.06\u{a0}MB");
        assert_eq!((px(1.0), px(1.504)), ("1".into(), "1.5".into()));
        assert_eq!(shortened("abcdefghij", 5), "ab…ij");
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::new(0.0, 10.0, 0.0, 100.0).ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Scale::new(930.0, 1210.0, 0.0, 100.0).ticks(3), [1000.0, 1100.0, 1200.0]);
        assert_eq!(time_labels(&[0.0, 500.0, 1000.0]), ["0", "500", "1000\u{a0}ms"]);
        assert_eq!(time_labels(&[0.0, 500.0, 2000.0]), ["0.0", "0.5", "2.0\u{a0}s"]);
        assert!(Scale::new(5.0, 5.0, 0.0, 10.0).at(5.0).is_finite());
    }

    #[test]
    fn nothing_of_a_file_s_names_is_markup() {
        assert_eq!(escape("<a href=\"x\">'&\u{1}"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\u{fffd}");
    }
}
