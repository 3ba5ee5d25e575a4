//! Prints the result of a load test in three formats: JSON, CSV, and text in the six blocks that httperf prints.
//!
//! The blocks Total, Connection, Request, Reply, Miscellaneous and Errors have the line formats of httperf 0.9, so
//! existing scripts can parse them. In these blocks an SCTP association is called a connection. Values that httperf
//! does not report follow after the six blocks: latency from the planned time, percentiles, and more causes of failure.

use super::{Cause, Line, Pace, Plan, Tally};
use anabranch_base::Histogram;
use anabranch_base::time::{Duration, nanos};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The information that a report of a load test shows in addition to the tally.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReportContext {
    /// The command line as it was typed.
    pub command: String,
    /// The requested URL.
    pub url: String,
    /// The name of the transport, for example `tcp`, `sctp` (in UDP) or `sctp-ip`.
    pub transport: String,
    /// The settings of the transport, as names and values.
    pub settings: Vec<(String, String)>,
    /// The CPU time of this process in user mode during the load.
    pub user: Duration,
    /// The CPU time of this process in the kernel during the load.
    pub system: Duration,
    /// Whether the user interrupted the load.
    pub interrupted: bool,
    /// Fields about events of network paths, which are added to the JSON report.
    pub paths: Map<String, Value>,
    /// Lines for the end of the text report, with the state and the bytes of each network path. May be empty.
    pub path_lines: String,
}

/// Appends a line to a [`Text`].
macro_rules! line {
    ($text:expr, $($rest:tt)*) => {
        let _ = writeln!($text.out, $($rest)*);
    };
}

/// Returns the report as text.
#[must_use]
pub fn text(plan: &Plan, tally: &Tally, context: &ReportContext) -> String {
    let out = format!("{}\n\n", context.command);
    let mut text = Text { out, tally, seconds: tally.duration().as_secs_f64() };
    text.connections();
    text.requests_and_replies();
    text.machine(context);
    text.errors();
    text.latency(plan);
    text.failures();
    if context.interrupted {
        line!(text, "Interrupted: what was in flight is not counted.");
    }
    text.out + &context.path_lines
}

/// A text report that is being written, block by block.
struct Text<'a> {
    out: String,
    tally: &'a Tally,
    /// The duration of the load.
    seconds: f64,
}

impl Text<'_> {
    fn a_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    fn each_ms(&self, count: u64) -> f64 {
        if count > 0 { self.seconds * 1e3 / count as f64 } else { 0.0 }
    }

    fn connections(&mut self) {
        let t = self.tally;
        line!(
            self,
            "Total: connections {} requests {} replies {} test-duration {:.3} s\n",
            t.sessions,
            t.requests,
            t.replies,
            self.seconds
        );
        line!(
            self,
            "Connection rate: {:.1} conn/s ({:.1} ms/conn, <={} concurrent connections)",
            self.a_second(t.sessions),
            self.each_ms(t.sessions),
            t.max_concurrent
        );
        let life = &t.lifetime;
        line!(
            self,
            "Connection time [ms]: min {:.1} avg {:.1} max {:.1} median {:.1} stddev {:.1}",
            ms(life.min()),
            ms(life.mean()),
            ms(life.max()),
            ms(life.percentile(0.5)),
            ms(life.deviation())
        );
        line!(self, "Connection time [ms]: connect {:.1}", ms(t.connect.mean()));
        line!(
            self,
            "Connection length [replies/conn]: {:.3}\n",
            per(t.replies as f64, t.sessions_with_replies)
        );
    }

    fn requests_and_replies(&mut self) {
        let t = self.tally;
        line!(
            self,
            "Request rate: {:.1} req/s ({:.1} ms/req)",
            self.a_second(t.requests),
            self.each_ms(t.requests)
        );
        line!(self, "Request size [B]: {:.1}\n", per(t.request_bytes as f64, t.requests));
        let samples = samples(&t.lines, t.width);
        let rate = Spread::of(&samples).unwrap_or(Spread {
            min: 0.0,
            mean: self.a_second(t.replies),
            max: 0.0,
            deviation: 0.0,
        });
        line!(
            self,
            "Reply rate [replies/s]: min {:.1} avg {:.1} max {:.1} stddev {:.1} ({} samples)",
            rate.min,
            rate.mean,
            rate.max,
            rate.deviation,
            samples.len()
        );
        line!(
            self,
            "Reply time [ms]: response {:.1} transfer {:.1}",
            per(ms(t.response), t.replies),
            per(ms(t.transfer), t.replies)
        );
        line!(
            self,
            "Reply size [B]: header {:.1} content {:.1} footer 0.0 (total {:.1})",
            per(t.head_bytes as f64, t.replies),
            per(t.body_bytes as f64, t.replies),
            per((t.head_bytes + t.body_bytes) as f64, t.replies)
        );
        let [one, two, three, four, five] = t.status;
        line!(self, "Reply status: 1xx={one} 2xx={two} 3xx={three} 4xx={four} 5xx={five}\n");
    }

    fn machine(&mut self, context: &ReportContext) {
        let (t, seconds) = (self.tally, self.seconds);
        let (user, system) = (context.user.as_secs_f64(), context.system.as_secs_f64());
        let share = |time: f64| if seconds > 0.0 { 100.0 * time / seconds } else { 0.0 };
        line!(
            self,
            "CPU time [s]: user {user:.2} system {system:.2} (user {:.1}% system {:.1}% total {:.1}%)",
            share(user),
            share(system),
            share(user + system)
        );
        let bytes = self.a_second(t.request_bytes + t.head_bytes + t.body_bytes);
        line!(self, "Net I/O: {:.1} KB/s ({:.1}*10^6 bps)\n", bytes / 1024.0, bytes * 8.0 / 1e6);
    }

    fn errors(&mut self) {
        let t = self.tally;
        let of = |causes: &[Cause]| causes.iter().map(|&cause| t.errors[cause as usize]).sum::<u64>();
        line!(
            self,
            "Errors: total {} client-timo {} socket-timo {} connrefused {} connreset {}",
            t.error_count(),
            of(&[Cause::ConnectTimeout, Cause::Timeout]),
            of(&[Cause::TransportTimeout]),
            of(&[Cause::Refused]),
            of(&[Cause::Reset])
        );
        line!(
            self,
            "Errors: fd-unavail {} addrunavail {} ftab-full {} other {}\n",
            of(&[Cause::Descriptors]),
            of(&[Cause::Ports]),
            of(&[Cause::Full]),
            of(&[Cause::ClosedEarly, Cause::Malformed, Cause::Network, Cause::Protocol])
        );
    }

    fn latency(&mut self, plan: &Plan) {
        let t = self.tally;
        line!(self, "Latency [ms]: {}, {}", spans(&t.latency), counted_from(plan));
        if !matches!(plan.pace, Pace::Closed { .. }) {
            let late = spans(&t.start_delay);
            line!(self, "Late [ms]: {late}, of these the delay of this host behind its own plan");
            let service = spans(&t.service);
            line!(self, "Service [ms]: {service}, from when the request was written");
        }
        line!(self, "Connect [ms]: {}", spans(&t.connect));
        for (version, spoken) in
            [("HTTP/2", t.http2), ("HTTP/3", t.http3)].into_iter().filter(|(_, count)| *count > 0)
        {
            line!(
                self,
                "{version}: {spoken} of {} established connections, at most {} requests at a time on each",
                t.established,
                plan.streams
            );
        }
        if t.early > 0 {
            line!(self, "0-RTT: {} of {} established connections", t.early, t.established);
        }
    }

    fn failures(&mut self) {
        for cause in Cause::ALL {
            let count = self.tally.errors[cause as usize];
            if let (1.., Some(message)) = (count, &self.tally.first_messages[cause as usize]) {
                line!(self, "Failed: {count} by {}, the first: {message}", cause.name());
            }
        }
    }
}

/// Returns `sum` divided by `count`; zero if the count is zero.
fn per(sum: f64, count: u64) -> f64 {
    if count > 0 { sum / count as f64 } else { 0.0 }
}

/// Returns the text that says from which time latency is measured.
fn counted_from(plan: &Plan) -> &'static str {
    match plan.pace {
        Pace::Open { .. } => "from the planned time of the session (coordinated omission is counted)",
        Pace::Pool { .. } => "from the planned time of the object (coordinated omission is counted)",
        Pace::Closed { .. } => {
            "from the request: closed loop, a slow server gets fewer requests (coordinated omission)"
        }
    }
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn spans(histogram: &Histogram) -> String {
    let mut out = format!("min {:.3}", ms(histogram.min()));
    for (name, share) in PERCENTILES {
        let _ = write!(out, " {name} {:.3}", ms(histogram.percentile(share)));
    }
    let _ = write!(out, " max {:.3} mean {:.3}", ms(histogram.max()), ms(histogram.mean()));
    out
}

/// Returns the replies per second, averaged over windows of five seconds as in httperf. If each line of the tally
/// covers more than five seconds, every line is one window.
fn samples(lines: &[Line], width: u32) -> Vec<f64> {
    let whole = &lines[..lines.len().saturating_sub(1)];
    let width = width.max(1);
    let count = 5_usize.div_ceil(width as usize);
    let seconds = f64::from(width) * count as f64;
    whole
        .chunks_exact(count)
        .map(|window| window.iter().map(|line| line.replies).sum::<u64>() as f64 / seconds)
        .collect()
}

struct Spread {
    min: f64,
    mean: f64,
    max: f64,
    deviation: f64,
}

impl Spread {
    fn of(samples: &[f64]) -> Option<Self> {
        let n = samples.len() as f64;
        let min = samples.iter().copied().reduce(f64::min)?;
        let max = samples.iter().copied().reduce(f64::max)?;
        let mean = samples.iter().sum::<f64>() / n;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviation = if samples.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        Some(Self { min, mean, max, deviation })
    }
}

/// Returns the report as JSON with the schema `anabranch.load/1`.
#[must_use]
pub fn json(plan: &Plan, tally: &Tally, context: &ReportContext) -> String {
    let (pace, rate, sessions) = match plan.pace {
        Pace::Open { interval, .. } => ("open", Some(1.0 / interval.as_secs_f64()), None),
        Pace::Pool { interval, sessions, .. } => ("pool", Some(1.0 / interval.as_secs_f64()), Some(sessions)),
        Pace::Closed { sessions } => ("closed", None, Some(sessions)),
    };
    let seconds = tally.duration().as_secs_f64();
    let a_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let settings: Map<String, Value> =
        context.settings.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    let [one, two, three, four, five] = tally.status;
    let errors: Map<String, Value> = Cause::ALL
        .iter()
        .map(|&cause| (cause.name().to_owned(), tally.errors[cause as usize].into()))
        .collect();
    let mut document = json!({
        "schema": "anabranch.load/1",
        "version": env!("CARGO_PKG_VERSION"),
        "plan": {
            "command": context.command,
            "url": context.url,
            "transport": context.transport,
            "settings": settings,
            "loop": pace,
            "rate_per_s": rate,
            "sessions_at_a_time": sessions,
            "objects_per_session": plan.objects,
            "streams": plan.streams,
            "requests": plan.requests,
            "sessions": plan.sessions,
            "duration_ns": plan.duration.map(nanos),
            "timeout_ns": nanos(plan.timeout),
            "random": matches!(plan.pace, Pace::Open { random: true, .. } | Pace::Pool { random: true, .. }),
            "seed": plan.seed,
            "latency_from": if pace == "closed" { "request" } else { "planned" },
        },
        "end": if context.interrupted { "interrupted" } else { "done" },
        "duration_ns": nanos(tally.duration()),
        "connections": {
            "total": tally.sessions,
            "established": tally.established,
            "http2": tally.http2,
            "http3": tally.http3,
            "early": tally.early,
            "broken": tally.broken,
            "most_concurrent": tally.max_concurrent,
            "per_s": a_second(tally.sessions),
            "lifetime": summary(&tally.lifetime),
            "connect": summary(&tally.connect),
        },
        "requests": {
            "total": tally.requests,
            "bytes": tally.request_bytes,
            "per_s": a_second(tally.requests),
        },
        "replies": {
            "total": tally.replies,
            "per_s": a_second(tally.replies),
            "header_bytes": tally.head_bytes,
            "content_bytes": tally.body_bytes,
            "status": { "1xx": one, "2xx": two, "3xx": three, "4xx": four, "5xx": five },
            "latency": summary(&tally.latency),
            "late": summary(&tally.start_delay),
            "service": summary(&tally.service),
            "response_mean_ns": nanos(tally.response).checked_div(tally.replies),
            "transfer_mean_ns": nanos(tally.transfer).checked_div(tally.replies),
        },
        "cpu": { "user_ns": nanos(context.user), "system_ns": nanos(context.system) },
        "errors": errors,
        "intervals": tally.lines.iter().map(interval).collect::<Vec<_>>(),
    });
    if let Some(fields) = document.as_object_mut() {
        fields.extend(context.paths.clone());
    }
    format!("{document:#}\n")
}

fn summary(histogram: &Histogram) -> Value {
    let percentiles: Map<String, Value> = PERCENTILES
        .iter()
        .map(|&(name, share)| (name.to_owned(), nanos(histogram.percentile(share)).into()))
        .collect();
    json!({
        "n": histogram.count(),
        "min_ns": nanos(histogram.min()),
        "mean_ns": nanos(histogram.mean()),
        "stddev_ns": nanos(histogram.deviation()),
        "max_ns": nanos(histogram.max()),
        "percentiles_ns": percentiles,
    })
}

fn interval(line: &Line) -> Value {
    COLUMNS.iter().zip(row(line)).map(|(name, value)| ((*name).to_owned(), Value::from(value))).collect()
}

fn row(line: &Line) -> [u64; 11] {
    let [p50, p95, p99, max] = line.latency.map(nanos);
    let Line { sessions, concurrent, requests, replies, bytes, errors, .. } = *line;
    [nanos(line.at), sessions, concurrent, requests, replies, bytes, errors, p50, p95, p99, max]
}

/// Returns the measurements over time as CSV. Each row covers the same number of seconds.
#[must_use]
pub fn csv(tally: &Tally) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for line in &tally.lines {
        out += &row(line).map(|value| value.to_string()).join(",");
        out.push('\n');
    }
    out
}

/// The names of the columns of the CSV.
const COLUMNS: [&str; 11] = [
    "at_ns",
    "sessions",
    "concurrent",
    "requests",
    "replies",
    "bytes",
    "errors",
    "latency_p50_ns",
    "latency_p95_ns",
    "latency_p99_ns",
    "latency_max_ns",
];
/// The percentiles in a report.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
