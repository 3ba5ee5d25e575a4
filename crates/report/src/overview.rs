//! The overview of several points: a sentence that names the fastest contestant at each point, a grid of all points,
//! and curves. The curves show the contestants' times over the levels of each factor. The overview also lists the
//! levels of a factor at which one contestant overtakes another.
//!
//! The levels at which one contestant overtakes another are computed only along factors with numeric levels, for
//! example a loss rate. The rest of the overview works for all factors.

use super::bars::legend;
use super::chart::{self, Axis, CONTESTANTS, ChartPoint, Data, Figure, Frame, Ink, Mark, Width};
use super::standing::{self, Ranking, is_decided};
use super::svg::{self, escape};
use super::words::{self, capital, distinct, short_time};
use super::{answer, reasons};
use anabranch_results::stats::crossing::Scale;
use anabranch_results::verdict::and;
use anabranch_results::{Contestant, Point};
use std::fmt::Write;

/// Returns the names of a point's leaders, as the user typed them. The leaders are the fastest contestant and all
/// contestants that are not clearly slower.
fn leaders(point: &Point) -> Vec<&str> {
    let ranking = Ranking::of(point);
    ranking.leaders().iter().map(|place| point.contestants[place.index].name.as_str()).collect()
}

/// Returns all contestants of a race, in the order in which they first occur. The contestants may differ from point to
/// point.
fn contestants(points: &[Point]) -> Vec<(&str, String)> {
    let mut all: Vec<(&str, String)> = Vec::new();
    for point in points {
        for (contestant, name) in point.contestants.iter().zip(words::names(point)) {
            if all.iter().all(|(known, _)| *known != contestant.name) {
                all.push((&contestant.name, name));
            }
        }
    }
    all
}

/// Describes the factor levels of a point, for example `loss 1%, rate 2mbit`.
pub(super) fn point_label(point: &Point) -> String {
    let levels: Vec<String> =
        point.factors.iter().map(|(factor, level)| format!("{factor} {level}")).collect();
    levels.join(", ")
}

/// Returns the factor levels of a point as a heading, for example `1 % loss, 2 Mbit/s`.
pub(super) fn point_heading(point: &Point) -> String {
    let noun = |(factor, level): (&String, &String)| reasons::noun(&format!("{factor}={level}"));
    capital(&point.factors.iter().map(noun).collect::<Vec<_>>().join(", "))
}

/// Returns the headline for all points, for example `No loss: use http3. 1 % loss: no clear winner.`
pub(super) fn headline(points: &[Point]) -> String {
    if points.len() <= super::FEW_POINTS {
        let one = |point: &Point| {
            let label = answer::lines(point).into_iter().next().map_or(String::new(), |line| line.label);
            format!("{}: {}.", point_heading(point), label.replace("Use ", "use ").replace("No ", "no "))
        };
        return points.iter().map(one).collect::<Vec<_>>().join(" ");
    }
    let mut wins: Vec<(Option<String>, usize)> = Vec::new();
    for winner in points.iter().map(answer::winner) {
        match wins.iter_mut().find(|(known, _)| *known == winner) {
            Some((_, count)) => *count += 1,
            None => wins.push((winner, 1)),
        }
    }
    // Outcomes with a winner come before outcomes without a winner, and then the most frequent comes first.
    wins.sort_by_key(|(winner, count)| (winner.is_none(), std::cmp::Reverse(*count)));
    let one = |(winner, count): &(Option<String>, usize)| {
        let outcome = winner.as_ref().map_or("no clear winner".to_owned(), |name| format!("{name} wins"));
        format!("{outcome} at {count} of {} points", points.len())
    };
    wins.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A factor with its levels in the order of appearance.
struct Factor<'a> {
    name: &'a str,
    levels: Vec<&'a str>,
    /// The levels as quantities; `None` if they are not quantities.
    scale: Option<Scale>,
}

fn factors(points: &[Point]) -> Vec<Factor<'_>> {
    let mut found: Vec<Factor<'_>> = Vec::new();
    for (name, level) in points.iter().flat_map(|point| &point.factors) {
        match found.iter_mut().find(|factor| factor.name == name) {
            Some(factor) if factor.levels.contains(&level.as_str()) => {}
            Some(factor) => factor.levels.push(level),
            None => found.push(Factor { name, levels: vec![level], scale: None }),
        }
    }
    for factor in &mut found {
        factor.scale = Scale::of(&factor.levels);
    }
    found.retain(|factor| factor.levels.len() > 1);
    found
}

/// Groups the points in which all factors except `factor` are equal. Each group has a label with these other factors,
/// and its points in the order of the levels of `factor`.
fn slices<'a>(points: &'a [Point], factor: &Factor<'_>) -> Vec<(String, Vec<&'a Point>)> {
    let mut slices: Vec<(String, Vec<&Point>)> = Vec::new();
    for point in points.iter().filter(|point| point.factors.contains_key(factor.name)) {
        let other_factors: Vec<String> = point
            .factors
            .iter()
            .filter(|(name, _)| *name != factor.name)
            .map(|(name, level)| format!("{name} {level}"))
            .collect();
        let label = other_factors.join(", ");
        match slices.iter_mut().find(|(known, _)| *known == label) {
            Some((_, own)) => own.push(point),
            None => slices.push((label, vec![point])),
        }
    }
    slices
}

fn find<'a>(point: &'a Point, name: &str) -> Option<&'a Contestant> {
    point.contestants.iter().find(|contestant| contestant.name == name)
}

/// A change of the lead between two contestants along a factor whose levels are quantities. One contestant is clearly
/// ahead up to some level, and the other contestant from some higher level on. The change is between these levels.
#[derive(Clone, PartialEq, Debug)]
struct Crossing<'a> {
    /// The indices of the contestants that are ahead at levels above the crossing (`winner_above`) and below it
    /// (`winner_below`).
    winner_above: usize,
    winner_below: usize,
    at: String,
    between: [&'a str; 2],
    slice: String,
    /// The number of levels at which the factor was measured.
    levels: usize,
}

fn crossings<'a>(points: &[Point], factor: &Factor<'a>, names: &[(&str, String)]) -> Vec<Crossing<'a>> {
    let Some(scale) = &factor.scale else { return Vec::new() };
    let mut found = Vec::new();
    for (slice, own) in slices(points, factor) {
        let at_level = |level: usize| {
            own.iter()
                .find(|point| point.factors.get(factor.name).is_some_and(|it| it == factor.levels[level]))
        };
        for a in 0..names.len() {
            for b in a + 1..names.len() {
                // Computes ln(time of contestant `a` / time of contestant `b`) at each level, in ascending order of the
                // levels. Also computes whether one of the two contestants is certainly faster.
                let along = scale.rising().iter().filter_map(|&level| {
                    let point = at_level(level)?;
                    let (one, other) = (find(point, names[a].0)?, find(point, names[b].0)?);
                    let versus = standing::versus(point, one, other)?;
                    Some((level, versus.ratio?.ln(), is_decided(&versus)))
                });
                let curve: Vec<(usize, f64, bool)> = along.collect();
                let decided: Vec<usize> = (0..curve.len()).filter(|&index| curve[index].2).collect();
                for pair in decided.windows(2) {
                    let (from, until) = (curve[pair[0]], curve[pair[1]]);
                    // `Scale::crossing` expects a curve that falls from positive to negative values. Multiplying by
                    // `sign` makes the first logarithm positive.
                    let sign = from.1.signum();
                    let step: Vec<(usize, f64)> =
                        curve[pair[0]..=pair[1]].iter().map(|(level, log, _)| (*level, log * sign)).collect();
                    let Some(at) = scale.crossing(&step).filter(|_| until.1.signum() != sign) else {
                        continue;
                    };
                    let (winner_above, winner_below) = if until.1 < 0.0 { (a, b) } else { (b, a) };
                    let between = [from.0, until.0].map(|level| factor.levels[level]);
                    found.push(Crossing {
                        winner_above,
                        winner_below,
                        at,
                        between,
                        slice: slice.clone(),
                        levels: curve.len(),
                    });
                }
            }
        }
    }
    found
}

/// Describes where the lead changes along a factor, for example
/// `Above about 1.3% loss, sctp is faster than tcp`.
fn changes(points: &[Point], factor: &Factor<'_>, names: &[(&str, String)]) -> Vec<String> {
    let crossing_text = |crossing: &Crossing| {
        let with = if crossing.slice.is_empty() { String::new() } else { format!(" at {}", crossing.slice) };
        let [from, until] = crossing.between;
        // If the factor was run at only two values, an interpolated value would be a guess. The text then gives only
        // the two values.
        match crossing.levels {
            0..=2 => format!("Above some {} between {from} and {until}{with}", factor.name),
            _ => format!("Above about {} {}{with}", crossing.at, factor.name),
        }
    };
    // Each entry has three parts: a text with the level of the factor at which the lead changes, the contestants that
    // lead above this level, and those that lead below.
    let mut found: Vec<(String, Vec<usize>, Vec<usize>)> = Vec::new();
    for crossing in crossings(points, factor, names) {
        let crossing_text = crossing_text(&crossing);
        let known = found
            .iter_mut()
            .find(|(at, winners_above, _)| *at == crossing_text && *winners_above == [crossing.winner_above]);
        match known {
            Some((_, _, winners_below)) => winners_below.push(crossing.winner_below),
            None => found.push((crossing_text, vec![crossing.winner_above], vec![crossing.winner_below])),
        }
    }
    let mut merged: Vec<(String, Vec<usize>, Vec<usize>)> = Vec::new();
    for (crossing_text, winners_above, winners_below) in found {
        match merged.iter_mut().find(|(at, _, same)| *at == crossing_text && *same == winners_below) {
            Some((_, all, _)) => all.extend(winners_above),
            None => merged.push((crossing_text, winners_above, winners_below)),
        }
    }
    let listed = |contestants_of: &[usize]| {
        and(&contestants_of.iter().map(|i| names[*i].1.as_str()).collect::<Vec<_>>())
    };
    let sentence = |(crossing_text, winners_above, winners_below): &(String, Vec<usize>, Vec<usize>)| {
        let verb = if winners_above.len() > 1 { "are" } else { "is" };
        format!("{crossing_text}, {} {verb} faster than {}", listed(winners_above), listed(winners_below))
    };
    merged.iter().take(MOST_CROSSINGS).map(sentence).collect()
}

/// Lists the factor levels above which another contestant is faster.
pub(super) fn change(out: &mut String, points: &[Point]) {
    let (names, factors) = (contestants(points), factors(points));
    let crossings = factors.iter().flat_map(|factor| changes(points, factor, &names));
    let lines: Vec<String> = crossings.map(|line| escape(&line) + ".").collect();
    if !lines.is_empty() {
        out.push_str("<section class=\"change\"><h2>Where the winner changes</h2><ul>");
        for line in lines {
            let _ = write!(out, "<li>{line}</li>");
        }
        out.push_str("</ul></section>\n");
    }
}

/// Draws the results of all points: a map of the fastest contestants if there are two factors, the times along each
/// factor, and a table of all points.
pub(super) fn render(out: &mut String, points: &[Point]) {
    let (names, factors) = (contestants(points), factors(points));
    let shown: Vec<String> = names.iter().map(|(_, name)| name.clone()).collect();
    if let [one, other] = &factors[..] {
        map(out, points, [one, other], &names, &shown);
    }
    for factor in &factors {
        curves(out, points, factor, &names, &shown);
    }
    table(out, points, &names);
}

/// The maximum number of changes of the lead that are listed for one factor.
const MOST_CROSSINGS: usize = 6;
/// The maximum number of panels (small diagrams) that are drawn for one factor.
const MOST_PANELS: usize = 24;

/// Draws how the contestants' times depend on `factor`. Each combination of levels of the other factors has its own
/// small diagram (panel).
fn curves(
    out: &mut String,
    points: &[Point],
    factor: &Factor<'_>,
    names: &[(&str, String)],
    shown: &[String],
) {
    let slices = slices(points, factor);
    let more = slices.len().saturating_sub(MOST_PANELS);
    let _ =
        write!(out, "<h2>Times over {}</h2>\n{}<div class=\"panels\">", escape(factor.name), legend(shown));
    let times = |point: &Point, name: &str| -> Option<(f64, [f64; 2])> {
        let contestant = find(point, name)?;
        let ms = standing::time(point, contestant)?;
        Some((ms, standing::interval(point, contestant).unwrap_or([ms; 2])))
    };
    let all = points.iter().flat_map(|point| names.iter().filter_map(move |(name, _)| times(point, name)));
    let high = all.map(|(_, [_, high])| high).fold(0.0, f64::max);
    for (label, own) in slices.iter().take(MOST_PANELS) {
        let x_of = |point: &Point| -> Option<f64> {
            let own = point.factors.get(factor.name)?;
            Some(factor.levels.iter().position(|known| known == own)? as f64)
        };
        let mut data = Data::new(&[factor.name, "contestant", "time (ms)", "low", "high"]);
        for point in own {
            for (name, _) in names {
                if let Some((ms, [low, high])) = times(point, name) {
                    let at = point.factors.get(factor.name).map_or("", String::as_str);
                    data.row(&[at, name, &format!("{ms:.3}"), &format!("{low:.3}"), &format!("{high:.3}")]);
                }
            }
        }
        let figure = Figure {
            name: format!("over-{}", factor.name),
            heading: escape(if label.is_empty() { factor.name } else { label }),
            shows: own
                .iter()
                .map(|point| format!("{}: {}", point_label(point), Ranking::of(point).times()))
                .collect::<Vec<_>>()
                .join(". "),
            data,
            ..Figure::default()
        };
        let wide = if slices.len() == 1 { Width::Wide } else { Width::Narrow };
        figure.render(out, wide, |svg, width| {
            let frame = Frame { left: 58, ..Frame::new(width.pixels(), width.pick(220, 260)) };
            let ticks: Vec<String> = factor.levels.iter().map(|level| (*level).to_owned()).collect();
            let x = Axis::levels(&ticks).named(factor.name);
            let y = Axis::time(0.0, high * 1.05, 5);
            chart::draw(svg, frame, [&x, &y], |plot| {
                for (i, (name, shown)) in names.iter().enumerate() {
                    let ink = Ink::contestant(i);
                    let mut line: Vec<ChartPoint> = Vec::new();
                    for point in own {
                        let (Some(at), Some((ms, [low, high]))) = (x_of(point), times(point, name)) else {
                            continue;
                        };
                        line.push((at, ms));
                        chart::faint_line(plot, [(at, low), (at, high)], (ink, 0.45), 4.0);
                        let title = format!(
                            "{shown}, {}: {} ({} to {})",
                            point_label(point),
                            short_time(ms),
                            short_time(low),
                            short_time(high)
                        );
                        chart::marks(plot, [Mark::dot((at, ms), 3.5, ink, title)]);
                    }
                    chart::line(plot, line, ink, 1.6);
                }
            })
        });
    }
    out.push_str("</div>\n");
    if more > 0 {
        let _ = writeln!(out, "<p class=\"note\">{more} more combinations stand in the table below.</p>");
    }
    out.push_str("<p class=\"note\">Dots: medians over the seeds. Thick strokes: 95 % intervals.</p>\n");
}

/// Draws a map with the winner at each combination of the levels of two factors.
fn map(
    out: &mut String,
    points: &[Point],
    [across, down]: [&Factor<'_>; 2],
    names: &[(&str, String)],
    shown: &[String],
) {
    let cell = |x: &str, y: &str| {
        points.iter().find(|point| {
            point.factors.get(across.name).is_some_and(|level| level == x)
                && point.factors.get(down.name).is_some_and(|level| level == y)
        })
    };
    let mut data = Data::new(&[across.name, down.name, "ahead", "faster than the next by"]);
    // Returns the fastest contestant, whether it is clearly ahead of all others, and its lead over the second-fastest.
    let state = |point: &Point| -> Option<(usize, bool, f64)> {
        let ranking = Ranking::of(point);
        let first = ranking.ranked.first().filter(|place| place.ms.is_some())?;
        let name = point.contestants[first.index].name.as_str();
        let alone = ranking.leaders().len() == 1;
        let ratio = ranking.lead().and_then(|lead| lead.median_ratio.or(lead.ratio)).unwrap_or(1.0);
        Some((names.iter().position(|(known, _)| *known == name)?, alone, ratio))
    };
    for point in points {
        if let Some((winner, alone, ratio)) = state(point) {
            let level = |factor: &Factor<'_>| point.factors.get(factor.name).cloned().unwrap_or_default();
            let ahead = if alone { names[winner].0 } else { "nobody clearly" };
            data.row(&[level(across), level(down), ahead.to_owned(), format!("{ratio:.3}")]);
        }
    }
    let figure = Figure {
        name: "who-wins".to_owned(),
        heading: format!("Who wins over {} and {}", escape(across.name), escape(down.name)),
        legend: legend(shown),
        shows: headline(points),
        note: "Color: the fastest contestant. Number: its lead, the ratio of the next time to its own. Pale cells have no clear winner.".to_owned(),
        data,
    };
    figure.render(out, Width::Wide, |svg, width| {
        let narrow = width.is_narrow();
        let row = if narrow { 34 } else { 40 };
        let frame = Frame {
            width: width.pixels(),
            height: down.levels.len() as u32 * row + 56,
            left: if narrow { 66 } else { 110 },
            bottom: 40,
        };
        let owned =
            |factor: &Factor<'_>| factor.levels.iter().map(|level| (*level).to_owned()).collect::<Vec<_>>();
        let x = Axis::levels(&owned(across)).named(across.name);
        let y = Axis::names(&owned(down)).named(down.name);
        chart::draw(svg, frame, [&x, &y], |plot| {
            for (i, across) in across.levels.iter().enumerate() {
                for (k, down) in down.levels.iter().enumerate() {
                    let Some((point, (winner, alone, ratio))) =
                        cell(across, down).and_then(|point| Some((point, state(point)?)))
                    else {
                        continue;
                    };
                    let (x, y) = (i as f64, k as f64);
                    let title = format!("{}\n{}", point_label(point), Ranking::of(point).times());
                    let mark = Mark::bar(
                        (x - 0.48, y - 0.47),
                        (x + 0.48, y + 0.47),
                        0.0,
                        Ink::contestant(winner),
                        title,
                    );
                    chart::marks(plot, [if alone { mark.faint(0.5) } else { mark.faint(0.14) }]);
                    let label = if alone { format!("×{ratio:.2}") } else { "–".to_owned() };
                    chart::text(plot, (x, y), chart::LabelPosition::Over, Ink::named("ink"), &label);
                }
            }
        })
    });
}

fn table(out: &mut String, points: &[Point], names: &[(&str, String)]) {
    let factors = distinct(points.iter().flat_map(|point| point.factors.keys()));
    out.push_str(
        "<h2>All points</h2>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"cards\"><thead><tr>",
    );
    for factor in &factors {
        let _ = write!(out, "<th class=\"left\">{}</th>", escape(factor));
    }
    for (i, (_, shown)) in names.iter().enumerate() {
        let _ = write!(
            out,
            "<th><span class=\"key\" style=\"background:var(--c{})\"></span> {}</th>",
            i % CONTESTANTS,
            escape(shown)
        );
    }
    out.push_str("</tr></thead><tbody>");
    for (i, point) in points.iter().enumerate() {
        out.push_str("<tr>");
        for (column, factor) in factors.iter().enumerate() {
            let level = escape(point.factors.get(*factor).map_or("–", String::as_str));
            let cell = if column == 0 && i < super::DRAWN_POINTS {
                format!("<a href=\"#p{i}\">{level}</a>")
            } else {
                level
            };
            let _ = write!(out, "<td class=\"left\" data-of=\"{}\">{cell}</td>", escape(factor));
        }
        let ahead = leaders(point);
        for (name, shown) in names {
            let Some(contestant) = find(point, name) else {
                out.push_str("<td>–</td>");
                continue;
            };
            let class = if ahead == [*name] { " class=\"best\"" } else { "" };
            let failed = match contestant.summary.page_ms.failed {
                0 => String::new(),
                n => format!(" <span class=\"bad\">({n} failed)</span>"),
            };
            let time = standing::time(point, contestant).map_or("–".to_owned(), svg::span);
            let _ = write!(out, "<td data-of=\"{}\"><span{class}>{time}{failed}</span></td>", escape(shown));
        }
        out.push_str("</tr>\n");
    }
    let mut wholes: Vec<&str> = points.iter().map(|point| point.workload.workload_noun()).collect();
    wholes.dedup();
    let whole =
        if let [one] = wholes[..] { format!("{one} times") } else { "times until all is there".to_owned() };
    let _ = writeln!(
        out,
        "</tbody></table></div>\n<p class=\"note\">Medians of the {whole}. A winner stands out only where the interval of its ratio \
         to the next excludes 1 and the gap is at least 3 %.</p>",
    );
}
