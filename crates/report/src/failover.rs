//! Draws the effects of the first path failure in the median run of each contestant. The figure shows how long nothing
//! arrived, and when the hosts detected the failure. It also shows how long the rate was below half of the rate before
//! the failure.

use super::chart::{self, Axis, Data, Figure, Frame, Ink, LabelPosition, Mark, Width};
use super::svg::{ms, span};
use super::words::short_time;
use super::{end_ns, median_runs};
use anabranch_results::{PathState, Point, Run, Side};

/// The data that is drawn for one contestant. Times are in milliseconds, counted from the path failure.
struct Lane {
    index: usize,
    name: String,
    /// The time at which data first arrived that was sent after the failure.
    data_again: Option<f64>,
    restored: Option<f64>,
    /// The time at which the run ended.
    end: f64,
    events: Vec<(f64, PathState, String)>,
}

impl Lane {
    fn of(run: &Run, failed: u64, index: usize, name: String) -> Self {
        let later = run.path_events.iter().filter(|event| event.at_ns >= failed);
        let events = later.map(|event| {
            let by = if event.by == Side::Client { "client" } else { "server" };
            let at = ms(event.at_ns - failed);
            (
                at,
                event.state,
                format!("path {} {} after {} by the {by}", event.path, event.state.words(), span(at)),
            )
        });
        Self {
            index,
            name,
            data_again: run.failover_ns.map(ms),
            restored: run.restored_ns.map(ms),
            end: ms(end_ns(run).saturating_sub(failed)),
            events: events.collect(),
        }
    }

    fn describe(&self) -> String {
        let after = |ms: Option<f64>| ms.map_or("never".to_owned(), |ms| format!("after {}", short_time(ms)));
        format!("data again {}, service restored {}", after(self.data_again), after(self.restored))
    }

    /// Returns the end of the time range to draw, in milliseconds after the failure.
    fn extent(&self) -> f64 {
        let found = self.events.iter().map(|(at, ..)| *at).take(MAX_EVENTS);
        found.chain([self.restored.unwrap_or(self.end)]).fold(0.0, f64::max)
    }
}

/// The maximum number of path events that are drawn for a contestant.
const MAX_EVENTS: usize = 8;

fn ink(state: PathState) -> Ink {
    Ink::named(match state {
        PathState::PotentiallyFailed => "connect",
        PathState::Failed => "mark",
        PathState::Active => "ahead",
    })
}

fn legend() -> String {
    let key = |colour: &str, label: &str| {
        format!("<li><span class=\"key\" style=\"background:var(--{colour})\"></span>{label}</li>")
    };
    let all = [
        ("timeout", "nothing new arrives"),
        ("recovery", "arrives, at less than half the rate of before"),
        ("connect", "path taken for potentially failed"),
        ("mark", "path failed"),
        ("ahead", "path active again"),
    ];
    format!("<ul class=\"legend\">{}</ul>", all.map(|(colour, label)| key(colour, label)).concat())
}

pub(super) fn render(out: &mut String, point: &Point) {
    let Some(failed) = point.failure_ns else { return };
    let met = median_runs(point).filter(|(.., run)| end_ns(run) > failed);
    let lanes: Vec<Lane> = met.map(|(i, name, run)| Lane::of(run, failed, i, name)).collect();
    let longest = lanes.iter().map(Lane::extent).fold(0.0, f64::max);
    if longest <= 0.0 {
        return;
    }
    let mut data = Data::new(&["contestant", "what", "after the failure (ms)"]);
    for lane in &lanes {
        let name = point.contestants[lane.index].name.as_str();
        for (event_name, at) in [("data again", lane.data_again), ("service restored", lane.restored)] {
            let at = at.map_or("never".to_owned(), |ms| format!("{ms:.3}"));
            data.row(&[name, event_name, at.as_str()]);
        }
        for (at, _, description) in &lane.events {
            data.row(&[name, description.as_str(), format!("{at:.3}").as_str()]);
        }
    }
    let summaries: Vec<String> =
        lanes.iter().map(|lane| format!("{}: {}", lane.name, lane.describe())).collect();
    let figure = Figure {
        name: "failover".to_owned(),
        heading: format!(
            "After the path failed <span class=\"meta\">at {}, median runs</span>",
            short_time(failed as f64 / 1e6)
        ),
        legend: legend(),
        shows: format!("{}.", summaries.join("; ")),
        data,
        ..Figure::default()
    };
    figure.render(out, Width::Wide, |svg, width| {
        let narrow = width.is_narrow();
        let row = 46;
        let frame =
            Frame { width: width.pixels(), height: row * lanes.len() as u32 + 36, left: 4, bottom: 22 };
        let x = Axis::time(0.0, longest * 1.04, if narrow { 4 } else { 8 });
        let y = Axis::bare(lanes.len() as f64 - 0.5, -0.5);
        chart::draw(svg, frame, [&x, &y], |plot| {
            for (i, lane) in lanes.iter().enumerate() {
                let middle = i as f64 + 0.2;
                let label =
                    if narrow { lane.name.clone() } else { format!("{}: {}", lane.name, lane.describe()) };
                chart::text(plot, (0.0, i as f64 - 0.25), LabelPosition::Right, Ink::named("ink"), &label);
                let until = lane.restored.unwrap_or(lane.end).min(longest);
                let again = lane.data_again.unwrap_or(until).min(until);
                for (from, to, colour, phase) in [
                    (0.0, again, "timeout", "nothing new arrives"),
                    (again, until, "recovery", "less than half the rate"),
                ] {
                    if to > from {
                        let title = format!("{phase}: {}", span(to - from));
                        let bar = Mark::bar((from, middle), (to, middle), 14.0, Ink::named(colour), title);
                        chart::marks(plot, [bar.faint(0.8)]);
                    }
                }
                for (at, state, description) in lane.events.iter().take(MAX_EVENTS) {
                    chart::line(plot, [(*at, middle - 0.24), (*at, middle + 0.24)], ink(*state), 3.0);
                    chart::marks(
                        plot,
                        [Mark::dot((*at, middle - 0.24), 3.0, ink(*state), description.clone())],
                    );
                }
            }
        })
    });
}
