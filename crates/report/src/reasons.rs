//! Sentences about why the winner is faster, and about the changes that would make another contestant win. Every
//! sentence is based on a run that was made with one change, and quotes the result of that run.

use super::medians::{self, Line, Standing, counted, ratio};
use super::words::number;
use anabranch_results::stats::decision::GAP;
use anabranch_results::verdict::and;
use anabranch_results::{Cause, Changed, Comparison, Condition, Experiment, TestedFactor, label};

/// Explains why the winner is faster than the fastest of the contestants that do not tie with it.
pub(super) fn why(standing: &Standing<'_>) -> Line {
    let tried = standing.point.comparisons.iter().filter_map(|one| Some((one, one.experiment.as_ref()?)));
    let nearest = tried.filter(|(_, tried)| tried.ranks[0] == 1).min_by_key(|(_, tried)| tried.ranks);
    let Some((found, tried)) = nearest else {
        let text = match standing.winner() {
            Some(_) => "not tested.",
            None => "not tested, because no contestant is clearly the fastest.",
        };
        return Line::new("Why", vec![text.to_owned()]);
    };
    let (winner, loser) = (name(standing, &tried.winner), name(standing, &tried.loser));
    let is_of =
        |at: usize, typed: &str| standing.ranked.get(at).is_some_and(|it| it.contestant.name == typed);
    // The answer may call two contestants too close although one is faster on average.
    let is_close = standing.rivals().any(|(rival, _)| rival.contestant.name == tried.loser);
    let label = if is_close && is_of(0, &tried.winner) {
        format!("Why {winner} is faster than {loser} on average")
    } else if is_of(0, &tried.winner) && is_of(1, &tried.loser) {
        "Why".to_owned()
    } else {
        format!("Why {winner} is faster than {loser}")
    };
    let names = (winner.as_str(), loser.as_str());
    let mut clauses = reasons(&found.causes, tried, names);
    if clauses.is_empty() {
        clauses.push(match tried.notes.first().filter(|_| tried.factors.is_empty()) {
            Some(note) => format!("not tested: {note}."),
            None => "nothing tried explains it.".to_owned(),
        });
        clauses.extend(tried.untried().map(|note| format!("{}.", super::words::capital(note))));
    }
    Line::new(label, clauses)
}

/// Returns the reasons for the winner's lead, the most important first. If a change of one setting closes the gap, it
/// is the only reason. Otherwise, the setting that explains the largest part comes first, and then a condition without
/// which the gap disappears.
fn reasons(causes: &[Cause], tried: &Experiment, names: (&str, &str)) -> Vec<String> {
    let remaining: Vec<(&Cause, f64)> =
        causes.iter().filter_map(|cause| Some((cause, remaining_gap(tried, cause)?))).collect();
    let strongest = |whole: bool| {
        let of_kind = remaining.iter().filter(move |(_, gap)| (*gap < GAP) == whole);
        of_kind.min_by(|a, b| a.1.total_cmp(&b.1))
    };
    if let Some((cause, gap)) = strongest(true) {
        return vec![reason(cause, *gap, "", names)];
    }
    let mut all: Vec<String> = Vec::new();
    all.extend(strongest(false).map(|(cause, gap)| reason(cause, *gap, "in part, ", names)));
    let needed = tried.conditions.iter().filter(|condition| condition.needed);
    let condition = needed.min_by(|a, b| a.gap.total_cmp(&b.gap));
    all.extend(condition.map(|condition| circumstance(condition, all.is_empty(), names)));
    if all.is_empty() {
        let partial = tried.conditions.iter().filter(|one| explains_part(tried, one));
        let largest = partial.min_by(|a, b| a.gap.total_cmp(&b.gap));
        all.extend(largest.map(|condition| format!("in part, {}", circumstance(condition, true, names))));
    }
    all
}

/// A condition (for example loss) counts as a reason only if it explains at least this part of the gap between the
/// contestants. The gap is measured in logarithms.
const MIN_PART: f64 = 0.5;

/// Returns whether the gap between the contestants is clearly smaller without a condition.
fn explains_part(tried: &Experiment, one: &Condition) -> bool {
    one.gap.ln() <= (1.0 - MIN_PART) * tried.gap.ln() && one.ci95[1] < tried.ci95[0]
}

/// Returns the gap that remains after the change of `cause` alone, or together with the changes that it needs. `None`
/// if no run shows it, or if that run shows no effect.
fn remaining_gap(tried: &Experiment, cause: &Cause) -> Option<f64> {
    if !cause.with.is_empty() {
        // `effect` is the effect after other changes, and these may make the loser slower. The gap after several
        // changes is known only for all of them.
        let is_all = cause.with.len() + 1 == tried.factors.len();
        let all = tried.unexplained.as_ref().filter(|_| is_all)?.ratio;
        return (tried.gap / all >= GAP).then_some(all);
    }
    let alone = |factor: &&TestedFactor| factor.change == cause.change;
    let alone = tried.factors.iter().find(alone)?.alone;
    (alone.ratio >= GAP && alone.ci[0] > 1.0).then(|| tried.gap / alone.ratio)
}

fn reason(cause: &Cause, gap: f64, part: &str, names: (&str, &str)) -> String {
    let (what, its) = change(cause);
    let together =
        if cause.with.is_empty() { String::new() } else { format!(" together with {}", and(&cause.with)) };
    let its = if cause.with.is_empty() { its } else { "these settings".to_owned() };
    let or = cause.alternatives.first().map_or(String::new(), |other| format!(" (or {other})"));
    format!("{part}{what}{or}{together}. If {} had {its}, {}.", names.1, outcome(gap, names))
}

/// Describes the result of an experiment: which contestant would be faster, and how many times. `gap` is the loser's
/// time divided by the winner's time. Below 1, the loser would be faster.
fn outcome(gap: f64, (winner, loser): (&str, &str)) -> String {
    match gap {
        gap if gap <= 1.0 / GAP => {
            format!("{loser} would be {} times faster than {winner}", ratio(gap.recip()))
        }
        gap if gap < GAP => format!("{winner} and {loser} would tie"),
        gap => format!("{winner} would still be {} times faster than {loser}", ratio(gap)),
    }
}

/// Says that a condition costs the loser more time than the winner, and what the result is without the condition.
/// `first` is set at the beginning of a line.
fn circumstance(condition: &Condition, first: bool, names: (&str, &str)) -> String {
    let (what, without) = described(condition);
    let without = match condition.without.as_str() {
        "security" => "Without them".to_owned(),
        _ => super::words::capital(&without),
    };
    let text = format!("{what} {} more time. {without}, {}.", names.1, outcome(condition.gap, names));
    if first { text } else { super::words::capital(&text) }
}

/// Returns two phrases about a condition: what costs time under the condition, with its verb, and a phrase for the
/// absence of the condition.
fn described(condition: &Condition) -> (String, String) {
    let (what, without) = match condition.without.as_str() {
        "loss" => ("lost packets cost", "without loss"),
        "queue" => ("the short queue of the network costs", "with an unlimited queue"),
        "rate" => ("the slow network costs", "with unlimited bandwidth"),
        "server time" => ("waiting for the server costs", "with a server that answers at once"),
        "handshake" => ("opening connections costs", "if both had all connections open beforehand"),
        "failure" => ("the failure of a path costs", "without the failure"),
        "order" => ("waiting for earlier messages costs", "with unordered messages"),
        "security" => (
            "the round trips and bytes of a separate TLS or DTLS layer cost",
            "without the round trips and bytes of a separate TLS or DTLS layer",
        ),
        other => return (format!("the condition '{other}' costs"), format!("without '{other}'")),
    };
    (what.to_owned(), without.to_owned())
}

/// Lists everything that the experiments with two contestants found: a heading, then one line for each result. Empty if
/// there were no experiments.
#[must_use]
pub fn all(found: &Comparison) -> Vec<String> {
    let Some(tried) = found.experiment.as_ref() else { return Vec::new() };
    let names = (label::shown(&tried.winner), label::shown(&tried.loser));
    let (winner, loser) = names;
    let on_average = if found.exact { "" } else { " on average" };
    let mut lines = vec![format!(
        "Experiments with {winner} and {loser} ({winner} is {} times faster{on_average}):",
        ratio(tried.gap)
    )];
    lines.extend(found.independent_causes().into_iter().map(|cause| finding(cause, loser)));
    if found.causes.is_empty() && !tried.factors.is_empty() {
        let text = "no tested setting explains the gap";
        lines.push(if tried.conditions.iter().any(|one| one.needed) {
            format!("{text}, but a condition of the race does")
        } else if tried.conditions.iter().any(|one| explains_part(tried, one)) {
            format!("{text}; a condition of the race explains a part")
        } else {
            text.to_owned()
        });
    }
    lines.extend(tried.adverse_causes.iter().take(1).map(|cause| finding(cause, loser)));
    let left = tried.unexplained.as_ref().filter(|left| left.is_significant() && !tried.factors.is_empty());
    lines.extend(left.map(|left| {
        let settings =
            if tried.factors.len() == 1 { "the tested setting" } else { "all tested settings together" };
        format!("with {settings}, {}{on_average}", outcome(left.ratio, names))
    }));
    let condition = |one: &Condition| format!("{}, {}", described(one).1, outcome(one.gap, names));
    lines.extend(tried.conditions.iter().map(condition));
    lines.extend(tried.notes.iter().cloned());
    lines
}

/// Describes the effect of one change, for example
/// `windows: with iw=10 instead of 2, tcp is 1.6 times faster, which closes the gap`.
fn finding(cause: &Cause, loser: &str) -> String {
    let (times, direction) =
        if cause.effect >= 1.0 { (cause.effect, "faster") } else { (cause.effect.recip(), "slower") };
    let was = if cause.was.is_empty() { String::new() } else { format!(" instead of {}", cause.was) };
    let mut text = format!(
        "{}: with {}{was}, {loser} is {} times {direction}",
        cause.factor,
        cause.change,
        ratio(times)
    );
    if !cause.with.is_empty() {
        text += &format!(", but only together with {}", and(&cause.with));
    } else if cause.enough {
        text += ", which closes the gap";
    }
    if !cause.alternatives.is_empty() {
        text += &format!(" ({} has the same effect)", and(&cause.alternatives));
    }
    text
}

/// Returns two phrases about a setting of the winner that the loser lacks: a noun phrase for the setting, and the
/// object of a sentence that begins with "if the loser had".
fn change(cause: &Cause) -> (String, String) {
    let was = cause.was.as_str();
    let Some((key, value)) = cause.change.split_once('=').filter(|(_, value)| !value.contains(',')) else {
        return (format!("{} ({})", cause.factor, cause.change), "these settings".to_owned());
    };
    let plain = |what: &str, its: &str| (what.to_owned(), its.to_owned());
    match (key, value) {
        ("connections", _) => {
            let count = |text: &str| text.parse().map_or_else(|_| text.to_owned(), number);
            let noun = if value == "1" { "connection" } else { "connections" };
            (format!("{} {noun} to a host instead of {}", count(value), count(was)), count(value))
        }
        ("outstanding", "1") => plain("one request at a time", "that limit"),
        ("outstanding", _) => {
            (format!("{value} requests at a time instead of {was}"), format!("{value} at a time"))
        }
        ("pipeline", "yes") => plain("requests that do not wait for earlier responses", "such requests"),
        ("pipeline", _) => plain("requests that wait for earlier responses", "such requests"),
        ("priority", "yes") => plain("urgent objects first", "that order"),
        ("tls" | "dtls", "no") => plain("no encryption", "none"),
        ("tls" | "dtls", _) => plain("encryption", "it"),
        ("num_ostreams" | "streams", _) => (format!("{value} streams instead of {was}"), value.to_owned()),
        ("cc", _) => {
            let (value, was) = (value.to_uppercase(), was.to_uppercase());
            (format!("congestion control {value} instead of {was}"), value)
        }
        ("iw", _) => {
            (format!("{value} packets sent at once at the start instead of {was}"), value.to_owned())
        }
        ("rcvbuf_auto", "no") => {
            plain("a receive buffer that has its full size from the start", "such a buffer")
        }
        _ => (format!("{} ({key}={value} instead of {was})", cause.factor), format!("{key}={value}")),
    }
}

/// Lists the changes of network, page and congestion control that were run: those with which another contestant wins,
/// and those with which the winner still wins.
pub(super) fn flips(standing: &Standing<'_>) -> Line {
    let changes = &standing.point.changes;
    let winner = standing.winner();
    let label = if winner.is_some() { "What changes it" } else { "What would decide it" };
    if changes.is_empty() {
        let advice = "not tested; race other networks, such as --loss\u{a0}0,1% or --rtt\u{a0}20ms,200ms.";
        return Line::new(label, vec![advice.to_owned()]);
    }
    let is_same = |typed: &String| winner.is_some_and(|it| it.contestant.name == *typed);
    let other = |one: &&Changed| one.winner.as_ref().is_some_and(|it| !is_same(it));
    let others: Vec<&Changed> = changes.iter().filter(other).collect();
    let nouns = |kept: &dyn Fn(&Changed) -> bool| -> Vec<String> {
        changes.iter().filter(|one| kept(one)).map(|one| in_full(&one.change)).collect()
    };
    let open = nouns(&|one| one.winner.is_none());
    let is_only = others.len() == 1 && (open.is_empty() || winner.is_none());
    let mut flipped: Vec<String> = others.iter().map(|one| flip(standing, one, is_only)).collect();
    // If the point has a winner, a change after which there is no clear winner also counts as a flip.
    if winner.is_some() && !open.is_empty() {
        let runs = changes.iter().filter(|one| one.winner.is_none()).map(|one| one.n).max();
        let loads = counted(runs.unwrap_or(0), medians::noun(standing.point));
        flipped.push(format!("with {}, {loads} of each show no clear winner", or(&open)));
    }
    let mut clauses = vec![match flipped.as_slice() {
        [] => "nothing that was tried.".to_owned(),
        all => format!("{}.", all.join("; ")),
    }];
    let same = nouns(&|one| one.winner.as_ref().is_some_and(is_same));
    if let (Some(winner), false) = (winner, same.is_empty()) {
        clauses.push(format!("{} stays the winner with {}.", winner.name, each(&same)));
    }
    if winner.is_none() && !open.is_empty() {
        clauses.push(format!("There is still no clear winner with {}.", each(&open)));
    }
    Line::new(label, clauses)
}

/// Joins changes to a list in words. Each of the changes was made alone.
fn each(changes: &[String]) -> String {
    match changes {
        [one] => one.clone(),
        all => format!("each of these alone: {}", and(all)),
    }
}

/// Joins changes to a list of alternatives in words.
fn or(changes: &[String]) -> String {
    match changes {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        all => all.concat(),
    }
}

/// Returns the noun phrase for a change, in words that a sentence about a page load explains.
fn in_full(change: &str) -> String {
    let noun = noun(change);
    match change.split_once('=') {
        Some(("loss", _)) => noun.replace(" loss", " packet loss"),
        Some(("cc", _)) => format!("congestion control {noun}"),
        _ => noun,
    }
}

/// Names a change and the contestant that wins with it: `with 1 % packet loss, http1 wins, 1.25 times faster than
/// http2`. The lead is left out unless `with_lead` is set.
fn flip(standing: &Standing<'_>, one: &Changed, with_lead: bool) -> String {
    let winner = one.winner.as_deref().map_or(String::new(), |typed| name(standing, typed));
    let lead = one.runner_up.as_deref().zip(one.median_ratio).filter(|_| with_lead);
    let lead = lead.map_or(String::new(), |(next, lead)| {
        format!(", {} times faster than {}", ratio(lead), name(standing, next))
    });
    format!("with {}, {winner} wins{lead}", in_full(&one.change))
}

/// Returns a noun phrase for a change or a factor level as typed, for example `1 % loss` for `loss=1%`.
pub(super) fn noun(change: &str) -> String {
    let (key, value) = change.split_once('=').unwrap_or((change, ""));
    match (key, value) {
        ("loss", "0" | "0%") => "no loss".to_owned(),
        ("loss", _) => match mean_of_bursts(value) {
            Some(percent) => format!("{}\u{a0}% loss in bursts", rounded(percent)),
            None => format!("{} loss", quantity(value)),
        },
        ("origins", "merge") => "one host".to_owned(),
        ("origins", _) => "the page's own hosts".to_owned(),
        ("cc", _) => value.to_uppercase(),
        ("visit", "repeat") => "a second visit".to_owned(),
        ("visit", _) => "a first visit".to_owned(),
        ("rtt", _) => format!("a round trip of {}", quantity(value)),
        ("rate", _) => quantity(value),
        (key, "") => key.to_owned(),
        _ => format!("{key} {value}"),
    }
}

/// Rounds a percentage to one decimal place, or to two below 0.5.
fn rounded(percent: f64) -> String {
    let digits = if percent < 0.5 { 2 } else { 1 };
    format!("{percent:.digits$}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the mean loss in percent of a Gilbert-Elliott model as typed, for example `ge:0.5%/49.5%/100%/0%`: the
/// probabilities to enter and to leave the bad state, and of a loss in the bad and in the good state.
fn mean_of_bursts(typed: &str) -> Option<f64> {
    let share = |text: &str| -> Option<f64> {
        let (text, unit) = text.strip_suffix('%').map_or((text, 1.0), |percent| (percent, 0.01));
        Some(text.parse::<f64>().ok()? * unit)
    };
    let shares: Vec<f64> = typed.strip_prefix("ge:")?.split('/').map(share).collect::<Option<_>>()?;
    let (&[to_bad, to_good], rest) = shares.split_at_checked(2)? else { return None };
    let bad = to_bad / (to_bad + to_good);
    let [bad_loss, good_loss] =
        [(0, 1.0), (1, 0.0)].map(|(at, usual)| rest.get(at).copied().unwrap_or(usual));
    Some(100.0 * (bad * bad_loss + (1.0 - bad) * good_loss)).filter(|percent| percent.is_finite())
}

/// Writes a quantity as typed with a space and the usual unit: `10 Mbit/s` for `10mbit`.
fn quantity(typed: &str) -> String {
    let end = typed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(typed.len());
    let (digits, unit) = typed.split_at(end);
    let unit = match unit.to_ascii_lowercase().trim_end_matches("/s") {
        "bit" => "bit/s",
        "kbit" => "kbit/s",
        "mbit" => "Mbit/s",
        "gbit" => "Gbit/s",
        "ms" => "ms",
        "s" => "s",
        "%" => "%",
        _ => return typed.to_owned(),
    };
    if digits.is_empty() { typed.to_owned() } else { format!("{digits}\u{a0}{unit}") }
}

/// Returns the displayed name of the contestant that the user typed as `typed`.
fn name(standing: &Standing<'_>, typed: &str) -> String {
    let found = standing.ranked.iter().find(|one| one.contestant.name == typed);
    found.map_or_else(|| label::shown(typed).to_owned(), |one| one.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::noun;

    #[test]
    fn a_change_of_loss_is_told_in_percent() {
        let nouns = [
            "loss=0",
            "loss=1%",
            "loss=ge:0.5%/49.95%/100%/0%",
            "loss=ge:0.05%/49.95%",
            "loss=ge:1/1/0.2/0.1",
        ];
        assert_eq!(
            nouns.map(noun),
            [
                "no loss",
                "1\u{a0}% loss",
                "1\u{a0}% loss in bursts",
                "0.1\u{a0}% loss in bursts",
                "15\u{a0}% loss in bursts"
            ]
        );
        assert_eq!(noun("loss=nth:10"), "nth:10 loss");
    }
}
