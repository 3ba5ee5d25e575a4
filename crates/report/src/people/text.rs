//! Formats the results of a population as text: which contestant is fastest for which share of people, where, by how
//! much, and why.

use super::tally::{CauseSummary, Group, LOSSES, Share, Shares, Tally};
use anabranch_results::stats::summary::quantile;
use std::fmt::Write;

/// The maximum number of causes that are printed.
const MOST_CAUSES: usize = 12;

/// The minimum number of people in a region for which results are printed.
pub(super) const FEW: usize = 30;

/// The explanation of the terms in the results.
pub(super) const TERMS: &str = "fastest: at least 3 % faster than every other contestant, and beyond chance (95 %); tie: within 3 %; \
                                undecided: too few page loads to decide";

/// Formats all results of a simulated population.
#[must_use]
pub fn render(tally: &Tally) -> String {
    let mut out = String::new();
    if tally.count() == 0 {
        return "No person has finished.\n".to_owned();
    }
    for population in tally.populations() {
        one(&mut out, tally, population);
    }
    for (name, rest) in tally.contestants() {
        if let Some(name) = name {
            let _ = writeln!(out, "{name}: {rest}");
        }
    }
    if tally.populations().len() > 1 {
        out.push('\n');
        compared(&mut out, tally);
    }
    out
}

/// Formats the sentence about all people. The sentence gives, for each contestant, the share of people for whom it is
/// the fastest by at least 3 %. It also gives the shares of people for whom the fastest contestants tie, or the order
/// is undecided. For example: `http1 is fastest for 35 % of 2000 people, http3 for 18 %. For 37 % the fastest
/// contestants tie; for 10 % the result is undecided.`
pub(super) fn sentence(names: &[String], all: &Shares) -> String {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(all.fastest[at].count));
    let each = order.iter().map(|&at| {
        let share = percent(all.fastest[at].value());
        if at == order[0] {
            format!("{} is fastest for {share} of {}", names[at], people(all.people))
        } else {
            format!("{} for {share}", names[at])
        }
    });
    format!(
        "{}. For {} the fastest contestants tie; for {} the result is undecided.",
        each.collect::<Vec<_>>().join(", "),
        percent(all.tied.value()),
        percent(all.undecided.value())
    )
}

fn one(out: &mut String, tally: &Tally, population: &str) {
    let own = |group: &Group| group.population == population;
    let all = tally.shares(own);
    let called = if population.is_empty() { String::new() } else { format!(" of {population}") };
    let _ = writeln!(
        out,
        "{}{called}, simulated; the time of a person is the geometric mean of all page loads of this person\n{TERMS}\n",
        people(all.people)
    );
    let _ = writeln!(out, "{}\n", sentence(tally.names(), &all));
    let access = tally.values(|group| &group.access);
    let mut columns = vec![("all", all.clone())];
    columns.extend(
        access.iter().map(|kind| (*kind, tally.shares(|group| own(group) && group.access == **kind))),
    );
    table(out, tally.names(), "fastest for", &columns);
    out.push('\n');
    let losses = LOSSES.map(|(class, _)| (class, tally.shares(|group| own(group) && group.loss == class)));
    table(out, tally.names(), "by random packet loss", &losses);
    let _ = write!(out, "\n{:<28}", "most common outcome");
    for kind in &access {
        let _ = write!(out, "{kind:<40}");
    }
    trim(out);
    for region in tally.values(|group| &group.region) {
        let _ = write!(out, "{region:<28}");
        for kind in &access {
            let shares = tally.shares(|group| own(group) && group.region == region && group.access == **kind);
            let _ = write!(out, "{:<40}", most_common_outcome(&shares, tally.names()));
        }
        trim(out);
    }
    pairs(out, tally, population);
    costs(out, tally, population);
    causes(out, tally, population);
    out.push('\n');
}

/// Formats a table that compares each contestant with each earlier contestant of the plan.
fn pairs(out: &mut String, tally: &Tally, population: &str) {
    let first = wide(12, tally.names()) * 2 + 4;
    let _ = writeln!(
        out,
        "\n{:<first$}{:<18}{:<18}{:<18}time of the second / time of the first:",
        "", "faster for", "slower for", "tie for"
    );
    let _ = writeln!(out, "{:<1$}10th, 50th, 90th percentile of people", "", first + 54);
    for one in 0..tally.names().len() {
        for other in 0..one {
            let pair = tally.pair(one, other, |group| group.population == population);
            let name = format!("{} vs {}", tally.names()[one], tally.names()[other]);
            let [faster, slower, tied] = [pair.faster, pair.slower, pair.tied].map(format_share);
            let _ = writeln!(
                out,
                "{name:<first$}{faster:<18}{slower:<18}{tied:<18}{}",
                [0.1, 0.5, 0.9].map(|share| ratio_at(&pair.ratios, share)).join("  ")
            );
        }
    }
}

/// Formats how much longer people would wait with each contestant. The measure is a ratio for each person: the page
/// time with this contestant, divided by the person's shortest page time with any contestant.
fn costs(out: &mut String, tally: &Tally, population: &str) {
    let first = wide(24, tally.names());
    let _ = writeln!(
        out,
        "\n{:<first$}{:<18}time / shortest time of any contestant:",
        "if everyone used it", "within 3 % for"
    );
    let _ = writeln!(out, "{:<1$}geometric mean, 50th, 90th percentile of people", "", first + 18);
    for (at, name) in tally.names().iter().enumerate() {
        let cost = tally.cost(at, |group| group.population == population);
        let mean = shown(cost.mean());
        let ratios = [0.5, 0.9].map(|share| ratio_at(&cost.ratios, share)).join("  ");
        let _ = writeln!(out, "{name:<first$}{:<18}{mean:<16}{ratios}", format_share(cost.near_fastest));
    }
    let _ = write!(out, "\n{:<first$}", "geometric mean, by loss");
    for (class, _) in LOSSES {
        let _ = write!(out, "{class:<16}");
    }
    trim(out);
    for (at, name) in tally.names().iter().enumerate() {
        let _ = write!(out, "{name:<first$}");
        for (class, _) in LOSSES {
            let _ = write!(out, "{:<16}", mean_of(tally, at, population, class));
        }
        trim(out);
    }
}

/// Returns how many times longer people in this loss class would wait with a contestant than with the contestant that
/// is fastest for each person. The result is a geometric mean, or `-` if the class has no people.
pub(super) fn mean_of(tally: &Tally, contestant: usize, population: &str, class: &str) -> String {
    let cost = tally.cost(contestant, |group| group.population == population && group.loss == class);
    if cost.ratios.is_empty() { "-".to_owned() } else { shown(cost.mean()) }
}

fn causes(out: &mut String, tally: &Tally, population: &str) {
    let causes: Vec<_> = tally.causes().into_iter().filter(|cause| cause.population == population).collect();
    if causes.is_empty() {
        return;
    }
    let (people, unnamed) = tally.explained(population);
    let _ = writeln!(
        out,
        "\nwhy, by experiments with one person in ten ({}): the fastest contestant vs the next that is slower beyond chance;\n\
         the settings of the fastest that make the slower one faster; for how many people; and by how much",
        self::people(people)
    );
    let (held_back, helped): (Vec<&CauseSummary>, Vec<&CauseSummary>) =
        causes.iter().partition(|cause| cause.holds_back);
    cause_lines(out, &helped);
    let _ = writeln!(
        out,
        "no tested setting explains the gap for {} of {} whose contestants differ",
        unnamed.count,
        self::people(unnamed.of)
    );
    if !held_back.is_empty() {
        let _ = writeln!(
            out,
            "\nalso tried, and no reason: settings of the fastest contestant that make the slower one even slower"
        );
        cause_lines(out, &held_back);
    }
}

/// Formats causes of the differences between contestants, with one line for each cause.
fn cause_lines(out: &mut String, causes: &[&CauseSummary]) {
    for why in causes.iter().take(MOST_CAUSES) {
        let pair = format!("{} vs {}", why.winner, why.loser);
        let label = format!("{} ({})", why.factor, why.change);
        let noun = if why.people == 1 { "person" } else { "people" };
        let _ = writeln!(out, "{pair:<27} {label:<52} {:>3} {noun:<7} x{:.2}", why.people, why.effect);
    }
    if causes.len() > MOST_CAUSES {
        let _ = writeln!(out, "and {} more", causes.len() - MOST_CAUSES);
    }
}

/// Returns the width in characters of a column for names: `least`, or more if a name is long.
fn wide(least: usize, names: &[String]) -> usize {
    names.iter().map(|name| name.chars().count() + 2).fold(least, usize::max)
}

/// Returns a quantile of the sorted `ratios` as text, for example `x1.50`. `share` is from 0 to 1; 0.5 is the median.
pub(super) fn ratio_at(ratios: &[f64], share: f64) -> String {
    let Some(ratio) = quantile(ratios, share) else { return "-".to_owned() };
    // Interpolation between a number and infinity gives NaN, so the next lower ratio is used instead.
    let ratio = if ratio.is_nan() { ratios[(share * (ratios.len() - 1) as f64) as usize] } else { ratio };
    shown(ratio)
}

/// Formats the ratio of two page load times, for example `x1.50`. The ratio is infinite if the page load in the
/// numerator did not finish, and 0 if the page load in the denominator did not finish.
pub(super) fn shown(ratio: f64) -> String {
    match ratio {
        0.0 => "own unfinished".to_owned(),
        ratio if ratio.is_finite() => format!("x{ratio:.2}"),
        _ => "unfinished".to_owned(),
    }
}

/// Formats a table with the share of people for whom each contestant is fastest. Each column is a selection of people.
fn table(out: &mut String, names: &[String], title: &str, columns: &[(&str, Shares)]) {
    let first = wide(24, names);
    let mut row = |name: &str, cell: &dyn Fn(&str, &Shares) -> String| {
        let _ = write!(out, "{name:<first$}");
        for (title, shares) in columns {
            let _ = write!(out, "{:<20}", cell(title, shares));
        }
        trim(out);
    };
    row(title, &|title, _| title.to_owned());
    row("people", &|_, shares| shares.people.to_string());
    for (at, name) in names.iter().enumerate() {
        row(name, &|_, shares| format_share(shares.fastest[at]));
    }
    row("tie", &|_, shares| format_share(shares.tied));
    row("undecided", &|_, shares| format_share(shares.undecided));
    for (at, name) in names.iter().enumerate() {
        if columns.iter().any(|(_, shares)| shares.unfinished[at].count > 0) {
            row(&format!("{name}: unfinished"), &|_, shares| format_share(shares.unfinished[at]));
        }
    }
}

/// Formats a table with one line for each population. A line has the share of people for whom each contestant is
/// fastest. Populations differ in their assumptions, so the differences between the lines show the influence of the
/// assumptions.
fn compared(out: &mut String, tally: &Tally) {
    let each = wide(14, tally.names());
    let _ = write!(out, "{:<28}", "fastest for");
    for name in tally.names() {
        let _ = write!(out, "{name:<each$}");
    }
    let _ = writeln!(out, "{:<each$}undecided", "tie");
    for population in tally.populations() {
        let shares = tally.shares(|group| group.population == population);
        let _ = write!(out, "{population:<28}");
        for share in shares.outcomes() {
            let _ = write!(out, "{:<each$}", percent(share.value()));
        }
        trim(out);
    }
}

/// Formats the most common outcome, or all outcomes that tie for the first place, with three numbers: the share, its
/// confidence interval, and the number of people. For example: `http3 61 % (55-67) of 240`.
pub(super) fn most_common_outcome(shares: &Shares, names: &[String]) -> String {
    if shares.people < FEW {
        return format!("too few: {}", shares.people);
    }
    let most = shares.most_common();
    let Some(share) = most.first().and_then(|&at| shares.outcomes().nth(at)) else { return String::new() };
    let [low, high] = share.interval().map(|share| share * 100.0);
    let most = most.iter().map(|&at| outcome(names, at)).collect::<Vec<_>>().join(", ");
    format!("{most} {} ({low:.0}-{high:.0}) of {}", percent(share.value()), shares.people)
}

/// Returns the name of the outcome with the index `at` in [`Shares::outcomes`].
pub(super) fn outcome(names: &[String], at: usize) -> &str {
    names.get(at).map_or(if at == names.len() { "tie" } else { "undecided" }, String::as_str)
}

/// Formats a share with its interval, for example `38 % (36-40)`. Returns `-` if there are no people.
pub(super) fn format_share(share: Share) -> String {
    if share.of == 0 {
        return "-".to_owned();
    }
    let [low, high] = share.interval();
    // The bounds of a small share have one decimal place, other bounds none.
    let digits = usize::from(share.value() < 0.095);
    format!("{:.1} % ({:.digits$}-{:.digits$})", share.value() * 100.0, low * 100.0, high * 100.0)
}

/// Formats a number of people, for example `1 person` or `2 people`.
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
    use anabranch_results::Verdict;

    #[test]
    fn people_in_a_few_lines() {
        let text = render(&three());
        for line in [
            "3 people, simulated; the time of a person is",
            "six is fastest for 33 % of 3 people, quic for 33 %. For 33 % the fastest contestants tie; for 0 % the result \
             is undecided.",
            "six: tcp:connections=6",
            "six                     33.3 % (6-79)",
            "tie                     33.3 % (6-79)",
            "quic: unfinished        33.3 % (6-79)",
            "people                  2                   0                   0                   1",
            "-                   -",
            "Africa                      too few: 1",
            "quic vs six                 33.3 % (6-79)     33.3 % (6-79)     33.3 % (6-79)     x0.20  x0.99  x1.80",
            "six                     66.7 % (21-94)    x1.26           x1.00  x1.80",
            "quic                    66.7 % (21-94)    unfinished      x1.01  unfinished",
            "six vs quic                 windows (iw=40)                                        2 people  x1.10",
            "no tested setting explains the gap for 0 of 1 person whose contestants differ",
            "six vs quic                 request order (iw=40)                                  1 person  x0.50",
            "\nsix                     x1.41           -               -               x1.00\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 150 && line.trim_end() == line), "{text}");
        assert_eq!([0.0, 1.5, f64::INFINITY].map(shown), ["own unfinished", "x1.50", "unfinished"]);
        assert_eq!(render(&Tally::default()), "No person has finished.\n");
    }

    #[test]
    fn long_names_stay_apart_from_figures_and_ties_are_told() {
        let names = ["tcp:connections=6,tls=yes,priority=yes,cc=bbr", "tcp:http=2,tls=yes"];
        let mut tally = Tally::default();
        for number in 1..=40 {
            tally.add_person(&Group::default(), number, &[(names[0], Some(100.0)), (names[1], Some(200.0))]);
            if number > 20 {
                tally.decide(&Group::default(), number, names[1], names[0], Verdict::More);
            }
        }
        tally.add_person(&Group::default(), 41, &[]);
        let text = render(&tally);
        for line in [
            format!("\n{}  50.0 % (35-65)", names[0]),
            format!("\n{} vs {}", names[1], names[0]),
            format!("{}, undecided 50 % (35-65) of 40", names[0]),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        let run_in = |line: &str| {
            names.iter().any(|name| line.contains(&format!("{name}0")) || line.contains(&format!("{name}x")))
        };
        assert!(!text.lines().any(run_in), "{text}");
    }
}
