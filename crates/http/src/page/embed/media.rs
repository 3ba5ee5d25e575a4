//! Evaluates media queries as a desktop browser does. The device is assumed to be a screen of 1280 by
//! 720 CSS pixels with one device pixel per CSS pixel.
//!
//! Implements Media Queries 4 §2.3 and §3, as far as `media` and `sizes` use them. An unknown feature is neither true
//! nor false. A query does not match if its result depends on an unknown feature.

use super::length::{VIEWPORT_HEIGHT, VIEWPORT_WIDTH, number_prefix, pixels};

/// Returns whether one of the queries in `list` matches. An empty list matches.
pub(super) fn matches(list: &str) -> bool {
    list.trim().is_empty() || commas(list).any(|query| query_matches(&query.trim().to_ascii_lowercase()))
}

/// Returns whether a condition without a media type matches. Such conditions occur in `sizes`.
pub(super) fn condition_matches(text: &str) -> bool {
    Condition::answer(&text.trim().to_ascii_lowercase()) == Some(true)
}

/// Splits `list` at commas outside parentheses.
pub(super) fn commas(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    list.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

fn query_matches(query: &str) -> bool {
    let (word, rest) = first_word(query);
    let (negated, kind, rest) = match word {
        // `not` before a parenthesis negates only the condition in it. Otherwise `not` negates the whole query, as in
        // `not print`.
        "not" if !rest.trim_start().starts_with('(') => {
            let (kind, rest) = first_word(rest.trim_start());
            (true, kind, rest)
        }
        "only" => {
            let (kind, rest) = first_word(rest.trim_start());
            (false, kind, rest)
        }
        "not" | "" => return Condition::answer(query) == Some(true),
        kind => (false, kind, rest),
    };
    if kind.is_empty() {
        return false;
    }
    let medium = matches!(kind, "all" | "screen");
    let rest = rest.trim();
    let answer = match rest.strip_prefix("and").filter(|rest| rest.starts_with([' ', '('])) {
        Some(condition) => Condition::answer(condition.trim()).map(|answer| answer && medium),
        None if rest.is_empty() => Some(medium),
        None => None,
    };
    answer.is_some_and(|answer| answer != negated)
}

fn first_word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(text.len());
    text.split_at(end)
}

/// The state of parsing a condition.
struct Condition<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Condition<'a> {
    /// Evaluates a condition; returns `None` if the answer is unknown. `text` must be in lower case.
    fn answer(text: &'a str) -> Option<bool> {
        let mut condition = Condition { rest: text, depth: 0 };
        let answer = condition.any()?;
        condition.rest.trim().is_empty().then_some(answer).flatten()
    }

    /// Parses and evaluates a condition. Returns `None` if the text is not a condition, and `Some(None)` if it is
    /// unknown whether the condition holds.
    fn any(&mut self) -> Option<Option<bool>> {
        if self.word("not") {
            return Some(self.group()?.map(|answer| !answer));
        }
        let mut answer = self.group()?;
        loop {
            // The conditions are combined by Kleene's logic: one known operand may decide the answer.
            if self.word("and") {
                answer = match (answer, self.group()?) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                };
            } else if self.word("or") {
                answer = match (answer, self.group()?) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                };
            } else {
                return Some(answer);
            }
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(word).filter(|rest| rest.starts_with([' ', '(', '\t', '\n'])) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Parses one pair of parentheses and evaluates its content.
    fn group(&mut self) -> Option<Option<bool>> {
        self.rest = self.rest.trim_start();
        if !self.rest.starts_with('(') || self.depth == MAX_DEPTH {
            return None;
        }
        let mut depth = 0_usize;
        let end = self.rest.find(|letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            letter == ')' && depth == 0
        })?;
        let inner = self.rest[1..end].trim();
        self.rest = &self.rest[end + 1..];
        if inner.starts_with('(') || inner.starts_with("not ") || inner.starts_with("not(") {
            let mut condition = Condition { rest: inner, depth: self.depth + 1 };
            let answer = condition.any()?;
            // If text follows the inner condition, the parentheses perhaps hold a range that begins with a calculation,
            // such as `((1px + 2px) < width)`. The answer is then unknown.
            return Some(answer.filter(|_| condition.rest.trim().is_empty()));
        }
        Some(feature(inner))
    }
}

/// The maximum number of nested parentheses.
const MAX_DEPTH: usize = 16;

/// Evaluates one CSS media feature, for example `min-width: 600px`, `400px <= width < 900px` or `hover`. Returns
/// whether the browser's viewport or device matches; `None` if the feature or its value is unknown.
fn feature(text: &str) -> Option<bool> {
    if let Some((name, value)) = text.split_once(':') {
        let (name, value) = (name.trim(), value.trim());
        let bounded = |prefix: &str| match name.strip_prefix("-webkit-") {
            Some(rest) => rest.strip_prefix(prefix).map(|rest| format!("-webkit-{rest}")),
            None => name.strip_prefix(prefix).map(str::to_owned),
        };
        return if let Some(name) = bounded("min-") {
            Some(measure(&name)? >= quantity(&name, value)?)
        } else if let Some(name) = bounded("max-") {
            Some(measure(&name)? <= quantity(&name, value)?)
        } else if let Some(measured) = measure(name) {
            Some(measured == quantity(name, value)?)
        } else {
            let (known, values) = WORDS.iter().find(|(known, _)| *known == name).copied()?;
            match known {
                "orientation" => Some(value == values),
                _ => Some(values.split(' ').any(|one| one == value)),
            }
        };
    }
    if text.contains(['<', '>', '=']) {
        return range(text);
    }
    if let Some(measured) = measure(text) {
        return Some(measured != 0.0);
    }
    let (_, values) = WORDS.iter().find(|(known, _)| *known == text)?;
    Some(!matches!(*values, "none" | "no-preference"))
}

/// Evaluates a range, for example `width >= 600px` or `400px <= width <= 700px`; returns `None` if it is invalid.
fn range(text: &str) -> Option<bool> {
    let mut operands = Vec::new();
    let mut operators = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['<', '>', '=']) {
        let length = 1 + usize::from(rest[at + 1..].starts_with('='));
        operands.push(rest[..at].trim());
        operators.push(&rest[at..at + length]);
        rest = &rest[at + length..];
    }
    operands.push(rest.trim());
    let name = operands.iter().copied().find(|operand| measure(operand).is_some())?;
    if operators.len() > 2 {
        return None;
    }
    let value = |operand: &str| if operand == name { measure(name) } else { quantity(name, operand) };
    let mut holds = true;
    for (pair, operator) in operands.windows(2).zip(operators) {
        let (left, right) = (value(pair[0])?, value(pair[1])?);
        holds &= match operator {
            "<" => left < right,
            "<=" => left <= right,
            ">" => left > right,
            ">=" => left >= right,
            "=" => left == right,
            _ => return None,
        };
    }
    Some(holds)
}

/// Returns the value of the numeric feature `name` on the assumed device (a screen of 1280 by 720 pixels).
fn measure(name: &str) -> Option<f64> {
    Some(match name {
        "width" | "device-width" => VIEWPORT_WIDTH,
        "height" | "device-height" => VIEWPORT_HEIGHT,
        "aspect-ratio" | "device-aspect-ratio" => VIEWPORT_WIDTH / VIEWPORT_HEIGHT,
        "resolution" | "-webkit-device-pixel-ratio" => 1.0,
        "color" => 8.0,
        "color-index" | "monochrome" | "grid" => 0.0,
        _ => return None,
    })
}

/// Parses the value with which the numeric feature `name` is compared.
fn quantity(name: &str, value: &str) -> Option<f64> {
    let plain = |text: &str| text.trim().parse::<f64>().ok();
    match name {
        "width" | "height" | "device-width" | "device-height" => pixels(value),
        "aspect-ratio" | "device-aspect-ratio" => match value.split_once('/') {
            Some((width, height)) => Some(plain(width)? / plain(height)?),
            None => plain(value),
        },
        "resolution" => resolution(value),
        _ => plain(value),
    }
}

/// Parses a resolution. Returns the number of device pixels per CSS pixel.
pub(super) fn resolution(value: &str) -> Option<f64> {
    let (number, unit) = value.split_at(number_prefix(value));
    let per_dot = match unit {
        "dppx" | "x" => 1.0,
        "dpi" => 1.0 / 96.0,
        "dpcm" => 2.54 / 96.0,
        _ => return None,
    };
    Some(number.trim().parse::<f64>().ok()? * per_dot)
}

/// Media features whose values are keywords, and their values on the assumed device.
const WORDS: [(&str, &str); 19] = [
    ("orientation", "landscape"),
    ("hover", "hover"),
    ("any-hover", "hover"),
    ("pointer", "fine"),
    ("any-pointer", "fine"),
    ("prefers-color-scheme", "light"),
    ("prefers-reduced-motion", "no-preference"),
    ("prefers-reduced-transparency", "no-preference"),
    ("prefers-contrast", "no-preference"),
    ("forced-colors", "none"),
    ("inverted-colors", "none"),
    ("display-mode", "browser"),
    ("scripting", "enabled"),
    ("update", "fast"),
    ("overflow-block", "scroll"),
    ("overflow-inline", "scroll"),
    ("color-gamut", "srgb"),
    ("dynamic-range", "standard"),
    ("video-dynamic-range", "standard"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_answered_for_a_screen_of_1280_by_720() {
        for query in [
            "",
            "all",
            "screen",
            "print, screen",
            "only screen and (min-width: 1280px)",
            "(min-width: 1280px)",
            "(max-width:1280px)",
            "(width >= 80em)",
            "(400px <= width <= 2000px)",
            "not print",
            "not all and (max-width: 600px)",
            "not (max-width: 600px)",
            "(orientation: landscape) and (min-height: 700px)",
            "((max-width: 10px) or (min-width: 10px)) and (hover: hover)",
            "(min-aspect-ratio: 16/9)",
            "(-webkit-max-device-pixel-ratio: 1.5)",
            "(max-resolution: 96dpi)",
            "(prefers-color-scheme: light)",
            "(color)",
            "SCREEN AND (MIN-WIDTH:1PX)",
            "(unknown-thing) or (color)",
        ] {
            assert!(matches(query), "{query}");
        }
        let deep = format!("{}color{}", "(".repeat(500), ")".repeat(500));
        for query in [
            "print",
            "not screen",
            "(max-width: 1279px)",
            "(width < 1280px)",
            "screen and (max-width: 600px)",
            "(min-resolution: 2dppx)",
            "(-webkit-min-device-pixel-ratio: 2)",
            "(prefers-color-scheme: dark)",
            "(prefers-reduced-motion)",
            "(orientation: portrait)",
            "(unknown-thing)",
            "not (unknown-thing)",
            "(min-width: )",
            "(min-width: 100",
            "(color) (hover)",
            "screen or (color)",
            "and",
            "not",
            "(",
            ")",
            "(1 < 2 < 3 < width)",
            &deep,
        ] {
            assert!(!matches(query), "{query}");
        }
    }
}
