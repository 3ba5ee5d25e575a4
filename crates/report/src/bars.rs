//! Draws the times of all contestants. Each contestant has a bar, with every run as a dot on it. A line shows the limit
//! that no contestant can beat.

use super::chart::{
    self, Axis, CONTESTANTS, ChartPoint, Data, Figure, Frame, Ink, LabelPosition, Mark, Plot, Width,
};
use super::standing::{self, RankedContestant, Ranking};
use super::svg::{escape, ms, shortened, span};
use super::words::{capital, short_time, term};
use anabranch_results::Point;
use anabranch_results::csv::optional;

/// If a contestant has more runs than this, its dots have no tooltips.
const MAX_TOOLTIP_RUNS: usize = 600;

pub(super) fn render(out: &mut String, point: &Point, ranking: &Ranking, wide: Width) {
    let high = point
        .contestants
        .iter()
        .flat_map(|contestant| standing::values(point, contestant))
        .map(|(_, ms)| ms)
        .fold(0.0, f64::max);
    if high <= 0.0 {
        return;
    }
    let limit = limit(point);
    let mut data = Data::new(&["contestant", "seed", "time (ms)", "limit (ms)"]);
    for contestant in &point.contestants {
        for run in &contestant.runs {
            let (time, limit) = (optional(standing::value(point, run)), optional(run.limit_ns.map(ms)));
            data.row(&[&contestant.name, &run.seed.to_string(), &time, &limit]);
        }
    }
    let quantity = if point.workload.messages {
        "Time within which 95 % of a run's messages are there".to_owned()
    } else {
        format!("{} time", capital(point.workload.workload_noun()))
    };
    let figure = Figure {
        name: "times".to_owned(),
        heading: format!("{quantity}: shorter is better"),
        shows: format!("{quantity}. {}.", ranking.times()),
        note: format!(
            "Bar: median of the runs. Each dot is one run, with a {} of its own.{}",
            term("seed", "seed"),
            limit.map_or(String::new(), |_| {
                format!(" Dashed line: the {}, which no transport can beat.", term("limit", "limit"))
            }),
        ),
        data,
        ..Figure::default()
    };
    let rows = ranking.ranked.len();
    figure.render(out, wide, |svg, width| {
        let narrow = width.is_narrow();
        let (row, left) = if narrow { (54, 4) } else { (46, if width == Width::Main { 190 } else { 160 }) };
        let frame = Frame {
            width: width.pixels(),
            height: row * rows as u32 + if narrow { 52 } else { 62 },
            left,
            bottom: 22,
        };
        // The axis is 4 % longer than the highest time, which leaves room for the text right of the longest bar.
        let x = Axis::time(0.0, high * 1.04, if narrow { 4 } else { 6 });
        // Leaves space above the first bar for two labels: that of the line that marks the limit, and that of the first
        // bar.
        let label_offset = if narrow { -0.9 } else { -1.15 };
        let y = Axis::bare(rows as f64 - 0.5, label_offset);
        chart::draw(svg, frame, [&x, &y], |plot| {
            for (i, ranked) in ranking.ranked.iter().enumerate() {
                let values = standing::values(point, &point.contestants[ranked.index]).collect();
                draw_row(plot, ranked, values, (i as f64, f64::from(row)), narrow);
            }
            if let Some(limit) = limit {
                chart::line(
                    plot,
                    [(limit, label_offset), (limit, rows as f64 - 0.5)],
                    Ink::named("limit"),
                    1.0,
                );
                let label = format!("\u{a0}limit {}\u{a0}", short_time(limit));
                let position = if limit > high * 0.75 { LabelPosition::Left } else { LabelPosition::Right };
                chart::text(plot, (limit, label_offset + 0.14), position, Ink::named("soft"), &label);
            }
        })
    });
}

/// Draws the bar of a contestant, and a dot for each of its runs. `values` has the seed and the value of each run. `i`
/// is the index of the contestant's row, counted from the top, and `row` is the height of a row in pixels.
fn draw_row(
    plot: &mut Plot<'_, '_>,
    ranked: &RankedContestant,
    values: Vec<(u64, f64)>,
    (i, row): ChartPoint,
    narrow: bool,
) {
    let (ink, name, time) =
        (Ink::contestant(ranked.index), ranked.name.clone(), standing::format_time(ranked));
    // On a narrow screen the contestant's name is above its bar, so the bar is further down and less tall.
    let middle = i + if narrow { 0.18 } else { 0.0 };
    let tall = if narrow { 24.0 } else { 28.0 };
    let (at, position, label) = match narrow {
        true => (i - 0.28, LabelPosition::Right, format!("{name}: {time}")),
        false => (middle, LabelPosition::Left, shortened(&name, 32) + "\u{a0}"),
    };
    chart::text(plot, (0.0, at), position, Ink::named("ink"), &label);
    if let Some(ms) = ranked.ms {
        let title = format!("{}: {}", ranked.name, span(ms));
        chart::marks(plot, [Mark::bar((0.0, middle), (ms, middle), tall, ink, title).faint(0.42)]);
    }
    let radius = if values.len() > 200 { 1.6 } else { 2.6 };
    let dots = values.iter().enumerate().map(|(k, (seed, ms))| {
        // The dots are spread over the height of the bar by a fixed pattern, so every drawing of the same runs looks
        // the same.
        let off = ((k * 7) % 11) as f64 / 11.0 - 0.45;
        let title = if values.len() <= MAX_TOOLTIP_RUNS {
            format!("seed {seed}: {}", span(*ms))
        } else {
            String::new()
        };
        Mark::dot((*ms, middle + off * tall / (row * 1.1)), radius, ink, title).faint(0.85)
    });
    chart::marks(plot, dots.collect::<Vec<_>>());
    if !narrow && let Some(ms) = ranked.ms {
        // The contestant's time is written above the bar, because the dots of the runs would cover it within the bar.
        chart::line(plot, [(ms, middle - 0.36), (ms, middle + 0.36)], Ink::named("ink"), 1.2);
        chart::text(plot, (ms, middle - 0.36), LabelPosition::Above, Ink::named("ink"), &time);
    }
}

/// Returns a lower limit on the time of any contestant on this network, in milliseconds, as a mean over all runs of a
/// point. `None` for a workload of messages, which has no limit.
pub(super) fn limit(point: &Point) -> Option<f64> {
    if point.workload.messages {
        return None;
    }
    let runs = point.contestants.iter().flat_map(|contestant| &contestant.runs);
    let limits: Vec<f64> = runs.filter_map(|run| run.limit_ns).map(ms).collect();
    (!limits.is_empty()).then(|| limits.iter().sum::<f64>() / limits.len() as f64)
}

/// Renders the legend of the contestants' colours as HTML. `names` are the names of the contestants.
pub(super) fn legend(names: &[String]) -> String {
    let key = |(i, name): (usize, &String)| {
        format!(
            "<li><span class=\"key\" style=\"background:var(--c{})\"></span>{}</li>",
            i % CONTESTANTS,
            escape(name)
        )
    };
    format!("<ul class=\"legend\">{}</ul>", names.iter().enumerate().map(key).collect::<String>())
}
