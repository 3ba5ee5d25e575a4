//! The order of answers: by urgency, and alike over every transport that has streams, so that a comparison is of transports.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::results::{Outcome, Run};
use anabranch_lab::run::{batch, one};

fn plan(flags: &[(&str, &str)]) -> Result<Plan, String> {
    let draft = Draft::from_flags(flags.iter().copied().chain([("runs", "1")])).expect("flags");
    Plan::interpret(draft).map_err(|error| error.to_string())
}

fn run(transport: &str) -> Run {
    let plan = plan(&[("rate", "10mbit"), ("rtt", "100ms"), ("loss", "0"), ("page", "news"), ("transport", transport)]);
    let run = one::run(&batch::scenario(&plan.expect("a plan"), 0, Some(0), 1)).expect("a run").remove(0);
    assert_eq!(run.outcome, Outcome::Done, "{transport}");
    run
}

/// Of objects that were asked for together, how many images of 10 kB and more come before a sheet or script that is asked for
/// with them, for each of those, in the mean.
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
    let ordered = ["tcp:http=2,tls=yes", "quic", "sctp:dtls=yes,priority=yes", "sctp:priority=yes"];
    let ahead = ordered.map(images_ahead);
    let without = ["tcp:http=2,tls=yes,priority=no", "quic:priority=no", "sctp:dtls=yes"].map(images_ahead);
    panic!("{ahead:?} {without:?}");
}
