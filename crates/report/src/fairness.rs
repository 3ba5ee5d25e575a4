//! Draws how contestants that raced at the same time shared the network. The figure shows each contestant's share until
//! the first contestant finished, and how equal the shares are.

use super::bars::legend;
use super::chart::{self, Axis, Data, Figure, Frame, Ink, Mark, Width};
use super::words::{self, term};
use anabranch_results::Point;

pub(super) fn render(out: &mut String, point: &Point) {
    let found = &point.sharing;
    if point.contestants.len() < 2 || found.is_empty() {
        return;
    }
    let names = words::names(point);
    let n = found.len() as f64;
    let mean = |i: usize| found.iter().filter_map(|run| run.shares.get(i)).sum::<f64>() / n;
    let means: Vec<f64> = (0..names.len()).map(mean).collect();
    let index = found.iter().map(|run| run.jain).sum::<f64>() / n;
    let mut columns = vec!["seed".to_owned()];
    columns.extend(point.contestants.iter().map(|contestant| format!("share of {}", contestant.name)));
    columns.push("Jain index".to_owned());
    let mut data = Data::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for run in found {
        let mut row = vec![run.seed.to_string()];
        row.extend(run.shares.iter().map(|share| format!("{share:.4}")));
        row.push(format!("{:.4}", run.jain));
        data.row(&row);
    }
    let shares: Vec<String> =
        names.iter().zip(&means).map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
    let figure = Figure {
        name: "fairness".to_owned(),
        heading: "They shared the network: who had how much of it".to_owned(),
        legend: legend(&names),
        shows: format!("Shares: {}. Jain index {index:.2}.", shares.join(", ")),
        note: format!(
            "Shares of the bytes delivered until the first of them was done; means over the runs. {}: {index:.2} (1 is equal, {:.2} is one having all).",
            term("Jain index", "Jain index"),
            1.0 / names.len() as f64
        ),
        data,
    };
    figure.render(out, Width::Wide, |svg, width| {
        let frame = Frame { width: width.pixels(), height: 76, left: 4, bottom: 24 };
        let x = Axis::linear(0.0, 1.0, 4, |share| format!("{:.0}\u{a0}%", share * 100.0));
        let y = Axis::bare(0.0, 1.0);
        chart::draw(svg, frame, [&x, &y], |plot| {
            let mut from = 0.0;
            for (i, share) in means.iter().enumerate() {
                let title = format!("{}: {:.1} %", names[i], share * 100.0);
                chart::marks(
                    plot,
                    [Mark::bar((from, 0.5), (from + share, 0.5), 30.0, Ink::contestant(i), title)],
                );
                if *share > 0.08 {
                    let at = (from + share / 2.0, 0.32);
                    chart::text(
                        plot,
                        at,
                        chart::LabelPosition::Above,
                        Ink::named("paper"),
                        &format!("{:.0} %", share * 100.0),
                    );
                }
                from += share;
            }
        })
    });
}
