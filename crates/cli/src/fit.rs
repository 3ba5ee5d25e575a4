//! Text that is fitted to the terminal.

use crate::{Failure, say};
use std::io::IsTerminal;
use terminal_size::terminal_size_of;

/// The width below which text is not wrapped any further.
const MIN_WIDTH: usize = 40;

/// The columns within which a gap between two columns of text sets the indent of the lines that continue a line.
const MAX_INDENT: usize = 26;

/// Prints text to standard output, fitted to the terminal.
pub fn say_fitted(text: &str) -> Result<(), Failure> {
    say(&fitted(text))
}

/// Returns the text with the lines wrapped that are longer than the terminal is wide. Without a terminal, returns the
/// text as it is.
pub fn fitted(text: &str) -> String {
    let stdout = std::io::stdout();
    match terminal_size_of(&stdout).filter(|_| stdout.is_terminal()) {
        Some((width, _)) => wrapped(&joined(text), usize::from(width.0).max(MIN_WIDTH)),
        None => text.to_owned(),
    }
}

/// Joins the lines of each list item. An item begins with `  - `, and its other lines are indented by four columns.
fn joined(text: &str) -> String {
    let (mut out, mut is_item) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        let content =
            line.strip_prefix("    ").filter(|content| is_item && !content.starts_with([' ', '\n']));
        match content {
            Some(content) => {
                out.truncate(out.trim_end().len());
                out.push(' ');
                out.push_str(content);
            }
            None => {
                is_item = line.starts_with("  - ");
                out.push_str(line);
            }
        }
    }
    out
}

/// Wraps the lines that have more than `width` characters, at spaces only. The rest of a line is indented. A longer word
/// keeps a line of its own.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let (content, end) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
        let (mut rest, mut indent) = (content, 0);
        let mut skipped = content.chars().take_while(|letter| *letter == ' ').count();
        while let Some(at) = break_at(rest, skipped, width - indent) {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(rest[..at].trim_end());
            out.push('\n');
            rest = rest[at..].trim_start();
            (indent, skipped) = (continuation_indent(content).min(width / 2), 0);
        }
        out.extend(std::iter::repeat_n(' ', indent));
        out.push_str(rest);
        out.push_str(end);
    }
    out
}

/// Returns the indent of the lines that continue a line: where its last column of text begins, if that is near its start,
/// or else two more than the indent of the line.
fn continuation_indent(line: &str) -> usize {
    let own = line.chars().take_while(|letter| *letter == ' ').count();
    let letters: Vec<char> = line.chars().take(MAX_INDENT + 1).collect();
    let begins_column = |at: &usize| letters[at - 2..*at] == [' ', ' '] && letters[*at] != ' ';
    (own + 3..letters.len()).rev().find(begins_column).unwrap_or(own + 2)
}

/// Returns the index of the space at which a line is broken so that its first part has at most `width` characters; `None`
/// if the line fits or has no space. Spaces among the first `skipped` characters do not count.
fn break_at(line: &str, skipped: usize, width: usize) -> Option<usize> {
    if line.chars().count() <= width {
        return None;
    }
    let spaces = line.char_indices().enumerate().skip(skipped).filter(|(_, (_, letter))| *letter == ' ');
    let (mut last_fitting, mut first_beyond) = (None, None);
    for (column, (at, _)) in spaces {
        match column <= width {
            true => last_fitting = Some(at),
            false => first_beyond = first_beyond.or(Some(at)),
        }
    }
    last_fitting.or(first_beyond)
}

#[cfg(test)]
mod tests {
    use super::{joined, wrapped};

    #[test]
    fn items_are_one_line_each() {
        assert_eq!(joined("  - a\n    b\n    c\n  - d\ne\n    f\n"), "  - a b c\n  - d\ne\n    f\n");
        assert_eq!(joined("  - a\n\n    b\n"), "  - a\n\n    b\n");
    }

    #[test]
    fn long_lines_are_wrapped_at_spaces() {
        assert_eq!(wrapped("one two\nthree\n", 7), "one two\nthree\n");
        assert_eq!(wrapped("one two three\nfour", 8), "one two\n  three\nfour");
        assert_eq!(wrapped("  - one two three four\n", 12), "  - one two\n    three\n    four\n");
        assert_eq!(wrapped("  1 s  one two three\n", 15), "  1 s  one two\n       three\n");
        assert_eq!(wrapped("extraordinarily long\n", 8), "extraordinarily\n  long\n");
        assert_eq!(wrapped("a   b\n", 4), "a\n  b\n");
        assert_eq!(wrapped("", 8), "");
    }
}
