//! Opening a connection (RFC 9293 §3.5).

mod common;

use anabranch_tcp::testing::{Pair, Side};
use common::plain;
use expect_test::expect;

#[test]
fn three_segments_open_a_connection_and_data_flows() {
    let mut pair = Pair::new(&plain());
    pair.open();
    pair.write(Side::Left, b"hello");
    pair.settle();
    pair.write(Side::Right, b"world");
    pair.finish(Side::Left);
    pair.settle();
    pair.finish(Side::Right);
    pair.run_to_end(anabranch_base::Instant::from_millis(300_000));
    assert_eq!(pair.received[1], b"hello");
    assert_eq!(pair.received[0], b"world");
    expect![[r#"
           0.000  A ──► B   SYN           seq=0 win=60000 mss=1000
           0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=60000 mss=1000
           0.100  A connected
           0.100  A ──► B   ACK           seq=1 ack=1 win=60000
           0.150          B accepted
           0.150  A ──► B   PSH ACK       seq=1 len=5 ack=1 win=60000
           0.200  A ◄── B   ACK           seq=1 ack=6 win=59995
           0.250  A ◄── B   PSH ACK       seq=1 len=5 ack=6 win=59995
           0.250  A ──► B   FIN ACK       seq=6 ack=1 win=60000
           0.300  A ──► B   ACK           seq=7 ack=6 win=59995
           0.300          B sees the end
           0.300  A ◄── B   ACK           seq=6 ack=7 win=59994
           0.350  A ◄── B   FIN ACK       seq=6 ack=7 win=59994
           0.400  A sees the end
           0.400  A closed: closed by both sides
           0.400  A ──► B   ACK           seq=7 ack=7 win=59994
           0.450          B closed: closed by both sides
    "#]]
    .assert_eq(&pair.ladder());
}
