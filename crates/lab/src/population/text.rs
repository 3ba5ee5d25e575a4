//! What was found of people, as text: for which share of them which contestant is soonest, where, by how much, and why.

use super::tally::{Group, LOSSES, Share, Shares, Tally};
use crate::stats::summary::quantile;
use std::fmt::Write;

/// Causes that are told.
const MOST_CAUSES: usize = 12;

/// Of fewer people nothing is said of a region.
pub(super) const FEW: usize = 30;

/// All of it.
#[must_use]
pub fn render(tally: &Tally) -> String {
    let mut out = String::new();
    if tally.count() == 0 {
        return "Nobody is done.\n".to_owned();
    }
    for population in tally.populations() {
        one(&mut out, tally, population);
    }
    for (name, rest) in tally.nicknames() {
        let _ = writeln!(out, "{name}: {rest}");
    }
    if tally.populations().len() > 1 {
        out.push('\n');
        compared(&mut out, tally);
    }
    out
}

/// `Of 2000 people http1 is soonest for 35 %, ..., by more than 3 % over all others; for 47 % the first are level.`
pub(super) fn sentence(names: &[String], all: &Shares) -> String {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(all.soonest[at].count));
    let each = order.iter().map(|&at| {
        let is = if at == order[0] { " is soonest" } else { "" };
        format!("{}{is} for {}", names[at], percent(all.soonest[at].value()))
    });
    format!(
        "Of {} {}, by more than 3 % over all others; for {} the first are level.",
        people(all.people),
        each.collect::<Vec<_>>().join(", "),
        percent(all.level.value())
    )
}

fn one(out: &mut String, tally: &Tally, population: &str) {
    let own = |group: &Group| group.population == population;
    let all = tally.shares(own);
    let called = if population.is_empty() { String::new() } else { format!(" of {population}") };
    let _ = writeln!(
        out,
        "{}{called}; a time is the geometric mean of a person's page loads; level: within 3 %\n",
        people(all.people)
    );
    let _ = writeln!(out, "{}\n", sentence(tally.names(), &all));
    let access = tally.values(|group| &group.access);
    let mut columns = vec![("all", all.clone())];
    columns.extend(
        access.iter().map(|kind| (*kind, tally.shares(|group| own(group) && group.access == **kind))),
    );
    table(out, tally.names(), "soonest, of people", &columns);
    out.push('\n');
    let losses = LOSSES.map(|(class, _)| (class, tally.shares(|group| own(group) && group.loss == class)));
    table(out, tally.names(), "by their network's loss", &losses);
    let _ = write!(out, "\n{:<28}", "the commonest outcome");
    for kind in &access {
        let _ = write!(out, "{kind:<32}");
    }
    trim(out);
    for region in tally.values(|group| &group.region) {
        let _ = write!(out, "{region:<28}");
        for kind in &access {
            let shares = tally.shares(|group| own(group) && group.region == region && group.access == **kind);
            let _ = write!(out, "{:<32}", most(&shares, tally.names()));
        }
        trim(out);
    }
    let heading = ["", "sooner for", "later for", "the other's time over its own:"];
    let _ = writeln!(out, "\n{:<28}{:<18}{:<18}{}", heading[0], heading[1], heading[2], heading[3]);
    let _ = writeln!(out, "{:<64}10th, 50th, 90th of 100 people", "");
    for one in 0..tally.names().len() {
        for other in 0..one {
            let pair = tally.pair(one, other, own);
            let at = |share: f64| {
                quantile(&pair.ratios, share).map_or("-".to_owned(), |ratio| format!("x{ratio:.2}"))
            };
            let _ = writeln!(
                out,
                "{:<28}{:<18}{:<18}{}  {}  {}",
                format!("{} over {}", tally.names()[one], tally.names()[other]),
                told(pair.sooner),
                told(pair.later),
                at(0.1),
                at(0.5),
                at(0.9)
            );
        }
    }
    let why: Vec<_> = tally.why().into_iter().filter(|why| why.population == population).collect();
    if !why.is_empty() {
        let _ = writeln!(
            out,
            "\nwhy, by experiments with one person in ten ({} people): who is sooner than the next that is not level, and \
             what\nmakes the difference, how often, and how much sooner it makes the other",
            tally.explained(population)
        );
        for why in why.iter().take(MOST_CAUSES) {
            let pair = format!("{} over {}", why.winner, why.loser);
            let word = if why.people == 1 { "person" } else { "people" };
            let _ =
                writeln!(out, "{pair:<28}{:<34}{:>4} {word:<7} x{:.2}", why.factor, why.people, why.effect);
        }
        if why.len() > MOST_CAUSES {
            let _ = writeln!(out, "and {} more", why.len() - MOST_CAUSES);
        }
    }
    out.push('\n');
}

/// Who is soonest for which share, a column for some of the people.
fn table(out: &mut String, names: &[String], title: &str, columns: &[(&str, Shares)]) {
    let mut row = |name: &str, cell: &dyn Fn(&str, &Shares) -> String| {
        let _ = write!(out, "{name:<24}");
        for (title, shares) in columns {
            let _ = write!(out, "{:<20}", cell(title, shares));
        }
        trim(out);
    };
    row(title, &|title, _| title.to_owned());
    row("people", &|_, shares| shares.people.to_string());
    for (at, name) in names.iter().enumerate() {
        row(name, &|_, shares| told(shares.soonest[at]));
    }
    row("nobody: level", &|_, shares| told(shares.level));
    for (at, name) in names.iter().enumerate() {
        if columns.iter().any(|(_, shares)| shares.unfinished[at].count > 0) {
            row(&format!("{name}: not done"), &|_, shares| told(shares.unfinished[at]));
        }
    }
}

/// How the shares move from one population to the next: what hangs on what is assumed.
fn compared(out: &mut String, tally: &Tally) {
    let _ = write!(out, "{:<28}", "soonest, of people");
    for name in tally.names() {
        let _ = write!(out, "{name:<14}");
    }
    out.push_str("level\n");
    for population in tally.populations() {
        let shares = tally.shares(|group| group.population == population);
        let _ = write!(out, "{population:<28}");
        for share in &shares.soonest {
            let _ = write!(out, "{:<14}", percent(share.value()));
        }
        let _ = writeln!(out, "{}", percent(shares.level.value()));
    }
}

/// `http3 61 % of 240`.
pub(super) fn most(shares: &Shares, names: &[String]) -> String {
    if shares.people < FEW {
        return format!("too few: {}", shares.people);
    }
    match shares.commonest() {
        Some(at) => format!("{} {} of {}", names[at], percent(shares.soonest[at].value()), shares.people),
        None => format!("level {} of {}", percent(shares.level.value()), shares.people),
    }
}

/// `38 % (36-40)`.
pub(super) fn told(share: Share) -> String {
    let [low, high] = share.interval();
    // Of a small share the interval has a digit more.
    let digits = usize::from(share.value() < 0.095);
    format!("{:.1} % ({:.digits$}-{:.digits$})", share.value() * 100.0, low * 100.0, high * 100.0)
}

/// `1 person`, `2 people`.
pub(super) fn people(count: usize) -> String {
    if count == 1 { "1 person".to_owned() } else { format!("{count} people") }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn trim(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::three;
    use super::*;

    #[test]
    fn people_in_a_few_lines() {
        let text = render(&three());
        for line in [
            "3 people; a time is",
            "Of 3 people six is soonest for 33 %, quic for 33 %, by more than 3 % over all others; for 33 % the first are level.",
            "six: tcp:connections=6",
            "six                     33.3 % (6-79)",
            "nobody: level           33.3 % (6-79)",
            "quic: not done          33.3 % (6-79)",
            "people                  2                   0                   0                   1",
            "Africa                      too few: 1",
            "quic over six               33.3 % (6-79)     33.3 % (6-79)     x0.20  x0.99  x1.80",
            "six over quic               windows                              2 people  x1.10",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120 && line.trim_end() == line), "{text}");
        assert_eq!(render(&Tally::default()), "Nobody is done.\n");
    }
}
