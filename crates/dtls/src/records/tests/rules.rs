//! Tests the protocol after the handshake: the loss of the handshake's last flight, tickets, key updates, alerts and
//! limits.

use super::harness::{
    HandshakePair, NEVER, RecordEndpoint, SUITES, V12, V13, connected_pair, unconnected_pair,
};
use crate::records::keys::{ACK, ALERT, HANDSHAKE};
use crate::records::{Records, RecordsEnd};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Encrypts `content` as a record of the content type `kind`, with the keys of our side. Returns the record.
fn send(end: &mut RecordEndpoint, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let sealed = match end.records() {
        Records::V12(records) => records.seal(kind, content, &mut out),
        Records::V13(records) => records.seal(kind, content, &mut out),
    };
    sealed.expect("sealed");
    out
}

/// Passes to `end` a datagram that contains no application data. Returns the datagrams that `end` sends and, if the
/// connection ends, the reason.
fn receive(end: &mut RecordEndpoint, datagram: &[u8]) -> (Vec<Vec<u8>>, Option<RecordsEnd>) {
    let (mut sent, now) = (Vec::new(), end.now);
    let ended = end.records().receive(
        now,
        &mut datagram.to_vec(),
        |_| panic!("a packet"),
        |datagram| sent.push(datagram.to_vec()),
    );
    (sent, ended)
}

fn expire(end: &mut RecordEndpoint) -> (Vec<Vec<u8>>, Option<RecordsEnd>) {
    let (mut sent, now) = (Vec::new(), end.now);
    let ended = end.records().expire(now, |datagram| sent.push(datagram.to_vec()));
    (sent, ended)
}

fn begin(end: &mut RecordEndpoint) {
    let now = end.now;
    end.records().begin(now);
}

/// Runs a handshake in which the client's first Finished message is lost. Returns the client and the server.
fn finished_in_vain() -> [RecordEndpoint; 2] {
    let mut pair = unconnected_pair(V13, NEVER, NEVER);
    pair.shake_hands(|from, number| (from, number) == (0, 1));
    let HandshakePair { mut ends, .. } = pair;
    assert!(ends[0].open && !ends[1].open);
    begin(&mut ends[0]);
    ends
}

#[test]
fn a_lost_finished_goes_again() {
    let [mut client, mut server] = finished_in_vain();
    assert_eq!(client.records().deadline(), Some(client.now + SECOND));
    assert!(expire(&mut client).0.is_empty());
    client.now += SECOND;
    let (sent, _) = expire(&mut client);
    assert_eq!((sent.len(), client.records().deadline()), (1, Some(client.now + SECOND * 2)));
    let (acknowledgement, _) = server.library(Some(&sent[0]));
    assert!(server.open);
    for datagram in acknowledgement {
        assert_eq!(receive(&mut client, &datagram), (vec![], None));
    }
    assert_eq!(client.records().deadline(), None);
}

#[test]
fn a_server_that_sends_its_flight_again_is_answered_at_once() {
    let [mut client, mut server] = finished_in_vain();
    for end in [&mut client, &mut server] {
        end.now += Duration::from_millis(1_500);
    }
    let (again, _) = server.library(None);
    let answers: Vec<_> = again.iter().flat_map(|datagram| receive(&mut client, datagram).0).collect();
    // Several records of the server's repeated flight arrive, and each shows that the client's Finished message was
    // lost. The client retransmits that message only once, not once for each record.
    assert_eq!(answers.len(), 1);
    server.library(Some(&answers[0]));
    assert!(server.open);
}

#[test]
fn a_client_that_nobody_answers_gives_up() {
    let [mut client, _] = finished_in_vain();
    let (mut sent, mut ended) = (1, None);
    while ended.is_none() {
        client.now = client.records().deadline().expect("it waits");
        let (more, why) = expire(&mut client);
        (sent, ended) = (sent + more.len(), why);
    }
    assert_eq!((sent, ended), (5, Some(RecordsEnd::TimedOut)));
    assert_eq!(client.now, Instant::ZERO + SECOND * (1 + 2 + 4 + 8 + 16));
}

#[test]
fn an_acknowledgement_that_was_lost_is_said_again() {
    let mut pair = unconnected_pair(V13, NEVER, NEVER);
    pair.shake_hands(|from, number| from == 1 && number >= 1);
    let HandshakePair { ends: [mut client, mut server], .. } = pair;
    assert!(client.open && server.open);
    begin(&mut client);
    begin(&mut server);
    client.now += SECOND;
    let (finished, _) = expire(&mut client);
    let (acknowledgement, ended) = receive(&mut server, &finished[0]);
    assert_eq!((acknowledgement.len(), ended), (1, None));
    // A second copy of the record is a replay, which is not acknowledged.
    assert_eq!(receive(&mut server, &finished[0]), (vec![], None));
    assert_eq!(receive(&mut client, &acknowledgement[0]), (vec![], None));
    assert_eq!(client.records().deadline(), None);
}

#[test]
fn a_lost_last_flight_of_dtls_1_2_goes_again_when_asked_for() {
    for suite in &SUITES[..3] {
        let mut pair = unconnected_pair(*suite, NEVER, NEVER);
        pair.shake_hands(|from, number| from == 1 && number >= 1);
        let HandshakePair { ends: [mut client, mut server], .. } = pair;
        assert!(!client.open && server.open);
        begin(&mut server);
        for _ in 0..2 {
            client.now += SECOND * 10;
            let (again, _) = client.library(None);
            let answers: Vec<_> =
                again.iter().flat_map(|datagram| receive(&mut server, datagram).0).collect();
            assert_eq!(answers.len(), 1, "{suite:?}");
            if client.now > Instant::ZERO + SECOND * 15 {
                client.library(Some(&answers[0]));
            }
        }
        assert!(client.open, "{suite:?}");
        begin(&mut client);
        // A packet from the client shows that the server's last flight has arrived, so the server drops the flight.
        let packet = client.ours_seals(b"a packet");
        assert_eq!(server.ours(&packet).0, [b"a packet"]);
        let finished = send(
            &mut client,
            HANDSHAKE,
            &[20, 0, 0, 12, 0, 4, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        );
        assert_eq!(receive(&mut server, &finished), (vec![], None));
    }
}

#[test]
fn tickets_are_acknowledged_and_forgotten() {
    let HandshakePair { ends: [mut client, mut server], .. } = connected_pair(V13, NEVER, NEVER);
    // The record contains the second fragment of a large ticket, and a complete ticket.
    let content =
        [&[4, 0, 8, 0, 0, 5, 0, 4, 0, 0, 0, 2, 9, 9][..], &[4, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 1, 7]].concat();
    let ticket = send(&mut server, HANDSHAKE, &content);
    let (sent, ended) = receive(&mut client, &ticket);
    assert_eq!((sent.len(), ended), (1, None));
    assert_eq!(receive(&mut server, &sent[0]), (vec![], None));
    // A client must not send tickets, so the server ends the connection.
    let ticket = send(&mut client, HANDSHAKE, &content);
    let (sent, ended) = receive(&mut server, &ticket);
    assert_eq!(ended, Some(RecordsEnd::Broken("a handshake message of no use")));
    assert_eq!(receive(&mut client, &sent[0]).1, Some(RecordsEnd::Alert(10)));
}

#[test]
fn an_update_of_keys_goes_again_until_it_is_acknowledged() {
    let HandshakePair { ends: [mut client, mut server], .. } = connected_pair(V13, NEVER, 10);
    let late = client.ours_seals(b"late");
    while !client.records().wants_update() {
        client.ours_seals(b"on its way");
    }
    let (first, _) = expire(&mut client);
    assert_eq!(first.len(), 1);
    assert!(!client.records().wants_update(), "not another one beside it");
    let mut again = Vec::new();
    for wait in [1, 2, 4] {
        assert_eq!(client.records().deadline(), Some(client.now + SECOND * wait));
        client.now += SECOND * wait;
        again = expire(&mut client).0;
        assert_eq!(again.len(), 1);
    }
    // The server applies the KeyUpdate once. It acknowledges both copies: the retransmitted copy, and the original
    // copy, which arrives later.
    let (acknowledgement, _) = receive(&mut server, &again[0]);
    let (once_more, _) = receive(&mut server, &first[0]);
    assert_eq!((acknowledgement.len(), once_more.len()), (1, 1));
    let old = client.ours_seals(b"old");
    assert_eq!(server.ours(&old).0, [b"old"]);
    receive(&mut client, &acknowledgement[0]);
    receive(&mut client, &once_more[0]);
    assert_eq!(client.records().deadline(), None);
    let new = client.ours_seals(b"new");
    for (datagram, packet) in [(new, &b"new"[..]), (late, b"late")] {
        assert_eq!(server.ours(&datagram).0, [packet]);
    }
    let (Records::V13(client), Records::V13(server)) = (client.records(), server.records()) else { panic!() };
    assert_eq!((client.next().0, server.receiving_epoch()), (4, 4), "once, however often it came");
}

#[test]
fn what_is_no_update_of_keys_is_refused() {
    for (body, says) in [(&[2][..], "a wrong update of keys"), (&[0, 0], "a wrong update of keys")] {
        let HandshakePair { ends: [mut client, mut server], .. } = connected_pair(V13, NEVER, NEVER);
        let length = body.len() as u8;
        let message = [&[24, 0, 0, length, 0, 9, 0, 0, 0, 0, 0, length], body].concat();
        let wrong = send(&mut client, HANDSHAKE, &message);
        let (sent, ended) = receive(&mut server, &wrong);
        assert_eq!(ended, Some(RecordsEnd::Broken(says)));
        assert_eq!(receive(&mut client, &sent[0]).1, Some(RecordsEnd::Alert(47)));
    }
}

#[test]
fn both_ends_say_goodbye() {
    for suite in SUITES {
        let HandshakePair { ends: [mut client, mut server], .. } = connected_pair(suite, NEVER, NEVER);
        let mut goodbye = Vec::new();
        client.records().close(&mut goodbye).expect("sealed");
        let (sent, ended) = receive(&mut server, &goodbye);
        assert_eq!((sent.len(), ended), (1, Some(RecordsEnd::Closed)), "{suite:?}");
        assert_eq!(receive(&mut client, &sent[0]).1, Some(RecordsEnd::Closed), "{suite:?}");
        // A closure alert from dimpl also ends the connection.
        let HandshakePair { ends: [mut client, mut server], .. } = connected_pair(suite, NEVER, NEVER);
        client.library.close().expect("closed");
        let (sent, _) = client.library(None);
        assert_eq!(receive(&mut server, &sent[0]).1, Some(RecordsEnd::Closed), "{suite:?}");
    }
}

#[test]
fn alerts_end_a_connection_unless_they_are_warnings() {
    for (suite, alert, ends) in [
        (V13, [2, 40], Some(RecordsEnd::Alert(40))),
        (V13, [1, 40], Some(RecordsEnd::Alert(40))),
        (V13, [1, 90], None),
        (V12, [2, 40], Some(RecordsEnd::Alert(40))),
        (V12, [1, 90], None),
    ] {
        let HandshakePair { ends: [mut client, mut server], .. } = connected_pair(suite, NEVER, NEVER);
        let sent = send(&mut client, ALERT, &alert);
        assert_eq!(receive(&mut server, &sent).1, ends, "{suite:?} {alert:?}");
    }
}

#[test]
fn there_is_no_renegotiation() {
    for (from, kind) in [(0, 1), (1, 0)] {
        let HandshakePair { mut ends, .. } = connected_pair(V12, NEVER, NEVER);
        let message = send(&mut ends[from], HANDSHAKE, &[kind, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0]);
        let (sent, ended) = receive(&mut ends[1 - from], &message);
        assert_eq!((sent.len(), ended), (1, None));
        // The answer is a warning, which does not end the connection.
        assert_eq!(receive(&mut ends[from], &sent[0]), (vec![], None));
        let packet = ends[from].ours_seals(b"goes on");
        assert_eq!(ends[1 - from].ours(&packet).0, [b"goes on"]);
    }
}

/// No record is encrypted beyond the limit of a key (DTLS 1.3) or of the record number (DTLS 1.2).
#[test]
fn nothing_is_sealed_past_a_limit() {
    for suite in [V12, V13] {
        let HandshakePair { ends: [mut client, _], .. } = connected_pair(suite, NEVER, NEVER);
        let records = client.records();
        match records {
            Records::V12(records) => *records.next() = (1 << 48) - 1,
            // RFC 8446 §5.5: one key may encrypt 2^24.5 records.
            Records::V13(records) => *records.next().1 = 2_f64.powf(24.5) as u64 - 1,
        }
        assert!(records.may_seal() && records.seal(b"the last", &mut Vec::new()).is_some(), "{suite:?}");
        let mut out = Vec::new();
        assert!(!records.may_seal() && records.seal(b"one more", &mut out).is_none(), "{suite:?}");
        assert!(records.close(&mut out).is_none() && out.is_empty(), "{suite:?}");
    }
}

/// Malformed acknowledgements are ignored, and so are acknowledgements of records that were never sent.
#[test]
fn wrong_acknowledgements_change_nothing() {
    let HandshakePair { ends: [mut client, mut server], .. } = connected_pair(V13, NEVER, 5);
    while !client.records().wants_update() {
        client.ours_seals(b"on its way");
    }
    expire(&mut client);
    let number = |epoch: u64, number: u64| [epoch.to_be_bytes(), number.to_be_bytes()].concat();
    for content in [
        vec![],
        vec![0],
        [&[0, 16][..], &number(3, 4)].concat(),
        [&[0, 16][..], &number(4, 5)].concat(),
        [&[0, 15][..], &number(3, 5)].concat(),
        [&[0, 32][..], &number(3, 5)].concat(),
    ] {
        let sent = send(&mut server, ACK, &content);
        assert_eq!(receive(&mut client, &sent), (vec![], None));
        assert!(client.records().deadline().is_some(), "{content:?}");
    }
    let sent = send(&mut server, ACK, &[&[0, 16][..], &number(3, 5)].concat());
    receive(&mut client, &sent);
    assert_eq!(client.records().deadline(), None);
}
