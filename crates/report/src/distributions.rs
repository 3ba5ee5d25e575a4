//! Distributions of times. One figure shows cumulative shares, and a second figure shows box plots. A third figure, on
//! logarithmic scales, shows the share of times longer than a value, which makes the tails visible.

use super::bars::legend;
use super::chart::{self, Axis, ChartPoint, Data, Figure, Frame, Ink, LabelPosition, Mark, Width};
use super::svg::{escape, span};
use super::words::short_time;
use anabranch_results::stats::summary::quantile;
use anabranch_results::verdict::and;

/// The data of a distribution: the sorted values of each contestant, in milliseconds.
pub(super) struct Samples<'a> {
    /// The base name of the files in which a reader saves the figures.
    pub file: &'a str,
    /// The kind of value, for example `page times` or `delays of messages`.
    pub quantity: &'a str,
    /// The contestants' names as the reader of the report sees them, in the order of the plan.
    pub names: &'a [String],
    pub values: Vec<Vec<f64>>,
}

/// The maximum number of points of a curve. Longer curves are thinned out.
const MOST: usize = 400;
/// The quantiles that a box plot shows.
const BOX: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

impl Samples<'_> {
    fn known(&self) -> impl Iterator<Item = (usize, &Vec<f64>)> {
        self.values.iter().enumerate().filter(|(_, values)| !values.is_empty())
    }

    fn most(&self) -> usize {
        self.values.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn ends(&self) -> Option<(f64, f64)> {
        let low = self.known().filter_map(|(_, values)| values.first()).copied().reduce(f64::min)?;
        let high = self.known().filter_map(|(_, values)| values.last()).copied().reduce(f64::max)?;
        Some((low, high))
    }

    fn medians(&self) -> String {
        let describe = |(i, values): (usize, &Vec<f64>)| {
            quantile(values, 0.5).map(|ms| format!("{} {}", self.names[i], short_time(ms)))
        };
        and(&self.known().filter_map(describe).collect::<Vec<_>>())
    }

    /// Draws those figures of the distribution for which there are enough values.
    pub fn render(&self, out: &mut String) {
        if self.most() < 2 {
            return;
        }
        out.push_str("<div class=\"two\">");
        self.cumulative(out);
        self.boxes(out);
        out.push_str("</div>\n");
        if self.most() >= 100 {
            self.survival(out);
        }
    }

    /// Returns the cumulative distribution: each value, with the share of all values that are at most as large.
    fn curve(values: &[f64]) -> Vec<ChartPoint> {
        let n = values.len();
        let step = n.div_ceil(MOST).max(1);
        let picked = (0..n).filter(|rank| rank % step == 0 || rank + 1 == n);
        picked.map(|rank| (values[rank], (rank + 1) as f64 / n as f64)).collect()
    }

    fn data(&self, column: &str, share: impl Fn(f64) -> f64) -> Data {
        let mut data = Data::new(&["contestant", "time (ms)", column]);
        for (i, values) in self.known() {
            for (ms, at) in Self::curve(values) {
                data.row(&[self.names[i].as_str(), &format!("{ms:.3}"), &format!("{:.5}", share(at))]);
            }
        }
        data
    }

    fn cumulative(&self, out: &mut String) {
        let Some((low, high)) = self.ends() else { return };
        let figure = Figure {
            name: format!("{}-cdf", self.file),
            heading: format!("Share of {} up to a time", escape(self.quantity)),
            legend: legend(self.names),
            shows: format!("Cumulative distribution of {}. Medians: {}.", self.quantity, self.medians()),
            data: self.data("share", |at| at),
            ..Figure::default()
        };
        figure.render(out, Width::Half, |svg, width| {
            let frame = Frame { bottom: 22, ..Frame::new(width.pixels(), 200) };
            let x = times(low, high, width);
            let y = Axis::linear(0.0, 1.0, 4, |share| format!("{:.0}\u{a0}%", share * 100.0));
            chart::draw(svg, frame, [&x, &y], |plot| {
                for (i, values) in self.known() {
                    let mut line = chart::steps((values[0], 0.0), Self::curve(values));
                    line.push((high, 1.0));
                    chart::line(plot, line, Ink::contestant(i), 1.8);
                }
            })
        });
    }

    fn boxes(&self, out: &mut String) {
        let Some((low, high)) = self.ends() else { return };
        let mut data = Data::new(&[
            "contestant",
            "p10 (ms)",
            "p25 (ms)",
            "median (ms)",
            "p75 (ms)",
            "p90 (ms)",
            "least",
            "most",
        ]);
        let mut rows: Vec<(usize, [f64; 5], [f64; 2])> = Vec::new();
        for (i, values) in self.known() {
            let at = BOX.map(|p| quantile(values, p).unwrap_or(0.0));
            let ends = [values[0], values[values.len() - 1]];
            let mut row = vec![self.names[i].clone()];
            row.extend(at.iter().chain(&ends).map(|ms| format!("{ms:.3}")));
            data.row(&row);
            rows.push((i, at, ends));
        }
        let figure = Figure {
            name: format!("{}-boxes", self.file),
            heading: format!("Spread of {}", escape(self.quantity)),
            shows: format!("Box plots of {}. Medians: {}.", self.quantity, self.medians()),
            note: "Box: the middle half of the values, with the median; whiskers: 10 to 90 %; small dots: least and most.".to_owned(),
            data,
            ..Figure::default()
        };
        figure.render(out, Width::Half, |svg, width| {
            let row = 40;
            let frame =
                Frame { width: width.pixels(), height: row * rows.len() as u32 + 44, left: 4, bottom: 22 };
            let x = times(low, high, width);
            let y = Axis::bare(rows.len() as f64 - 0.5, -0.5);
            chart::draw(svg, frame, [&x, &y], |plot| {
                for (k, (i, [p10, p25, p50, p75, p90], ends)) in rows.iter().enumerate() {
                    let (middle, ink) = (k as f64 + 0.16, Ink::contestant(*i));
                    let name = &self.names[*i];
                    chart::text(
                        plot,
                        (x.range_start(), k as f64 - 0.3),
                        LabelPosition::Right,
                        Ink::named("ink"),
                        name,
                    );
                    chart::line(plot, [(*p10, middle), (*p90, middle)], ink, 1.4);
                    let title = format!(
                        "{name}: middle half {} to {}, median {}",
                        span(*p25),
                        span(*p75),
                        span(*p50)
                    );
                    chart::marks(
                        plot,
                        [Mark::bar((*p25, middle), (*p75, middle), 15.0, ink, title).faint(0.55)],
                    );
                    chart::line(plot, [(*p50, middle - 0.2), (*p50, middle + 0.2)], Ink::named("ink"), 2.0);
                    chart::marks(plot, ends.map(|ms| Mark::dot((ms, middle), 1.8, ink, span(ms))));
                }
            })
        });
    }

    fn survival(&self, out: &mut String) {
        let Some((low, high)) = self.ends().filter(|(low, _)| *low > 0.0) else { return };
        let least = 10_f64.powf((1.0 / self.most() as f64).log10().floor());
        let figure = Figure {
            name: format!("{}-tail", self.file),
            heading: format!("Share of {} that are longer: the tail", escape(self.quantity)),
            legend: legend(self.names),
            shows: format!("Share of {} longer than a time, both scales logarithmic.", self.quantity),
            note: "Both scales are logarithmic. A line further left is faster; a steep line has no tail."
                .to_owned(),
            data: self.data("share longer", |at| 1.0 - at),
        };
        figure.render(out, Width::Wide, |svg, width| {
            let frame = Frame { left: 62, bottom: 22, ..Frame::new(width.pixels(), 230) };
            let x = Axis::logarithmic(low * 0.9, high * 1.1, short_time);
            let y = Axis::logarithmic(least, 1.0, |share| format!("{}\u{a0}%", trimmed(share * 100.0)));
            chart::draw(svg, frame, [&x, &y], |plot| {
                for (i, values) in self.known() {
                    let n = values.len();
                    let step = n.div_ceil(MOST).max(1);
                    let ranks =
                        values.iter().enumerate().filter(|(rank, _)| rank % step == 0 || rank + MOST > n);
                    let points = ranks.map(|(rank, ms)| (*ms, ((n - 1 - rank) as f64 / n as f64).max(least)));
                    let line =
                        chart::steps((low * 0.9, 1.0), std::iter::once((values[0], 1.0)).chain(points));
                    chart::line(plot, line, Ink::contestant(i), 1.8);
                }
            })
        });
    }
}

/// Returns an axis of times. It is logarithmic if the largest time is more than 30 times the smallest time.
fn times(low: f64, high: f64, width: Width) -> Axis {
    if high / low.max(1e-9) > 30.0 {
        Axis::logarithmic(low * 0.95, high, short_time)
    } else {
        Axis::time(low * 0.95, high, width.pick(4, 6))
    }
}

/// Formats a number without trailing zeros, for example `0.1` or `30`.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_curve_ends_at_one() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        let curve = Samples::curve(&values);
        assert!(curve.len() <= MOST + 1 && curve.last() == Some(&(1000.0, 1.0)), "{}", curve.len());
        assert_eq!(Samples::curve(&[3.0, 5.0]), [(3.0, 0.5), (5.0, 1.0)]);
    }
}
