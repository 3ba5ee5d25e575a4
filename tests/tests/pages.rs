//! Tests page loads: loads of three hundred objects over TCP and SCTP, with few and with many connections or streams.
//! Also tests how many connections the contestants open for the two pages of a thesis (H. Österdahl, KTH, 2005).

use anabranch_results::Outcome;
use anabranch_tests::{check, race, runs};

#[test]
fn a_page_of_three_hundred_objects_finishes_over_few_and_many_connections_and_streams() {
    let contestants = "--transport tcp --transport tcp:connections=6 --transport sctp:num_ostreams=1 \
                       --transport sctp:num_ostreams=10 --transport sctp:num_ostreams=100";
    for network in ["--loss 0", "--loss 1%", "--rate 2mbit --rtt 200ms --loss 3%"] {
        let found = race(&format!("--objects 300x6kB --runs 2 {network} {contestants}"));
        let mut counted = 0;
        for (contestant, run) in runs(&found) {
            let description = format!("{contestant}, {network}, seed {}", run.seed);
            check(&description, run);
            assert_eq!(run.outcome, Outcome::Done, "{description}");
            assert_eq!(run.objects.len(), 300, "{description}");
            assert_eq!(run.connections, if contestant.contains("=6") { 6 } else { 1 }, "{description}");
            let mut streams: Vec<_> =
                run.objects.iter().filter_map(|o| Some((o.connection?, o.stream?))).collect();
            streams.sort_unstable();
            streams.dedup();
            let expected = contestant.rsplit_once('=').map_or(1, |(_, n)| n.parse().expect("a number"));
            assert_eq!(streams.len(), expected, "{description}: streams in use");
            counted += 1;
        }
        assert_eq!(counted, 10);
    }
}

/// Osterdahl's figures 1 and 2 show an HTML file with 3 and with 9 embedded files. Checks that each contestant opens as
/// many connections for each page as Osterdahl published.
#[test]
fn the_two_published_pages_open_the_published_number_of_connections() {
    for (page, objects) in [("osterdahl-news", 4), ("osterdahl-gallery", 10)] {
        let found = race(&format!(
            "--page {page} --runs 3 --loss 1% --transport tcp:per-object=yes --transport sctp:per-object=yes \
             --transport tcp --transport tcp:pipeline=no --transport sctp"
        ));
        for (contestant, run) in runs(&found) {
            check(&format!("{contestant} on {page}"), run);
            let connections = if contestant.contains("per-object") { objects } else { 1 };
            let got = (run.outcome, run.objects.len() as u64, run.connections);
            assert_eq!(got, (Outcome::Done, objects, connections), "{contestant} on {page}");
        }
    }
}
