//! What other stacks do that one like ours would not (`interop/README.md`), and what comes of it.

use crate::net::{A, B};
use crate::script::{Script, configured};
use anabranch_wire::sctp::{Shutdown, Tsn};
use expect_test::expect;

/// RFC 9260 §9.2, §12.4: the Cumulative TSN Ack of a SHUTDOWN that lies beyond all that was sent
/// acknowledges nothing. The data goes on until a SACK acknowledges it, then comes the SHUTDOWN ACK.
#[test]
fn a_shutdown_for_the_future() {
    let mut script = Script::established(&[]);
    script.lose(A, "DATA").send(A, 0, 1_000).run(100);
    let numbers = script.net.ladder.numbers();
    let (tag, first) = (numbers.latest_tag(A).expect("a tag"), numbers.first(A).expect("a TSN"));
    let shutdown = Shutdown { cumulative: Tsn(first).plus(1_000_000) };
    script.inject(B, tag, |b| shutdown.emit(b)).run(1_400);
    script.check_drawn(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE     ✗ lost
        1.100  A ◄── B   SHUTDOWN      cum=1000001     injected
        1.125          A: peer wants to shut down
        2.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=1000 BE
        2.025          B: received sid=0 len=1000
        2.025  A ◄── B   SACK          cum=1 rwnd=64k
        2.050  A ──► B   SHUTDOWN ACK
    "#]]);
}

/// RFC 9260 §5.1.2: an INIT need not say which address types are supported.
#[test]
fn an_init_without_address_types() {
    let config = || configured(&[("address_types", "no")]);
    let mut script = Script::with(config(), config(), &[25]);
    script.associate().run(1_000);
    script.check_drawn(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO
        0.075          B: accepted, 10 streams out, 10 in
        0.075  A ◄── B   COOKIE ACK
        0.100          A: established, 10 streams out, 10 in
    "#]]);
}
