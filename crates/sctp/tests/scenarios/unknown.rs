//! Chunks and parameters that one side does not know (RFC 9260 §3.2, §3.2.1, §3.2.2).

use crate::net::{A, B, PORT};
use crate::script::Script;
use anabranch_wire::sctp::tlv::ChunkWriter;
use anabranch_wire::sctp::*;
use expect_test::expect;

/// RFC 9260 §3.2: the two highest bits of the type say how to handle an unknown chunk: 00 stop, 01 stop and report, 10
/// skip, 11 skip and report. The HEARTBEAT that follows in the packet shows whether the rest of the packet was
/// processed.
#[test]
fn chunks() {
    let mut script = Script::established(&[]);
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    for kind in [0x3e, 0x7e, 0xbe, 0xfe] {
        script.inject(A, tag, |b| {
            let mut chunk = ChunkWriter::open(b, kind, 0);
            chunk.bytes(b"new");
            chunk.close();
            Heartbeat { info: b"and then", rest: &[] }.emit(b);
        });
        script.run(100);
    }
    script.check(expect![[r#"
           1.000  A ──► B   CHUNK 62 flags=00 len=3; HEARTBEAT     injected
           1.100  A ──► B   CHUNK 126 flags=00 len=3; HEARTBEAT     injected
           1.125  A ◄── B   ERROR unrecognized-chunk(126)
           1.200  A ──► B   CHUNK 190 flags=00 len=3; HEARTBEAT     injected
           1.225  A ◄── B   HEARTBEAT ACK
           1.300  A ──► B   CHUNK 254 flags=00 len=3; HEARTBEAT     injected
           1.325  A ◄── B   ERROR unrecognized-chunk(254); HEARTBEAT ACK
    "#]]);
}

/// RFC 9260 §3.2.2: unknown parameters of an INIT are reported in the INIT ACK.
#[test]
fn parameters_of_an_init() {
    let mut script = Script::new(&[]);
    for kinds in [&[0x3f01_u16, 0x8000][..], &[0x7f01, 0x8000], &[0xbf01, 0x8000], &[0xff01, 0xc00a, 0x8000]]
    {
        script.inject_between(A, 999, PORT, 0, |b| {
            let init = Init {
                tag: 5,
                window: 9_000,
                outbound_streams: 1,
                inbound_streams: 1,
                tsn: Tsn(1),
                ..Init::default()
            };
            let mut chunk = init.open(b);
            for &kind in kinds {
                assert!(chunk.tlv(kind, &[&[1, 2, 3][..usize::from(kind != 0x8000) * 3]]));
            }
            chunk.close();
        });
        script.run(100);
    }
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 param=0x3f01 ecn     injected
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=1 is=10 tsn=1 …cookie
        0.050  A ──► B   ABORT T   vtag=A1
        0.100  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 param=0x7f01 ecn     injected
        0.125  A ◄── B   INIT ACK      tag=B2 rwnd=64k os=1 is=10 tsn=1 …cookie unrecognized=0x7f01
        0.150  A ──► B   ABORT T   vtag=A1
        0.200  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 param=0xbf01 ecn     injected
        0.225  A ◄── B   INIT ACK      tag=B3 rwnd=64k os=1 is=10 tsn=1 …cookie
        0.250  A ──► B   ABORT T   vtag=A1
        0.300  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 param=0xff01 param=0xc00a ecn     injected
        0.325  A ◄── B   INIT ACK      tag=B4 rwnd=64k os=1 is=10 tsn=1 …cookie unrecognized=0xff01 unrecognized=0xc00a
        0.350  A ──► B   ABORT T   vtag=A1
    "#]]);
}

/// RFC 9260 §3.3.2.1.4: an INIT with a host name is refused.
#[test]
fn a_host_name() {
    let mut script = Script::new(&[]);
    script.inject_between(A, 999, PORT, 0, |b| {
        let init = Init {
            tag: 5,
            window: 9_000,
            outbound_streams: 1,
            inbound_streams: 1,
            tsn: Tsn(1),
            ..Init::default()
        };
        let mut chunk = init.open(b);
        assert!(Param::HostName(b"old.example\0").emit(&mut chunk));
        chunk.close();
    });
    script.run(100);
    script.check(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 host=old.example\x00     injected
           0.025  A ◄── B   ABORT unresolvable-address
    "#]]);
}

/// RFC 9260 §3.3.10.2: an INIT ACK without a cookie is answered by ABORT.
#[test]
fn an_init_ack_without_a_cookie() {
    let mut script = Script::new(&[]);
    script.lose(A, "INIT").associate().run(10);
    let tag = script.net.ladder.numbers().latest_tag(A).expect("a tag");
    let (source, target) = script.ports(A);
    let ack = Init {
        tag: 5,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    script.inject_between(B, target, source, tag, |b| InitAck(ack).emit(b)).run(3_000);
    script.check_drawn(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
           0.010  A ◄── B   INIT ACK      tag=B1 rwnd=9000 os=1 is=1 tsn=1     injected
           0.035          A: closed: PeerViolated("3.3.3.1: the INIT ACK has no State Cookie")
           0.035  A ──► B   ABORT missing-param(7)
    "#]]);
}

/// RFC 9260 §3.2.2: unknown parameters of an INIT ACK are reported in an ERROR bundled with the COOKIE ECHO.
#[test]
fn parameters_of_an_init_ack() {
    let mut script = Script::new(&[]);
    script.lose(A, "INIT").associate().run(10);
    let tag = script.net.ladder.numbers().latest_tag(A).expect("a tag");
    let (source, target) = script.ports(A);
    let ack = Init {
        tag: 5,
        window: 9_000,
        outbound_streams: 1,
        inbound_streams: 1,
        tsn: Tsn(1),
        ..Init::default()
    };
    script.inject_between(B, target, source, tag, |b| {
        let mut chunk = InitAck(ack).open(b);
        assert!(Param::StateCookie(b"not B's").emit(&mut chunk));
        assert!(chunk.tlv(0xff01, &[&[1, 2, 3]]));
        chunk.close();
    });
    script.run(500);
    script.check_drawn(expect![[r#"
           0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4     ✗ lost
           0.010  A ◄── B   INIT ACK      tag=B1 rwnd=9000 os=1 is=1 tsn=1 …cookie param=0xff01     injected
           0.035  A ──► B   COOKIE ECHO; ERROR unrecognized-params=0xff01
    "#]]);
}

/// The length field of a chunk is larger than the rest of its packet. The chunks before this chunk are processed.
#[test]
fn a_length_that_lies() {
    let mut script = Script::established(&[]);
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    script.inject(A, tag, |b| {
        Heartbeat { info: b"first", rest: &[] }.emit(b);
        b.extend_from_slice(&[0, 3, 0x40, 0, 1, 2, 3, 4]);
    });
    script.run(100).send(A, 0, 10).run(1_000);
    script.check_drawn(expect![[r#"
           1.000  A ──► B   HEARTBEAT; (chunk type 0 has length 16384, which does not fit the packet)     injected
           1.025  A ◄── B   HEARTBEAT ACK
           1.100  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=10 BE
           1.125          B: received sid=0 len=10
           1.125  A ◄── B   SACK          cum=1 rwnd=64k
    "#]]);
}
