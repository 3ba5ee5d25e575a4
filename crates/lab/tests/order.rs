//! Responses must be sent by urgency over every transport with streams, so that a race compares only the transports.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, one};
use anabranch_results::{Outcome, Run};
use anabranch_transports::Transports;

fn plan(flags: &[(&str, &str)]) -> Result<Plan, String> {
    let draft = Draft::from_flags(flags.iter().copied().chain([("runs", "1")])).expect("flags");
    Plan::interpret(draft, &Transports::standard()).map_err(|error| error.to_string())
}

fn run(transport: &str) -> Run {
    let plan = plan(&[
        ("rate", "10mbit"),
        ("rtt", "100ms"),
        ("loss", "0"),
        ("page", "news"),
        // The plain client requests all objects that the document names at once. A browser would delay most images.
        ("client", "plain"),
        ("origins", "merge"),
        ("variation", "none"),
        ("transport", transport),
    ]);
    let run = one::run(&batch::scenario(&plan.expect("a plan"), 0, Some(0), 1)).expect("a run").remove(0);
    assert_eq!(run.outcome, Outcome::Done, "{transport}");
    run
}

/// Returns how many images of at least 10 kB arrive before a style sheet or script requested at the same time. The
/// result is the mean over style sheets and scripts.
fn images_ahead(transport: &str) -> f64 {
    let run = run(transport);
    let plan = plan(&[("page", "news"), ("transport", "tcp")]).expect("a plan");
    let page = &plan.points[0].workload.page;
    let all: Vec<_> = page.objects.iter().zip(&run.objects).collect();
    let urgent = all.iter().filter(|(object, _)| {
        object.content_type.starts_with("text/css") || object.content_type.contains("javascript")
    });
    let (mut ahead, mut count) = (0, 0);
    for (_, own) in urgent {
        count += 1;
        ahead += all
            .iter()
            .filter(|(object, image)| {
                object.content_type.starts_with("image/")
                    && object.body >= 10_000
                    && image.issued_ns == own.issued_ns
                    && image.delivered_ns < own.delivered_ns
            })
            .count();
    }
    f64::from(ahead as u32) / f64::from(count.max(1))
}

#[test]
fn the_urgent_come_first_over_every_transport_alike() {
    for transport in ["tcp:http=2,tls=yes", "quic", "sctp:dtls=yes,priority=yes", "sctp:priority=yes"] {
        assert_eq!(images_ahead(transport), 0.0, "{transport}");
    }
    // Over the same transports with round robin instead of priorities, many large images arrive before a style sheet.
    for transport in ["sctp:dtls=yes,priority=no", "sctp"] {
        assert!(images_ahead(transport) > 5.0, "{transport}");
    }
}

/// When all six connections are busy, requests wait. The next free connection must take the most urgent request.
#[test]
fn requests_that_wait_for_a_connection_are_sent_by_urgency() {
    let page = plan(&[("page", "news"), ("transport", "tcp")]).expect("a plan");
    let page = &page.points[0].workload.page;
    let last = |run: &Run| -> u64 {
        let all = page.objects.iter().zip(&run.objects);
        let urgent = all.filter(|(object, _)| {
            object.content_type.starts_with("font/") || object.content_type.starts_with("text/html")
        });
        urgent.map(|(_, object)| object.delivered_ns.expect("delivered")).max().expect("there are some")
    };
    let [ordered, not] = ["yes", "no"].map(|priority| run(&format!("tcp:connections=6,priority={priority}")));
    assert!(2 * last(&ordered) < last(&not), "{} {}", last(&ordered), last(&not));
}

#[test]
fn what_does_not_go_together_is_refused_in_one_line() {
    for (transport, line) in [
        (
            "sctp:priority=yes,scheduler=fcfs",
            "priority=yes: needs scheduler=priority, which it implies, and not fcfs",
        ),
        ("tcp:priority=high", "priority=high: write yes or no"),
    ] {
        let error = plan(&[("transport", transport)]).expect_err(transport);
        assert!(error.contains(line) && !error.contains('\n'), "{transport}: {error}");
    }
    let error = plan(&[("messages", "10/s"), ("transport", "sctp:priority=yes")]).expect_err("no requests");
    assert!(error.contains("priority is about requests, and messages have none"), "{error}");
}
