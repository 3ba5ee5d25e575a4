//! Tests of the report with made-up results: pages must be well-formed, self-contained, and complete even if results
//! have gaps. If the environment variable `REPORTS` names a directory, the tests also write the pages to this
//! directory.

use super::*;
use anabranch_base::rng::Rng;
use anabranch_results::{
    BUCKET_NS, Bound, Comparison, Directions, Events, Expectation, Host, Instants, Object, Packets,
    PathEvent, PathSeries, PathState, SCHEMA, SendDetail, Series, Sharing, Side, Stat, Summary,
    TimeBreakdown, Verdict, Workload,
};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// Returns a made-up object that was issued at `issued` (in nanoseconds). The parts of its response time have random
/// lengths, and their sum is the response time.
fn object(rng: &mut Rng, name: String, issued: u64, slow: u64) -> Object {
    let mut some = |most: u64, one_in: u64| if rng.below(one_in) == 0 { rng.below(most * MS) } else { 0 };
    let (connect, queue, turn, cwnd) =
        (if issued == 0 { 80 * MS } else { 0 }, some(200, 3), some(30 * slow, 2), some(50, 2));
    let (stalled, ahead, recovery, timeout, blocked) =
        (some(60 * slow, 4), some(90 * slow, 3), some(100, 9), some(900, 25), some(80 * slow, 4));
    let (server, wire) = (2 * MS, 80 * MS + some(20, 1));
    let mut at = issued;
    let mut next = |span: u64| {
        at += span;
        at
    };
    let instants = Instants {
        assigned_ns: next(connect + queue),
        req_sent_ns: next(0),
        req_copy_ns: next(0),
        req_in_ns: next(40 * MS),
        serving_ns: next(ahead),
        written_ns: next(server),
        sent_ns: next(turn + cwnd + stalled),
        copy_ns: next(recovery + timeout),
        complete_ns: next(wire - 40 * MS),
    };
    let why = TimeBreakdown {
        connect_ns: Some(connect),
        secure_ns: Some(0),
        queue_ns: Some(queue),
        send_ns: Some(turn + cwnd),
        stalled_ns: Some(stalled),
        ahead_ns: Some(ahead),
        server_ns: Some(server),
        recovery_ns: Some(recovery),
        timeout_ns: Some(timeout),
        wire_ns: Some(wire),
        blocked_ns: Some(blocked),
    };
    Object {
        name,
        bytes: 100 + some(40_000 / MS + 1, 1) / 40,
        connection: Some(49_152),
        stream: Some(rng.below(100)),
        issued_ns: Some(issued),
        first_byte_ns: Some(instants.sent_ns + 40 * MS),
        delivered_ns: Some(instants.complete_ns + blocked),
        background: false,
        failure: None,
        why: Some(why),
        send_detail: Some(SendDetail { cwnd_ns: cwnd, rwnd_ns: 0, turn_ns: turn }),
        instants: Some(instants),
    }
}

fn run(seed: u64, objects: usize, slow: u64, paths: usize) -> Run {
    let mut rng = Rng::new(seed * 31 + slow);
    let mut all = vec![object(&mut rng, "/".to_owned(), 0, 1)];
    let start = all[0].delivered_ns.unwrap_or(0);
    for i in 1..objects {
        let issued = if i < objects / 3 { start } else { start + rng.below(400 * slow) * MS };
        all.push(object(&mut rng, format!("/static/images/teaser/picture-{i:03}.jpg"), issued, slow));
    }
    let page = all.iter().filter_map(|object| object.delivered_ns).max();
    let buckets = page.unwrap_or(0) / BUCKET_NS + 1;
    let mut series = |most: u64| -> PathSeries {
        let wire: Vec<u64> = (0..buckets).map(|_| most / 2 + rng.below(most / 2)).collect();
        let delivered = wire.iter().map(|bytes| bytes * 97 / 100).collect();
        PathSeries { wire, delivered, packets: Vec::new() }
    };
    let paths = (0..paths).map(|_| Directions { up: series(6_000), down: series(120_000) }).collect();
    Run {
        seed,
        outcome: Outcome::Done,
        page_ns: page,
        start_render_ns: None,
        largest_image_ns: None,
        byte_index_ns: None,
        limit_ns: Some(1_034_000_000),
        connect_ns: Some(80 * MS),
        declared_failed_ns: None,
        failover_ns: None,
        restored_ns: None,
        started_ns: None,
        rules: None,
        multipath: None,
        late_ns: None,
        spacing: None,
        path_events: Vec::new(),
        connections: slow,
        objects: all,
        packets: Directions {
            up: Packets { sent: 500, lost: 4, retransmitted: 4 },
            down: Packets { sent: 900, lost: 9, retransmitted: 10 },
        },
        events: Events { timeouts: slow, fast: 7, spurious: Some(1) },
        wire_bytes: Directions { up: 40_000, down: 1_160_000 },
        series: Series { bucket_ns: BUCKET_NS, paths, application: vec![90_000; buckets as usize] },
    }
}

fn stat(values: &[f64]) -> Stat {
    anabranch_results::stats::describe(values, 0)
}

pub(super) fn contestant(name: &str, objects: usize, slow: u64, runs: u64, paths: usize) -> Contestant {
    let runs: Vec<Run> = (1..=runs).map(|seed| run(seed, objects, slow, paths)).collect();
    let ms = |pick: fn(&Run) -> Option<u64>| -> Vec<f64> {
        runs.iter().filter_map(pick).map(|ns| ns as f64 / 1e6).collect()
    };
    let pages = ms(|run| run.page_ns);
    let summary = Summary {
        object_ms: stat(&pages.iter().map(|ms| ms / 3.0).collect::<Vec<_>>()),
        first_byte_ms: stat(&pages.iter().map(|ms| ms / 4.0).collect::<Vec<_>>()),
        connect_ms: stat(&ms(|run| run.connect_ns)),
        limit_ratio: stat(&pages.iter().map(|ms| ms / 1034.0).collect::<Vec<_>>()),
        goodput_bps: stat(&pages.iter().map(|ms| 8.48e9 / ms).collect::<Vec<_>>()),
        page_ms: stat(&pages),
        ..Summary::default()
    };
    let transport = if name.starts_with("sctp") { "sctp" } else { "tcp" };
    let settings = [
        ("transport", transport),
        ("connections", if name.contains("=6") { "6" } else { "1" }),
        ("profile", "modern"),
        ("cc", "cubic"),
        ("iw", "10"),
        ("rto_min", "1s"),
        ("delack", "200ms"),
        ("mss", "1460"),
    ];
    let streams = (transport == "sctp").then_some(&("num_ostreams", "100"));
    let settings = settings.iter().chain(streams).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Contestant {
        name: name.to_owned(),
        settings,
        median_seed: 2,
        distinct_runs: runs.len() as u64,
        part_sums: None,
        runs,
        summary,
    }
}

pub(super) fn point(objects: usize, runs: u64, paths: usize) -> Point {
    let contestants = vec![
        contestant("tcp", objects, 4, runs, paths),
        contestant("tcp:connections=6", objects, 3, runs, paths),
        contestant("sctp", objects, 2, runs, paths),
    ];
    let versus = |a: &str, b: &str, ratio: f64| Comparison {
        a: a.to_owned(),
        b: b.to_owned(),
        metric: "page_ms".to_owned(),
        ratio: Some(ratio),
        ci95: Some([ratio - 0.04, ratio + 0.05]),
        median_ratio: Some(ratio),
        median_ci95: Some([ratio - 0.03, ratio + 0.04]),
        n: runs,
        bound: None,
        exact: false,
        less: runs,
        more: 0,
        verdict: Verdict::Less,
        more_seeds: None,
        causes: Vec::new(),
        experiment: None,
    };
    Point {
        factors: BTreeMap::new(),
        network: "10mbit, rtt 80ms, loss 1%, queue 1bdp, mtu 1500".to_owned(),
        failure_ns: None,
        workload: Workload {
            name: "news".to_owned(),
            objects: objects as u64,
            bytes: 1_060_460,
            request_head: None,
            response_head: None,
            deadline_ns: Some(600_000_000_000),
            messages: false,
        },
        chance: true,
        sharing: Vec::new(),
        comparisons: vec![
            versus("tcp:connections=6", "tcp", 0.81),
            versus("sctp", "tcp", 0.64),
            versus("sctp", "tcp:connections=6", 0.79),
        ],
        contestants,
        changes: Vec::new(),
    }
}

pub(super) fn race(points: Vec<Point>) -> Race {
    Race {
        schema: SCHEMA.to_owned(),
        plan: serde_json::json!({"page": "news", "runs": "30", "transport": ["tcp", "tcp:connections=6", "sctp"]}),
        world: World::Virtual,
        host: Host {
            version: "0.1.0".to_owned(),
            os: "linux".to_owned(),
            arch: "x86_64".to_owned(),
            threads: Some(2),
            elapsed_s: Some(3.2),
            ..Host::default()
        },
        warnings: Vec::new(),
        calibrations: Vec::new(),
        points,
        expectations: Vec::new(),
    }
}

/// Renders the page of a made-up race, checks it, and writes it to a file if `REPORTS` is set.
fn page(name: &str, race: &Race) -> String {
    let inputs = [Input { name: "site.har".to_owned(), bytes: 4_711, sha256: "ab".repeat(32) }];
    let html = html(
        race,
        &PageContext {
            command: "anabranch race --page news --runs 30 --out DIR",
            inputs: &inputs,
            terms: &[vec![
                "connections: tcp 1 connection".to_owned(),
                "not equal: RTO min 200ms (tcp), 1s (sctp)".to_owned(),
            ]],
            captures: &[],
        },
    );
    check(&html);
    if let Ok(directory) = std::env::var("REPORTS") {
        std::fs::write(std::path::Path::new(&directory).join(format!("{name}.html")), &html)
            .expect("written");
    }
    html
}

/// Checks that every opened element is closed in order, that nothing is fetched, and that no number is a NaN.
fn check(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = &html[html.rfind("</style>").expect("a style") + 8..];
    let body = &body[..body.find("<script>\n").expect("a script")];
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if matches!(name, "head" | "html") {
                continue;
            }
            assert_eq!(open.pop(), Some(name), "…{}", &rest[..rest.len().min(200)]);
        } else if !tag.ends_with('/') && !matches!(tag, "br" | "wbr" | "!doctype html") {
            open.push(tag.split([' ', '\n']).next().expect("a name"));
        }
    }
    assert!(open.iter().all(|element| *element == "body"), "{open:?}");
    for foreign in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
        // These are the ways to name or load a foreign resource. The body must contain none of them.
        assert!(!body.contains(foreign) && !STYLE.contains(foreign), "{foreign}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    for wrong in ["NaN", "inf\"", "Infinity"] {
        assert!(!html.contains(wrong), "{wrong}");
    }
}

#[test]
fn a_plain_race_has_every_section() {
    let mut race = race(vec![point(72, 30, 1)]);
    race.warnings.push("3 of 75 entries: got no answer (status 0, failed or blocked)".to_owned());
    let expected = "page_ms of sctp at most 0.9 of tcp".to_owned();
    race.expectations.push(Expectation { point: 0, expected, found: Some(0.64), met: true });
    let html = page("plain", &race);
    let sections = [
        "Use sctp: its median load takes",
        "Before you trust the numbers",
        "Page time: shorter is better",
        "What would change this",
        "<h2>Contestants</h2>",
        "Connections</b> tcp 1 connection",
        "Not equal</b> RTO min",
        "Share of bytes there after a time",
        "Page time in figures",
        "Where an object's time went",
        "Object by object",
        "On the wire",
        "Packets and events",
        "Settings",
        "Expectations",
        "What the parts mean",
        "Reproduce this race",
        "anabranch race --page news",
        "site.har",
    ];
    let positions: Vec<usize> = sections.iter().map(|section| html.find(section).expect(section)).collect();
    assert!(positions.is_sorted());
    assert!(html.len() < 1_100_000, "{} bytes", html.len());
}

/// A race with many runs and objects must give a page with a limited number of HTML elements. Of each contestant, the
/// page draws only three runs, and it lists only the slowest objects.
#[test]
fn thirty_runs_of_three_hundred_objects_stay_small_and_complete() {
    let mut one = point(1, 1, 1);
    one.contestants = ["tcp", "tcp:connections=6", "sctp", "tcp:iw=1", "tcp:iw=2", "sctp:iw=1"]
        .iter()
        .zip([4, 3, 2, 4, 3, 2])
        .map(|(name, slow)| contestant(name, 300, slow, 30, 1))
        .collect();
    one.comparisons.clear();
    let race = race(vec![one]);
    let html = page("three-hundred", &race);
    // Result files do not have every detail of every run. A report that is drawn from them must have the same bytes.
    let read = Race::from_json(&anabranch_results::json::render(&race)).expect("a result");
    assert!(html == page("three-hundred", &read), "a report from a result file");
    // The page draws three runs of each of the six contestants, and each run at two widths: 36 drawings.
    assert_eq!(html.matches("data-count=\"300\"").count(), 36);
    assert!(html.contains("slowest objects"));
    let elements = html.matches('<').count() / 2;
    assert!(elements < 12_000 && html.len() < 5_000_000, "{elements} elements, {} bytes", html.len());
}

#[test]
fn a_failover_is_marked() {
    let mut race = race(vec![point(8, 4, 2)]);
    race.plan["fail"] = serde_json::json!([{"path": "1", "at": "300ms", "for": "400ms"}]);
    for run in race.points[0].contestants.iter_mut().flat_map(|contestant| &mut contestant.runs) {
        (run.declared_failed_ns, run.failover_ns, run.restored_ns) =
            (Some(200 * MS), Some(212 * MS), Some(321 * MS));
        let event = |at_ns, state| PathEvent { path: 1, at_ns, state, by: Side::Server, connection: 49152 };
        run.path_events = vec![event(500 * MS, PathState::Failed), event(900 * MS, PathState::Active)];
    }
    for contestant in &mut race.points[0].contestants {
        contestant.summary.failover_ms = stat(&[212.0, 212.0]);
        contestant.summary.restored_ms = stat(&[321.0, 321.0]);
    }
    race.points[0].failure_ns = Some(300 * MS);
    let html = page("failover", &race);
    for mark in [
        "After the path failed",
        "data again after 212",
        "path fails",
        "path restored",
        "delivery goes on",
        "declared failed",
        "path active again",
        "path 2, to the client",
        "failure to next delivery",
        "service restored",
        "service restored after 321",
        "declared failed after\">never</td>",
    ] {
        assert!(html.contains(mark), "{mark}");
    }
    race.plan["fail"] = serde_json::json!(["path=1,at=300ms"]);
    let html = page("failover-text", &race);
    assert!(html.contains("path fails") && !html.contains("path restored"));
}

#[test]
fn like_labels_of_a_path_do_not_cover_each_other() {
    let mut race = race(vec![point(8, 4, 2)]);
    let contestants = race.points[0].contestants.len();
    for run in race.points[0].contestants.iter_mut().flat_map(|contestant| &mut contestant.runs) {
        let state = PathState::PotentiallyFailed;
        let event = |at| PathEvent { path: 1, at_ns: at * MS, state, by: Side::Server, connection: 49152 };
        run.path_events = vec![event(300), event(310), event(900)];
    }
    let html = page("labels", &race);
    // The page has a drawing for wide screens and one for narrow screens. Both must contain the name of the path state.
    assert_eq!(html.matches(">\u{a0}potentially failed\u{a0}<").count(), 2 * 2 * contestants);
}

#[test]
fn several_points_have_an_overview() {
    let points = ["0", "1%", "2%", "5%"].map(|loss| {
        let mut point = point(20, 6, 1);
        point.factors = BTreeMap::from([("loss".to_owned(), loss.to_owned())]);
        point
    });
    let html = page("points", &race(points.to_vec()));
    assert!(html.contains("All points") && html.contains("href=\"#p3\"") && html.contains("Times over loss"));
    assert_eq!(html.matches("<details open>").count(), OPEN_POINTS);
}

/// The contestant with six connections wins at two levels of loss, and SCTP wins at two other levels. A fifth level is
/// undecided. The page must name the loss rate above which SCTP is faster.
#[test]
fn changes_of_the_lead_are_described() {
    let found =
        [("0", 0.8, false), ("1%", 0.9, true), ("2%", 1.1, false), ("4%", 1.25, false), ("5%", 1.3, false)];
    let points = found.map(|(loss, six_over_sctp, undecided)| {
        let mut point = point(20, 6, 1);
        point.factors = BTreeMap::from([("loss".to_owned(), loss.to_owned())]);
        point.contestants.remove(0);
        point.comparisons.retain(|it| it.b == "tcp:connections=6");
        let found = &mut point.comparisons[0];
        let ratio = 1.0 / six_over_sctp;
        (found.ratio, found.ci95) = (Some(ratio), Some([ratio - 0.04, ratio + 0.05]));
        (found.median_ratio, found.median_ci95) = (found.ratio, found.ci95);
        found.verdict = match undecided {
            true => Verdict::Undecided,
            false if ratio < 1.0 => Verdict::Less,
            false => Verdict::More,
        };
        point
    });
    let html = page("crossing", &race(points.to_vec()));
    // The logarithms of the ratios of times at 1 % and 2 % loss have nearly equal size and opposite signs. So the lead
    // changes about halfway between the two levels.
    let sentence = "Above about 1.5% loss, sctp is faster than tcp:connections=6.";
    assert!(
        html.contains(sentence),
        "{}",
        &html[html.find("Where the winner changes").unwrap_or(0)..][..600]
    );
}

/// Experiments explain two gaps, each between two of the contestants. The page must show the explanation for the two
/// fastest contestants.
#[test]
fn the_experiment_with_the_best_ranks_is_shown() {
    let mut point = point(12, 3, 1);
    let tried = |winner: &str, loser: &str, ranks: [u64; 2]| -> anabranch_results::Experiment {
        serde_json::from_value(
            serde_json::json!({"winner": winner, "loser": loser, "ranks": ranks, "gap": 1.3,
            "ci95": [1.2, 1.4], "runs": 6, "factors": [], "adverse_causes": [], "unexplained": null,
            "conditions": [], "notes": []}),
        )
        .expect("as results have it")
    };
    point.comparisons[0].experiment = Some(tried("tcp:connections=6", "tcp", [2, 3]));
    point.comparisons[2].experiment = Some(tried("sctp", "tcp:connections=6", [1, 2]));
    let html = page("first-two", &race(vec![point]));
    assert!(html.contains("Why sctp is faster than tcp:connections=6"));
}

#[test]
fn shares_are_means_over_runs_and_bounds_are_said_to_be() {
    let mut point = point(12, 2, 1);
    let sharing = |seed, shares: [f64; 3]| Sharing {
        seed,
        from_ns: 0,
        until_ns: MS,
        bytes: vec![1; 3],
        shares: shares.to_vec(),
        jain: 0.9,
    };
    point.sharing = vec![sharing(1, [0.5, 0.3, 0.2]), sharing(2, [0.3, 0.3, 0.4])];
    for found in &mut point.comparisons {
        found.bound = Some(Bound::AtMost);
    }
    let html = page("shares", &race(vec![point]));
    let shares = "Shares: tcp 40 %, tcp:connections=6 30 %, sctp 30 %.";
    assert!(html.contains(shares), "{}", &html[html.find("Shares: ").expect("shares")..][..120]);
    // The page inverts the comparison: a ratio of at most x becomes a ratio of at least 1/x.
    assert!(
        html.contains("at least 1.27 times faster"),
        "{}",
        &html[html.find("<h1>").expect("a headline")..][..300]
    );
}

#[test]
fn means_over_some_of_the_objects_say_so() {
    let mut race = race(vec![point(12, 3, 1)]);
    let whole = page("whole", &race);
    assert!(whole.contains("Over all delivered objects of all runs."));
    let contestant = &mut race.points[0].contestants[0];
    let before = anabranch_results::verdict::mean_parts(contestant).expect("known");
    let (run, name) = (&mut contestant.runs[0], contestant.name.clone());
    // The objects below have unknown parts. If an unknown part counted as zero, it would lower every mean.
    run.objects[1].why = Some(TimeBreakdown { send_ns: None, ..run.objects[1].why.expect("known") });
    run.objects[2].why = None;
    let objects: usize = contestant.runs.iter().map(|run| run.objects.len()).sum();
    let note = format!("{name}: where time went is known for {} of {objects} delivered objects", objects - 2);
    let means = anabranch_results::verdict::mean_parts(contestant).expect("known");
    assert!((means[8] - before[8]).abs() < 0.2 * before[8], "the wire's: {} and {}", means[8], before[8]);
    assert!(page("some", &race).contains(&svg::escape(&note)));
    let shown = crate::table::render(
        &race,
        crate::table::Style { verbose: true, ..crate::table::Style::default() },
        &[],
    );
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&note.split_whitespace().collect::<Vec<_>>().join(" ")), "{shown}");
}

#[test]
fn missing_results_do_not_break_the_page() {
    let mut race = race(vec![point(12, 3, 1)]);
    let contestants = &mut race.points[0].contestants;
    // A result that lacks every kind of value: no run finished, causes are unknown, one object was never requested, and
    // one object failed.
    contestants[0].summary = Summary::default();
    contestants[0].summary.page_ms.failed = 3;
    for run in &mut contestants[0].runs {
        run.outcome = Outcome::Deadline;
        (run.page_ns, run.limit_ns) = (None, None);
        for object in &mut run.objects {
            (object.why, object.instants, object.send_detail) = (None, None, None);
        }
        run.objects[3].issued_ns = None;
        run.objects[3].delivered_ns = None;
        run.objects[4].delivered_ns = None;
        run.objects[4].failure = Some("no progress within the timeout".to_owned());
    }
    contestants[1].runs.clear();
    contestants[2].runs.iter_mut().for_each(|run| run.series = Series::default());
    let html = page("holes", &race);
    assert!(html.contains("3 of 3") && html.contains("no progress"));

    page("nothing", &self::race(Vec::new()));
    let mut bare = point(1, 1, 1);
    bare.contestants.truncate(1);
    page("one", &self::race(vec![bare]));
    let mut empty = point(1, 1, 1);
    empty.contestants.clear();
    page("no-arms", &self::race(vec![empty]));
}

#[test]
fn names_from_files_are_never_markup() {
    let mut race = race(vec![point(3, 2, 1)]);
    let evil = "</style><script src=x>&\"'";
    race.points[0].workload.name = evil.to_owned();
    race.points[0].network = evil.to_owned();
    race.points[0].contestants[0].name = evil.to_owned();
    race.warnings.push(evil.to_owned());
    for run in &mut race.points[0].contestants[0].runs {
        run.objects[1].name = evil.to_owned();
        run.objects[1].failure = Some(evil.to_owned());
    }
    race.points[0].contestants[0].settings.insert(evil.to_owned(), evil.to_owned());
    race.plan = serde_json::json!({ evil: evil });
    let inputs = [Input { name: evil.to_owned(), bytes: 1, sha256: evil.to_owned() }];
    let html = html(
        &race,
        &PageContext { command: evil, inputs: &inputs, terms: &[vec![evil.to_owned()]], captures: &[] },
    );
    assert!(html.matches("<script").count() == 1 && html.matches("</style>").count() == 2);
}
