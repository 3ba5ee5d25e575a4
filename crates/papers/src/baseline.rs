//! Simple models that predict the values in a paper's table. A model computes its values from the table's plan alone,
//! without a simulation. If a study's results are no nearer to the published values than these predictions, the study
//! explains nothing.
//!
//! *Arithmetic only*: a connection opens in one round trip. A request leaves when its connection is open and free, and
//! takes half a round trip. It then waits for earlier requests and for the server's processing time. The response
//! arrives at the rate of the link, or of the processor if the plan has a cost per byte. A packet has the size of the
//! MTU, of which 40 bytes are headers, and every second packet is acknowledged. Nothing is lost and no window limits
//! the rate. The model ignores all properties of a transport, except its numbers of connections, streams and
//! outstanding requests in the plan.
//!
//! *PFTK* ([`pftk`]) is the arithmetic model with one more limit. A connection is no faster than the formula of Padhye,
//! Firoiu, Towsley and Kurose (1998) allows. The formula accounts for loss, timeouts and the receiver's window.

use super::bench::StudyError;
use super::cause::Seeds;
use super::cell::{Evidence, PublishedCell};
use super::figures::{Figures, Numbers, Point};
use super::metric::{Metric, seconds};
use super::order::Orders;
use super::table::{Table, TablePoint};
use anabranch_base::Bytes;
use anabranch_base::time::nanos;
use anabranch_base::units::parse_duration;
use anabranch_lab::plan::{Contestant, PointPlan};
use anabranch_lab::run::bound;
use anabranch_link::DirectionSpec;
use anabranch_link::half_duplex::HalfDuplex;
use anabranch_link::spec::LossSpec;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of headers in a packet: 20 of the IP header and 20 of the transport header.
const HEADERS: f64 = 40.0;

/// A simple model that predicts the values in a table of a paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Model {
    /// A transfer time is the transmission time (bytes divided by the rate of the network) plus the round trips. Losses
    /// and windows are ignored.
    Arithmetic,
    /// Like [`Model::Arithmetic`], but the rate of a connection is limited by the PFTK formula.
    Pftk,
}

/// All models, in the order in which the program prints them.
pub const MODELS: [Model; 2] = [Model::Arithmetic, Model::Pftk];

/// The values that a simple model predicts for a table of a paper.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The model that made the predictions.
    pub model: Model,
    /// The published cells of the table, each with the value that the model predicts.
    pub cells: Vec<PublishedCell>,
    /// The published orders of contestants, compared with the orders that the model predicts.
    pub orders: Orders,
}

impl Model {
    /// Returns the name that tables and text use for the model.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic-only model",
            Self::Pftk => "PFTK",
        }
    }
}

impl Baseline {
    /// Computes the results of all models for a table.
    ///
    /// # Errors
    /// [`StudyError::Change`] if the plan cannot be changed as requested.
    pub fn all(table: &Table, seeds: &Seeds<'_>) -> Result<Vec<Self>, StudyError> {
        let rows = table.rows();
        if rows.clone().next().is_none() {
            return Ok(Vec::new());
        }
        let draft = table.draft(1, seeds.first, &seeds.changes_of(table, &[]));
        let table_points =
            draft.and_then(|draft| table.table_points(&draft, &BTreeMap::new(), None, seeds.transports));
        let table_points = table_points?;
        let of = |model| {
            let points = table_points
                .iter()
                .map(|table_point| Rc::new(predict(model, table_point, table.definition.heads)));
            let figures = Figures { points: points.collect(), cases: None };
            let cells: Vec<PublishedCell> =
                rows.clone().map(|row| PublishedCell::measure(table, row, &figures)).collect();
            Self { model, orders: Orders::of(table, &cells), cells }
        };
        Ok(MODELS.into_iter().map(of).collect())
    }

    /// Returns the skill of our simulation runs, compared with this model: `1 - our_error / model_error`. The skill is
    /// 1 if our values equal the published values. It is 0 if our error equals the model's error, and below 0 if our
    /// error is larger. Each error is the root of the mean square of ln(value/published). Calibrated cells, and cells
    /// for which our runs or the model have no value, do not count.
    #[must_use]
    pub fn skill(&self, own_cells: &[PublishedCell]) -> Option<f64> {
        let off = |cell: &PublishedCell| {
            cell.ours.filter(|own_value| *own_value > 0.0).map(|own_value| (own_value / cell.published).ln())
        };
        let pairs: Vec<(f64, f64)> = (own_cells.iter().zip(&self.cells))
            .filter(|(own, _)| own.evidence != Evidence::Calibrated)
            .filter_map(|(own, of_model)| off(own).zip(off(of_model)))
            .collect();
        let square = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(|pair| of(pair).powi(2)).sum::<f64>();
        let (own_squares, model_squares) = (square(|pair| pair.0), square(|pair| pair.1));
        (model_squares > 0.0).then(|| 1.0 - (own_squares / model_squares).sqrt())
    }
}

/// Returns the values that a model predicts for every contestant of a [`Table`]. `heads` is the number of bytes of an
/// HTTP request's head and its response's head together, for [`Metric::of`].
fn predict(model: Model, table_point: &TablePoint, heads: u64) -> Point {
    let plan = &table_point.plan;
    let numbers = |point: &PointPlan, contestant: &Contestant| {
        (contestant.label.clone(), vec![predict_contestant(model, point, contestant, heads)])
    };
    let contestants = plan
        .points
        .first()
        .into_iter()
        .flat_map(|point| plan.contestants.iter().map(move |contestant| numbers(point, contestant)));
    Point { factors: table_point.factors.clone(), contestants: contestants.collect() }
}

/// The network, in the quantities that the simple models use. Times are in seconds, sizes in bytes.
struct Link {
    rtt: f64,
    /// Seconds that the link, or the processor if it is slower, needs for each byte of a response body.
    seconds_per_byte: f64,
    /// Seconds for each byte of a response body at the maximum rate of one connection; 0 if nothing limits this rate.
    seconds_per_connection_byte: f64,
    /// Seconds for which the server works on a request.
    seconds_per_request: f64,
    /// The number of bytes of user data in a packet.
    payload: f64,
    /// The number of packets per acknowledgement.
    ack_every: f64,
    /// The share of lost packets, from 0 to 1: first of the client's packets, then of the server's packets.
    loss: [f64; 2],
}

impl Link {
    fn of(model: Model, point: &PointPlan, contestant: &Contestant) -> Option<Self> {
        let path = point.network.paths.first()?;
        let knobs: BTreeMap<&str, String> =
            contestant.engine.knobs().into_iter().map(|knob| (knob.key, knob.value)).collect();
        let size = |key: &str| Some(knobs.get(key)?.parse::<Bytes>().ok()?.0 as f64);
        let whole = (f64::from(path.down.mtu) - HEADERS).max(1.0);
        let payload = size("mss").unwrap_or(whole).min(whole);
        let rtt = seconds(nanos(path.up.delay) + nanos(path.down.delay));
        let on_medium = |side: &DirectionSpec, bytes: f64| {
            let bits = 8.0 * (bytes + side.overhead.0 as f64);
            let rate = side.rate.first().map_or(f64::INFINITY, |rate| rate.bits_per_second() as f64);
            bits / rate + seconds(nanos(side.packet_time))
        };
        // On a half-duplex medium, acknowledgements also take time. Every second packet is acknowledged.
        let ack = if path.half_duplex != HalfDuplex::No { on_medium(&path.up, HEADERS) / 2.0 } else { 0.0 };
        let packet = on_medium(&path.down, payload + HEADERS) + ack;
        let cost = seconds(nanos(contestant.cost.per_byte)) * (payload + HEADERS)
            + seconds(nanos(contestant.cost.per_packet));
        let ack_every = knobs.get("ack_every").and_then(|text| text.parse().ok()).unwrap_or(2.0);
        let loss = [&path.up, &path.down].map(|side| loss(&side.loss));
        let seconds_per_connection_byte = match model {
            Model::Arithmetic => 0.0,
            Model::Pftk => {
                let timeout = knobs.get("rto_min").and_then(|text| parse_duration(text).ok());
                let timeout = timeout.map_or(1.0, |span| seconds(nanos(span))).max(rtt);
                let window = size("rcvbuf").unwrap_or(f64::INFINITY) / payload;
                1.0 / (pftk(loss[1], rtt, timeout, window, ack_every) * payload)
            }
        };
        Some(Self {
            rtt,
            seconds_per_byte: packet.max(cost) / payload,
            seconds_per_connection_byte,
            seconds_per_request: seconds(nanos(contestant.cost.per_request))
                + seconds(nanos(point.workload.server_time.unwrap_or_default())),
            payload,
            ack_every,
            loss,
        })
    }
}

/// Returns the long-run share of lost packets. It is 0 if the plan lists the lost packets one by one, because a list
/// has no long-run share.
fn loss(spec: &LossSpec) -> f64 {
    match spec {
        LossSpec::None | LossSpec::List(_) => 0.0,
        LossSpec::Bernoulli(share) => share.as_f64(),
        LossSpec::Recorded(losses) => losses.mean(),
        LossSpec::Nth { every, .. } => 1.0 / *every as f64,
        LossSpec::GilbertElliott { to_bad, to_good, bad_loss, good_loss } => {
            let (bad, good) = (to_bad.as_f64(), to_good.as_f64());
            (bad * bad_loss.as_f64() + good * good_loss.as_f64()) / (bad + good).max(f64::MIN_POSITIVE)
        }
    }
}

/// Returns the packets per second of the full model of J. Padhye, V. Firoiu, D. Towsley and J. Kurose, "Modeling TCP
/// throughput: a simple model and its empirical validation" (1998). `p` is the share of lost packets. `timeout` is the
/// timeout before any back-off. `rtt` and `timeout` are in seconds. `window` is the maximum number of packets in flight
/// that the receiver allows. `ack_every` is the number of packets per acknowledgement. Without loss the result is one
/// window per round trip.
#[must_use]
pub fn pftk(p: f64, rtt: f64, timeout: f64, window: f64, ack_every: f64) -> f64 {
    if p <= 0.0 {
        return window / rtt;
    }
    let (b, q) = (ack_every, 1.0 - p);
    // The mean congestion window in packets, if only loss limits it (the formula's E[W]).
    let c = (2.0 + b) / (3.0 * b);
    let free = c + (8.0 * q / (3.0 * b * p) + c * c).sqrt();
    // The probability that a loss in a window of w packets is detected only by the retransmission timer (the formula's
    // Q).
    let late = |w: f64| {
        let q3 = q.powi(3);
        ((1.0 - q3) * (1.0 + q3 * (1.0 - q.powf(w - 3.0))) / (1.0 - q.powf(w))).min(1.0)
    };
    let waits =
        1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6);
    let w = free.min(window);
    let late = late(w);
    let packets = q / p + w + late / q;
    let rounds = if free < window { b / 2.0 * free + 1.0 } else { b / 8.0 * window + q / (p * window) + 2.0 };
    packets / (rtt * rounds + late * timeout * waits / q)
}

/// The times at which each object of a page is requested and delivered, and the number of connections that are used.
struct FetchSchedule {
    objects: Vec<[f64; 2]>,
    connections: usize,
}

/// A connection of a [`FetchSchedule`].
struct Connection {
    /// The time at which the connection is open.
    opened_at: f64,
    /// The time at which the last byte of the connection's objects has left the server.
    sent: f64,
    /// The times at which the connection's objects arrived at the client.
    arrivals: Vec<f64>,
}

impl Connection {
    /// Returns the earliest time, in seconds, at which the client can send the next request on the connection. At most
    /// `at_once` requests may be outstanding.
    fn free_at(&self, at_once: usize) -> f64 {
        let before = self.arrivals.len().checked_sub(at_once).map(|before| self.arrivals[before]);
        before.map_or(self.opened_at, |end| end.max(self.opened_at))
    }
}

impl FetchSchedule {
    fn of(point: &PointPlan, contestant: &Contestant, link: &Link) -> Option<Self> {
        let workload = &point.workload;
        let policy = contestant.policy(workload.arrivals.is_some()).ok()?;
        let streams = contestant.streams().max(1);
        let at_once = if policy.pipelines() { usize::MAX } else { streams };
        let at_once = policy.outstanding.map_or(at_once, |n| at_once.min(n as usize)).max(1);
        let most = policy.objects_per_connection.map_or(usize::MAX, |n| n as usize);
        let mut schedule = Self { objects: Vec::new(), connections: 0 };
        let mut connections: Vec<Connection> = Vec::new();
        let (mut medium, mut server) = (0.0_f64, 0.0_f64);
        for item in bound::items(workload, streams, None) {
            let cause =
                item.initiator.map_or(Some(0.0), |at| schedule.objects.get(at).map(|[_, end]| *end))?;
            let issued = cause + seconds(item.think_ns);
            // The object uses the connection that becomes free first. If all connections are busy and the limit allows
            // another connection, the object uses a new one.
            let usable = connections.iter().enumerate().filter(|(_, own)| own.arrivals.len() < most);
            let first = usable.min_by(|(_, a), (_, b)| a.free_at(at_once).total_cmp(&b.free_at(at_once)));
            let first = first.map(|(at, _)| at);
            let busy =
                connections.iter().filter(|own| own.arrivals.last().is_some_and(|end| *end > issued)).count();
            let is_free =
                |at: &usize| connections[*at].free_at(at_once) <= issued.max(connections[*at].opened_at);
            let used = match first.filter(|at| is_free(at) || busy >= policy.connections) {
                Some(at) => at,
                None => {
                    // If the limit is reached, the new connection opens as soon as fewer connections than the limit are
                    // busy.
                    let mut last_arrivals: Vec<f64> =
                        connections.iter().filter_map(|own| own.arrivals.last().copied()).collect();
                    last_arrivals.sort_by(|a, b| b.total_cmp(a));
                    let freed_at = last_arrivals.get(policy.connections.saturating_sub(1));
                    let opened_at = freed_at.map_or(issued, |end| end.max(issued)) + link.rtt;
                    connections.push(Connection { opened_at, sent: 0.0, arrivals: Vec::new() });
                    connections.len() - 1
                }
            };
            let own = &mut connections[used];
            let requested_at = issued.max(own.free_at(at_once));
            server = (requested_at + link.rtt / 2.0).max(server) + link.seconds_per_request;
            let (freed_at, bytes) = (server.max(own.sent), item.response as f64);
            medium = medium.max(freed_at) + bytes * link.seconds_per_byte;
            own.sent = (freed_at + bytes * link.seconds_per_connection_byte).max(medium);
            let end = own.sent + link.rtt / 2.0;
            own.arrivals.push(end);
            schedule.objects.push([issued, end]);
        }
        schedule.connections = connections.len();
        Some(schedule)
    }
}

fn predict_contestant(model: Model, point: &PointPlan, contestant: &Contestant, heads: u64) -> Numbers {
    let link = Link::of(model, point, contestant);
    let schedule = link.as_ref().and_then(|link| FetchSchedule::of(point, contestant, link));
    let (Some(link), Some(schedule)) = (link, schedule) else {
        return Numbers::predicted(|_| None, Vec::new());
    };
    let objects = &point.workload.page.objects;
    let bytes = objects.iter().map(|object| object.body).sum::<u64>() as f64;
    let answers: f64 = objects.iter().map(|object| object.response() as f64).sum();
    let requests: f64 = objects.iter().map(|object| object.request_head as f64).sum();
    let count = objects.len().max(1) as f64;
    let end = schedule.objects.iter().map(|[_, end]| *end).fold(0.0, f64::max);
    let data = objects.iter().map(|object| (object.response() as f64 / link.payload).ceil()).sum::<f64>();
    let (up, down) = (data / link.ack_every, data);
    let wire = answers + requests + (up + down) * HEADERS;
    let lost = up * link.loss[0] + down * link.loss[1];
    let some = |value: f64| (value.is_finite() && value > 0.0).then_some(value);
    let value = |metric| match metric {
        Metric::ObjectMean => {
            some(schedule.objects.iter().map(|[from, end]| end - from).sum::<f64>() / count)
        }
        Metric::Page | Metric::LastAnswer => some(end),
        Metric::NetIo => some((bytes + heads as f64 * count) / 1024.0 / end),
        Metric::Goodput => some(bytes / end),
        Metric::WireRate => some(wire / end),
        Metric::WireBytes => some(wire),
        Metric::Packets => some(up + down),
        Metric::PacketsUp => some(up),
        Metric::PacketsDown => some(down),
        Metric::Lost => some(lost),
        Metric::LostPerObject => some(lost / count),
        Metric::Retransmissions => some(down * link.loss[1]),
        Metric::Connections => some(schedule.connections as f64),
        Metric::Connect => some(link.rtt),
        _ => None,
    };
    Numbers::predicted(value, schedule.objects.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_transports::Transports;

    fn table(plan: &str, printed: &str) -> Table {
        let definition = format!(
            "title = 't'\nsource = 's'\nunit = 'u'\nmetric = 'page'\nrows = ['loss']\nruns = 1\nquick_runs = 1\n{plan}"
        );
        Table::parse("t", &definition, Some(printed)).expect("a table")
    }

    fn baselines(table: &Table) -> Vec<Baseline> {
        Baseline::all(table, &Seeds { runs: 1, first: 1, changes: &[], transports: &Transports::standard() })
            .expect("baselines")
    }

    #[test]
    fn the_formula_is_that_of_the_paper() {
        // By hand, with p = 2 %, b = 2, RTT = 0.1 s and T0 = 1 s (in the paper's symbols):
        // E[W] = 2/3 + sqrt(0.98 * 200/3 + 4/9) = 8.7770
        // Q = (1 - 0.98^3) (1 + 0.98^3 (1 - 0.98^(E[W] - 3))) / (1 - 0.98^E[W]) = 0.399465
        // The numerator is 0.98/0.02 + E[W] + Q/0.98 = 58.18462.
        // The denominator is 0.1 (E[W] + 1) + Q f(0.02)/0.98 = 1.393813, with f(0.02) = 1.020834.
        // The rate is their quotient, 41.745.
        let rate = pftk(0.02, 0.1, 1.0, 1000.0, 2.0);
        assert!((rate / 41.745 - 1.0).abs() < 0.001, "{rate}");
        // By hand, with a receiver's window of 4 packets, which limits the rate: the rate is (49 + 4 + Q/0.98) / (0.1
        // (1 + 12.25 + 2) + Q 1.020834/0.98). Here Q = min(1, 0.058808 (1 + 0.941192 * 0.02) / (1 - 0.98^4)) = 0.058808
        // * 1.018824 / 0.077632 = 0.771787.
        let rate = pftk(0.02, 0.1, 1.0, 4.0, 2.0);
        assert!((rate / (53.787538 / 2.328945) - 1.0).abs() < 0.001, "{rate}");
        assert_eq!(pftk(0.0, 0.1, 1.0, 4.0, 2.0), 40.0, "without loss: the window a round trip");
        // With little loss there are hardly any timeouts. The throughput is then that of the square root formula of the
        // same authors: 1/(RTT sqrt(2bp/3)).
        let (p, b) = (1e-6, 2.0);
        let root = 1.0 / (0.1 * (2.0 * b * p / 3.0_f64).sqrt());
        assert!((pftk(p, 0.1, 0.2, 1e9, b) / root - 1.0).abs() < 0.01);
    }

    #[test]
    fn bytes_over_rate_and_round_trips() {
        let plan = "[plan]\nrate = '8mbit'\nrtt = '100ms'\nmtu = '1040'\nqueue = '100p'\nloss = ['0', '1%']\n\
                    response-head = '200B'\nobjects = '2x99800B'\n\
                    transport = ['all=tcp', 'one=tcp:outstanding=1', 'each=tcp:per-object=yes']\n";
        let printed = "contestant,loss,s\nall,0,0.5\none,0,1\neach,0,0.2\nall,1%,2\n";
        let found = baselines(&table(plan, printed));
        // The set-up takes one round trip, the request and the response take another round trip, and 200 packets of
        // 1040 bytes take 208 ms: together 0.408 s. The second contestant sends one request at a time and takes one
        // more round trip. The other contestants send all requests at once, or have one connection per object.
        let arithmetic: Vec<f64> = found[0].cells.iter().map(|cell| cell.ours.expect("a number")).collect();
        for (ours, right) in arithmetic.iter().zip([0.408, 0.508, 0.408, 0.408]) {
            assert!((ours - right).abs() < 1e-9, "{arithmetic:?}");
        }
        let orders = &found[0].orders;
        assert_eq!((orders.all, orders.same), (3, 2), "print has each, all, one; what is alike is not right");
        // With loss, the PFTK model takes at least the time that the PFTK formula gives. Without loss and with a large
        // window, it equals the arithmetic model.
        let formula: Vec<f64> = found[1].cells.iter().map(|cell| cell.ours.expect("a number")).collect();
        assert!(formula[3] > 2.0 && formula[0] < 0.45, "{formula:?}");
    }

    #[test]
    fn skill_is_of_errors() {
        let plan = "[plan]\nrate = '8mbit'\nrtt = '100ms'\nmtu = '1040'\nqueue = '100p'\nloss = ['0']\n\
                    response-head = '200B'\nobjects = '2x99800B'\ntransport = ['all=tcp']\n";
        let table = table(plan, "contestant,loss,s\nall,0,0.816\n");
        let found = &baselines(&table)[0];
        let value_of = |value: f64| {
            let mut cells = found.cells.clone();
            cells[0].ours = Some(value);
            found.skill(&cells).expect("a skill")
        };
        // The skill is `1 - our_error / model_error`. Here the model's value is half the published value.
        assert!(
            (value_of(0.816) - 1.0).abs() < 1e-9
                && value_of(0.408).abs() < 1e-9
                && value_of(1.632).abs() < 1e-9
        );
        assert!((value_of(0.204) + 1.0).abs() < 1e-9, "a quarter is twice as far");
        assert!((value_of(0.816 / 2.0_f64.sqrt()) - 0.5).abs() < 1e-9);
        let mut cells = found.cells.clone();
        cells[0].evidence = Evidence::Calibrated;
        assert_eq!(found.skill(&cells), None, "what is calibrated is no skill");
    }
}
