//! Tests whole races. The same plan must give the same bytes with any number of threads, and the race must run what the
//! plan asks for.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::{self, Options};
use anabranch_lab::run::one;
use anabranch_report::{compare, table};
use anabranch_results::{Outcome, Race, Run, csv, json};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn plan(flags: &[(&str, &str)]) -> Plan {
    let draft = Draft::from_flags(flags.iter().copied()).expect("flags");
    Plan::interpret(draft, &Transports::standard()).expect("a plan")
}

fn race_on(threads: usize, plan: &Plan) -> Race {
    let options = Options { threads, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(plan, &options).unwrap_or_else(|e| panic!("{e}"))
}

fn race(flags: &[(&str, &str)]) -> Race {
    race_on(2, &plan(flags))
}

fn runs(race: &Race) -> impl Iterator<Item = &Run> {
    race.points.iter().flat_map(|point| &point.contestants).flat_map(|contestant| &contestant.runs)
}

#[test]
fn the_same_plan_gives_the_same_bytes_on_one_thread_and_on_two() {
    let flags = [("page", "gallery"), ("loss", "0,2%"), ("runs", "3"), ("transport", "tcp,sctp")];
    let plan = plan(&flags);
    let (one, two) = (json::render(&race_on(1, &plan)), json::render(&race_on(2, &plan)));
    assert!(one == two, "threads change the result");
    let other = json::render(&race(&[("seed", "100"), flags[0], flags[1], flags[2], flags[3]]));
    assert!(one != other, "another seed gives another result");
}

#[test]
fn a_run_with_captures_is_the_run_without() {
    let plan =
        plan(&[("page", "osterdahl-gallery"), ("runs", "1"), ("transport", "tcp,sctp"), ("loss", "3%")]);
    let found = race_on(1, &plan);
    for contestant in 0..2 {
        let scenario = batch::scenario(&plan, 0, Some(contestant), 1);
        let (runs, captures) = one::capture(&scenario).expect("a capture");
        assert_eq!(runs[0], found.points[0].contestants[contestant].runs[0]);
        let again = one::capture(&scenario).expect("a capture").1;
        assert!(captures == again && captures.len() == 2, "captures repeat byte for byte");
    }
}

#[test]
fn every_part_of_every_response_time_adds_up_and_nothing_beats_the_limit() {
    let found = race(&[("page", "gallery"), ("loss", "2%"), ("runs", "5"), ("transport", "tcp,sctp")]);
    for run in runs(&found) {
        assert_eq!(run.outcome, Outcome::Done);
        assert!(run.page_ns >= run.limit_ns, "{:?} beats {:?}", run.page_ns, run.limit_ns);
        for object in &run.objects {
            let why = object.why.as_ref().expect("delivered");
            let span = object.delivered_ns.expect("delivered") - object.issued_ns.expect("issued");
            assert_eq!(why.sum(), span, "{}", object.name);
        }
    }
}

/// Over every transport, the other objects must be requested at the moment when the first object has arrived.
#[test]
fn a_first_object_is_fetched_alone_and_the_others_when_it_has_arrived() {
    let plan = plan(&[
        ("objects", "3x20kB"),
        ("first-object", "60kB"),
        ("loss", "0"),
        ("runs", "1"),
        ("transport", "tcp,sctp"),
        ("transport", "tcp:connections=6"),
    ]);
    let found = race_on(1, &plan);
    assert_eq!(runs(&found).count(), 3);
    for run in runs(&found) {
        let [first, rest @ ..] = run.objects.as_slice() else { panic!("no objects") };
        assert_eq!((first.name.as_str(), first.bytes, first.issued_ns), ("/object-0", 60_000, Some(0)));
        let names: Vec<&str> = rest.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["/object-1", "/object-2", "/object-3"]);
        assert!(rest.iter().all(|object| object.issued_ns == first.delivered_ns), "{run:?}");
        // The lower bound is for 10 Mbit/s and a round-trip time of 80 ms. The first object takes 128.56 ms: 0.32 ms
        // for 400 B up, 48.24 ms for 60,300 B down, and one round trip. The three other objects take 129.04 ms: 0.32 ms
        // for the first request (400 B up), 48.72 ms for 3 x 20,300 B down, and one round trip. The other two requests
        // arrive while the first response is being sent.
        assert_eq!(run.limit_ns, Some(257_600_000));
        assert!(run.page_ns >= run.limit_ns);
    }
    assert_eq!(found.points[0].workload.objects, 4);
    assert!(found.points[0].workload.name.starts_with("60kB, then 3x20kB (4 objects, 120 kB)"), "{found:?}");
}

/// Without loss, a single object must transfer exactly the bytes of its heads and its body. This must hold for a
/// connection that stays open and for a connection per object. One more byte in an HTTP head must be one more byte on
/// the wire. The lower bound on the page time must include this byte.
#[test]
fn heads_have_the_sizes_that_the_plan_says() {
    let sized = |request: u64, response: u64| {
        let found = race(&[
            ("objects", "1x1kB"),
            ("request-head", &format!("{request}B")),
            ("response-head", &format!("{response}B")),
            ("loss", "0"),
            ("runs", "1"),
            ("transport", "tcp"),
            ("transport", "tcp:per-object=yes"),
        ]);
        let workload = &found.points[0].workload;
        assert_eq!((workload.request_head, workload.response_head), (Some(request), Some(response)));
        let end = format!(
            "1x1kB (1 object, 1.00 kB), request heads of {request} B, response heads of {response} B"
        );
        assert_eq!(workload.name, end);
        found
    };
    let (small, large) = (sized(60, 247), sized(61, 257));
    for (in_small, in_large) in runs(&small).zip(runs(&large)) {
        assert_eq!(in_large.wire_bytes.up - in_small.wire_bytes.up, 1);
        assert_eq!(in_large.wire_bytes.down - in_small.wire_bytes.down, 10);
        // The delays are 80 ms in total. At 10 Mbit/s, the request of 60 B takes 0.048 ms, and the response of 1247 B
        // takes 0.9976 ms.
        assert_eq!((in_small.limit_ns, in_large.limit_ns), (Some(81_045_600), Some(81_054_400)));
    }
}

/// Each packet of a bulk transfer must take extra time for its framing and for access to the medium. The lower bound of
/// the load time assumes packets of maximum size, because they need the least extra time in total.
#[test]
fn packets_pay_for_framing_and_access() {
    let time = |costs: &[(&str, &str)]| {
        let mut flags =
            vec![("bulk", "3MB"), ("loss", "0"), ("runs", "1"), ("rtt", "10ms"), ("transport", "tcp,sctp")];
        flags.extend(costs);
        let found = race(&flags);
        let runs: Vec<&Run> = runs(&found).collect();
        assert!(
            runs.iter().all(|run| run.page_ns >= run.limit_ns && run.outcome == Outcome::Done),
            "{costs:?}"
        );
        let page = |i: usize| runs[i].page_ns.expect("done") as f64 / 1e6;
        (page(0), page(1), runs[0].limit_ns.expect("there is one"))
    };
    let (tcp, sctp, limit) = time(&[]);
    // The lower bound is the time to send 3 MB at 10 Mbit/s, plus the delay in both directions.
    assert_eq!(limit, 2_410_000_000);
    let (framed_tcp, framed_sctp, framed_limit) = time(&[("overhead", "24B"), ("packet-time", "118us")]);
    // With framing (24 B) and access (118 us), a packet of 1500 B takes 1337.2 us instead of 1200 us. The effective
    // rate is therefore 8,973,976 bit/s (rounded up). The lower bound in ns is the time to send 3 MB at this rate, plus
    // 10 ms of delay.
    assert_eq!(framed_limit, 2_684_399_843);
    for (with, without) in [(framed_tcp, tcp), (framed_sctp, sctp)] {
        let ratio = with / without;
        assert!((1.11..1.12).contains(&ratio), "{with} {without}: {ratio}");
    }
    // Overhead only in the direction to the server costs almost nothing, because there are few acknowledgements.
    let (up, _, up_limit) = time(&[("up-overhead", "24B"), ("up-packet-time", "118us")]);
    assert!(up < tcp * 1.01 && up_limit == limit, "{up} {tcp}");
}

/// Over any transport, the server's CPU must process the requests one by one. A response must leave only after its
/// request has been processed.
#[test]
fn requests_take_the_servers_processor() {
    let ended = |transport: &str| {
        let flags =
            [("objects", "3x100B"), ("loss", "0"), ("rate", "unlimited"), ("rtt", "20ms"), ("runs", "1")];
        let found = race(&[&flags[..], &[("transport", transport)]].concat());
        let ended: Vec<u64> =
            runs(&found).flat_map(|run| &run.objects).map(|o| o.delivered_ns.expect("it came")).collect();
        ended
    };
    for transport in ["tcp:connections=3", "tcp:pipeline=yes", "sctp"] {
        let free = ended(transport);
        let first = free[0];
        // All three requests arrive at the same time, and the server's CPU needs 3 ms for each request. The last
        // response therefore leaves 9 ms later than without this cost.
        let paid =
            ended(&format!("{transport}{}request-cost=3ms", if transport.contains(':') { "," } else { ":" }));
        assert!(
            paid.iter().all(|at| (first + 3_000_000..=first + 9_000_000).contains(at)),
            "{transport}: {free:?} {paid:?}"
        );
        assert_eq!(paid.iter().max(), Some(&(first + 9_000_000)), "{transport}: {free:?} {paid:?}");
    }
}

/// The MTU must limit the size of IP packets over both transports. `mss` must limit the segments of TCP. Over SCTP it
/// must limit the chunks, but not the packets.
#[test]
fn the_mtu_is_the_same_largest_packet_for_all_and_mss_is_not() {
    let largest = |mtu: &str, transport: &str| {
        let flags =
            [("objects", "1x20kB"), ("loss", "0"), ("mtu", mtu), ("runs", "1"), ("transport", transport)];
        let plan = plan(&flags);
        let (_, captures) = one::capture(&batch::scenario(&plan, 0, Some(0), 1)).expect("a capture");
        let mut largest = 0;
        for captured in &captures {
            let mut packets = anabranch_wire::pcap::Reader::new(&captured.pcapng).expect("a capture");
            while let Some(packet) = packets.next_packet().expect("a packet") {
                largest = largest.max(packet.original_len);
            }
        }
        largest
    };
    for transport in ["tcp", "tcp:timestamps=no", "sctp", "sctp:interleaving=no"] {
        assert_eq!(largest("576", transport), 576, "{transport}");
    }
    assert_eq!(largest("1500", "tcp:mss=536B"), 576);
    assert_eq!(largest("1500", "tcp:mss=536B,timestamps=no"), 576);
    // The largest SCTP packet has headers of 20 B (IP) and 12 B (SCTP), and at least two chunks. Each chunk has a
    // header of 16 B and 536 B of data. Smaller chunks can follow if they fit.
    assert!((1136..=1500).contains(&largest("1500", "sctp:mss=536B,interleaving=no")));
}

/// Osterdahl's figures 1 and 2 show an HTML page with 3 and with 9 embedded files. The contestants must open the number
/// of connections in the figures.
#[test]
fn old_and_new_ways_open_as_many_connections_as_the_figures_show() {
    for (page, objects) in [("osterdahl-news", 4), ("osterdahl-gallery", 10)] {
        for (contestant, connections) in
            [("tcp:per-object=yes", objects), ("tcp", 1), ("sctp", 1), ("sctp:per-object=yes", objects)]
        {
            // A browser would also open backup connections.
            let found =
                race(&[("page", page), ("runs", "1"), ("client", "plain"), ("transport", contestant)]);
            for run in runs(&found) {
                assert_eq!(
                    (run.outcome, run.connections),
                    (Outcome::Done, connections),
                    "{contestant} on {page}"
                );
            }
        }
    }
}

/// There is no random loss: on a shared link, it hits other packets than on a link of one contestant, which may be
/// faster.
#[test]
fn contestants_that_race_together_share_one_bottleneck() {
    let flags = [("bulk", "1MB"), ("loss", "0"), ("transport", "tcp,sctp"), ("rtt", "40ms")];
    let alone = race(&flags);
    let together = race(&[flags[0], flags[1], flags[2], flags[3], ("shared-link", "yes")]);
    for (one, both) in runs(&alone).zip(runs(&together)) {
        assert!(
            both.page_ns > one.page_ns,
            "sharing takes longer: {:?} against {:?}",
            both.page_ns,
            one.page_ns
        );
    }
    let crossed = race(&[flags[0], flags[1], flags[2], flags[3], ("background", "tcp:flows=2")]);
    for (one, both) in runs(&alone).zip(runs(&crossed)) {
        assert!(both.page_ns > one.page_ns, "background traffic takes its share");
    }
}

#[test]
fn an_open_loop_issues_objects_at_their_time() {
    let found =
        race(&[("objects", "20x5kB"), ("arrivals", "50/s"), ("runs", "1"), ("transport", "tcp,sctp")]);
    for run in runs(&found) {
        let issued: Vec<u64> = run.objects.iter().map(|o| o.issued_ns.expect("issued")).collect();
        assert!(issued.iter().enumerate().all(|(i, &at)| at == i as u64 * 20_000_000), "{issued:?}");
    }
}

#[test]
fn unfinished_runs_are_counted() {
    let found = race(&[("deadline", "300ms"), ("runs", "1"), ("transport", "tcp,sctp")]);
    assert!(runs(&found).all(|run| run.outcome == Outcome::Deadline && run.page_ns.is_none()));
    assert!(found.points[0].contestants.iter().all(|contestant| contestant.summary.page_ms.failed == 1));
    let shown = table::render(&found, table::Style::default(), &Transports::standard().protocols());
    assert!(shown.contains("No winner: "), "{shown}");
    let dead = [("fail", "path=1,at=200ms"), ("timeout", "5s"), ("runs", "1"), ("transport", "tcp,sctp")];
    let found = race(&dead);
    assert!(runs(&found).all(|run| run.outcome == Outcome::Failed), "an object without progress fails");
    let facts = |run: &Run| {
        run.objects.iter().any(|o| o.failure.as_deref() == Some("no progress within the timeout"))
    };
    assert!(runs(&found).all(facts));
}

#[test]
fn one_of_two_paths_fails_and_the_association_goes_on() {
    let two = [("path", "rate=10mbit,rtt=40ms"), ("path", "rate=10mbit,rtt=40ms")];
    let found = race(&[
        two[0],
        two[1],
        ("fail", "path=1,at=1s"),
        ("bulk", "3MB"),
        ("loss", "0"),
        ("runs", "1"),
        ("transport", "sctp:profile=rfc9260"),
    ]);
    let run = runs(&found).next().expect("a run");
    assert_eq!(run.outcome, Outcome::Done);
    assert!(run.failover_ns.expect("a failover") >= 1_000_000_000, "at least one RTO of 1 s");
    assert_eq!(run.series.paths.len(), 2);
    assert!(!run.series.paths[1].down.delivered.is_empty(), "data arrived by the second path");
}

#[test]
fn expectations_are_judged() {
    let text = "page = 'osterdahl-news'\nloss = '1%'\nruns = 2\ntransport = ['tcp', 'sctp']\n\
                [[expect]]\nof = 'sctp'\nmax = 1e9\n[[expect]]\nof = 'sctp'\nversus = 'tcp'\nratio_max = 0.001";
    let draft = Draft::from_toml("plan.toml", text).expect("a file");
    let found = race_on(1, &Plan::interpret(draft, &Transports::standard()).expect("a plan"));
    let met: Vec<bool> = found.expectations.iter().map(|expectation| expectation.met).collect();
    assert_eq!(met, [true, false]);
    assert!(
        table::render(&found, table::Style::default(), &Transports::standard().protocols())
            .contains("MISSED: plan.toml: [[expect]] 2")
    );
}

#[test]
fn tables_fit_the_terminal_and_csv_has_a_row_an_object() {
    let long = "sctp:num_ostreams=10,rto_min=200ms,delack=100ms,rcvbuf=64KiB";
    let found =
        race(&[("page", "gallery"), ("runs", "3"), ("transport", "tcp:connections=6"), ("transport", long)]);
    for (width, verbose) in [(80, false), (100, true)] {
        let style = table::Style { width, verbose, ..table::Style::default() };
        let shown = table::render(&found, style, &Transports::standard().protocols());
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= width, "{widest}:\n{shown}");
    }
    let objects: usize = runs(&found).map(|run| run.objects.len()).sum();
    assert_eq!(csv::render(&found).lines().count(), 1 + objects);
}

/// Bytes must be counted when they are read, and not when the last byte of their object is read. The set-up time must
/// be reported for every transport.
#[test]
fn a_bulk_transfer_is_followed_from_its_handshake_to_its_last_byte() {
    let found = race(&[
        ("bulk", "5MB"),
        ("rtt", "80ms"),
        ("rate", "20mbit"),
        ("loss", "0"),
        ("runs", "1"),
        ("transport", "tcp"),
        ("transport", "sctp:profile=rfc9260"),
        ("transport", "sctp:connections=3,profile=rfc9260"),
    ]);
    for run in runs(&found) {
        let read = &run.series.application;
        assert_eq!(read.iter().sum::<u64>(), 5_000_000);
        // Each element of `read` is the number of bytes that the application read in an interval of 100 ms. At 20
        // Mbit/s, 250 kB arrive in an interval. The application can read more than that, because bytes that waited for
        // a retransmission are read at once.
        assert!(read.iter().all(|&bytes| bytes <= 1_000_000), "{read:?}");
        assert!(read.iter().filter(|&&bytes| bytes > 0).count() >= 15, "{read:?}");
        for object in &run.objects {
            let (why, instants) = (object.why.expect("why"), object.instants.expect("instants"));
            assert_eq!(why.server_ns, Some(0), "no --server-time was given");
            let (first, written) = (object.first_byte_ns.expect("read"), instants.written_ns);
            assert!(written < first, "written at {written}, read at {first}");
        }
    }
    // RFC 9293 §3.5: TCP's set-up takes one round trip. RFC 9260 §5.1: SCTP's set-up takes two round trips, although
    // data is sent in the second.
    let times: Vec<_> = runs(&found).map(|run| run.connect_ns.expect("connected") / 1_000_000).collect();
    assert!((80..=82).contains(&times[0]), "{times:?}");
    assert!(times[1..].iter().all(|ms| (160..=164).contains(ms)), "{times:?}");
    assert!(found.points[0].contestants.iter().all(|contestant| contestant.summary.connect_ms.n == 1));
}

/// For every workload, the bytes read must add up to the bytes delivered.
#[test]
fn what_was_read_adds_up_to_what_was_delivered() {
    let contestants = [("runs", "1"), ("transport", "tcp:connections=6"), ("transport", "sctp")];
    let workloads: [&[(&str, &str)]; 3] = [
        &[("page", "osterdahl-gallery"), ("loss", "2%")],
        &[("objects", "3x100kB")],
        &[("messages", "50/s"), ("for", "2s"), ("bulk", "100kB")],
    ];
    for workload in workloads {
        let flags: Vec<_> = workload.iter().chain(&contestants).copied().collect();
        for run in runs(&race(&flags)) {
            assert_eq!(run.outcome, Outcome::Done);
            let delivered: u64 = run.objects.iter().map(|object| object.bytes).sum();
            assert_eq!(run.series.application.iter().sum::<u64>(), delivered, "{workload:?}");
        }
    }
}

#[test]
fn a_transfer_is_called_one_and_the_first_contestant_by_its_name() {
    let first = "tcp:connections=2";
    let flags = [("bulk", "200kB"), ("runs", "2"), ("transport", first), ("transport", "sctp")];
    let found = race(&flags);
    let style = table::Style { verbose: true, ..table::Style::default() };
    let text = table::render(&found, style, &Transports::standard().protocols());
    assert!(text.contains("median transfer") && !text.contains("object ms"), "{text}");
    assert!(text.contains("ratio to the first "), "{text}");
    let html = anabranch_report::html(&found, &anabranch_report::PageContext::default());
    assert!(
        html.contains("<h3>Transfer time: shorter is better</h3>") && html.contains("end of the transfer")
    );
    assert!(!html.to_lowercase().contains("page time"));
    let comparison = compare::render(&found, &found);
    assert!(comparison.contains("  transfer_ms ") && !comparison.contains("page_ms"), "{comparison}");
    assert!(!comparison.contains("Not compared"), "{comparison}");
    // The second result has other contestants. Only contestants that occur in both results are compared, and the other
    // contestants are listed.
    let other = race(&[flags[0], flags[1], ("transport", "one=tcp"), ("transport", "sctp")]);
    let comparison = compare::render(&found, &other);
    let left = "Not compared, the other result having no contestant of that name: tcp:connections=2 (old), one=tcp (new)\n";
    assert!(comparison.contains("\nsctp (loss 1%)  ") && comparison.ends_with(left), "{comparison}");
    let nothing = compare::render(&found, &race(&[flags[0], flags[1], ("transport", "one=tcp")]));
    assert!(nothing.starts_with("The two results have no contestant at a point in common"), "{nothing}");
    assert!(nothing.ends_with("tcp:connections=2 (old), sctp (old), one=tcp (new)\n"), "{nothing}");
    // A long contestant name must not widen the table. The rows have a shortened form of the name.
    let long = "tcp:connections=2,pipeline=yes";
    let pages = table::render(
        &race(&[("objects", "2x10kB"), ("runs", "2"), ("transport", long), ("transport", "sctp")]),
        style,
        &Transports::standard().protocols(),
    );
    assert!(pages.contains("object ms") && pages.contains("tcp:connect…peline=yes  "), "{pages}");
    for line in text.lines().chain(pages.lines()) {
        assert!(line.chars().count() <= table::COLUMNS, "{line}");
    }
}

/// A browser shows a page in the order of its rules: first the document and what the head needs, then images. The byte
/// index lies between the first and the last byte.
#[test]
fn paint_metrics_of_a_page_lie_within_its_load() {
    let flags = [
        ("page", "news"),
        ("client", "chromium"),
        ("loss", "1%"),
        ("runs", "3"),
        ("transport", "http1,http2,http3"),
        ("causes", "off"),
    ];
    let race = race(&flags);
    for run in runs(&race) {
        let times = (run.start_render_ns, run.largest_image_ns, run.byte_index_ns, run.page_ns);
        let (Some(start), Some(image), Some(index), Some(page)) = times else { panic!("{times:?}") };
        let document = &run.objects[0];
        let first_byte = document.first_byte_ns.expect("a document");
        // The document and at least one style sheet of the head precede the first rendering.
        let sheet = run.objects.iter().filter(|object| object.name.ends_with(".css"));
        let sheet = sheet.filter_map(|object| object.delivered_ns).min().expect("a style sheet");
        assert!(first_byte < sheet && sheet <= start && start < page, "{times:?} {sheet}");
        assert!(run.objects.iter().any(|object| object.delivered_ns == Some(image)), "{times:?}");
        assert!(first_byte < index && index < page, "{times:?}");
        // The byte index is the mean of the arrival times of the bytes, so it is below the mean weighted by whole objects.
        let weighted: u128 = run
            .objects
            .iter()
            .map(|object| u128::from(object.bytes) * u128::from(object.delivered_ns.unwrap_or(page)))
            .sum();
        let bytes: u128 = run.objects.iter().map(|object| u128::from(object.bytes)).sum();
        assert!(u128::from(index) <= weighted / bytes, "{index} {}", weighted / bytes);
    }
    let point = &race.points[0];
    for contestant in &point.contestants {
        let summary = &contestant.summary;
        assert_eq!((summary.start_render_ms.n, summary.byte_index_ms.n), (3, 3));
        assert!(summary.start_render_ms.median < summary.page_ms.median);
    }
    let other = race_on(
        1,
        &plan(&[
            ("page", "news"),
            ("client", "plain"),
            ("runs", "1"),
            ("transport", "tcp"),
            ("causes", "off"),
        ]),
    );
    let run = runs(&other).next().expect("a run");
    let none = [run.start_render_ns, run.largest_image_ns, run.byte_index_ns];
    assert_eq!(none, [None; 3], "no browser loaded this page");
    assert!(!json::render(&other).contains("start_render"));
}
