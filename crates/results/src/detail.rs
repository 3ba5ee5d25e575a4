//! Selects the runs that result files describe in full detail: those that the report draws object by object.
//!
//! The parts and the instants of the objects' response times are most of a complete result, and figures show them for at
//! most three runs of a contestant. Result files leave them out of the other runs, and also the objects' connections and
//! streams. The sums of the parts over all runs are in [`PartSums`]. All statistics of a run follow from what is kept.

use crate::stats::metrics;
use crate::{Contestant, PARTS, Point, SendDetail, TimeBreakdown};
use serde::{Deserialize, Serialize};

/// The parts of the response times, summed over the objects of all runs of a contestant. Background objects and objects
/// with an unknown part are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PartSums {
    /// The number of objects in the sums.
    pub objects: u64,
    /// The sum of each part.
    pub why: TimeBreakdown,
    /// The sums of the parts of `send_ns`. An object without them counts in `turn_ns`.
    pub send_detail: SendDetail,
}

impl PartSums {
    /// Computes the sums from the objects of all runs.
    fn of(contestant: &Contestant) -> Self {
        let (mut objects, mut sums, mut send_detail) = (0, [0_u64; PARTS.len()], SendDetail::default());
        for object in contestant.runs.iter().flat_map(|run| &run.objects).filter(|object| !object.background)
        {
            let Some(why) = object.why.as_ref().filter(|why| why.is_whole()) else { continue };
            objects += 1;
            for (sum, part) in sums.iter_mut().zip(why.parts()) {
                *sum = sum.saturating_add(part.unwrap_or(0));
            }
            let turn_ns = why.send_ns.unwrap_or(0);
            let detail = object.send_detail.unwrap_or(SendDetail { turn_ns, ..SendDetail::default() });
            send_detail = SendDetail {
                cwnd_ns: send_detail.cwnd_ns.saturating_add(detail.cwnd_ns),
                rwnd_ns: send_detail.rwnd_ns.saturating_add(detail.rwnd_ns),
                turn_ns: send_detail.turn_ns.saturating_add(detail.turn_ns),
            };
        }
        Self { objects, why: TimeBreakdown::from_parts(sums.map(Some)), send_detail }
    }
}

impl Contestant {
    /// Returns the sums of the parts of the response times over all runs. `None` if they are known for no object.
    #[must_use]
    pub fn part_sums(&self) -> Option<PartSums> {
        self.part_sums.or_else(|| Some(PartSums::of(self)).filter(|sums| sums.objects > 0))
    }
}

impl Point {
    /// Returns the indices of the runs of a contestant that figures draw object by object: those with the best, the
    /// median and the worst time. `None` if the contestant has no runs.
    #[must_use]
    pub fn drawn_runs(&self, contestant: &Contestant) -> Option<[usize; 3]> {
        let time = |run| metrics::value(run, self.decisive()).filter(|ms| *ms > 0.0);
        let times = contestant.runs.iter().map(|run| time(run).unwrap_or(f64::INFINITY));
        let mut order: Vec<(f64, usize)> = times.zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let median = contestant.runs.iter().position(|run| run.seed == contestant.median_seed).unwrap_or(0);
        Some([order.first()?.1, median, order.last()?.1])
    }

    /// Removes from the runs that no figure draws the parts and instants of response times, connections and streams.
    pub(crate) fn keep_drawn_detail(&mut self) {
        for index in 0..self.contestants.len() {
            let drawn = self.drawn_runs(&self.contestants[index]);
            let contestant = &mut self.contestants[index];
            contestant.part_sums = contestant.part_sums();
            let others = contestant.runs.iter_mut().enumerate();
            let others = others.filter(|(run, _)| drawn.is_some_and(|drawn| !drawn.contains(run)));
            for object in others.flat_map(|(_, run)| &mut run.objects) {
                (object.why, object.send_detail, object.instants) = (None, None, None);
                (object.connection, object.stream) = (None, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::{Format, render, render_as};
    use crate::{Object, PARTS, Race, TimeBreakdown, verdict};

    /// Returns a race of one contestant with runs of different lengths.
    fn race(page_ns: &[u64]) -> Race {
        let mut race = Race::from_json(include_str!("../tests/data/race-full.json")).expect("a result");
        race.points.truncate(1);
        race.points[0].contestants.truncate(1);
        race.points[0].workload.messages = false;
        let contestant = &mut race.points[0].contestants[0];
        let first = contestant.runs[0].clone();
        contestant.part_sums = None;
        contestant.runs = page_ns.iter().map(|_| first.clone()).collect();
        for (seed, (run, ns)) in contestant.runs.iter_mut().zip(page_ns).enumerate() {
            (run.seed, run.page_ns) = (seed as u64 + 1, Some(*ns));
            let why = TimeBreakdown::from_parts([Some(1); PARTS.len()]);
            run.objects[0].why = Some(TimeBreakdown { blocked_ns: Some(*ns), ..why });
        }
        contestant.median_seed = 2;
        race
    }

    #[test]
    fn a_result_file_has_the_parts_of_drawn_runs_and_the_sums_of_all() {
        let race = race(&[40, 30, 10, 20, 50]);
        let read = Race::from_json(&render(&race)).expect("a result");
        let (all, some) = (&race.points[0].contestants[0], &read.points[0].contestants[0]);
        assert_eq!(read.points[0].drawn_runs(some), Some([2, 1, 4]));
        for (index, (before, after)) in all.runs.iter().zip(&some.runs).enumerate() {
            if [2, 1, 4].contains(&index) {
                assert_eq!(before, after);
                continue;
            }
            for (before, after) in before.objects.iter().zip(&after.objects) {
                assert_eq!((after.why, after.send_detail, after.instants), (None, None, None));
                assert_eq!((after.connection, after.stream), (None, None));
                let times = |object: &Object| (object.issued_ns, object.first_byte_ns, object.delivered_ns);
                assert_eq!(
                    (times(before), &before.name, before.bytes),
                    (times(after), &after.name, after.bytes)
                );
            }
        }
        assert_eq!((all.part_sums(), all.coverage()), (some.part_sums, some.coverage()));
        assert_eq!(verdict::mean_parts(all), verdict::mean_parts(some));
        assert_eq!(render(&read), render(&race));
    }

    #[test]
    fn the_whole_result_has_the_parts_of_all_runs() {
        let race = race(&[40, 30, 10, 20, 50]);
        let read = Race::from_json(&render_as(&race, Format::Whole)).expect("a result");
        assert_eq!(read, race);
    }

    #[test]
    fn sums_of_hostile_times_do_not_overflow() {
        let contestant = &race(&[u64::MAX, u64::MAX, 1]).points[0].contestants[0];
        assert_eq!(contestant.part_sums().and_then(|sums| sums.why.blocked_ns), Some(u64::MAX));
    }
}
