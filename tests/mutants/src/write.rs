//! Writes a source file with all of its mutants, each with the call that switches it on.

use crate::find::{Form, Mutant, Piece};
use std::ops::Range;

/// The text of a source file with its mutants, and the positions of the mutants in this text.
#[derive(Debug, Default)]
pub struct Written {
    /// The text of the file with all mutants.
    pub text: String,
    /// The bytes of `text` that exist only because of a mutant, with the number of the mutant.
    pub ranges: Vec<(usize, Range<usize>)>,
}

/// Returns `source` with these mutants inserted. `mutants` must be sorted by their positions in the source.
pub fn write(source: &str, mutants: &[(usize, &Mutant)]) -> Written {
    let mut writer = Writer { source, written: Written::default() };
    writer.range(0..source.len(), mutants, None);
    writer.written
}

struct Writer<'a> {
    source: &'a str,
    written: Written,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) {
        self.written.text.push_str(text);
    }

    /// Writes the source text in the range `part`, with all mutants that lie within it. Leaves out mutants whose range
    /// equals `but`.
    fn range(&mut self, part: Range<usize>, mutants: &[(usize, &Mutant)], but: Option<&Range<usize>>) {
        let mut inside: Vec<_> = mutants
            .iter()
            .copied()
            .filter(|(_, mutant)| part.start <= mutant.range.start && mutant.range.end <= part.end)
            .filter(|(_, mutant)| Some(&mutant.range) != but)
            .collect();
        // Among mutants that begin at the same position, empty ranges come first, and longer ranges come before shorter
        // ranges.
        inside.sort_by_key(|(_, mutant)| {
            (mutant.range.start, !mutant.range.is_empty(), usize::MAX - mutant.range.end)
        });
        let mut at = part.start;
        let mut rest = &inside[..];
        while let Some((_, first)) = rest.first() {
            let range = &first.range;
            let count = rest.iter().take_while(|(_, mutant)| mutant.range == *range).count();
            let (same, later) = rest.split_at(count);
            self.text(&self.source[at..range.start].to_owned());
            self.choice(range, same, mutants);
            at = range.end;
            let within = later.iter().take_while(|(_, mutant)| mutant.range.start < at).count();
            rest = &later[within..];
        }
        self.text(&self.source[at..part.end].to_owned());
    }

    /// Writes code that runs the original code of `range` or one of its mutants. `same` holds all mutants of this
    /// range.
    fn choice(&mut self, range: &Range<usize>, same: &[(usize, &Mutant)], all: &[(usize, &Mutant)]) {
        let begin = self.written.text.len();
        let (nothing, instead): (Vec<_>, Vec<_>) =
            same.iter().partition(|(_, mutant)| matches!(mutant.form, Form::Nothing));
        for (number, _) in &nothing {
            self.text(&format!("if !crate::mutant({number}) {{ "));
        }
        let parenthesis = instead.iter().any(|(_, mutant)| matches!(mutant.form, Form::Instead(_)));
        if parenthesis {
            self.text("(");
        }
        for (number, mutant) in &instead {
            let begin = self.written.text.len();
            match &mutant.form {
                Form::Instead(pieces) => {
                    self.text(&format!("if crate::mutant({number}) {{ "));
                    for piece in pieces {
                        match piece {
                            Piece::Text(text) => self.text(text),
                            Piece::Source(part) => self.range(part.clone(), all, Some(range)),
                        }
                    }
                    self.text(" } else ");
                }
                Form::Return(value) => {
                    self.text(&format!(" if crate::mutant({number}) {{ return {value}; }}"));
                }
                Form::NoMatch => self.text(&format!(" if !crate::mutant({number})")),
                Form::Nothing => {}
            }
            self.written.ranges.push((*number, begin..self.written.text.len()));
        }
        if parenthesis {
            self.text("{ ");
        }
        if !range.is_empty() {
            self.range(range.clone(), all, Some(range));
        }
        if parenthesis {
            self.text(" })");
        }
        for _ in &nothing {
            self.text(" }");
        }
        let whole = begin..self.written.text.len();
        self.written.ranges.extend(same.iter().map(|(number, _)| (*number, whole.clone())));
    }
}
