//! Quotations of results in the prose of a study.
//!
//! A quotation is a link in `page.md` whose text comes from the runs, for example `[x0.65](causes.toml#byte-counting)`.
//! The author of the page writes the link, and [`filled`] writes its text. Every number of ours in prose therefore
//! comes from a run. A link points to the file that holds the quoted value. The part after the `#` selects the value:
//!
//! | link | text |
//! |---|---|
//! | `causes.toml#ID` | the effect of a cause |
//! | `claims.csv#ID,ID` | the outcome of claims, one word if all have the same |
//! | `TABLE.toml#cells` | the number of cells of a table |
//! | `TABLE.toml#agree`, `#near`, `#differ`, `#undetermined` | the number of cells with this [`CellVerdict`] |
//! | `TABLE.toml#explained`, `#unexplained` | the number of differing cells with a known cause, or without |
//! | `TABLE.toml#differ[loss=2%]` | the number of differing cells that have this label (`[loss=!2%]`: that lack it) |
//! | `TABLE.toml#error[contestant=tcp]` | the error of these cells, as a factor |
//! | `TABLE.toml#orders` | how many of the table's orders of contestants are as published, in our runs |
//! | `TABLE.toml#arithmetic`, `#pftk` | how many of these orders are as published, in a [`Model`] |
//! | `TABLE.toml#takes[ID]` | how many of the table's cells a cause moves away from the published values |
//! | `readings.csv#selected` | the error of the selected reading: a mean factor between our and the published values |
//! | `readings.csv#held-out`, `#stated-only`, `#median` | the other errors in [`Scores`], also as factors |
//! | `readings.csv#selected.reading`, `#selected.orders` | a reading's name, or how many orders it reproduces |
//! | `readings.csv#count`, `#seeds` | the number of readings, or the number of runs of each |
//! | `sensitivity.csv#held`, `#fragile` | how many orders and findings hold, or which are fragile |
//! | `sensitivity.csv#error` | the range and the median of the errors |
//! | `TABLE.toml#TERM`, `TABLE.toml#TERM/TERM` | a contestant's value, or the ratio of two values; terms are those of `claims.csv` |

use super::baseline::Model;
use super::cell::{CellVerdict, Evidence, PublishedCell};
use super::check::{Outcome, Term};
use super::effect::figure;
use super::findings::{Findings, TableResult};
use super::readings::Scores;
use super::readings::run::log_ratio;
use super::sensitivity::Sensitivity;
use super::{Study, text};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The result of the study that a link in the prose quotes.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Quote {
    Cause(String),
    Claims(Vec<String>),
    /// The number of certain cells or orders. The fields are the table, what is counted, and the labels that the
    /// counted cells must have.
    Count(String, Count, BTreeMap<String, String>),
    /// A value that was measured for a contestant, or the ratio of two such values. The fields are the table, the
    /// value, and the denominator of the ratio.
    Number(String, Box<Term>, Option<Box<Term>>),
    /// A number from the scores of the readings.
    Readings(ReadingsFigure),
    /// A number from the sensitivity analysis.
    Sensitivity(SensitivityFigure),
    /// The number of cells that a cause moves away from the published values. The fields are the table and the cause.
    Takes(String, String),
}

/// The kind of value that is quoted from the scores of the readings. A reading is an interpretation of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadingsFigure {
    Count,
    Seeds,
    Error(QuotedReading),
    Reading(QuotedReading),
    Orders(QuotedReading),
}

/// The reading (interpretation of the paper) whose number is quoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QuotedReading {
    Selected,
    HeldOut,
    StatedOnly,
    Median,
}

/// The kind of value that is quoted from the sensitivity analysis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SensitivityFigure {
    Held,
    Fragile,
    Error,
}

/// The kind of cells or orders whose number is quoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Count {
    Cells,
    Of(CellVerdict),
    Explained,
    Unexplained,
    Orders,
    PossibleOrders,
    Model(Model),
    /// The error of the cells, not their number.
    Error,
}

impl Quote {
    /// Parses the target of a link; `None` if the link is not a quotation.
    fn parse(target: &str) -> Result<Option<Self>, String> {
        let Some((file, part)) = target.split_once('#') else { return Ok(None) };
        Ok(match (file, file.strip_suffix(".toml")) {
            ("causes.toml", _) => Some(Self::Cause(part.to_owned())),
            ("readings.csv", _) => Some(Self::Readings(ReadingsFigure::parse(part)?)),
            ("sensitivity.csv", _) => Some(Self::Sensitivity(match part {
                "held" => SensitivityFigure::Held,
                "fragile" => SensitivityFigure::Fragile,
                "error" => SensitivityFigure::Error,
                _ => return Err(format!("'{part}' where held, fragile or error was expected")),
            })),
            ("claims.csv", _) => Some(Self::Claims(part.split(',').map(str::to_owned).collect())),
            (_, Some(table)) if !table.contains(['/', ':']) => Some(Self::of_table(table, part)?),
            _ => None,
        })
    }

    fn of_table(table: &str, part: &str) -> Result<Self, String> {
        if let Some(id) = part.strip_prefix("takes[").and_then(|rest| rest.strip_suffix(']')) {
            return Ok(Self::Takes(table.to_owned(), id.to_owned()));
        }
        let mut within = false;
        let mut terms = part.split(|c| {
            within = c == '[' || within && c != ']';
            c == '/' && !within
        });
        let (first, second) = (terms.next().unwrap_or_default(), terms.next().map(Term::parse).transpose()?);
        let first = Term::parse(first)?;
        let count = match first.contestant() {
            "cells" => Count::Cells,
            "agree" => Count::Of(CellVerdict::Agrees),
            "near" => Count::Of(CellVerdict::Near),
            "differ" => Count::Of(CellVerdict::Differs),
            "undetermined" => Count::Of(CellVerdict::Undetermined),
            "explained" => Count::Explained,
            "unexplained" => Count::Unexplained,
            "orders" => Count::Orders,
            "orders-possible" => Count::PossibleOrders,
            "arithmetic" => Count::Model(Model::Arithmetic),
            "pftk" => Count::Model(Model::Pftk),
            "error" => Count::Error,
            _ => return Ok(Self::Number(table.to_owned(), Box::new(first), second.map(Box::new))),
        };
        Ok(Self::Count(table.to_owned(), count, first.levels().clone()))
    }

    /// Checks that the study has the quoted result.
    fn check(&self, study: &Study) -> Result<(), String> {
        let table = |name: &str| study.table(name).ok_or_else(|| format!("no table '{name}'"));
        match self {
            Self::Cause(id) if study.causes.iter().any(|cause| cause.id == *id) => Ok(()),
            Self::Cause(id) => Err(format!("no cause '{id}'")),
            Self::Claims(ids) => {
                let missing = ids.iter().find(|id| study.claims.iter().all(|claim| claim.id != **id));
                missing.map_or(Ok(()), |id| Err(format!("no claim '{id}'")))
            }
            Self::Count(name, _, at) => match &table(name)?.published {
                Some(printed) => {
                    let unknown = at.keys().find(|key| !printed.columns.contains(key));
                    unknown.map_or(Ok(()), |key| Err(format!("{name} has no column '{key}'")))
                }
                None => Err(format!("nothing is printed of {name}")),
            },
            Self::Number(name, one, other) => {
                let names = table(name)?.names();
                let terms = std::iter::once(one).chain(other).map(|term| term.contestant());
                let unknown =
                    terms.into_iter().find(|contestant| names.iter().all(|name| name != contestant));
                unknown
                    .map_or(Ok(()), |unknown_name| Err(format!("no contestant '{unknown_name}' in {name}")))
            }
            Self::Takes(name, id) => {
                let table = table(name)?;
                let is_it = |cause: &super::CauseDefinition| {
                    cause.id == *id && cause.table == table.name && cause.explains
                };
                match study.causes.iter().any(is_it) {
                    true => Ok(()),
                    false => Err(format!("no cause '{id}' is run over all of {name}")),
                }
            }
            Self::Readings(_) | Self::Sensitivity(_) => Ok(()),
        }
    }

    /// Returns the text of the quoted result.
    fn text(&self, study: &Study, findings: &Findings) -> String {
        let table = |name: &str| findings.tables.iter().find(|found| found.name == name);
        let quoted = match self {
            Self::Readings(what) => text::scores(study, findings).map(|scores| what.of(scores)),
            Self::Sensitivity(what) => text::varied(study, findings).and_then(|found| what.of(found)),
            Self::Takes(name, id) => table(name).and_then(|found| {
                let (_, effect) = found.whole_table_effects.iter().find(|(known, _)| known == id)?;
                Some(effect.no_longer_near.len().to_string())
            }),
            Self::Cause(id) => {
                let found = findings.causes.iter().find(|found| found.cause.id == *id);
                found.and_then(|found| found.effect).map(|effect| times(effect.mean))
            }
            Self::Claims(ids) => Some(outcomes(ids, findings)),
            Self::Count(name, count, at) => table(name).map(|found| count.of(found, at)),
            Self::Number(name, one, other) => {
                table(name).zip(study.table(name)).and_then(|(found, table)| {
                    let metric = table.definition.metric;
                    let number = one.estimate(other.as_deref(), &found.figures, metric)?.mean;
                    Some(if other.is_some() { times(number) } else { short(number) })
                })
            }
        };
        quoted.unwrap_or_else(|| "no number".to_owned())
    }
}

impl Count {
    fn of(self, found: &TableResult, at: &BTreeMap<String, String>) -> String {
        match self {
            Self::Orders => return format!("{} of {}", found.orders.same, found.orders.all),
            Self::PossibleOrders => return found.orders.possible.to_string(),
            Self::Model(model) => {
                let one = found.baselines.iter().find(|one| one.model == model);
                return one
                    .map_or("none".to_owned(), |one| format!("{} of {}", one.orders.same, one.orders.all));
            }
            _ => {}
        }
        let is_there =
            |cell: &PublishedCell| at.iter().all(|(key, level)| has_level(cell.labels.get(key), level));
        let off = found.mismatches();
        let count = match self {
            Self::Error => return error_of(found.cells.iter().filter(|cell| is_there(cell))),
            Self::Cells | Self::Orders | Self::PossibleOrders | Self::Model(_) => {
                found.cells.iter().filter(|cell| is_there(cell)).count()
            }
            Self::Of(verdict) => {
                found.cells.iter().filter(|cell| is_there(cell) && cell.verdict == verdict).count()
            }
            Self::Explained => off.iter().filter(|cell| is_there(cell) && !cell.explained.is_empty()).count(),
            Self::Unexplained => {
                off.iter().filter(|cell| is_there(cell) && cell.explained.is_empty()).count()
            }
        };
        count.to_string()
    }
}

/// Returns whether a label is the wanted one, or is not the one that follows `!`.
fn has_level(label: Option<&String>, wanted: &str) -> bool {
    match wanted.strip_prefix('!') {
        Some(other) => label.is_none_or(|label| label != other),
        None => label.is_some_and(|label| label == wanted),
    }
}

/// Returns the error of cells as a factor: the root of the mean square of ln(ours/published), over the cells that are
/// evidence.
fn error_of<'a>(cells: impl Iterator<Item = &'a PublishedCell>) -> String {
    let squares: Vec<f64> = cells
        .filter(|cell| cell.evidence == Evidence::Transport)
        .map(|cell| log_ratio(cell).powi(2))
        .collect();
    match squares.len() {
        0 => "none".to_owned(),
        count => format!("x{:.2}", (squares.iter().sum::<f64>() / count as f64).sqrt().exp()),
    }
}

impl ReadingsFigure {
    fn parse(part: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{part}' where count, seeds, or selected, held-out, stated-only or median was expected")
        };
        let (part_name, of) = part.split_once('.').unwrap_or((part, ""));
        let part_name = match part_name {
            "count" if of.is_empty() => return Ok(Self::Count),
            "seeds" if of.is_empty() => return Ok(Self::Seeds),
            "selected" => QuotedReading::Selected,
            "held-out" => QuotedReading::HeldOut,
            "stated-only" => QuotedReading::StatedOnly,
            "median" if of.is_empty() => QuotedReading::Median,
            _ => return Err(wrong()),
        };
        match of {
            "" => Ok(Self::Error(part_name)),
            "reading" => Ok(Self::Reading(part_name)),
            "orders" => Ok(Self::Orders(part_name)),
            _ => Err(wrong()),
        }
    }

    fn of(self, scores: &Scores) -> String {
        match self {
            Self::Count => scores.readings.len().to_string(),
            Self::Seeds => scores.seeds.to_string(),
            Self::Error(which) => format!(
                "x{:.2}",
                match which {
                    QuotedReading::Selected => scores.readings[scores.selected].loss(),
                    QuotedReading::HeldOut => scores.held_out_loss(),
                    QuotedReading::StatedOnly => scores.readings[scores.stated_only].loss(),
                    QuotedReading::Median => scores.median,
                }
                .exp()
            ),
            Self::Reading(QuotedReading::Selected) => scores.readings[scores.selected].name.clone(),
            Self::Reading(QuotedReading::StatedOnly) => scores.readings[scores.stated_only].name.clone(),
            Self::Reading(_) => scores.held_out_names().join(", or "),
            Self::Orders(which) => {
                let [same, all, ..] = match which {
                    QuotedReading::Selected => scores.orders_of(scores.selected),
                    QuotedReading::StatedOnly => scores.orders_of(scores.stated_only),
                    _ => scores.held_out_orders(),
                };
                format!("{same} of {all}")
            }
        }
    }
}

impl SensitivityFigure {
    fn of(self, found: &Sensitivity) -> Option<String> {
        let fragile: Vec<_> = found.robustness.iter().filter(|robustness| robustness.is_fragile()).collect();
        Some(match self {
            Self::Held => format!("{} of {}", found.robustness.len() - fragile.len(), found.robustness.len()),
            Self::Fragile if fragile.is_empty() => "none".to_owned(),
            Self::Fragile => {
                let each = fragile.iter().map(|robustness| {
                    format!("{} ({} of {})", robustness.name, robustness.joint.0, robustness.joint.1)
                });
                each.collect::<Vec<_>>().join("; ")
            }
            Self::Error => {
                let [least, median, most] = found.joint_error?.map(|error| format!("x{:.2}", error.exp()));
                format!("{least} to {most}, median {median}")
            }
        })
    }
}

/// Returns the common outcome of all claims. If the claims have different outcomes, returns the outcome of each claim.
fn outcomes(ids: &[String], findings: &Findings) -> String {
    let of = |id: &String| {
        let found = findings.claims.iter().find(|(claim, _)| claim.id == *id);
        found.map_or(Outcome::Undetermined, |(_, found)| found.outcome)
    };
    match ids {
        [one] => of(one).word().to_owned(),
        [first, rest @ ..] if rest.iter().all(|id| of(id) == of(first)) => of(first).of_several().to_owned(),
        several => {
            let each: Vec<String> = several.iter().map(|id| format!("{id} {}", of(id).word())).collect();
            each.join(", ")
        }
    }
}

/// Formats a factor with two or three digits. A factor near 1 has three decimals, to distinguish it from 1.
fn times(value: f64) -> String {
    match value {
        v if (v - 1.0).abs() < 0.05 => format!("x{v:.3}"),
        v if v >= 10.0 => format!("x{v:.0}"),
        v if v >= 0.1 => format!("x{v:.2}"),
        v => format!("x{v:.3}"),
    }
}

/// Formats a number with few digits, for prose.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => figure(v),
    }
}

/// Returns the quotations of a page, each with the byte range of its text in the page.
fn quotes(page: &str) -> Result<Vec<(std::ops::Range<usize>, Quote)>, String> {
    let mut found = Vec::new();
    for (event, range) in Parser::new_ext(page, Options::ENABLE_TABLES).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. }) = event else { continue };
        let wrong = |what| format!("page.md: '{dest_url}': {what}");
        let Some(quote) = Quote::parse(&dest_url).map_err(wrong)? else { continue };
        // The text is between the first bracket of the link and the bracket before the target.
        let end =
            page[range.clone()].rfind("](").ok_or_else(|| wrong("[text](target) was expected".to_owned()))?;
        found.push((range.start + 1..range.start + end, quote));
    }
    Ok(found)
}

/// Checks that the study has every result that its page quotes.
///
/// # Errors
/// A one-line message with the link and the error.
pub fn check(study: &Study) -> Result<(), String> {
    for (range, quote) in quotes(&study.page)? {
        let text = &study.page[range];
        quote.check(study).map_err(|error| format!("page.md: the link '{text}': {error}"))?;
    }
    for (_, quote) in quotes(&study.definition.answer)? {
        quote.check(study).map_err(|error| format!("study.toml: answer: {error}"))?;
    }
    Ok(())
}

/// Returns the prose of the study with the text of every quotation filled in from these results.
#[must_use]
pub fn filled(study: &Study, findings: &Findings) -> String {
    filled_text(&study.page, study, findings)
}

/// Returns a Markdown text of the study with the text of every quotation filled in from these results.
pub(super) fn filled_text(text: &str, study: &Study, findings: &Findings) -> String {
    let mut out = String::with_capacity(text.len());
    let mut end = 0;
    // Errors in the text are ignored here, because they are reported when the study is opened.
    for (range, quote) in quotes(text).unwrap_or_default() {
        out.push_str(&text[end..range.start]);
        out.push_str(&quote.text(study, findings));
        end = range.end;
    }
    out.push_str(&text[end..]);
    out
}

/// Renders Markdown as HTML, without its title. Quotations link to the quoted item on the same page. Links to other
/// files become plain text.
#[must_use]
pub fn html(page: &str, is_drawn: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    let (mut is_text, mut is_title) = (false, false);
    let events = Parser::new_ext(page, Options::ENABLE_TABLES).filter_map(|event| match event {
        // The title is left out, because the enclosing page already has one.
        Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => {
            is_title = true;
            None
        }
        Event::End(TagEnd::Heading(HeadingLevel::H1)) => {
            is_title = false;
            None
        }
        _ if is_title => None,
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let target = match Quote::parse(&dest_url) {
                Ok(Some(quote)) => Some(quote.anchor(&is_drawn)),
                _ => dest_url.contains("://").then(|| dest_url.to_string()),
            };
            is_text = target.is_none();
            let dest_url = target?.into();
            Some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link) if std::mem::take(&mut is_text) => None,
        event => Some(event),
    });
    pulldown_cmark::html::push_html(&mut out, events);
    out
}

impl Quote {
    /// Returns the anchor of the quoted item on the page of the study.
    fn anchor(&self, is_drawn: &impl Fn(&str) -> bool) -> String {
        let mut slug = String::from("#");
        let _ = match self {
            Self::Cause(id) => write!(slug, "cause-{id}"),
            Self::Claims(ids) => write!(slug, "claim-{}", ids.first().map_or("", String::as_str)),
            Self::Count(name, ..) | Self::Number(name, ..) if is_drawn(name) => write!(slug, "table-{name}"),
            Self::Takes(_, id) => write!(slug, "cause-{id}"),
            Self::Readings(_) => write!(slug, "more-2"),
            Self::Sensitivity(_) => write!(slug, "more-3"),
            Self::Count(..) | Self::Number(..) => write!(slug, "cells"),
        };
        slug
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    #[test]
    fn links_quote_causes_claims_and_tables_and_others_are_left_alone() {
        let page = "# Title *it*\n\nA [x](causes.toml#rtt), [b *c*](claims.csv#x1,x2) and\n[](t.toml#a[loss=nth:10/shared,object=2]/b.packets),\n\
                    [5](t.toml#differ[loss=2%]), [the file](ns-2.tcl), [a page](../x.toml#y), [the web](https://x.org/a.toml#b).";
        let found = quotes(page).expect("a page");
        let texts: Vec<&str> = found.iter().map(|(range, _)| &page[range.clone()]).collect();
        assert_eq!(texts, ["x", "b *c*", "", "5"]);
        assert_eq!(found[0].1, Quote::Cause("rtt".to_owned()));
        assert_eq!(found[1].1, Quote::Claims(vec!["x1".to_owned(), "x2".to_owned()]));
        assert!(matches!(&found[2].1, Quote::Number(table, one, Some(other))
            if table == "t" && one.contestant() == "a" && other.contestant() == "b"));
        assert_eq!(
            found[3].1,
            Quote::Count(
                "t".to_owned(),
                Count::Of(CellVerdict::Differs),
                [("loss".to_owned(), "2%".to_owned())].into()
            )
        );
        let html = html(page, |table| table == "t");
        assert!(
            html.contains("<a href=\"#cause-rtt\">x</a>") && html.contains("<a href=\"#table-t\">5</a>"),
            "{html}"
        );
        assert!(!html.contains("Title"), "{html}");
        assert!(html.contains(" the file, a page, <a href=\"https://x.org/a.toml#b\">"), "{html}");
    }

    #[test]
    fn the_error_of_cells_is_a_factor_and_a_level_can_be_left_out() {
        let study = crate::open("osterdahl-2005").expect("a study");
        let table = study.table("every-tenth").expect("a table");
        let mut cells: Vec<PublishedCell> = table
            .rows()
            .map(|row| PublishedCell::measure(table, row, &Figures { points: Vec::new(), cases: None }))
            .filter(|cell| cell.labels["contestant"] == "tcp-linux")
            .collect();
        for cell in &mut cells {
            let factor = if cell.labels["objects"] == "50x10MiB" { 8.0 } else { 0.5 };
            cell.ours = Some(cell.published * factor);
        }
        let Quote::Count(_, Count::Error, at) =
            Quote::of_table("every-tenth", "error[contestant=tcp-linux,objects=!50x10MiB]").expect("a quote")
        else {
            panic!("an error was expected");
        };
        let chosen =
            |cell: &&PublishedCell| at.iter().all(|(key, level)| has_level(cell.labels.get(key), level));
        assert_eq!(cells.iter().filter(chosen).count(), 5);
        assert_eq!(error_of(cells.iter().filter(chosen)), "x2.00");
        assert_eq!(error_of(cells.iter()), "x2.88");
        assert_eq!(error_of(std::iter::empty()), "none");
    }

    #[test]
    fn numbers_have_two_or_three_figures() {
        assert_eq!(
            [0.0838, 0.6517, 0.9982, 3.643, 19.94].map(times),
            ["x0.084", "x0.65", "x0.998", "x3.64", "x20"]
        );
        assert_eq!([4_157_693.0, 10.76, 6.13, 0.203].map(short), ["4157693", "10.8", "6.13", "0.203"]);
    }
}
