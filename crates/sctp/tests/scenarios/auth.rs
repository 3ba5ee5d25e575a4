//! Authenticated chunks (RFC 4895): the chunks that are signed, the chunks that are accepted, and the keys.

use crate::net::{self, A, B, PORT};
use crate::script::{Script, configured};
use anabranch_base::Rng;
use anabranch_sctp::{AssociationState, Direction, Endpoint, Event, KeyError, Message, SendError};
use anabranch_wire::sctp::*;
use expect_test::expect;

const ON: (&str, &str) = ("auth", "yes");

/// RFC 4895 §7: both sides support AUTH, but neither requires it for any chunk type. So no chunk is signed.
#[test]
fn nothing_is_signed_that_nobody_asks_for() {
    let mut script = Script::new(&[ON]);
    script.associate().send(A, 0, 100).run(1_000);
    script.shutdown(A).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=15 random hmac=sha256,sha1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie extensions=15 random hmac=sha256,sha1
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=100
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 10 streams out, 10 in
        1.000  A ──► B   SHUTDOWN      cum=0
        1.025          B: peer wants to shut down
        1.025  A ◄── B   SHUTDOWN ACK
        1.050          A: closed: Shutdown
        1.050  A ──► B   SHUTDOWN COMPLETE
        1.075          B: closed: Shutdown
    "#]]);
}

/// RFC 4895 §7, second example: B accepts only signed DATA, and A accepts any DATA. So only A signs its DATA.
#[test]
fn data_one_way() {
    let [a, b] = [&[ON][..], &[ON, ("auth_chunks", "data"), ("auth_hmac", "sha1")]].map(configured);
    let mut script = Script::with(a, b, &[25]);
    script.associate().send(A, 0, 100).run(1_000);
    script.send(A, 1, 3_000).send(B, 0, 100).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=15 random hmac=sha256,sha1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie extensions=15 random chunks=0,64 hmac=sha1
        0.050  A ──► B   COOKIE ECHO; AUTH key=0 hmac=sha1; DATA tsn=1 sid=0 ssn=0 len=100 BE
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=100
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 10 streams out, 10 in
        1.000  A ──► B   AUTH key=0 hmac=sha1; DATA tsn=2 sid=1 ssn=0 len=1424 B
        1.000  A ──► B   AUTH key=0 hmac=sha1; DATA tsn=3 sid=1 ssn=0 len=1424
        1.000  A ──► B   AUTH key=0 hmac=sha1; DATA tsn=4 sid=1 ssn=0 len=152 E
        1.000  A ◄── B   DATA          tsn=1 sid=0 ssn=0 len=100 BE
        1.025  A ◄── B   SACK          cum=3 rwnd=62688
        1.025          B: received sid=1 len=3000
        1.025          A: received sid=0 len=100
        1.025  A ──► B   SACK          cum=1 rwnd=64k
        1.225  A ◄── B   SACK          cum=4 rwnd=64k
    "#]]);
}

/// RFC 4895 §6.3: if an AUTH precedes a COOKIE ECHO, the AUTH is verified, although the association does not exist yet.
#[test]
fn everything_is_signed() {
    let mut script = Script::new(&[ON, ("auth_chunks", "all")]);
    script.associate().send(A, 0, 100).run(1_000);
    script.shutdown(A).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 extensions=15 random chunks=0,3,4,5,6,7,8,9,10,11,16,64,130,192,194 hmac=sha256,sha1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie extensions=15 random chunks=0,3,4,5,6,7,8,9,10,11,16,64,130,192,194 hmac=sha256,sha1
        0.050  A ──► B   AUTH key=0 hmac=sha256; COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=100
        0.075  A ◄── B   AUTH key=0 hmac=sha256; COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 10 streams out, 10 in
        1.000  A ──► B   AUTH key=0 hmac=sha256; SHUTDOWN cum=0
        1.025          B: peer wants to shut down
        1.025  A ◄── B   AUTH key=0 hmac=sha256; SHUTDOWN ACK
        1.050          A: closed: Shutdown
        1.050  A ──► B   SHUTDOWN COMPLETE
        1.075          B: closed: Shutdown
    "#]]);
}

/// If only one side supports AUTH, neither side uses AUTH.
#[test]
fn only_one_side_speaks_it() {
    let [a, b] = [&[][..], &[ON, ("auth_chunks", "all")]].map(configured);
    let mut script = Script::with(a, b, &[25]);
    script.associate().send(A, 0, 100).run(1_000);
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=64k os=10 is=10 tsn=1 families=v4
        0.025  A ◄── B   INIT ACK      tag=B1 rwnd=64k os=10 is=10 tsn=1 …cookie
        0.050  A ──► B   COOKIE ECHO; DATA tsn=1 sid=0 ssn=0 len=100 BE
        0.075          B: accepted, 10 streams out, 10 in
        0.075          B: received sid=0 len=100
        0.075  A ◄── B   COOKIE ACK; SACK cum=1 rwnd=64k
        0.100          A: established, 10 streams out, 10 in
    "#]]);
}

/// RFC 4895 §6.3: chunks that are unsigned or signed wrongly are silently discarded. An AUTH chunk with an HMAC that
/// the receiver did not list is answered with an ERROR.
#[test]
fn invalid_auth_chunks_are_discarded() {
    let mut script = Script::established(&[ON, ("auth_chunks", "data+abort"), ("auth_hmac", "sha1")]);
    let tag = script.net.ladder.numbers().latest_tag(B).expect("a tag");
    let first = script.net.ladder.numbers().first(A).expect("a TSN");
    let data = |b: &mut Vec<u8>| {
        Data { tsn: Tsn(first), begin: true, end: true, payload: b"forged", ..Data::default() }.emit(b);
    };
    let signed = |key, hmac, mac: &'static [u8]| {
        move |b: &mut Vec<u8>| {
            auth_chunk(key, hmac, mac, b);
            data(b);
        }
    };
    script.inject(A, tag, data).run(100);
    script.inject(A, tag, |b| Abort::default().emit(b)).run(100);
    // The AUTH chunk between the two HEARTBEATs has a wrong HMAC. A HEARTBEAT needs no signature, so the first is
    // answered. The second follows the AUTH chunk and is discarded.
    script.inject(A, tag, |b| {
        Heartbeat { info: b"me", rest: &[] }.emit(b);
        auth_chunk(0, 1, &[7; 20], b);
        Heartbeat { info: b"not me", rest: &[] }.emit(b);
    });
    script.run(100);
    script.inject(A, tag, signed(0, 1, &[0; 20])).run(100);
    script.inject(A, tag, signed(0, 1, &[0; 19])).run(100);
    script.inject(A, tag, signed(0, 1, &[])).run(100);
    script.inject(A, tag, signed(5, 1, &[0; 20])).run(100);
    script.inject(A, tag, signed(5, 1, &[0; 20])).run(100);
    script.inject(A, tag, signed(0, 3, &[0; 32])).run(100);
    let id = script.id(B);
    let stats = script.net.end(B).engine.stats(id).expect("it lives");
    assert_eq!((stats.auth_refused, stats.data_received), (9, 0));
    script.check(expect![[r#"
        1.000  A ──► B   DATA          tsn=1 sid=0 ssn=0 len=6 BE     injected
        1.100  A ──► B   ABORT     injected
        1.200  A ──► B   HEARTBEAT; AUTH key=0 hmac=sha1; HEARTBEAT     injected
        1.225  A ◄── B   HEARTBEAT ACK
        1.300  A ──► B   AUTH key=0 hmac=sha1; DATA tsn=1 sid=0 ssn=0 len=6 BE     injected
        1.400  A ──► B   AUTH key=0 hmac=sha1; DATA tsn=1 sid=0 ssn=0 len=6 BE     injected
        1.500  A ──► B   AUTH key=0 hmac=sha1; DATA tsn=1 sid=0 ssn=0 len=6 BE     injected
        1.600  A ──► B   AUTH key=5 hmac=sha1; DATA tsn=1 sid=0 ssn=0 len=6 BE     injected
        1.625          B: key 5: Unknown
        1.700  A ──► B   AUTH key=5 hmac=sha1; DATA tsn=1 sid=0 ssn=0 len=6 BE     injected
        1.800  A ──► B   AUTH key=0 hmac=sha256; DATA tsn=1 sid=0 ssn=0 len=6 BE     injected
        1.825  A ◄── B   ERROR unsupported-hmac(sha256)
    "#]]);
}

fn auth_chunk(key: u16, hmac: u16, mac: &[u8], b: &mut Vec<u8>) {
    anabranch_wire::sctp::Auth { key, hmac, mac }.emit(b);
}

/// RFC 4895 §6.1: keys are added, activated and deleted while data flows. A chunk whose key the receiver lacks is
/// delivered once the receiver has the key.
#[test]
fn keys_change() {
    let mut script = Script::warm(&[ON, ("auth_chunks", "data")]);
    for side in [A, B] {
        let id = script.id(side);
        script.net.end(side).engine.set_key(Some(id), 7, b"seven").expect("room");
    }
    let (a, b) = (script.id(A), script.id(B));
    script.net.end(A).engine.activate_key(Some(a), 7).expect("it is there");
    script.send(A, 0, 50).run(500);
    // A uses key 8, which B does not have yet.
    script.net.end(A).engine.set_key(Some(a), 8, b"eight").expect("room");
    script.net.end(A).engine.activate_key(Some(a), 8).expect("it is there");
    script.send(A, 0, 60).run(500);
    script.net.end(B).engine.set_key(Some(b), 8, b"eight").expect("room");
    script.run(2_000);
    // B gets key 8 with another value than A's. B discards A's DATA chunk until both have the same value.
    script.net.end(B).engine.set_key(Some(b), 8, b"ate").expect("room");
    script.send(A, 0, 70).run(500);
    script.net.end(B).engine.set_key(Some(b), 8, b"eight").expect("room");
    script.run(2_000);
    let now = script.net.now;
    script.net.end(A).engine.deactivate_key(now, a, 7).expect("not active");
    script.net.end(A).engine.delete_key(Some(a), 7).expect("not active");
    let engine = &mut script.net.end(A).engine;
    assert_eq!(engine.delete_key(Some(a), 8), Err(KeyError::Active));
    assert_eq!(engine.deactivate_key(now, a, 8), Err(KeyError::Active));
    assert_eq!(engine.activate_key(Some(a), 7), Err(KeyError::NoSuchKey));
    script.run(100);
    script.check(expect![[r#"
        2.000  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE
        2.025          B: key 7: PeerUses
        2.025          B: received sid=0 len=50
        2.225  A ◄── B   SACK          cum=2 rwnd=64k
        2.500  A ──► B   AUTH key=8 hmac=sha256; DATA tsn=3 sid=0 ssn=2 len=60 BE
        2.525          B: key 8: Unknown
        3.500  A ──► B   AUTH key=8 hmac=sha256; DATA tsn=3 sid=0 ssn=2 len=60 BE
        3.525          B: key 8: PeerUses
        3.525          B: received sid=0 len=60
        3.725  A ◄── B   SACK          cum=3 rwnd=64k
        5.000  A ──► B   AUTH key=8 hmac=sha256; DATA tsn=4 sid=0 ssn=3 len=70 BE
        7.000  A ──► B   AUTH key=8 hmac=sha256; DATA tsn=4 sid=0 ssn=3 len=70 BE
        7.025          B: received sid=0 len=70
        7.225  A ◄── B   SACK          cum=4 rwnd=64k
        7.500          A: key 7: Free
    "#]]);
}

/// RFC 4895 §6.3: a server that shares a key with its clients accepts no COOKIE ECHO from hosts without the key.
#[test]
fn a_cookie_echo_with_a_shared_key() {
    let changes: &[_] = &[ON, ("auth_chunks", "cookie_echo"), ("init_max_retrans", "1")];
    for (key, comes) in [(&b"ours"[..], true), (b"theirs", false)] {
        let mut script = Script::new(changes);
        for (side, secret) in [(A, key), (B, b"ours")] {
            let engine = &mut script.net.end(side).engine;
            engine.set_key(None, 1, secret).expect("room");
            engine.activate_key(None, 1).expect("it is there");
        }
        script.associate().run(10_000);
        assert_eq!(!script.net.end(B).ids.is_empty(), comes);
    }
}

/// RFC 4895 §6.3, §9: if COOKIE ECHO must be signed, a host without the key cannot restart the association. This holds
/// for a host that has lost its key, and for any other host.
#[test]
fn no_restart_without_the_key() {
    let mut script = Script::established(&[ON, ("auth_chunks", "cookie_echo")]);
    let (port, _) = script.ports(A);
    let id = script.id(B);
    // A's host reboots: a new endpoint without state replaces A's endpoint.
    let config = configured(&[ON, ("auth_chunks", "cookie_echo")]);
    script.net.end(A).engine = Endpoint::new(config, vec![net::address(A, 1)], Rng::new(77));
    script.net.associate_from(A, 1, Some(port), PORT);
    script.run(3_000);
    let info = script.net.end(B).engine.info(id).expect("it lives on");
    assert_eq!(info.state, AssociationState::Established);
    assert!(script.net.end(B).events.iter().all(|event| !matches!(event, Event::Restarted { .. })));
}

/// RFC 4895 §3.3, §6.1, RFC 5061 §6: an INIT with an invalid RANDOM or HMAC-ALGO, or with ASCONF but without AUTH, is
/// answered by ABORT.
#[test]
fn impossible_offers() {
    let mut script = Script::new(&[ON, ("asconf", "yes")]);
    let init = |random: &'static [u8], hmacs: &'static [u8], kinds: &'static [u8]| {
        move |b: &mut Vec<u8>| {
            let init = Init {
                tag: 5,
                window: 9_000,
                outbound_streams: 1,
                inbound_streams: 1,
                tsn: Tsn(1),
                ..Init::default()
            };
            let mut chunk = init.open(b);
            if !random.is_empty() {
                assert!(Param::Random(random).emit(&mut chunk) && Param::HmacAlgos(hmacs).emit(&mut chunk));
            }
            assert!(Param::SupportedExtensions(kinds).emit(&mut chunk));
            chunk.close();
        }
    };
    for init in [
        init(&[1; 31], &[0, 1], &[15]),
        init(&[1; 64], &[0, 1], &[15]),
        init(&[1; 32], &[0, 2, 0, 9], &[15]),
        init(&[1; 32], &[0, 1, 3], &[15]),
        init(&[1; 32], &[9; 200], &[15]),
        init(&[], &[], &[0xc1, 0x80]),
    ] {
        script.inject_between(A, 999, PORT, 0, init).run(100);
    }
    script.check(expect![[r#"
        0.000  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 random=31 hmac=sha1 extensions=15     injected
        0.025  A ◄── B   ABORT protocol-violation(RFC 4895 6.1: a RANDOM that is not 32 bytes long)
        0.100  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 random=64 hmac=sha1 extensions=15     injected
        0.125  A ◄── B   ABORT protocol-violation(RFC 4895 6.1: a RANDOM that is not 32 bytes long)
        0.200  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 random hmac=2,9 extensions=15     injected
        0.225  A ◄── B   ABORT protocol-violation(RFC 4895 6.1: an HMAC-ALGO without SHA-1)
        0.300  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 random hmac=sha1 extensions=15     injected
        0.325  A ◄── B   ABORT protocol-violation(RFC 4895 3.3: an HMAC-ALGO of an impossible length)
        0.400  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 random hmac=2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313,2313 extensions=15     injected
        0.425  A ◄── B   ABORT protocol-violation(RFC 4895 3.3: an HMAC-ALGO of an impossible length)
        0.500  A ──► B   INIT          tag=A1 rwnd=9000 os=1 is=1 tsn=1 extensions=193,128     injected
        0.525  A ◄── B   ABORT protocol-violation(RFC 5061 6: ASCONF is supported and AUTH is not)
    "#]]);
}

/// RFC 6458 §5.3.8: a message names the key that signs it, also when the message is retransmitted. Messages with
/// different keys are sent in separate packets. A message that names no key is signed with the active key.
#[test]
fn a_key_for_each_message() {
    let mut script = Script::warm(&[ON, ("auth_chunks", "data")]);
    for side in [A, B] {
        let id = script.id(side);
        for (key, secret) in [(7, b"seven"), (8, b"eight")] {
            script.net.end(side).engine.set_key(Some(id), key, secret).expect("room");
        }
    }
    let a = script.id(A);
    script.net.end(A).engine.activate_key(Some(a), 8).expect("it is there");
    let with = |key| Message { key, ..Message::default() };
    script.lose_times(A, "AUTH key=7", 3);
    for key in [Some(7), Some(7), None, Some(8), Some(0), Some(7)] {
        script.send_message(A, with(key), 50);
    }
    script.run(100);
    // Key 7 is deleted while messages that name it are unacknowledged. Key 8, which is active, must sign their
    // retransmissions. New messages that name key 7 must be refused.
    script.net.end(A).engine.delete_key(Some(a), 7).expect("not active");
    let now = script.net.now;
    let refused = script.net.end(A).engine.send(now, a, with(Some(7)), &[1]);
    assert_eq!(refused, Err(SendError::NoSuchKey));
    script.run(3_000);
    script.check(expect![[r#"
        2.000  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE; DATA tsn=3 sid=0 ssn=2 len=50 BE     ✗ lost
        2.000  A ──► B   AUTH key=8 hmac=sha256; DATA tsn=4 sid=0 ssn=3 len=50 BE; DATA tsn=5 sid=0 ssn=4 len=50 BE
        2.000  A ──► B   AUTH key=0 hmac=sha256; DATA tsn=6 sid=0 ssn=5 len=50 BE
        2.000  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=7 sid=0 ssn=6 len=50 BE     ✗ lost
        2.025          B: key 8: PeerUses
        2.025  A ◄── B   SACK          cum=1 rwnd=65436 gaps=4-5
        2.025          B: key 0: PeerUses
        2.025  A ◄── B   SACK          cum=1 rwnd=65386 gaps=4-6
        3.000  A ──► B   AUTH key=8 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE; DATA tsn=3 sid=0 ssn=2 len=50 BE; DATA tsn=7 sid=0 ssn=6 len=50 BE
        3.025          B: key 8: PeerUses
        3.025          B: received sid=0 len=50
        3.025          B: received sid=0 len=50
        3.025          B: received sid=0 len=50
        3.025          B: received sid=0 len=50
        3.025          B: received sid=0 len=50
        3.025          B: received sid=0 len=50
        3.025  A ◄── B   SACK          cum=7 rwnd=64k
    "#]]);
}

/// RFC 4895 §6.3: chunks signed with an unknown key are silently discarded. So if the sides have different keys, DATA
/// is never acknowledged. RFC 9260 §8.1: both sides then give up the association, although HEARTBEATs are answered. A
/// stream reset that waits for the DATA is answered "in progress". Neither these responses nor the HEARTBEAT ACKs keep
/// the association alive.
#[test]
fn without_a_key_in_common_everything_ends() {
    let settings = [
        ON,
        ("auth_chunks", "data"),
        ("reconfig", "yes"),
        ("hb_interval", "1s"),
        ("rto_max", "1s"),
        ("assoc_max_retrans", "3"),
    ];
    let mut script = Script::warm(&settings);
    for (side, secret) in [(A, b"one"), (B, b"two")] {
        let id = script.id(side);
        script.net.end(side).engine.set_key(Some(id), 0, secret).expect("room");
    }
    script.send(A, 0, 50);
    script.reset(A, Direction::Outgoing, &[0]).expect("nothing is on its way");
    script.shutdown(A).run(30_000);
    script.check_drawn(expect![[r#"
        2.000  A ──► B   AUTH key=0 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 IBE
        2.000  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=0)
        2.025  A ◄── B   RE-CONFIG response(#1 in-progress); SACK cum=1 rwnd=64k
        2.552  A ◄── B   HEARTBEAT
        2.577  A ──► B   HEARTBEAT ACK
        3.000  A ──► B   AUTH key=0 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE
        3.050  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=0)
        3.075  A ◄── B   RE-CONFIG response(#1 in-progress); SACK cum=1 rwnd=64k
        4.000  A ──► B   AUTH key=0 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE
        4.058  A ──► B   HEARTBEAT
        4.083  A ◄── B   HEARTBEAT ACK
        4.100  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=0)
        4.125  A ◄── B   RE-CONFIG response(#1 in-progress); SACK cum=1 rwnd=64k
        4.364  A ◄── B   HEARTBEAT
        4.389  A ──► B   HEARTBEAT ACK
        5.000  A ──► B   AUTH key=0 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE
        5.150  A ──► B   RE-CONFIG reset-out(#1 re=#0 last=2 sid=0)
        5.175  A ◄── B   RE-CONFIG response(#1 in-progress); SACK cum=1 rwnd=64k
        5.795  A ──► B   HEARTBEAT
        5.820  A ◄── B   HEARTBEAT ACK
        6.000          A: not delivered: sid=0 len=50 context=3, sent
        6.000          A: closed: Unreachable
        6.000  A ──► B   ABORT
        6.018  A ◄── B   HEARTBEAT
        6.025          B: closed: Aborted(None)
        6.043  A ──► B   ABORT T   vtag=A1
    "#]]);
}

/// RFC 6458 §8.3.4, §6.1.8: a deactivated key is reported as free once all chunks signed with the key are acknowledged
/// and no queued message needs the key.
#[test]
fn a_key_is_free_when_nothing_needs_it() {
    let mut script = Script::warm(&[ON, ("auth_chunks", "data")]);
    for side in [A, B] {
        let id = script.id(side);
        for (key, secret) in [(7, b"seven"), (8, b"eight")] {
            script.net.end(side).engine.set_key(Some(id), key, secret).expect("room");
        }
    }
    let a = script.id(A);
    let leave = |script: &mut Script, key| {
        let now = script.net.now;
        script.net.end(A).engine.deactivate_key(now, a, key).expect("not active");
    };
    // No chunk signed with key 8 is in flight, and no message is queued, so the key is free at once.
    leave(&mut script, 8);
    // The first message is lost. The second message needs many packets, some of which have not been sent yet.
    script.lose_times(A, "AUTH key=7", 1);
    for length in [50, 9_000] {
        script.send_message(A, Message { key: Some(7), ..Message::default() }, length);
    }
    leave(&mut script, 7);
    script.run(3_000);
    // The application activates key 8 again before the key becomes free.
    script.send_message(A, Message { key: Some(8), ..Message::default() }, 50);
    leave(&mut script, 8);
    script.net.end(A).engine.activate_key(Some(a), 8).expect("it is there");
    script.run(1_000);
    script.check(expect![[r#"
        2.000          A: key 8: Free
        2.000  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE; DATA tsn=3 sid=0 ssn=2 len=1344 B     ✗ lost
        2.000  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=4 sid=0 ssn=2 len=1412
        2.000  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=5 sid=0 ssn=2 len=1412
        2.000  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=6 sid=0 ssn=2 len=1412
        2.025          B: key 7: PeerUses
        2.025  A ◄── B   SACK          cum=1 rwnd=64124 gaps=4
        2.025  A ◄── B   SACK          cum=1 rwnd=62712 gaps=4-5
        2.025  A ◄── B   SACK          cum=1 rwnd=61300 gaps=4-6
        2.050  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=7 sid=0 ssn=2 len=1412
        2.050  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=8 sid=0 ssn=2 len=1412
        2.050  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=9 sid=0 ssn=2 len=596 E
        2.050  A ──► B   AUTH key=7 hmac=sha256; DATA tsn=2 sid=0 ssn=1 len=50 BE; DATA tsn=3 sid=0 ssn=2 len=1344 B
        2.075  A ◄── B   SACK          cum=1 rwnd=59888 gaps=4-7
        2.075  A ◄── B   SACK          cum=1 rwnd=58476 gaps=4-8
        2.075  A ◄── B   SACK          cum=1 rwnd=57880 gaps=4-9
        2.075          B: received sid=0 len=50
        2.075          B: received sid=0 len=9000
        2.075  A ◄── B   SACK          cum=9 rwnd=64k
        2.100          A: key 7: Free
        5.000  A ──► B   AUTH key=8 hmac=sha256; DATA tsn=10 sid=0 ssn=3 len=50 BE
        5.025          B: key 8: PeerUses
        5.025          B: received sid=0 len=50
        5.225  A ◄── B   SACK          cum=10 rwnd=64k
    "#]]);
}
