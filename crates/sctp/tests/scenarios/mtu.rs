//! A path whose MTU is smaller than the sender assumes (RFC 9260 §6.9, §7.3).

use crate::net::{A, Narrow};
use crate::script::Script;
use expect_test::expect;

/// RFC 9260 §6.9, §7.3: the MTU of the only path drops during a transfer. Chunks that already have a TSN are sent
/// whole, in packets that the IP layer fragments. Later chunks are small enough for the path.
#[test]
fn the_only_path_narrows() {
    let mut script = Script::warm(&[]);
    script.net.narrow.insert(1, Narrow { mtu: 600, sends_icmp: true });
    script.send(A, 0, 3_500).run(1_000);
    script.check(expect![[r#"
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B     ✗ too big, told
        2.000  A ──► B   DATA          tsn=2 sid=0 ssn=1 len=1452 B     in fragments
        2.000  A ──► B   DATA          tsn=3 sid=0 ssn=1 len=552
        2.000  A ──► B   DATA          tsn=4 sid=0 ssn=1 len=552
        2.000  A ──► B   DATA          tsn=5 sid=0 ssn=1 len=552
        2.025  A ◄── B   SACK          cum=3 rwnd=63532
        2.025  A ◄── B   SACK          cum=5 rwnd=62428
        2.050  A ──► B   DATA          tsn=6 sid=0 ssn=1 len=392 E
        2.075          B: received sid=0 len=3500
        2.275  A ◄── B   SACK          cum=6 rwnd=64k
    "#]]);
    script.send(A, 0, 1_000).run(1_000);
    script.check(expect![[r#"
        3.000  A ──► B   DATA          tsn=7 sid=0 ssn=2 len=552 B
        3.000  A ──► B   DATA          tsn=8 sid=0 ssn=2 len=448 E
        3.025          B: received sid=0 len=1000
        3.025  A ◄── B   SACK          cum=8 rwnd=64k
    "#]]);
    assert_eq!(script.net.ends[0].engine.stats(script.id(A)).expect("stats").t3_expirations, 0);
}
