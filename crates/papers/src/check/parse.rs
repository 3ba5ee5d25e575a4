//! The parser of the checks that decide a study's claims.

use super::{Check, Direction, LARGER, Reading, Relation, SAME, SMALLER, Term};
use crate::metric::Metric;
use std::collections::BTreeMap;

/// Parses the `check` column of a claim. Returns every reading of the claim: each is one way to interpret its text.
///
/// # Errors
/// A one-line message with the error and its location.
pub fn readings(text: &str) -> Result<Vec<Reading>, String> {
    let all: Vec<&str> = text.split(" | ").map(str::trim).collect();
    if let [one] = all.as_slice()
        && !one.starts_with('(')
    {
        return Ok(vec![Reading { name: String::new(), checks: parse(one)? }]);
    }
    if all.len() < 2 {
        return Err(format!("'{text}': a reading has a name where there are several, divided by ' | '"));
    }
    let each = all.into_iter().map(|one| {
        let named = one.strip_prefix('(').and_then(|one| one.split_once(") "));
        let (name, checks) =
            named.ok_or_else(|| format!("'{one}': '(NAME OF THE READING) ..' was expected"))?;
        Ok(Reading { name: name.to_owned(), checks: parse(checks)? })
    });
    each.collect()
}

/// Parses the checks of one reading (interpretation) of a claim.
///
/// # Errors
/// A one-line message with the error and its location.
pub fn parse(text: &str) -> Result<Vec<Check>, String> {
    text.split(';')
        .map(|one| one_of(one.trim()).map_err(|what| format!("'{}': {what}", one.trim())))
        .collect()
}

fn one_of(text: &str) -> Result<Check, String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    match word {
        "" => return Err("nothing is to be checked".to_owned()),
        "cause" => return Ok(Check::Cause(rest.to_owned())),
        "prediction" => return Ok(Check::Prediction(rest.to_owned())),
        "undecidable" if rest.is_empty() => return Err("a reason is missing".to_owned()),
        "undecidable" => return Ok(Check::Undecidable(rest.to_owned())),
        "feature" => {
            let (row, words) = rest.split_once(':').ok_or("feature ROW: COLUMN=WORD was expected")?;
            let words = words.split(',').map(|pair| {
                let (column, word) = pair.split_once('=').ok_or("COLUMN=WORD was expected")?;
                Ok((column.trim().to_owned(), word.trim().to_owned()))
            });
            return Ok(Check::Feature {
                row: row.trim().to_owned(),
                words: words.collect::<Result<_, String>>()?,
            });
        }
        _ => {}
    }
    let (table, rest) = text.split_once(':').ok_or("TABLE: was expected")?;
    let (relation, at) = match rest.split_once(" at ") {
        Some((relation, at)) => (relation, levels(at)?),
        None => (rest, BTreeMap::new()),
    };
    Ok(Check::Table { table: table.trim().to_owned(), relation: relation_of(relation.trim())?, at })
}

fn relation_of(text: &str) -> Result<Relation, String> {
    for (word, direction) in [(" rises over ", Direction::Rises), (" falls over ", Direction::Falls)] {
        if let Some((term, factor)) = text.split_once(word) {
            return Ok(Relation::Trend(Term::parse(term)?, direction, factor.trim().to_owned()));
        }
    }
    for (sign, bounds) in [(" < ", SMALLER), (" > ", LARGER), (" = ", SAME)] {
        if let Some((one, other)) = text.split_once(sign) {
            if let (Some((a, b)), Some((c, d))) = (one.split_once(" / "), other.split_once(" / ")) {
                let terms = [Term::parse(a)?, Term::parse(b)?, Term::parse(c)?, Term::parse(d)?];
                return Ok(Relation::Ratios(Box::new(terms), bounds));
            }
            return Ok(Relation::Within(Term::parse(one)?, Some(Term::parse(other)?), bounds));
        }
    }
    let (terms, bounds) =
        text.split_once(" in ").ok_or("<, >, =, 'in A..B' or 'rises over KEY' was expected")?;
    let (low, high) = bounds.split_once("..").ok_or("bounds A..B were expected")?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| format!("'{text}' is no number"));
    let bounds = [number(low)?, number(high)?];
    match terms.split_once(" / ") {
        Some((one, other)) => Ok(Relation::Within(Term::parse(one)?, Some(Term::parse(other)?), bounds)),
        None => Ok(Relation::Within(Term::parse(terms)?, None, bounds)),
    }
}

fn levels(text: &str) -> Result<BTreeMap<String, String>, String> {
    let pairs = text.split(',').map(|pair| {
        let (key, level) =
            pair.split_once('=').ok_or_else(|| format!("'{pair}' where KEY=LEVEL was expected"))?;
        Ok((key.trim().to_owned(), level.trim().to_owned()))
    });
    pairs.collect()
}

impl Term {
    /// Parses a term (one measured number of a check), for example `tcp`, `tcp.packets` or `tcp[loss=1%]`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, at) = match text.split_once('[') {
            Some((name, rest)) => (name, levels(rest.strip_suffix(']').ok_or("']' is missing")?)?),
            None => (text, BTreeMap::new()),
        };
        let (contestant, metric) = match name.split_once('.') {
            Some((contestant, metric)) => (contestant, Some(Metric::parse(metric)?)),
            None => (name, None),
        };
        if contestant.is_empty() || contestant.contains(' ') {
            return Err(format!("'{text}' where a contestant was expected"));
        }
        Ok(Self { contestant: contestant.to_owned(), metric, at })
    }
}
