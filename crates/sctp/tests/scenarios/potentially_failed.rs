//! Potentially failed paths, and the changes of the primary path that they cause (RFC 7829).

use crate::net::A;
use crate::script::{Script, configured};
use anabranch_base::Ratio;
use anabranch_base::time::Duration;
use anabranch_sctp::testing::{Pair, Side, address};
use anabranch_sctp::{Associate, CloseReason, Event, Message, PathState};
use expect_test::expect;

/// Sets up an association over two networks. PotentiallyFailed.Max.Retrans is 0, as RFC 7829 recommends. The only
/// HEARTBEATs are those that the RFC requires.
fn suspicious(changes: &[(&str, &str)]) -> Script {
    let on = [&[("pf_max_retrans", "0"), ("hb_interval", "1000s")], changes].concat();
    let mut script = Script::established_on(&[25, 35], &on);
    script.send(A, 0, 8).run(1_000);
    script.forget();
    script
}

/// RFC 7829 §3 (2), (3), (5), (8): after the first timeout on a path, data is sent on another path at once. The path is
/// probed once per RTO until it has failed.
#[test]
fn data_moves_after_one_timeout() {
    let mut script = suspicious(&[("path_max_retrans", "2")]);
    script.kill(1).send(A, 0, 100).run(1_500);
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("it is up");
    assert_eq!(info.paths[0].state, PathState::PotentiallyFailed);
    script.send(A, 0, 200).run(10_000).send(A, 0, 300).run(1_000);
    script.check(expect![[r#"
         5.000          network 1 fails
         5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000          A: path to 10.0.1.2 may have failed
         6.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
         6.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE
         6.035          B: received sid=0 len=100
         6.235  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
         6.500  A.2 ──► B.2   DATA          tsn=3 sid=0 ssn=2 len=200 BE
         6.535          B: received sid=0 len=200
         6.735  A.2 ◄── B.2   SACK          cum=3 rwnd=64k
         8.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
        12.000          A: path to 10.0.1.2 is down
        16.500  A.2 ──► B.2   DATA          tsn=4 sid=0 ssn=3 len=300 BE
        16.535          B: received sid=0 len=300
        16.735  A.2 ◄── B.2   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 7829 §3 (7): a HEARTBEAT ACK makes the path active again, and data returns to the primary path.
#[test]
fn an_answer_clears_it() {
    let mut script = suspicious(&[]);
    script.kill(1).send(A, 0, 100).run(2_000).heal(1).run(3_000).send(A, 0, 200).run(1_000);
    script.check(expect![[r#"
         5.000          network 1 fails
         5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000          A: path to 10.0.1.2 may have failed
         6.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
         6.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE
         6.035          B: received sid=0 len=100
         6.235  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
         7.000          network 1 is back
         8.000  A.1 ──► B.1   HEARTBEAT
         8.025  A.1 ◄── B.1   HEARTBEAT ACK
         8.050          A: path to 10.0.1.2 is up
        10.000  A.1 ──► B.1   DATA          tsn=3 sid=0 ssn=2 len=200 BE
        10.025          B: received sid=0 len=200
        10.225  A.1 ◄── B.1   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 7829 §3 (5): if HEARTBEATs are switched off, no HEARTBEAT is sent. Instead, acknowledged data makes the path
/// active.
#[test]
fn without_heartbeats() {
    let mut script = suspicious(&[("hb_interval", "0")]);
    script.kill(1).send(A, 0, 100).run(2_000).heal(1).run(3_000).send(A, 0, 200).run(1_000);
    script.check(expect![[r#"
         5.000          network 1 fails
         5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000          A: path to 10.0.1.2 may have failed
         6.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE
         6.035          B: received sid=0 len=100
         6.235  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
         7.000          network 1 is back
        10.000  A.2 ──► B.2   DATA          tsn=3 sid=0 ssn=2 len=200 BE
        10.035          B: received sid=0 len=200
        10.235  A.2 ◄── B.2   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 7829 §3 (4): if all paths are potentially failed, data is sent on the path with the fewest errors.
#[test]
fn all_may_have_failed() {
    let mut script = suspicious(&[]);
    script.kill(1).kill(2).send(A, 0, 100).run(7_000).heal(2).run(20_000);
    script.check(expect![[r#"
         5.000          network 1 fails
         5.000          network 2 fails
         5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000          A: path to 10.0.1.2 may have failed
         6.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
         6.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         7.000          A: path to 10.0.2.2 may have failed
         7.000  A.2 ──► B.2   HEARTBEAT     ✗ lost
         7.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         8.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
         9.000  A.2 ──► B.2   HEARTBEAT; DATA tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        10.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
        12.000          network 2 is back
        13.000  A.2 ──► B.2   HEARTBEAT
        13.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        13.035  A.2 ◄── B.2   HEARTBEAT ACK
        13.070          A: path to 10.0.2.2 is up
        14.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
        17.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        17.035          B: received sid=0 len=100
        17.235  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
        18.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
        26.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
    "#]]);
}

/// The only path is potentially failed. T3-rtx and the timer of the HEARTBEAT expire at the same instant. The RTO
/// doubles once (RFC 9260 §6.3.3 E2) and one error is counted (§8.2). So the path fails after the same number of
/// expirations as without RFC 7829.
#[test]
fn data_and_heartbeat_count_once() {
    let expirations = |pf_max_retrans: &str| {
        let set = [("pf_max_retrans", pf_max_retrans), ("hb_interval", "1000s"), ("path_max_retrans", "3")];
        let mut script = Script::established_on(&[25], &set);
        script.send(A, 0, 8).run(1_000);
        script.forget();
        script.kill(1).send(A, 0, 100).run(40_000).heal(1).run(40_000);
        script
    };
    expirations("off").check(expect![[r#"
         5.000          network 1 fails
         5.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         8.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        12.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        20.000          A: path to 10.0.1.2 is down
        20.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        36.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        45.000          network 1 is back
        68.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        68.025          B: received sid=0 len=100
        68.225  A ◄── B   SACK          cum=2 rwnd=64k
        68.250          A: path to 10.0.1.2 is up
    "#]]);
    expirations("0").check(expect![[r#"
         5.000          network 1 fails
         5.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000          A: path to 10.0.1.2 may have failed
         6.000  A ──► B   HEARTBEAT; DATA tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         8.000  A ──► B   HEARTBEAT; DATA tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        12.000  A ──► B   HEARTBEAT; DATA tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        20.000          A: path to 10.0.1.2 is down
        20.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        36.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
        45.000          network 1 is back
        68.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=100 BE
        68.025          B: received sid=0 len=100
        68.225  A ◄── B   SACK          cum=2 rwnd=64k
        68.250          A: path to 10.0.1.2 is up
    "#]]);
}

/// RFC 7829 §3 (9): data was sent on the first path and retransmitted on the second path. The acknowledgement of this
/// data does not make the second path active.
#[test]
fn data_sent_to_both_paths_does_not_clear_the_pf_state() {
    let mut script = suspicious(&[("hb_interval", "0")]);
    // Data lost on the first path is retransmitted on the second path, which is potentially failed at that time.
    script.kill(1).kill(2).send(A, 0, 100).run(2_500).heal(2).run(4_000);
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("it is up");
    assert_eq!(info.paths[1].state, PathState::PotentiallyFailed);
    script.send(A, 0, 200).run(1_000);
    let info = script.net.end(A).engine.info(id).expect("it is up");
    assert_eq!(info.paths[1].state, PathState::Active);
    script.check(expect![[r#"
         5.000          network 1 fails
         5.000          network 2 fails
         5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000          A: path to 10.0.1.2 may have failed
         6.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         7.000          A: path to 10.0.2.2 may have failed
         7.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         7.500          network 2 is back
         9.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE
         9.035          B: received sid=0 len=100
         9.235  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
        11.500  A.2 ──► B.2   DATA          tsn=3 sid=0 ssn=2 len=200 BE
        11.535          B: received sid=0 len=200
        11.735  A.2 ◄── B.2   SACK          cum=3 rwnd=64k
        11.770          A: path to 10.0.2.2 is up
    "#]]);
}

/// RFC 7829 §5: another path has become the primary path. It stays the primary path when the old primary path recovers.
#[test]
fn the_primary_changes_for_good() {
    let mut script = suspicious(&[("primary_switch", "0")]);
    script.kill(1).send(A, 0, 100).run(2_000).heal(1).run(3_000).send(A, 0, 200).run(1_000);
    let id = script.id(A);
    let info = script.net.end(A).engine.info(id).expect("it is up");
    assert!(info.paths[1].primary && !info.paths[0].primary);
    script.check(expect![[r#"
         5.000          network 1 fails
         5.000  A.1 ──► B.1   DATA          tsn=2 sid=0 ssn=1 len=100 BE     ✗ lost
         6.000          A: path to 10.0.1.2 may have failed
         6.000  A.1 ──► B.1   HEARTBEAT     ✗ lost
         6.000  A.2 ──► B.2   DATA          tsn=2 sid=0 ssn=1 len=100 BE
         6.035          B: received sid=0 len=100
         6.235  A.2 ◄── B.2   SACK          cum=2 rwnd=64k
         7.000          network 1 is back
         8.000  A.1 ──► B.1   HEARTBEAT
         8.025  A.1 ◄── B.1   HEARTBEAT ACK
         8.050          A: path to 10.0.1.2 is up
        10.000  A.2 ──► B.2   DATA          tsn=3 sid=0 ssn=2 len=200 BE
        10.035          B: received sid=0 len=200
        10.235  A.2 ◄── B.2   SACK          cum=3 rwnd=64k
    "#]]);
}

/// RFC 7829 §4.1: if all paths have failed, data is sent on the path with the fewest errors. A path without a source
/// address must not be chosen: no packet would leave on it, so the association would never end.
#[test]
fn a_path_without_a_source_is_no_last_resort() {
    let config = configured(&[("pf_max_retrans", "0"), ("auth", "yes"), ("asconf", "yes")]);
    // The second network uses IPv6.
    let mut pair = Pair::new(config.clone(), config, 2, 1);
    pair.b.listen(80).expect("free");
    let id = pair.a.associate(pair.now, Associate::to(address(Side::B, 0), 80)).expect("room");
    let run = |pair: &mut Pair, seconds| {
        let until = pair.now + Duration::from_secs(seconds);
        pair.run(until, |_| false);
    };
    run(&mut pair, 3);
    pair.a.remove_address(pair.now, address(Side::A, 1).ip());
    run(&mut pair, 3);
    pair.network.loss = Ratio::ONE;
    pair.a.send(pair.now, id, Message::default(), b"data").expect("room");
    run(&mut pair, 1_000);
    let closed = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Unreachable, .. });
    assert!(pair.events(Side::A).iter().any(closed));
}
