//! A lower bound on the time to load a page over a network. No transport can load the page faster.
//!
//! The *earliest release* of each object follows from dependencies alone, as if the object were alone on the network.
//! The object's request is sent at the link rate and arrives after the one-way delay. The server processes the request
//! for the server time, and the response is sent in the same way. The delivery of the object, or of the
//! part that names them, then releases the objects that it triggers.
//!
//! All responses flow like a fluid through the summed capacity of all paths to the client, in the order in which their
//! objects were released. Only HTTP bytes count: no transport or IP header, no handshake, no loss. The smallest one-way
//! delay of all paths is added to the end of the last response.
//!
//! Both parts of this model, the releases and the fluid, are optimistic for every transport. A real run never releases
//! an object before the model does. The fluid sends without a pause while released bytes are unsent. A transport sends
//! packets; in any order of packets, the last one never arrives before the fluid ends. So the page time is a true lower bound, and so is [`Limit::earliest`] for a single
//! object.
//!
//! The calculation uses integers. Times are in nanoseconds, and are rounded up once at the end of each transmission. At
//! the rate [`UNLIMITED`], a transmission takes no time.

/// The capacity of one direction of one network path over time. It is constant between steps, and zero during outages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// The times at which the capacity changes: each step as (start in nanoseconds, bits per second), in ascending
    /// order. The first step starts at 0.
    steps: Vec<(u64, u64)>,
    /// The length in nanoseconds of the pattern of capacities, which then repeats from its start; `None` if the pattern
    /// does not repeat.
    period: Option<u64>,
    /// Outages as (start, end) in nanoseconds, the end exclusive. Nothing passes during an outage.
    outages: Vec<(u64, u64)>,
}

/// One direction of the network, over all its paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Direction {
    /// The capacity of each path.
    pub paths: Vec<Capacity>,
    /// The smallest one-way delay of all paths, nanoseconds.
    pub delay_ns: u64,
}

/// One object of a page, with the bytes that the network must transfer for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Item {
    /// Bytes of the request, including the HTTP head.
    pub request: u64,
    /// Bytes of the response, including the HTTP head.
    pub response: u64,
    /// The index of the earlier item whose delivery causes the request for this item.
    pub initiator: Option<usize>,
    /// The number of bytes of the initiator's response that release this item, if not all of them are needed.
    pub part: Option<u64>,
    /// The think time: nanoseconds from the delivery of the initiator until the request for this item is issued.
    /// Without an initiator, it counts from the start of the page load.
    pub think_ns: u64,
    /// The processing time that the server needs for the object, nanoseconds.
    pub server_ns: u64,
}

/// The least times in which the network can transfer a page and each of its items. A time is `None` if the network
/// never has enough capacity for the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// Time from the start until every item is delivered, nanoseconds.
    pub page_ns: Option<u64>,
    /// The earliest delivery of each item, if only this item and the items on which it depends were transferred.
    pub earliest: Vec<Option<u64>>,
}

impl Capacity {
    /// Returns a capacity that never changes.
    #[must_use]
    pub fn constant(bits_per_second: u64) -> Self {
        Self { steps: vec![(0, bits_per_second)], period: None, outages: Vec::new() }
    }

    /// Returns a capacity that changes at each of the `steps` (nanosecond, bits per second). It is zero before the
    /// first step.
    #[must_use]
    pub fn stepwise(mut steps: Vec<(u64, u64)>) -> Self {
        steps.sort_by_key(|&(at, _)| at);
        if steps.first().is_none_or(|&(at, _)| at > 0) {
            steps.insert(0, (0, 0));
        }
        // If several steps of the rate start at the same instant, the step that was given last applies.
        steps.reverse();
        steps.dedup_by_key(|&mut (at, _)| at);
        steps.reverse();
        Self { steps, period: None, outages: Vec::new() }
    }

    /// Returns the capacity of a recorded trace in mahimahi's format. `milliseconds` has the times, in milliseconds, at
    /// which `bytes` may pass. The trace repeats after its last time. The capacity spreads the bytes evenly over the
    /// millisecond that ends at the recorded time. Therefore, at every instant, the capacity has let through at least
    /// as many bytes as the real trace.
    #[must_use]
    pub fn opportunities(milliseconds: &[u64], bytes: u64) -> Self {
        let period = milliseconds.iter().copied().max().unwrap_or(0).max(1);
        let mut counts = std::collections::BTreeMap::new();
        for &at in milliseconds {
            // A recorded time t means the millisecond that ends at t, which has the index t - 1. Time 0 has no
            // millisecond before it, so its bytes pass in the first millisecond.
            *counts.entry(at.max(1) - 1).or_insert(0_u64) += 1;
        }
        let mut steps = Vec::new();
        for (&at, &count) in &counts {
            steps.push((at * MS, count * bytes * 8 * 1000));
            if !counts.contains_key(&(at + 1)) {
                steps.push(((at + 1) * MS, 0));
            }
        }
        Self { period: Some(period * MS), ..Self::stepwise(steps) }
    }

    /// Returns a capacity that changes at each of the `steps`, as [`stepwise`](Self::stepwise) does. The steps repeat
    /// after `period` nanoseconds; if `period` is `None`, they do not repeat.
    #[must_use]
    pub fn repeating(steps: Vec<(u64, u64)>, period: Option<u64>) -> Self {
        Self { period, ..Self::stepwise(steps) }
    }

    /// Adds an outage from `from_ns` until `until_ns`; `u64::MAX` means that it never ends.
    #[must_use]
    pub fn with_outage(mut self, from_ns: u64, until_ns: u64) -> Self {
        if from_ns < until_ns {
            self.outages.push((from_ns, until_ns));
        }
        self
    }

    /// Returns the capacity at the nanosecond `at`, in bits per second, and the nanosecond of the next possible change.
    fn at(&self, at: u64) -> (u64, u64) {
        let (base, within) = match self.period {
            Some(period) => (at - at % period, at % period),
            None => (0, at),
        };
        let next = self.steps.partition_point(|&(step, _)| step <= within);
        let rate = self.steps.get(next.wrapping_sub(1)).map_or(0, |&(_, rate)| rate);
        let end_of_period = self.period.map_or(u64::MAX, |period| base.saturating_add(period));
        let step = self.steps.get(next).map_or(u64::MAX, |&(step, _)| base.saturating_add(step));
        let mut change = step.min(end_of_period);
        let mut out = false;
        for &(from, until) in &self.outages {
            if (from..until).contains(&at) {
                out = true;
            }
            for edge in [from, until] {
                if edge > at {
                    change = change.min(edge);
                }
            }
        }
        (if out { 0 } else { rate }, change)
    }

    /// Returns whether the capacity stays zero after `at` (nanoseconds), because an outage never ends or the rate of
    /// all remaining steps is 0.
    fn is_over(&self, at: u64) -> bool {
        let cut_off = self.outages.iter().any(|&(from, until)| from <= at && until == u64::MAX);
        // Selects the steps that can be in force after `at`. If the steps repeat, these are all steps. Otherwise, these
        // are the step in force at `at` and the later steps.
        let current = self.steps.partition_point(|&(step, _)| step <= at).saturating_sub(1);
        let first = if self.period.is_some() { 0 } else { current };
        let silent = self.steps[first..].iter().all(|&(_, rate)| rate == 0);
        cut_off || silent
    }
}

/// One direction of the network, modelled as a queue of fluid.
struct Fluid<'a> {
    direction: &'a Direction,
    /// The queue's clock: the time in nanoseconds, rounded up, at which the last byte accepted so far leaves the queue.
    now: u64,
    /// The unused capacity between the exact end of the last transmission and `now`, in bits/s times ns.
    spare: u128,
    /// If all paths have a common period: the period in ns, the capacity of all paths together in one period in bits/s
    /// times ns, and the time in ns after which no outage starts or ends.
    common_period: Option<(u64, u128, u64)>,
}

impl<'a> Fluid<'a> {
    fn new(direction: &'a Direction, common_period: Option<(u64, u128, u64)>) -> Self {
        Self { direction, now: 0, spare: 0, common_period }
    }

    /// Sends this number of bytes, beginning at the time `release`. Bytes of earlier calls are sent before them.
    /// Returns the time at which the last byte has passed, or `None` if the capacity never suffices. Both times are in
    /// nanoseconds.
    fn pass(&mut self, release: u64, bytes: u64) -> Option<u64> {
        if release >= self.now {
            self.now = release;
            self.spare = 0;
        }
        let mut need = u128::from(bytes) * 8 * 1_000_000_000;
        if need <= self.spare {
            self.spare -= need;
            return Some(self.now);
        }
        need -= self.spare;
        self.spare = 0;
        loop {
            // Skips whole periods at once, because a large object may need many repetitions of a short trace.
            if let Some((period, capacity, settled)) = self.common_period
                && self.now >= settled
                && self.now.is_multiple_of(period)
                && need > capacity
            {
                let rounds = (need - 1) / capacity;
                need -= rounds * capacity;
                let span = rounds.checked_mul(u128::from(period))?;
                self.now = self.now.checked_add(u64::try_from(span).ok()?)?;
            }
            let (mut rate, mut change) = (0_u128, u64::MAX);
            for path in &self.direction.paths {
                let (path_rate, path_change) = path.at(self.now);
                rate += u128::from(path_rate);
                change = change.min(path_change);
            }
            if rate == 0
                && (change == u64::MAX || self.direction.paths.iter().all(|path| path.is_over(self.now)))
            {
                return None;
            }
            if rate >= u128::from(UNLIMITED) {
                return Some(self.now);
            }
            let room = rate * u128::from(change - self.now);
            if need <= room {
                let span = need.div_ceil(rate);
                self.spare = span * rate - need;
                self.now += u64::try_from(span).ok()?;
                return Some(self.now);
            }
            need -= room;
            self.now = change;
            if change == u64::MAX {
                return None;
            }
        }
    }
}

/// Returns the common period of `paths`, their total capacity in one period, and the time after which no outage starts
/// or ends. `None` if the paths do not all repeat with the same period.
fn common_period(paths: &[Capacity]) -> Option<(u64, u128, u64)> {
    let period = paths.first()?.period?;
    let edges = paths.iter().flat_map(|path| &path.outages).flat_map(|&(from, until)| [from, until]);
    let settled = edges.max().unwrap_or(0);
    if settled == u64::MAX || paths.iter().any(|path| path.period != Some(period)) {
        return None;
    }
    let mut capacity = 0_u128;
    for path in paths {
        let ends = path.steps.iter().skip(1).map(|&(at, _)| at).chain([period]);
        for (&(at, rate), end) in path.steps.iter().zip(ends) {
            capacity += u128::from(rate) * u128::from(end.min(period).saturating_sub(at));
        }
    }
    (capacity > 0).then_some((period, capacity, settled))
}

/// Computes the lower bound for the load time of `items` over a network with these two directions. An item is requested
/// after its initiator has arrived. An item whose initiator is not an earlier item is requested at the start.
#[must_use]
pub fn limit(items: &[Item], up: &Direction, down: &Direction) -> Limit {
    let (up_period, down_period) = (common_period(&up.paths), common_period(&down.paths));
    let mut earliest: Vec<Option<u64>> = Vec::with_capacity(items.len());
    let mut released: Vec<Option<u64>> = Vec::with_capacity(items.len());
    let passed =
        |at: u64, bytes: u64| Fluid::new(down, down_period).pass(at, bytes)?.checked_add(down.delay_ns);
    for (index, item) in items.iter().enumerate() {
        let cause = item.initiator.filter(|&cause| cause < index);
        let answered = (|| {
            let issued = match cause {
                Some(cause) => {
                    let known = match item.part {
                        Some(part) => passed(released[cause]?, part.min(items[cause].response))?,
                        None => earliest[cause]?,
                    };
                    known.checked_add(item.think_ns)?
                }
                None => item.think_ns,
            };
            let arrived = Fluid::new(up, up_period).pass(issued, item.request)?.checked_add(up.delay_ns)?;
            arrived.checked_add(item.server_ns)
        })();
        released.push(answered);
        earliest.push(answered.and_then(|at| passed(at, item.response)));
    }

    let all: Option<Vec<(u64, usize)>> =
        released.iter().enumerate().map(|(index, at)| at.map(|at| (at, index))).collect();
    let page_ns = all.and_then(|mut order| {
        order.sort_unstable();
        let mut fluid = Fluid::new(down, down_period);
        let mut last = 0;
        for (at, index) in order {
            last = last.max(fluid.pass(at, items[index].response)?.checked_add(down.delay_ns)?);
        }
        Some(last)
    });
    Limit { page_ns, earliest }
}

/// The rate, in bits per second, of a link on which packets take no time. At this rate or a higher one, the time of a
/// transmission is 0, and not rounded up.
pub const UNLIMITED: u64 = 1 << 62;

/// The number of nanoseconds in a millisecond.
const MS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::rng::Rng;

    fn direction(capacity: Capacity, delay_ms: u64) -> Direction {
        Direction { paths: vec![capacity], delay_ns: delay_ms * MS }
    }

    fn constant(mbit: u64, delay_ms: u64) -> Direction {
        direction(Capacity::constant(mbit * 1_000_000), delay_ms)
    }

    fn object(response: u64, initiator: Option<usize>) -> Item {
        Item { request: 500, response, initiator, ..Item::default() }
    }

    #[test]
    fn one_object_by_hand() {
        // Up: 500 B at 10 Mbit/s take 0.4 ms, plus 40 ms delay. Down: 100,000 B take 80 ms, plus 40 ms delay. Together
        // 160.4 ms.
        let net = constant(10, 40);
        let limit = limit(&[object(100_000, None)], &net, &net);
        assert_eq!(limit.page_ns, Some(160_400_000));
        assert_eq!(limit.earliest, [Some(160_400_000)]);
    }

    #[test]
    fn a_document_and_what_it_embeds_by_hand() {
        // The HTML of 10,000 B arrives after 0.4 + 40 + 8 + 40 = 88.4 ms. Then the client requests the two images, and
        // both requests arrive at 88.4 + 0.4 + 40 = 128.8 ms. The images, 2 x 50,000 B, take 80 ms plus 40 ms delay:
        // 248.8 ms.
        let net = constant(10, 40);
        let page = [object(10_000, None), object(50_000, Some(0)), object(50_000, Some(0))];
        let limit = limit(&page, &net, &net);
        assert_eq!(limit.page_ns, Some(248_800_000));
        assert_eq!(limit.earliest, [Some(88_400_000), Some(208_800_000), Some(208_800_000)]);
    }

    #[test]
    fn think_and_server_time_count_where_they_fall() {
        let net = constant(10, 40);
        let mut page = [object(10_000, None), object(50_000, Some(0))];
        page[0].server_ns = 5 * MS;
        page[1].think_ns = 7 * MS;
        assert_eq!(limit(&page, &net, &net).page_ns, Some(208_800_000 - 40 * MS + 40 * MS + 12 * MS));
    }

    #[test]
    fn an_unrelated_object_fills_the_wait_of_a_chain() {
        // The first response (10,000 B) arrives at 0.4 + 40 + 8 + 40 = 88.4 ms. The third object is then requested, and
        // its response begins at 88.4 + 0.4 + 40 = 128.8 ms. Meanwhile, from 40.4 to 128.4 ms, the link carries the
        // first two responses (110,000 B). So the third response does not wait. It takes 8 ms plus 40 ms delay.
        let net = constant(10, 40);
        let page = [object(10_000, None), object(100_000, None), object(10_000, Some(0))];
        assert_eq!(limit(&page, &net, &net).page_ns, Some(176_800_000));
    }

    #[test]
    fn paths_add_up_and_the_smallest_delay_counts() {
        let two = Direction {
            paths: vec![Capacity::constant(6_000_000), Capacity::constant(4_000_000)],
            delay_ns: 40 * MS,
        };
        assert_eq!(limit(&[object(100_000, None)], &two, &two).page_ns, Some(160_400_000));
    }

    #[test]
    fn outages_and_steps_are_waited_out() {
        let up = constant(10, 40);
        // The transmission of the response takes 80 ms and begins at 40.4 ms. The outage from 50 to 80 ms interrupts it
        // after 9.6 ms. The other 70.4 ms of the transmission follow the outage.
        let down = direction(Capacity::constant(10_000_000).with_outage(50 * MS, 80 * MS), 40);
        assert_eq!(limit(&[object(100_000, None)], &up, &down).page_ns, Some(190_400_000));
        // At 10 Mbit/s the transmission of the response would take 80 ms. It begins at 40.4 ms. After 20 ms of it, the
        // rate halves, so the remaining data takes 120 ms instead of 60 ms.
        let down = direction(Capacity::stepwise(vec![(0, 10_000_000), (60_400_000, 5_000_000)]), 40);
        assert_eq!(limit(&[object(100_000, None)], &up, &down).page_ns, Some(220_400_000));
        // One path has an outage, so the other path must carry the object.
        let down = Direction {
            paths: vec![
                Capacity::constant(5_000_000).with_outage(0, u64::MAX),
                Capacity::constant(5_000_000),
            ],
            delay_ns: 40 * MS,
        };
        assert_eq!(limit(&[object(100_000, None)], &up, &down).page_ns, Some(240_400_000));
    }

    #[test]
    fn what_never_passes_has_no_limit() {
        let up = constant(10, 40);
        for dead in [
            Capacity::constant(10_000_000).with_outage(50 * MS, u64::MAX),
            Capacity::constant(0),
            Capacity::stepwise(vec![(0, 10_000_000), (50 * MS, 0)]),
            Capacity::stepwise(Vec::new()),
            Capacity::opportunities(&[], 1500),
        ] {
            let limit = limit(&[object(10, None), object(100_000, None)], &up, &direction(dead.clone(), 40));
            assert_eq!((limit.page_ns, limit.earliest[1]), (None, None), "{dead:?}");
        }
    }

    #[test]
    fn rates_of_a_trace_repeat() {
        // In each period, bytes pass at 8 Mbit/s for 1 ms (1000 B), and then nothing passes for 3 ms. So 2500 B take
        // two whole periods and half of the first millisecond of the third period.
        let capacity = Capacity::repeating(vec![(0, 8_000_000), (MS, 0)], Some(4 * MS));
        let up = constant(1_000_000, 0);
        let item = Item { request: 0, response: 2500, ..Item::default() };
        assert_eq!(limit(&[item], &up, &direction(capacity, 0)).page_ns, Some(8 * MS + MS / 2));
    }

    #[test]
    fn a_trace_repeats_and_never_lets_more_pass_than_recorded() {
        // The trace lets 1500 B pass at 1, 2 and 5 ms, then at 6, 7, 10 and 11 ms. So the sixth 1500 B have passed at
        // 10 ms, the seventh at 11 ms.
        let down = direction(Capacity::opportunities(&[1, 2, 5], 1500), 0);
        let up = constant(1000, 0);
        let page = [Item { request: 0, response: 7 * 1500, ..Item::default() }];
        assert_eq!(limit(&page, &up, &down).page_ns, Some(11 * MS));
        let page = [Item { request: 0, response: 6 * 1500, ..Item::default() }];
        assert_eq!(limit(&page, &up, &down).page_ns, Some(10 * MS));
    }

    #[test]
    fn rounding_is_not_added_up() {
        // A byte takes 8/3 ns, and times are rounded up only once. The 300 objects of one byte take 800 ns together,
        // not 900 ns.
        let net = Direction { paths: vec![Capacity::constant(3_000_000_000)], delay_ns: 0 };
        let page = vec![Item { response: 1, ..Item::default() }; 300];
        assert_eq!(limit(&page, &net, &net).page_ns, Some(800));
    }

    #[test]
    fn whole_repetitions_are_passed_at_once() {
        // The trace passes 1500 bytes per millisecond, so this object of about a tebibyte needs 700 million
        // repetitions.
        let down = direction(Capacity::opportunities(&[1], 1500), 0);
        let up = direction(Capacity::constant(UNLIMITED), 0);
        let bytes = 1_500 * 700_000_000;
        assert_eq!(limit(&[object(bytes, None)], &up, &down).page_ns, Some(700_000_000 * MS));
        // Skipping whole periods must not change the result. The trace of `stepping` has an outage in the far future,
        // which is never reached but prevents the skip.
        let trace = || Capacity::opportunities(&[1, 2, 5, 9], 1500);
        let far = 3_600_000_000_000;
        for bytes in [1, 1_499, 1_500, 6_000, 6_001, 123_456, 1_000_000] {
            let jumping = limit(&[object(bytes, None)], &up, &direction(trace(), 3)).page_ns;
            let stepping = trace().with_outage(far, far + 1);
            assert_eq!(
                jumping,
                limit(&[object(bytes, None)], &up, &direction(stepping, 3)).page_ns,
                "{bytes}"
            );
        }
    }

    fn random_page(rng: &mut Rng) -> Vec<Item> {
        let n = 1 + rng.below(30) as usize;
        (0..n)
            .map(|i| Item {
                request: rng.below(900),
                response: rng.below(60_000),
                initiator: (i > 0 && rng.below(4) > 0).then(|| rng.below(i as u64) as usize),
                part: None,
                think_ns: rng.below(3) * rng.below(30 * MS),
                server_ns: rng.below(5 * MS),
            })
            .collect()
    }

    #[test]
    fn better_networks_never_raise_the_limit() {
        let mut rng = Rng::new(7);
        for _ in 0..300 {
            let page = random_page(&mut rng);
            let (rate, delay) = (1 + rng.below(20), rng.below(60));
            let outage = (rng.below(200) * MS, rng.below(400) * MS);
            let net = |rate: u64, delay: u64| {
                let capacity = Capacity::constant(rate * 1_000_000).with_outage(outage.0, outage.1);
                direction(capacity, delay)
            };
            let base = limit(&page, &net(rate, delay), &net(rate, delay));
            for better in [
                limit(&page, &net(rate + 1, delay), &net(rate, delay)),
                limit(&page, &net(rate, delay), &net(rate + 1, delay)),
                limit(&page, &net(rate, delay.saturating_sub(1)), &net(rate, delay)),
                limit(&page[..page.len() - 1], &net(rate, delay), &net(rate, delay)),
            ] {
                assert!(better.page_ns <= base.page_ns);
                assert!(better.earliest.iter().zip(&base.earliest).all(|(better, base)| better <= base));
            }
        }
    }

    /// Simulates a transport without overhead. Each packet carries data of a random object among those that the server
    /// can already send. Returns the page time in nanoseconds.
    fn some_order(page: &[Item], rate: u64, delay: u64, rng: &mut Rng) -> u64 {
        let send = |bytes: u64| (bytes * 8_000_000_000).div_ceil(rate);
        let mut left: Vec<u64> = page.iter().map(|item| item.response).collect();
        let mut done: Vec<Option<u64>> = vec![None; page.len()];
        let (mut now, mut last) = (0, 0);
        while done.iter().any(Option::is_none) {
            let release = |i: usize| {
                let issued = match page[i].initiator {
                    Some(cause) => done[cause]? + page[i].think_ns,
                    None => page[i].think_ns,
                };
                Some(issued + send(page[i].request) + delay + page[i].server_ns)
            };
            let waiting: Vec<_> = (0..page.len())
                .filter(|&i| done[i].is_none())
                .filter_map(|i| Some((release(i)?, i)))
                .collect();
            let ready: Vec<_> = waiting.iter().filter(|&&(at, _)| at <= now).collect();
            if ready.is_empty() {
                now = waiting.iter().map(|&(at, _)| at).min().expect("something is released");
                continue;
            }
            let i = ready[rng.below(ready.len() as u64) as usize].1;
            let piece = left[i].min(1000);
            now += send(piece);
            left[i] -= piece;
            if left[i] == 0 {
                done[i] = Some(now + delay);
                last = last.max(now + delay);
            }
        }
        last
    }

    #[test]
    fn no_serving_order_beats_the_limit() {
        let mut rng = Rng::new(11);
        for _ in 0..300 {
            let page = random_page(&mut rng);
            let (rate, delay) = (1_000_000 * (1 + rng.below(20)), rng.below(60) * MS);
            let net = Direction { paths: vec![Capacity::constant(rate)], delay_ns: delay };
            let bound = limit(&page, &net, &net).page_ns.expect("it ends");
            let reached = some_order(&page, rate, delay, &mut rng);
            assert!(bound <= reached, "{bound} > {reached}");
        }
    }
}
