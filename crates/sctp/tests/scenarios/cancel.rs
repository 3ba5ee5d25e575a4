//! An application cancels an exchange: the queued messages of its stream are dropped, and the stream is reset (RFC
//! 6525, RFC 3758).

use crate::net::{A, B};
use crate::script::Script;
use anabranch_sctp::{Direction, Event};
use anabranch_wire::ladder::Side;
use expect_test::expect;

const BOTH: &[(&str, &str)] = &[("reconfig", "yes"), ("partial_reliability", "yes")];
const RESET: &[(&str, &str)] = &[("reconfig", "yes")];

impl Script {
    fn cancel(&mut self, side: Side, stream: u16) -> &mut Self {
        let (id, now) = (self.id(side), self.net.now);
        self.net.end(side.other()).app.peer_cancels = true;
        self.net.end(side).engine.cancel(now, id, stream);
        self
    }

    /// Returns the peer's requests to reset outgoing streams of `side`. Each entry has the streams of one request, and
    /// a flag that is true if these streams are idle: `side` has queued no message on them, and has sent none since
    /// their last reset.
    fn requested(&mut self, side: Side) -> Vec<(Vec<u16>, bool)> {
        let events = &self.net.end(side).events;
        let requested = events.iter().filter_map(|event| match event {
            Event::ResetRequested { streams, idle, .. } => Some((streams.clone(), *idle)),
            _ => None,
        });
        requested.collect()
    }
}

/// Sets up an association. B's application has sent more data on stream 1 than the window allows, and then a message on
/// stream 2.
fn answering(changes: &[(&str, &str)]) -> Script {
    let mut script = Script::established(changes);
    script.send(A, 1, 100).send(A, 2, 100).run(1_000);
    for _ in 0..6 {
        script.send(B, 1, 1_400);
    }
    script.send(B, 2, 1_000);
    script.run(10);
    script.forget();
    script
}

/// Cancelled messages that are unsent are dropped, and cancelled messages that were sent are abandoned. The stream is
/// reset at once.
#[test]
fn cancelled_and_reset() {
    let mut script = answering(BOTH);
    script.reset(A, Direction::Both, &[1]).expect("taken");
    script.run(26).cancel(B, 1).run(2_000);
    assert_eq!(script.requested(B), [(vec![1], false)]);
    script.send(A, 1, 60).send(B, 1, 70).run(1_000);
    script.check(expect![[r#"
        2.010  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1) reset-in(#2 sid=1)
        2.025          A: received sid=1 len=1400
        2.025  A ──► B   SACK          cum=1 rwnd=64k
        2.025          A: received sid=1 len=1400
        2.025          A: received sid=1 len=1400
        2.025  A ──► B   SACK          cum=3 rwnd=64k
        2.025          A: received sid=1 len=1400
        2.035          B: streams reset: Incoming [1]
        2.035  A ◄── B   RE-CONFIG response(#1 performed) response(#2 in-progress); SACK cum=2 rwnd=64k
        2.036          B: gave up sid=1 len=1400 context=3, sent, by Cancelled
        2.036          B: gave up sid=1 len=1400 context=4, sent, by Cancelled
        2.036          B: gave up sid=1 len=1400 context=5, sent, by Cancelled
        2.036          B: gave up sid=1 len=1400 context=6, sent, by Cancelled
        2.036          B: gave up sid=1 len=1400 context=7, unsent, by Cancelled
        2.036          B: gave up sid=1 len=1400 context=8, unsent, by Cancelled
        2.036  A ◄── B   RE-CONFIG reset-out(#1 re=#2 last=4 sid=1); FORWARD TSN cum=4 sid:ssn=1:3
        2.050  A ◄── B   DATA          tsn=5 sid=2 ssn=0 len=1000 BE
        2.060          A: streams reset: Outgoing [1]
        2.061          A: streams reset: Incoming [1]
        2.061  A ──► B   RE-CONFIG response(#1 performed); SACK cum=4 rwnd=64k
        2.075          A: received sid=2 len=1000
        2.086          B: streams reset: Outgoing [1]
        2.275  A ──► B   SACK          cum=5 rwnd=64k
        4.036  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=60 BE
        4.036  A ◄── B   DATA          tsn=6 sid=1 ssn=0 len=70 BE
        4.061          B: received sid=1 len=60
        4.061          A: received sid=1 len=70
        4.261  A ──► B   SACK          cum=6 rwnd=64k
        4.261  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// Without FORWARD TSN, cancelled messages that were partly sent are completed, and unsent messages are dropped.
#[test]
fn what_was_sent_is_finished() {
    let mut script = answering(RESET);
    script.reset(A, Direction::Both, &[1]).expect("taken");
    script.run(26).cancel(B, 1).run(4_000);
    script.send(A, 1, 60).send(B, 1, 70).run(1_000);
    script.check(expect![[r#"
        2.010  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=1) reset-in(#2 sid=1)
        2.025          A: received sid=1 len=1400
        2.025  A ──► B   SACK          cum=1 rwnd=64k
        2.025          A: received sid=1 len=1400
        2.025          A: received sid=1 len=1400
        2.025  A ──► B   SACK          cum=3 rwnd=64k
        2.025          A: received sid=1 len=1400
        2.035          B: streams reset: Incoming [1]
        2.035  A ◄── B   RE-CONFIG response(#1 performed) response(#2 in-progress); SACK cum=2 rwnd=64k
        2.036          B: gave up sid=1 len=1400 context=7, unsent, by Cancelled
        2.036          B: gave up sid=1 len=1400 context=8, unsent, by Cancelled
        2.036  A ◄── B   RE-CONFIG reset-out(#1 re=#2 last=4 sid=1)
        2.050  A ◄── B   DATA          tsn=5 sid=2 ssn=0 len=1000 BE
        2.060          A: streams reset: Outgoing [1]
        2.061          A: streams reset: Incoming [1]
        2.061  A ──► B   RE-CONFIG response(#1 performed); SACK cum=4 rwnd=64k
        2.075          A: received sid=2 len=1000
        2.086          B: streams reset: Outgoing [1]
        2.275  A ──► B   SACK          cum=5 rwnd=64k
        6.036  A ──► B   DATA          tsn=3 sid=1 ssn=0 len=60 BE
        6.036  A ◄── B   DATA          tsn=6 sid=1 ssn=0 len=70 BE
        6.061          B: received sid=1 len=60
        6.061          A: received sid=1 len=70
        6.261  A ──► B   SACK          cum=6 rwnd=64k
        6.261  A ◄── B   SACK          cum=3 rwnd=64k
    "#]]);
}

/// The peer requests a reset of a stream whose only queued message has no TSN yet. The stream is not idle, and the
/// message can be cancelled.
#[test]
fn nothing_sent_yet() {
    let mut script = Script::established(BOTH);
    script.send(A, 1, 100).run(1_000);
    script.send(B, 0, 20_000).send(B, 1, 1_000).run(5);
    script.forget();
    script.reset(A, Direction::Both, &[1]).expect("taken");
    script.run(26).cancel(B, 1).run(2_000);
    assert_eq!(script.requested(B), [(vec![1], false)]);
    let text = script.net.ladder.take();
    assert!(
        text.contains("A: streams reset: Incoming [1]") && text.contains("gave up sid=1 len=1000"),
        "{text}"
    );
    assert!(!text.contains("received sid=1"), "{text}");
}

/// RFC 6525 §5.2.3: the peer requests a reset of an idle stream. The application is notified although there are no
/// messages to cancel.
#[test]
fn an_idle_stream() {
    let mut script = Script::established(BOTH);
    script.send(A, 1, 100).run(1_000);
    script.reset(A, Direction::Both, &[1]).expect("taken");
    script.run(1_000);
    assert_eq!(script.requested(B), [(vec![1], true)]);
    let told =
        script.net.end(A).events.iter().any(|event| {
            matches!(event, Event::StreamsReset { direction: Direction::Incoming, idle: true, .. })
        });
    assert!(told);
}

/// After the messages of a stream are cancelled, the send buffer is empty. The stream can be used again without a
/// reset.
#[test]
fn nothing_is_left_behind() {
    let mut script = answering(BOTH);
    script.run(1).cancel(B, 1).run(5_000);
    let id = script.id(B);
    let info = script.net.end(B).engine.info(id).expect("the association is there");
    assert_eq!((info.buffered, info.outstanding), (0, 0));
    let stats = script.net.end(B).engine.stats(id).expect("the association is there");
    assert_eq!((stats.abandoned_unsent > 0, stats.abandoned_sent > 0), (true, true));
    script.send(B, 1, 3_000).send(B, 2, 3_000).run(1_000);
    assert!(script.net.ladder.take().contains("received sid=1 len=3000"));
}
