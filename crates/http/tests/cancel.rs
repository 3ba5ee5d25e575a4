//! Tests the cancelling of an object that times out: its stream is reset and used for another object, and its unsent
//! data is discarded (RFC 6525, RFC 3758).

use crate::rig::page;
use crate::rig::sim::{Rig, fetch_page, sctp, sctp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::mapping::Policy;
use anabranch_http::observe::{FetchError, Record};
use anabranch_http::{fetch, serve};
use anabranch_transport::sctp::{LowerProtocol, SctpConnector, SctpHost};

/// Fetches a page of which one object times out. Returns the outcome, the recorded milestones, and the number of user
/// bytes that the server sent.
fn load(changes: &[(&str, &str)], server_changes: &[(&str, &str)]) -> (fetch::Outcome, Record, u64) {
    let rig = Rig::new(&["rate=10mbit,rtt=80ms"], 1);
    // The server answers one request at a time, and the large object keeps it busy.
    let page = page(1_000, &[4_000_000, 1_000_000, 1_000_000, 2_000]);
    let policy = Policy { timeout: Some(Duration::from_millis(1_200)), ..sctp(2).policy() };
    let options = serve::Options { serial: true, ..serve::Options::default() };
    let run = async {
        let config = |changes: &[(&str, &str)]| {
            let mut config = anabranch_sctp::Config::profile("rfc9260").expect("a profile");
            config.num_ostreams = 2;
            for (key, value) in changes {
                config.set(key, value).expect("a knob");
            }
            config
        };
        let client = SctpHost::new(rig.client.clone(), config(changes), LowerProtocol::Ip, None).await;
        let server = SctpHost::new(rig.server.clone(), config(server_changes), LowerProtocol::Ip, None).await;
        let (client, server) = (client.expect("a host"), server.expect("a host"));
        let listener = server.listen(80).expect("listening");
        let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
        let (outcome, record) = fetch_page(&rig, connector, listener, &page, policy, options).await;
        (outcome, record, server.inspect(|engine| engine.totals().sum.bytes_sent))
    };
    rig.network.run(run, Instant::MAX).expect_done()
}

const RECONFIG: (&str, &str) = ("reconfig", "yes");
const PARTIAL: (&str, &str) = ("partial_reliability", "yes");

/// The stream of an object that timed out must be reused for the next object, twice, while the large object continues.
#[test]
fn the_stream_of_a_timed_out_object_is_reused() {
    let both = [RECONFIG, PARTIAL];
    let (outcome, record, sent) = load(&both, &both);
    let timed_out = Err(FetchError::Timeout);
    assert_eq!(outcome.objects, [Ok(()), Ok(()), timed_out.clone(), timed_out, Ok(())]);
    assert_eq!(outcome.connections, 1);
    let streams = |object: usize| record.objects[object].assigned.as_ref().expect("assigned").exchange.stream;
    assert_eq!([2, 3, 4].map(streams), [1, 1, 1]);
    // The client and the server must use the same identifier for an exchange. The server must therefore have a record
    // of the exchange that the client has recorded.
    let last = record.objects[4].assigned.as_ref().expect("assigned").exchange;
    assert!(record.served[&last].written.is_some(), "{last:?}");
    // The server must not have sent the two cancelled objects (1 MB each). The other objects have 4,003,000 bytes,
    // without heads and protocol overhead.
    assert!(sent < 4_300_000, "{sent}");
}

/// If one of the two ends does not support RE-CONFIG, the client must read and discard the responses.
#[test]
fn without_reconfig_cancelled_responses_are_discarded() {
    for (client_features, server_features) in [(&[][..], &[RECONFIG][..]), (&[RECONFIG], &[])] {
        let (outcome, _, _) = load(client_features, server_features);
        assert_eq!(outcome.objects[..2], [Ok(()), Ok(())]);
        assert_eq!(outcome.objects[2], Err(FetchError::Timeout));
    }
}

/// Two runs with the same seed must be equal.
#[test]
fn cancelling_is_repeatable() {
    let both = [RECONFIG, PARTIAL];
    let (first, second) = (load(&both, &both), load(&both, &both));
    assert_eq!((first.0, first.2), (second.0, second.2));
}
