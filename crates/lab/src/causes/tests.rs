//! Tests two assumptions behind the search for causes. Settings can be changed separately, and changed contestants run
//! with the same seeds and the same random losses.

use super::conditions;
use super::factors::{Differences, MOST};
use crate::plan::{Contestant, Draft, Plan, PointPlan};
use crate::run::{contest, topology};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_link::spec::Direction;
use anabranch_sim::{Outcome, TapEvent};
use anabranch_tls::Encryption;
use anabranch_transports::Transports;

fn plan(flags: &[(&'static str, &'static str)], contestants: [&'static str; 2]) -> Plan {
    let transports = contestants.map(|text| ("transport", text));
    let flags = flags.iter().copied().chain(transports);
    Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the conditions of the plan's first point, such as loss, in the order in which they are removed. Each entry
/// has the condition's name, and the point without this condition.
fn conditions(
    flags: &[(&'static str, &'static str)],
    contestants: [&'static str; 2],
) -> Vec<(&'static str, PointPlan)> {
    let plan = plan(flags, contestants);
    let both = [&plan.contestants[0], &plan.contestants[1]];
    conditions::of(&plan.points[0], both).into_iter().map(|it| (it.name, it.point)).collect()
}

#[test]
fn conditions_of_a_point_can_be_removed() {
    let names = |flags: &[(&'static str, &'static str)], contestants| -> Vec<&str> {
        conditions(flags, contestants).into_iter().map(|(name, _)| name).collect()
    };
    let both = ["tcp", "sctp"];
    assert_eq!(names(&[("loss", "1%")], both), ["loss", "handshake", "queue", "rate"]);
    // The analysis removes one condition at a time. Without a handshake, connections would be established in advance,
    // and the page would be loaded earlier. A failure at a fixed time would then hit another part of the page load.
    // Therefore the analysis does not remove the handshake from a plan with such a failure.
    let failing = [("path", "rate=1mbit,rtt=40ms,queue=unlimited"), ("fail", "path=1,at=1s,for=2s")];
    let found = conditions(&failing, both);
    let [(_, whole), (_, fast)] = &found[..] else { panic!("failure and rate: {found:?}") };
    let outages = |point: &PointPlan| {
        let paths = point.network.paths.iter();
        paths.map(|path| path.up.outages.len() + path.down.outages.len()).sum::<usize>()
    };
    assert_eq!((found[0].0, found[1].0), ("failure", "rate"));
    assert_eq!((whole.network.fails.len(), outages(whole)), (0, 0));
    assert_eq!((fast.network.fails.len(), outages(fast)), (1, 2));
    let slow = conditions(&[("server-time", "50ms"), ("loss", "0")], both);
    let (name, at_once) = &slow[1];
    assert_eq!((*name, at_once.workload.server_time), ("server time", Some(Duration::ZERO)));
    // The link follows a recorded trace, which has no rate that could be removed.
    let file = std::env::temp_dir().join(format!("anabranch-conditions-{}", std::process::id()));
    std::fs::write(&file, "1\n2\n").expect("written");
    let recorded = Draft::from_flags([("trace", file.to_str().expect("a name")), ("transport", "tcp,sctp")]);
    let recorded =
        recorded.and_then(|draft| Plan::interpret(draft, &Transports::standard())).expect("a plan");
    let both_of = [&recorded.contestants[0], &recorded.contestants[1]];
    assert!(conditions::of(&recorded.points[0], both_of).iter().all(|it| it.name != "rate"));
    let _ = std::fs::remove_file(file);
    // The analysis varies the order of messages (`order`) only if both contestants support unordered messages. TCP does
    // not support them.
    let messages = [("messages", "50/s"), ("loss", "0"), ("queue", "unlimited"), ("rate", "unlimited")];
    assert_eq!(names(&messages, ["sctp", "sctp:num_ostreams=1"]), ["order"]);
    assert!(names(&messages, ["sctp", "sctp:unordered=yes"]).is_empty());
    assert!(names(&messages, both).is_empty());
}

/// Returns the changes of settings that turn the second contestant into the first. In each pair, the first text is one
/// change. The second text describes the second contestant with only this change.
fn steps(flags: &[(&'static str, &'static str)], contestants: [&'static str; 2]) -> Vec<(String, String)> {
    let plan = plan(flags, contestants);
    let [model, subject] = plan.contestants.as_slice() else { panic!("two contestants") };
    let differences =
        Differences::new(subject, model, &plan.points[0]).unwrap_or_else(|error| panic!("{error}"));
    assert!(differences.left_out.is_empty(), "{:?}", differences.left_out);
    let all = differences.with(differences.all()).unwrap_or_else(|error| panic!("{error}"));
    if all.transport.name() == model.transport.name() {
        assert!(all.races_as(model, false), "{} is not {}", all.text, model.text);
    }
    let alone = |i: usize| differences.with(1 << i).unwrap_or_else(|error| panic!("{error}")).text;
    differences.factors.iter().enumerate().map(|(i, factor)| (factor.typed(), alone(i))).collect()
}

fn assert_steps(contestants: [&'static str; 2], expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> =
        expected.iter().map(|(setting, text)| ((*setting).to_owned(), (*text).to_owned())).collect();
    assert_eq!(steps(&[("objects", "20x5kB")], contestants), expected, "{contestants:?}");
}

#[test]
fn streams_and_order_of_requests_are_set_apart() {
    assert_steps(
        ["sctp:num_ostreams=100", "sctp:num_ostreams=1"],
        &[
            ("num_ostreams=100", "sctp:num_ostreams=100,outstanding=1"),
            ("when-full=rr", "sctp:num_ostreams=1,when-full=rr"),
        ],
    );
    // By default, a client with six connections does not pipeline, and a client with one connection does.
    assert_steps(
        ["tcp:connections=6", "tcp"],
        &[("connections=6", "tcp:connections=6,pipeline=yes"), ("pipeline=no", "tcp:pipeline=no")],
    );
    assert_steps(
        ["tcp:connections=4,pipeline=no", "tcp:connections=4,per-object=yes"],
        &[("objects-per-connection=no limit", "tcp:connections=4,pipeline=no")],
    );
}

#[test]
fn shared_settings_are_copied_across_transports() {
    let across = |model, subject| -> Vec<String> {
        steps(&[("objects", "20x5kB")], [model, subject]).into_iter().map(|(setting, _)| setting).collect()
    };
    let modern = "sctp:profile=modern,rcvbuf=1MiB,sndbuf=1MiB,iw=10,rto_max=120s,ecn=no";
    let same = "tcp:profile=modern,rcvbuf=1MiB,sndbuf=1MiB,rcvbuf_auto=no,sndbuf_auto=no,pipeline=no";
    assert_eq!(across(modern, same), ["pipeline=yes"]);
    // TCP has only one stream, on which a request waits for the request before it. A contestant that is changed to be
    // like TCP must wait in the same way.
    assert_eq!(across(same, modern), ["num_ostreams=1", "outstanding=1"]);
}

#[test]
fn settings_that_are_many_are_tried_by_group() {
    let found = steps(&[("page", "news")], ["tcp:connections=6", "sctp:profile=rfc2960"]);
    assert!(found.len() <= MOST, "{found:?}");
    let all: Vec<&str> = found.iter().map(|(setting, _)| setting.as_str()).collect();
    assert!(
        all.iter().any(|setting| setting.contains("rto_min=200ms") && setting.contains("delack=40ms")),
        "{all:?}"
    );
    assert!(all.contains(&"connections=6,num_ostreams=1") && all.contains(&"outstanding=1"), "{all:?}");
}

/// With `arrivals-of=connections`, each arrival brings as many objects as a connection has streams. Another number of
/// streams would therefore change the workload. Checks that no change of the number of streams is tried.
#[test]
fn what_would_change_the_workload_is_left_out() {
    let flags = [("objects", "20x5kB"), ("arrivals", "10/s"), ("arrivals-of", "connections")];
    let plan = plan(&flags, ["sctp:num_ostreams=5", "sctp:num_ostreams=2"]);
    let found =
        Differences::new(&plan.contestants[1], &plan.contestants[0], &plan.points[0]).expect("differences");
    assert!(
        found.left_out.iter().any(|line| line.contains("the workload is another")),
        "{:?}",
        found.left_out
    );
}

/// Runs a contestant. Returns the sizes of the packets that its servers sent, and the indices of the packets that the
/// link lost.
fn drawn_values(point: &PointPlan, contestant: &Contestant) -> (Vec<u32>, Vec<usize>) {
    let built = topology::build(&point.network, 1, 1, 7).expect("a network");
    built.network.record_link_events();
    let lane = &built.lanes[0];
    let main = async {
        let mut contest = contest::start(&built.network, lane, contestant, point, Encryption::Real, false)
            .await
            .expect("it starts");
        (&mut contest.task).await
    };
    let ended = built.network.run(main, Instant::ZERO + Duration::from_secs(600));
    assert!(matches!(ended, Outcome::Done(_)), "the page is there");
    let (mut sizes, mut lost) = (Vec::new(), Vec::new());
    for link_event in built.network.take_link_events().iter().filter(|it| it.direction == Direction::Down) {
        match link_event.event {
            TapEvent::Entered => sizes.push(link_event.bytes),
            // The link decides and records a loss when the packet enters the link.
            TapEvent::Lost(_) => lost.push(sizes.len()),
            TapEvent::Left | TapEvent::Filtered => {}
        }
    }
    (sizes, lost)
}

/// With other settings, a contestant sends other packets at other times. Checks that the settings do not change whether
/// the n-th packet on the link is lost.
#[test]
fn another_setting_does_not_change_random_losses() {
    let flags = [("page", "news"), ("loss", "5%"), ("queue", "10000p")];
    for contestants in
        [["tcp", "tcp:iw=2,mss=500B"], ["sctp", "sctp:iw=2,delack=0,cookie_data=no,num_ostreams=3"]]
    {
        let plan = plan(&flags, contestants);
        let found = [0, 1].map(|i| drawn_values(&plan.points[0], &plan.contestants[i]));
        let [(sizes, lost), (other_sizes, other_lost)] = &found;
        assert_ne!(sizes, other_sizes, "the same packets: nothing is shown");
        let shared = sizes.len().min(other_sizes.len());
        let within =
            |lost: &[usize]| -> Vec<usize> { lost.iter().copied().filter(|n| *n <= shared).collect() };
        assert!(within(lost).len() > 10, "too few losses to show anything");
        assert_eq!(within(lost), within(other_lost));
    }
}
