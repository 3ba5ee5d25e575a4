//! Packets without a checksum (RFC 9653).

use crate::net::{A, B, Flight, Net, Watch};
use crate::script::{Script, configured};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Packet};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::{CookieAck, Data, Init, PacketView, Ssn, Tsn, packet};
use expect_test::expect;

const ON: &[(&str, &str)] = &[("zero_checksum", "yes"), ("reconfig", "yes")];

/// An observer that records for each packet its sender, its first chunk, and whether it had a checksum.
#[derive(Default)]
struct Sums(Vec<(Side, &'static str, bool)>);

impl Watch for Sums {
    fn sent(&mut self, _net: &Net, from: Side, flight: &Flight) {
        let view = PacketView::parse_unverified(&flight.bytes).expect("a packet");
        let first = view.chunks().next().expect("a chunk").expect("a good chunk");
        let summed = PacketView::parse(&flight.bytes).is_ok();
        assert!(summed || packet::has_zero_checksum(&flight.bytes), "right, or zero");
        self.0.push((from, first.name(), summed));
    }

    fn arrives(&mut self, _net: &Net, _to: Side, _flight: &Flight) {}

    fn settled(&mut self, _net: &Net) {}
}

fn exchange(mut script: Script) -> (Vec<(Side, &'static str, bool)>, Script) {
    let mut sums = Sums::default();
    script.associate();
    let mut pass = |script: &mut Script, ms: u64| {
        let until = script.net.now + Duration::from_millis(ms);
        script.net.run_until(until, &mut *crate::net::rules_fate(), Some(&mut sums));
    };
    pass(&mut script, 1_000);
    script.send(A, 0, 3_000).send(B, 0, 10);
    pass(&mut script, 1_000);
    script.shutdown(A);
    pass(&mut script, 1_000);
    (sums.0, script)
}

/// RFC 9653 §5.1, §5.2: both sides announce that they accept packets without a checksum. From the COOKIE ACK on, only
/// the SHUTDOWN COMPLETE has a checksum.
#[test]
fn no_checksum_where_both_do_without() {
    let (sums, mut script) = exchange(Script::new(ON));
    let summed: Vec<_> = sums.iter().filter(|sum| sum.2).map(|sum| sum.1).collect();
    assert_eq!(summed, ["INIT", "INIT ACK", "COOKIE ECHO", "SHUTDOWN COMPLETE"]);
    assert!(sums.iter().filter(|sum| sum.1 == "DATA").count() >= 3);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 zero-checksum=1 extensions=130 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie zero-checksum=1 extensions=130
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 10 streams out, 10 in
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1452 B
        1.000  A ──► B   DATA          tsn=2 sid=0 ssn=0 len=1452
        1.000  A ──► B   DATA          tsn=3 sid=0 ssn=0 len=96 E
        1.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
        1.025  A ◄── B   SACK          cum=1 rwnd=64084
        1.025          B: received sid=0 len=3000
        1.025  A ◄── B   SACK          cum=3 rwnd=64k
        1.025          A: received sid=0 len=10
        1.025  A ──► B   SACK          cum=1 rwnd=64k
        2.000  A ──► B   SHUTDOWN      cum=1
        2.025          B: peer wants to shut down
        2.025  A ◄── B   SHUTDOWN ACK
        2.050          A: closed: Shutdown
        2.050  A ──► B   SHUTDOWN COMPLETE
        2.075          B: closed: Shutdown
    "#]]);
}

/// RFC 9653 §5.2 (1), §5.3: only one side announces that it accepts packets without a checksum. The other side ignores
/// the parameter. Both sides send all packets with a checksum.
#[test]
fn a_peer_that_does_not_know_it() {
    for (a, b) in [(ON, &[][..]), (&[][..], ON)] {
        let (sums, script) = exchange(Script::with(configured(a), configured(b), &[25]));
        assert!(sums.iter().all(|sum| sum.2), "{sums:?}");
        let totals = script.net.ends.iter().map(|end| end.engine.totals());
        assert_eq!(totals.map(|totals| totals.discarded).sum::<u64>(), 0);
    }
}

/// RFC 9653 §5.3: an INIT and a COOKIE ECHO without a checksum, and a packet with a wrong checksum, are discarded and
/// counted. Other packets need no checksum if the extension is enabled.
#[test]
fn packets_that_need_a_checksum() {
    for on in [true, false] {
        let changes: &[_] = if on { ON } else { &[] };
        let mut script = Script::established(changes);
        let numbers = script.net.ladder.numbers();
        let (tag, first) = (numbers.latest_tag(B).expect("a tag"), numbers.first(A).expect("a TSN"));
        let (source, target) = script.ports(A);
        let data = Data {
            tsn: Tsn(first),
            ssn: Ssn(0),
            begin: true,
            end: true,
            payload: b"bare",
            ..Data::default()
        };
        let init = Init {
            tag: 7,
            window: 9_000,
            outbound_streams: 1,
            inbound_streams: 1,
            tsn: Tsn(1),
            ..Init::default()
        };
        let mut hand = |from: u16, tag: u32, sum: [u8; 4], write: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            packet::begin(&mut bytes, from, target, tag);
            bytes[8..12].copy_from_slice(&sum);
            write(&mut bytes);
            let now = script.net.now;
            let (source, target) = (crate::net::address(A, 1), crate::net::address(B, 1));
            let packet = Packet { source, target, ecn: anabranch_base::Ecn::NotEct, tag: 0, payload: &bytes };
            let end = script.net.end(B);
            let before = end.engine.totals();
            end.engine.handle_packet(now, packet);
            end.engine.totals().unreadable - before.unreadable
        };
        // An INIT and a COOKIE ECHO with a checksum of zero are discarded. So is a packet with a wrong checksum that is
        // not zero.
        assert_eq!(hand(9, 0, [0; 4], &|b| init.emit(b)), 1);
        assert_eq!(hand(source, tag, [0; 4], &|b| b.extend_from_slice(&[10, 0, 0, 4])), 1);
        assert_eq!(hand(source, tag, [0, 0, 0, 1], &|b| data.emit(b)), 1);
        // This packet belongs to no association of B. If B has the extension enabled, B does not discard the packet: an
        // endpoint that has lost an association must answer.
        assert_eq!(hand(source, tag ^ 1, [0; 4], &|b| CookieAck.emit(b)), u64::from(!on));
        // This DATA belongs to the association and has a checksum of 0. It is accepted if the extension was negotiated.
        assert_eq!(hand(source, tag, [0; 4], &|b| data.emit(b)), u64::from(!on));
        let id = script.id(B);
        let stats = script.net.end(B).engine.stats(id).expect("it is up");
        assert_eq!(stats.data_received, u64::from(on));
    }
}
