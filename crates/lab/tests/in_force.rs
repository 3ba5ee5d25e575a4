//! Tests that the settings in a result are those that the run used: connections, streams and knobs.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan, contestant};
use anabranch_lab::run::batch::Options;
use anabranch_report::table;
use anabranch_results::{Outcome, Race, Run};
use anabranch_transport::Settings;
use anabranch_transports::Transports;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

fn plan(line: &str) -> Result<Plan, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let flags = words.chunks(2).map(|pair| (pair[0].trim_start_matches("--"), pair[1]));
    Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .map_err(|error| error.to_string())
}

fn race(line: &str) -> Race {
    let plan = plan(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(&plan, &options).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refused(line: &str) -> String {
    let error = plan(line).map(|_| ()).expect_err(line);
    assert!(!error.contains('\n'), "{error}");
    error
}

fn shown(race: &Race) -> String {
    let lines = table::render(
        race,
        table::Style { verbose: true, ..table::Style::default() },
        &Transports::standard().protocols(),
    );
    lines.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns how many objects each connection carried.
fn objects_per_connection(run: &Run) -> Vec<usize> {
    let mut objects_per_connection: BTreeMap<u64, usize> = BTreeMap::new();
    for object in &run.objects {
        *objects_per_connection.entry(object.connection.expect("a connection")).or_default() += 1;
    }
    objects_per_connection.into_values().collect()
}

/// With `connections=6`, each transport must divide the page among six connections. No other setting of the contestant
/// may prevent this.
#[test]
fn six_connections_are_six() {
    for keys in [
        "tcp:connections=6",
        "tcp:connections=6,pipeline=yes",
        "sctp:connections=6",
        "sctp:connections=6,cookie_data=no",
        "sctp:connections=6,encap=udp",
        "sctp:connections=6,profile=modern",
        "sctp:connections=6,num_ostreams=2",
        "sctp:connections=6,num_ostreams=2,when-full=rr",
        "sctp:connections=6,num_ostreams=2,when-full=spf",
        "sctp:connections=6,num_ostreams=1,when-full=grow",
        "sctp:connections=6,objects-per-connection=50",
    ] {
        let found = race(&format!("--objects 60x2kB --loss 0 --runs 1 --transport {keys}"));
        let run = &found.points[0].contestants[0].runs[0];
        assert_eq!((run.outcome, run.connections), (Outcome::Done, 6), "{keys}");
        let objects_per_connection = objects_per_connection(run);
        assert_eq!(objects_per_connection.len(), 6, "{keys}: {objects_per_connection:?}");
        assert!(
            objects_per_connection
                .iter()
                .all(|objects| (if keys.ends_with("grow") { 2 } else { 5 }..=20).contains(objects)),
            "{keys}: {objects_per_connection:?}"
        );
        let noun = if keys.starts_with("sctp") { "associations" } else { "connections" };
        assert!(shown(&found).contains(&format!("{keys} 6 {noun},")), "{}", shown(&found));
        // Each connection has its own set of streams.
        if keys == "sctp:connections=6" {
            let highest = run.objects.iter().filter_map(|object| object.stream).max();
            assert!(
                objects_per_connection.iter().all(|objects| *objects == 10) && highest <= Some(9),
                "{objects_per_connection:?} {highest:?}"
            );
        }
    }
    // With a limit on objects per connection, a connection that reached the limit is replaced. Six connections must
    // still be open at the same time.
    for (keys, opened) in [
        ("sctp:connections=6,objects-per-connection=5", 12),
        ("tcp:connections=6,objects-per-connection=5", 12),
        ("sctp:connections=6,per-object=yes", 60),
        ("tcp:connections=6,per-object=yes", 60),
    ] {
        let found = race(&format!("--objects 60x2kB --loss 0 --runs 1 --transport {keys}"));
        let run = &found.points[0].contestants[0].runs[0];
        assert_eq!((run.outcome, run.connections), (Outcome::Done, opened), "{keys}");
        let mut ends: Vec<(u64, i32)> = Vec::new();
        let by_connection =
            |connection: u64| run.objects.iter().filter(move |o| o.connection == Some(connection));
        for connection in
            run.objects.iter().filter_map(|o| o.connection).collect::<std::collections::BTreeSet<_>>()
        {
            let from = by_connection(connection).filter_map(|o| Some(o.instants?.assigned_ns)).min();
            let until = by_connection(connection).filter_map(|o| o.delivered_ns).max();
            ends.extend([(from.expect("assigned"), 1), (until.expect("delivered"), -1)]);
        }
        ends.sort_unstable();
        let (mut open, mut most) = (0, 0);
        for (_, step) in ends {
            open += step;
            most = most.max(open);
        }
        assert_eq!(most, 6, "{keys}");
    }
    // With `--arrivals-of connections`, the objects of each arrival must use one connection and must not be spread over
    // several.
    let line = "--objects 12x2kB --arrivals 20/s --arrivals-of connections --loss 0 --runs 1";
    let found = race(&format!("{line} --transport sctp:connections=3,num_ostreams=4"));
    assert_eq!(objects_per_connection(&found.points[0].contestants[0].runs[0]), [4, 4, 4]);
    // Messages and a bulk transfer must also be spread over all six connections.
    for (workload, keys) in
        [("--bulk 600kB", "sctp:connections=6"), ("--messages 60/s --for 1s", "sctp:connections=6")]
    {
        let found = race(&format!("{workload} --loss 0 --runs 1 --transport {keys}"));
        let run = &found.points[0].contestants[0].runs[0];
        assert_eq!((run.connections, objects_per_connection(run).len()), (6, 6), "{workload}");
    }
}

/// A page with three objects opens only three of six connections. The output must say so.
#[test]
fn the_output_shows_the_connections_that_were_opened() {
    let found = race(
        "--objects 3x2kB --loss 0 --runs 1 --transport tcp:connections=6 --transport sctp:connections=6",
    );
    for noun in ["connections", "associations"] {
        assert!(shown(&found).contains(&format!("=6 at most 6 {noun} (3 opened),")), "{}", shown(&found));
    }
}

/// Returns a value for the knob `key` that differs from `value`: one of the common values, or a word from the knob's
/// help.
fn another(engine: &dyn Settings, key: &str, value: &str, help: &str) -> String {
    let common = ["yes", "no", "3", "7", "137ms", "73s", "1300B", "300KiB", "off", "rr", "data"];
    let words = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
    common
        .into_iter()
        .chain(words)
        .find(|form| {
            let mut changed = engine.boxed();
            changed.set(key, form).is_ok() && printed(&*changed, key) != value
        })
        .unwrap_or_else(|| panic!("no other value of {key}={value} is known here"))
        .to_owned()
}

fn printed(engine: &dyn Settings, key: &str) -> String {
    engine.knobs().into_iter().find(|knob| knob.key == key).expect("a knob").value
}

/// For every knob, the result must show the value from the plan. In each run, `collect::run` also asserts that the
/// engines used the plan's settings.
#[test]
fn every_setting_that_is_printed_was_in_force() {
    for transport in ["tcp", "sctp"] {
        let defaults = contestant::Contestant::parse(transport, "test", &Transports::standard())
            .expect("a contestant")
            .engine;
        for knob in defaults.knobs() {
            let value = another(&*defaults, knob.key, &knob.value, knob.help);
            let contestant = format!("{transport}:{}={value}", knob.key);
            let line = format!("--objects 2x1kB --loss 0 --runs 1 --deadline 5s --transport {contestant}");
            if let Err(error) = plan(&line) {
                assert!(error.contains(knob.key), "{error}");
                continue;
            }
            let found = race(&line);
            let contestant = &found.points[0].contestants[0];
            let mut expected = defaults.clone();
            expected.set(knob.key, &value).expect("it was read");
            assert_eq!(contestant.settings[knob.key], printed(&*expected, knob.key), "{}", contestant.name);
            let text = shown(&found);
            for (key, label) in
                [("iw", "initial window "), ("rto_min", "RTO min "), ("delack", "ACK delay "), ("cc", "cc ")]
            {
                assert!(
                    text.contains(&format!("{label}{}", contestant.settings[key])),
                    "{}: {text}",
                    contestant.name
                );
            }
        }
    }
}

/// An exchange uses one stream in each direction. If the directions have different numbers of streams, the smaller
/// number must limit the exchanges.
#[test]
fn streams_are_those_of_both_directions() {
    let found = race("--objects 12x1kB --loss 0 --runs 1 --transport sctp:num_ostreams=100,max_instreams=4");
    assert!(shown(&found).contains("1 association, 4 streams "), "{}", shown(&found));
    let used = found.points[0].contestants[0].runs[0].objects.iter().filter_map(|object| object.stream).max();
    assert_eq!(used, Some(3));
}

/// With `--arrivals-of connections`, as many objects arrive together as a connection has streams. The client must
/// request all of them on the same connection.
#[test]
fn arrivals_that_fill_a_connection_share_it() {
    let line = "--objects 12x2kB --arrivals 20/s --arrivals-of connections --loss 0 --runs 1";
    let found = race(&format!("{line} --transport sctp:connections=3,num_ostreams=4"));
    for together in found.points[0].contestants[0].runs[0].objects.chunks(4) {
        let connections: Vec<_> = together.iter().map(|object| object.connection).collect();
        assert!(connections.iter().all(|one| one.is_some() && *one == connections[0]), "{connections:?}");
    }
}

/// The parts of a bulk transfer are requested like objects, so the settings for requests must apply to them.
#[test]
fn bulk_transfers_take_keys_about_requests() {
    for keys in ["tcp:per-object=yes", "sctp:when-full=rr", "tcp:objects-per-connection=3,connections=2"] {
        let found = race(&format!("--bulk 600kB --loss 0 --runs 1 --transport {keys}"));
        assert_eq!(found.points[0].contestants[0].runs[0].outcome, Outcome::Done, "{keys}");
    }
}

#[test]
fn keys_that_would_not_be_in_force_are_refused() {
    for (line, expected) in [
        ("--objects 2x1kB --transport sctp:when-full=grow,reconfig=no", "reconfig=no"),
        ("--objects 2x1kB --transport sctp:reconfig=no,when-full=grow", "reconfig=no"),
        ("--messages 5/s --transport sctp:lifetime=1s,partial_reliability=no", "partial_reliability=no"),
        ("--messages 5/s --transport sctp:per-object=yes", "per-object"),
        ("--messages 5/s --transport tcp:pipeline=no", "pipeline"),
        ("--messages 5/s --transport sctp:when-full=rr", "when-full"),
        ("--messages 5/s --transport tcp:objects-per-connection=3", "objects-per-connection"),
    ] {
        let line = refused(line);
        assert!(line.contains(expected) && line.contains("leave"), "{line}");
    }
}
