//! Converts CSS lengths to pixels in the assumed viewport.
//!
//! Implements CSS Values 4 §6 (lengths) and §10 (`calc`, `min`, `max`, `clamp`), as far as `sizes`, media queries and
//! inline heights use them. The font has its default size, because style sheets are not applied.

/// The width of the viewport in pixels, as in browsers driven by Playwright.
pub const VIEWPORT_WIDTH: f64 = 1280.0;
/// The height of the viewport in pixels.
pub const VIEWPORT_HEIGHT: f64 = 720.0;
/// The font size in pixels.
const FONT: f64 = 16.0;
/// The maximum number of nested parentheses.
const MAX_DEPTH: usize = 32;

/// Parses a length and returns it in pixels; `None` if it is invalid. Zero needs no unit.
pub(super) fn pixels(text: &str) -> Option<f64> {
    let mut reader = Reader { rest: text.trim(), depth: 0 };
    let value = reader.primary()?;
    let is_length = value.is_length || value.number == 0.0;
    (reader.rest.is_empty() && is_length && value.number.is_finite()).then_some(value.number)
}

/// A length in pixels, or a plain number.
#[derive(Clone, Copy)]
struct Value {
    number: f64,
    is_length: bool,
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn take(&mut self, token: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    /// Parses one of three forms: a number (with or without a unit), a function, or an expression in parentheses.
    fn primary(&mut self) -> Option<Value> {
        self.rest = self.rest.trim_start();
        let letters = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        if letters == 0 && !self.rest.starts_with('(') {
            return self.dimension();
        }
        let name = self.rest[..letters].to_ascii_lowercase();
        self.rest = &self.rest[letters..];
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        self.rest = self.rest.strip_prefix('(')?;
        let mut arguments = vec![self.sum()?];
        while self.take(',').is_some() {
            arguments.push(self.sum()?);
        }
        self.take(')')?;
        self.depth -= 1;
        let first = arguments[0];
        if arguments.iter().any(|value| value.is_length != first.is_length) {
            return None;
        }
        let numbers = arguments.iter().map(|value| value.number);
        let number = match (name.as_str(), arguments.as_slice()) {
            ("" | "calc", [one]) => one.number,
            ("min", _) => numbers.fold(f64::INFINITY, f64::min),
            ("max", _) => numbers.fold(f64::NEG_INFINITY, f64::max),
            ("clamp", [least, value, most]) => value.number.min(most.number).max(least.number),
            _ => return None,
        };
        Some(Value { number, ..first })
    }

    /// Parses a sum such as `a + b - c`. The operators must have blanks on both sides.
    fn sum(&mut self) -> Option<Value> {
        let mut sum = self.product()?;
        loop {
            let after = self.rest.trim_start();
            let sign = match after.chars().next() {
                Some('+') if after.len() < self.rest.len() => 1.0,
                Some('-') if after.len() < self.rest.len() => -1.0,
                _ => return Some(sum),
            };
            self.rest = after[1..].strip_prefix(char::is_whitespace)?;
            let other = self.product()?;
            if other.is_length != sum.is_length {
                return None;
            }
            sum.number += sign * other.number;
        }
    }

    fn product(&mut self) -> Option<Value> {
        let mut product = self.primary()?;
        loop {
            if self.take('*').is_some() {
                let other = self.primary()?;
                if product.is_length && other.is_length {
                    return None;
                }
                let is_length = product.is_length || other.is_length;
                product = Value { number: product.number * other.number, is_length };
            } else if self.take('/').is_some() {
                let other = self.primary()?;
                if other.is_length || other.number == 0.0 {
                    return None;
                }
                product.number /= other.number;
            } else {
                return Some(product);
            }
        }
    }

    fn dimension(&mut self) -> Option<Value> {
        let number = number_prefix(self.rest);
        let value: f64 = self.rest[..number].parse().ok()?;
        let rest = &self.rest[number..];
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let unit = match rest[..letters].to_ascii_lowercase().as_str() {
            "" => None,
            "px" => Some(1.0),
            "in" => Some(96.0),
            "cm" => Some(96.0 / 2.54),
            "mm" => Some(96.0 / 25.4),
            "q" => Some(96.0 / 101.6),
            "pt" => Some(96.0 / 72.0),
            "pc" | "em" | "rem" => Some(FONT),
            "ex" | "ch" => Some(FONT / 2.0),
            "vw" | "svw" | "lvw" | "dvw" | "vi" => Some(VIEWPORT_WIDTH / 100.0),
            "vh" | "svh" | "lvh" | "dvh" | "vb" | "vmin" => Some(VIEWPORT_HEIGHT / 100.0),
            "vmax" => Some(VIEWPORT_WIDTH / 100.0),
            _ => return None,
        };
        self.rest = &rest[letters..];
        Some(Value { number: value * unit.unwrap_or(1.0), is_length: unit.is_some() })
    }
}

/// Returns how many bytes at the start of `text` form a CSS number: sign, digits, fraction, exponent.
pub(super) fn number_prefix(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    at += digits(at);
    if bytes.get(at) == Some(&b'.') && digits(at + 1) > 0 {
        at += 1 + digits(at + 1);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_every_unit_and_calculated() {
        for (text, expected) in [
            ("100px", 100.0),
            (" 50vw ", 640.0),
            ("10VH", 72.0),
            ("1in", 96.0),
            ("2em", 32.0),
            ("0", 0.0),
            (".5px", 0.5),
            ("1e2px", 100.0),
            ("calc(100vw - 80px)", 1200.0),
            ("calc((100vw - 2 * 40px) / 3)", 400.0),
            ("min(100vw, 600px)", 600.0),
            ("max(10px,2em)", 32.0),
            ("clamp(300px, 10vw, 500px)", 300.0),
            ("calc(min(100vw, 600px) + 1px)", 601.0),
        ] {
            assert_eq!(pixels(text), Some(expected), "{text}");
        }
        let deep = format!("{}1px{}", "(".repeat(1000), ")".repeat(1000));
        for text in [
            "",
            "px",
            "10",
            "10%",
            "10 px",
            "calc(10px+2px)",
            "calc(1px * 2px)",
            "calc(1px / 0)",
            "auto",
            "1px 2px",
            "min()",
            &deep,
        ] {
            assert_eq!(pixels(text), None, "{text}");
        }
    }
}
