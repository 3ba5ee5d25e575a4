//! Tests the sockets of two endpoints on a network without delay.

use super::inbox::MAX_WAITING;
use super::*;
use crate::config::Config;
use crate::testing::{transmit_all, transmit_all_bytes};
use anabranch_base::Rng;
use std::net::SocketAddr;

const NOW: Instant = Instant::ZERO;

fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 0))
}

fn pair() -> [Sockets; 2] {
    [1, 2].map(|n| {
        let config = Config::default();
        Sockets::new(Endpoint::new(config, vec![address(n)], Rng::new(n.into())))
    })
}

/// Delivers packets between both endpoints until neither endpoint has packets to send.
fn settle(ends: &mut [Sockets; 2], now: Instant) {
    let (mut silent, mut from) = (0, 0);
    while silent < 2 {
        let packets = transmit_all(&mut ends[from], now);
        silent = if packets.is_empty() { silent + 1 } else { 0 };
        from = 1 - from;
        packets.iter().for_each(|packet| ends[from].handle_packet(now, packet.packet()));
    }
}

/// Returns a connected one-to-one socket of the first endpoint and the accepted socket of the second.
fn connected(ends: &mut [Sockets; 2]) -> (SocketId, SocketId) {
    let listener = ends[1].socket(Style::OneToOne);
    ends[1].bind(listener, 80).expect("a free port");
    ends[1].listen(listener, 1).expect("listens");
    let client = ends[0].socket(Style::OneToOne);
    assert_eq!(ends[0].connect(NOW, client, &[address(2)], 80), Err(Errno::InProgress));
    assert_eq!(ends[0].connect(NOW, client, &[address(2)], 80), Err(Errno::Already));
    assert_eq!(ends[1].accept(listener), Err(Errno::Again));
    settle(ends, NOW);
    assert_eq!(ends[0].connect(NOW, client, &[address(2)], 80), Err(Errno::IsConnected));
    (client, ends[1].accept(listener).expect("one waits"))
}

#[test]
fn a_shutdown_shows_as_the_end_of_file_and_a_pipe() {
    let mut ends = pair();
    let (client, server) = connected(&mut ends);
    ends[0].send(NOW, client, b"last words", SndInfo::default()).expect("room");
    ends[0].shutdown(NOW, client, ShutdownHow::Write).expect("connected");
    assert_eq!(ends[0].send(NOW, client, b"more", SndInfo::default()), Err(Errno::Pipe));
    settle(&mut ends, NOW);
    let mut buffer = [0; 4];
    let first = ends[1].recv(NOW, server, &mut buffer).expect("data");
    assert!(matches!(first, Incoming::Data { bytes: 4, end_of_record: false, .. }), "{first:?}");
    let mut buffer = [0; 100];
    let second = ends[1].recv(NOW, server, &mut buffer).expect("data");
    assert!(matches!(second, Incoming::Data { bytes: 6, end_of_record: true, .. }), "{second:?}");
    settle(&mut ends, NOW);
    assert_eq!(ends[1].recv(NOW, server, &mut buffer), Ok(Incoming::EndOfFile));
    assert_eq!(ends[0].recv(NOW, client, &mut buffer), Ok(Incoming::EndOfFile));
}

/// RFC 9260 §6.9, RFC 6458 §8.1.11: with fragmentation turned off, a message that does not fit into one packet is
/// rejected.
#[test]
fn oversized_messages_are_refused_without_fragmentation() {
    let mut ends = pair();
    let (client, _) = connected(&mut ends);
    assert_eq!(ends[0].set_option(NOW, client, Scope::Future, SocketOption::DisableFragments(true)), Ok(()));
    // The largest message is 1500 bytes minus the headers of IP, SCTP and DATA.
    assert_eq!(ends[0].send(NOW, client, &[7; 1_453], SndInfo::default()), Err(Errno::MessageSize));
    assert_eq!(ends[0].send(NOW, client, &[7; 1_452], SndInfo::default()), Ok(1_452));
}

/// RFC 6458 §5.3.5, RFC 8260 §4.1: if a message is read in parts, each part comes with the TSN, SSN and stream of the
/// message.
#[test]
fn messages_tell_their_numbers() {
    for interleaving in ["no", "yes"] {
        let mut ends = [1, 2].map(|n| {
            let mut config = Config::default();
            config.set("interleaving", interleaving).expect("a known key");
            Sockets::new(Endpoint::new(config, vec![address(n)], Rng::new(n.into())))
        });
        let (client, server) = connected(&mut ends);
        let association = ends[1].associations(server)[0];
        let before = ends[1].endpoint().cumulative_tsn(association);
        // The second message has four chunks.
        for (stream, unordered, bytes) in [(1, false, 10), (1, false, 5_000), (1, false, 10), (2, true, 10)] {
            let info = SndInfo { stream, unordered, ..SndInfo::default() };
            ends[0].send(NOW, client, &vec![7; bytes], info).expect("room");
        }
        settle(&mut ends, NOW);
        assert_eq!(ends[1].endpoint().interleaves(association), interleaving == "yes");
        let (mut buffer, mut messages) = ([0; 1_500], Vec::new());
        while let Ok(Incoming::Data { info, .. }) = ends[1].recv(NOW, server, &mut buffer) {
            assert_eq!(info.cumulative_tsn.wrapping_sub(before), 7);
            messages.push((info.stream, info.ssn, info.tsn.wrapping_sub(before)));
        }
        messages.sort_unstable();
        let parts = (1, 1, 2);
        assert_eq!(messages, [(1, 0, 1), parts, parts, parts, parts, (1, 2, 6), (2, 0, 7)], "{interleaving}");
    }
}

#[test]
fn an_abort_shows_in_the_error_once() {
    let mut ends = pair();
    let (client, server) = connected(&mut ends);
    // RFC 6458 §8.1.4: the option returns each linger time that was set. A linger time of 0 makes `close` abort the
    // association.
    for linger in [Some(5), None, Some(0)] {
        ends[0].set_option(NOW, client, Scope::Future, SocketOption::Linger(linger)).expect("an option");
        let read = ends[0].option(client, Scope::Future, OptionName::Linger);
        assert_eq!(read, Ok(SocketOption::Linger(linger)));
    }
    ends[0].close(NOW, client).expect("open");
    settle(&mut ends, NOW);
    assert!(ends[1].poll(server).expect("open").error);
    let mut error = || ends[1].option(server, Scope::Future, OptionName::Error);
    assert_eq!(error(), Ok(SocketOption::Error(Some(Errno::Reset))));
    assert_eq!(error(), Ok(SocketOption::Error(None)));
    assert_eq!(ends[0].close(NOW, client), Err(Errno::BadSocket));
}

#[test]
fn one_to_many_sockets_name_associations_and_peel_them_off() {
    let mut ends = pair();
    let server = ends[1].socket(Style::OneToMany);
    ends[1].bind(server, 80).expect("a free port");
    ends[1].listen(server, 1).expect("listens");
    for kind in [EventKind::AssociationChange, EventKind::Shutdown] {
        ends[1].set_option(NOW, server, Scope::All, SocketOption::Event(kind, true)).expect("an option");
    }
    let client = ends[0].socket(Style::OneToMany);
    let dry = SocketOption::Event(EventKind::SenderDry, true);
    ends[0].set_option(NOW, client, Scope::All, dry).expect("an option");
    let info = SndInfo { stream: 3, ppid: 7, ..SndInfo::default() };
    assert_eq!(ends[0].send_to(NOW, client, b"hello", address(2), 80, info), Ok(5));
    settle(&mut ends, Instant::from_millis(1));
    let mut buffer = [0; 100];
    let up = ends[1].recv(NOW, server, &mut buffer).expect("a notification");
    let Incoming::Notification(Notification::AssociationChange { association, change, .. }) = up else {
        panic!("{up:?}");
    };
    assert_eq!(change, AssociationChange::Up);
    let read = ends[1].recv(NOW, server, &mut buffer).expect("the message");
    let Incoming::Data { bytes: 5, info, .. } = read else { panic!("{read:?}") };
    assert_eq!((info.stream, info.ppid, info.association), (3, 7, association));
    assert_eq!(ends[1].recv(NOW, server, &mut buffer), Err(Errno::Again));
    // The peer may have delayed its SACK. The peer's SACK timer must expire before the client learns that all data is
    // acknowledged.
    ends[1].handle_timeout(Instant::from_millis(500));
    settle(&mut ends, Instant::from_millis(500));
    let notification = ends[0].recv(NOW, client, &mut buffer);
    assert!(
        matches!(notification, Ok(Incoming::Notification(Notification::SenderDry { .. }))),
        "{notification:?}"
    );
    let own = ends[1].peel_off(server, association).expect("it is there");
    assert_eq!(ends[1].associations(server), []);
    ends[1].send(NOW, own, b"back", SndInfo::default()).expect("room");
    settle(&mut ends, Instant::from_millis(500));
    assert!(matches!(ends[0].recv(NOW, client, &mut buffer), Ok(Incoming::Data { bytes: 4, .. })));
}

#[test]
fn options_reach_associations_that_are_there_and_those_to_come() {
    let mut ends = pair();
    let (client, _) = connected(&mut ends);
    let wrong = RtoInfo { min: Some(Duration::from_secs(90)), ..RtoInfo::default() };
    let set = ends[0].set_option(NOW, client, Scope::Future, SocketOption::RtoInfo(wrong));
    assert_eq!(set, Err(Errno::Invalid));
    // RFC 6458 §8.1.1: sets the RTO bounds of one association, which may differ from those of future associations.
    let association = ends[0].associations(client)[0];
    let bound = |min: Option<u64>, max: Option<u64>| {
        let [initial, min, max] = [max, min, max].map(|ms| ms.map(Duration::from_millis));
        SocketOption::RtoInfo(RtoInfo { initial, min, max })
    };
    let one = Scope::One(association);
    assert_eq!(ends[0].set_option(NOW, client, one, bound(Some(100), Some(500))), Ok(()));
    assert_eq!(ends[0].set_option(NOW, client, one, bound(Some(1_000), None)), Err(Errno::Invalid));
    assert_eq!(ends[0].set_option(NOW, client, one, bound(None, Some(50))), Err(Errno::Invalid));
    let bounds = ends[0].endpoint().config_of(association).map(|config| (config.rto_min, config.rto_max));
    assert_eq!(bounds, Some((Duration::from_millis(100), Duration::from_millis(500))));
    let params = PeerAddrParams { heartbeats: Some(false), ..PeerAddrParams::default() };
    ends[0].set_option(NOW, client, Scope::Future, SocketOption::PeerAddrParams(params)).expect("an option");
    // A stopped timer may still wake the driver, without effect.
    ends[0].handle_timeout(Instant::from_millis(100_000));
    let sent = transmit_all_bytes(&mut ends[0], Instant::from_millis(100_000));
    assert!(sent.is_empty() && ends[0].poll_timeout().is_none(), "no heartbeat is due any more");
    let Ok(SocketOption::Status(status)) = ends[0].option(client, Scope::Future, OptionName::Status) else {
        panic!("a status");
    };
    assert_eq!(status.state, crate::AssociationState::Established);
    assert_eq!(status.primary.address, address(2).ip());
}

#[test]
fn what_is_idle_too_long_is_closed() {
    let mut ends = pair();
    let (one, server) = connected(&mut ends);
    let span = Duration::from_secs(5);
    let option = SocketOption::Autoclose(Some(span));
    // RFC 6458 §8.1.8, §8.2.5: autoclose and the association count exist for one-to-many sockets only.
    assert_eq!(ends[0].set_option(NOW, one, Scope::All, option.clone()), Err(Errno::NotSupported));
    assert_eq!(ends[0].option(one, Scope::Future, OptionName::AssociationCount), Err(Errno::NotSupported));
    ends[0].close(NOW, one).expect("a socket");
    settle(&mut ends, NOW);
    assert_eq!(ends[1].recv(NOW, server, &mut [0; 10]), Ok(Incoming::EndOfFile));
    let listener = ends[1].socket(Style::OneToOne);
    ends[1].bind(listener, 81).expect("a free port");
    ends[1].listen(listener, 1).expect("listens");
    let client = ends[0].socket(Style::OneToMany);
    assert_eq!(ends[0].connect(NOW, client, &[address(2)], 81), Err(Errno::InProgress));
    settle(&mut ends, NOW);
    let server = ends[1].accept(listener).expect("one waits");
    ends[0].set_option(NOW, client, Scope::All, option).expect("an option");
    while let Some(due) = ends[0].poll_timeout().filter(|&due| due <= Instant::from_millis(5_000)) {
        assert_eq!(ends[1].recv(NOW, server, &mut [0; 10]), Err(Errno::Again));
        ends[0].handle_timeout(due);
    }
    settle(&mut ends, Instant::from_millis(5_000));
    assert_eq!(ends[1].recv(NOW, server, &mut [0; 10]), Ok(Incoming::EndOfFile));
}

#[test]
fn extensions_are_switched_by_the_socket_and_tell_what_came_of_requests() {
    let mut ends = pair();
    let listener = ends[1].socket(Style::OneToOne);
    let client = ends[0].socket(Style::OneToOne);
    ends[1].bind(listener, 80).expect("a free port");
    let reconfig = SocketOption::Supported(Extension::Reconfig, true);
    ends[1].set_option(NOW, listener, Scope::Future, reconfig.clone()).expect("an option");
    ends[0].set_option(NOW, client, Scope::Future, reconfig.clone()).expect("an option");
    // RFC 5061 §4.2.6: the adaptation code point can be set although ASCONF is disabled.
    let adaptation = SocketOption::Adaptation(Some(99));
    ends[0].set_option(NOW, client, Scope::Future, adaptation).expect("an option");
    for kind in [EventKind::StreamReset, EventKind::StreamChange, EventKind::Adaptation] {
        for (end, id) in [(0, client), (1, listener)] {
            ends[end].set_option(NOW, id, Scope::All, SocketOption::Event(kind, true)).expect("an option");
        }
    }
    ends[1].listen(listener, 1).expect("listens");
    let reset = StreamRequest::Reset(crate::Direction::Outgoing, vec![3]);
    assert_eq!(ends[0].request_streams(NOW, client, Scope::Future, &reset), Err(Errno::Invalid));
    assert_eq!(ends[0].connect(NOW, client, &[address(2)], 80), Err(Errno::InProgress));
    settle(&mut ends, NOW);
    let server = ends[1].accept(listener).expect("one waits");
    let on = ends[1].option(server, Scope::Future, OptionName::Supported(Extension::Reconfig));
    assert_eq!(on, Ok(reconfig));
    let mut buffer = [0; 10];
    let notification = ends[1].recv(NOW, server, &mut buffer);
    let Ok(Incoming::Notification(Notification::Adaptation { indication: 99, .. })) = notification else {
        panic!("{notification:?}");
    };
    ends[0].request_streams(NOW, client, Scope::Future, &reset).expect("negotiated");
    settle(&mut ends, NOW);
    for (end, id, direction) in
        [(0, client, crate::Direction::Outgoing), (1, server, crate::Direction::Incoming)]
    {
        let notification = ends[end].recv(NOW, id, &mut buffer);
        let Ok(Incoming::Notification(Notification::StreamReset {
            streams,
            direction: d,
            failed: false,
            ..
        })) = notification
        else {
            panic!("{notification:?}");
        };
        assert_eq!((streams, d), (vec![3], direction));
    }
    let more = StreamRequest::Add { outbound: 7, inbound: 0 };
    ends[0].request_streams(NOW, client, Scope::Future, &more).expect("negotiated");
    settle(&mut ends, NOW);
    let notification = ends[0].recv(NOW, client, &mut buffer);
    let changed = matches!(
        notification,
        Ok(Incoming::Notification(Notification::StreamChange { outbound_streams: 107, failed: false, .. }))
    );
    assert!(changed, "{notification:?}");
}

#[test]
fn thresholds_keys_and_values_have_their_bounds() {
    let mut ends = pair();
    let (client, _) = connected(&mut ends);
    let wrong = PeerAddrThresholds { max_retrans: Some(3), potentially_failed: Some(4), switchover: None };
    let set = ends[0].set_option(NOW, client, Scope::Future, SocketOption::PeerAddrThresholds(wrong));
    assert_eq!(set, Err(Errno::Invalid));
    let right = PeerAddrThresholds { potentially_failed: Some(1), ..wrong };
    let option = SocketOption::PeerAddrThresholds(right);
    ends[0].set_option(NOW, client, Scope::Future, option.clone()).expect("an option");
    assert_eq!(ends[0].option(client, Scope::Future, OptionName::PeerAddrThresholds), Ok(option));
    // INIT chunks cannot be authenticated.
    let chunk = |kind| SocketOption::AuthChunk(kind);
    assert_eq!(ends[0].set_option(NOW, client, Scope::Future, chunk(1)), Err(Errno::Invalid));
    assert_eq!(ends[0].set_option(NOW, client, Scope::Future, chunk(0)), Ok(()));
    let key = KeyRequest::Set(1, b"secret".to_vec());
    assert_eq!(ends[0].request_key(NOW, client, Scope::Future, &key), Err(Errno::NotSupported));
    let keyed = SendInfo { auth: Some(AuthInfo { key: 1 }), ..SendInfo::default() };
    assert_eq!(ends[0].send(NOW, client, b"unsigned", keyed), Err(Errno::Invalid), "nothing is signed");
    assert_eq!(ends[0].set_stream_value(NOW, client, Scope::Future, 200, 1), Err(Errno::Invalid));
    assert_eq!(ends[0].set_stream_value(NOW, client, Scope::Future, 2, 1), Ok(()));
    let stranger = address(9).ip();
    assert_eq!(ends[0].set_remote_udp_port(NOW, client, Scope::Future, stranger, 9899), Err(Errno::Invalid));
}

#[test]
fn a_message_that_is_given_up_comes_back_as_a_notification() {
    let mut ends = pair();
    let listener = ends[1].socket(Style::OneToOne);
    let client = ends[0].socket(Style::OneToOne);
    ends[1].bind(listener, 80).expect("a free port");
    for (end, id) in [(0, client), (1, listener)] {
        let option = SocketOption::Supported(Extension::PartialReliability, true);
        ends[end].set_option(NOW, id, Scope::Future, option).expect("an option");
    }
    ends[1].listen(listener, 1).expect("listens");
    let failed = SocketOption::Event(EventKind::SendFailed, true);
    ends[0].set_option(NOW, client, Scope::Future, failed).expect("an option");
    assert_eq!(ends[0].connect(NOW, client, &[address(2)], 80), Err(Errno::InProgress));
    settle(&mut ends, NOW);
    let snd = SndInfo { stream: 1, context: 77, ..SndInfo::default() };
    let info = SendInfo { snd, pr: PrInfo::Lifetime(50), auth: None };
    ends[0].send(NOW, client, &[1; 200], info).expect("room");
    // The message is sent and lost, and its lifetime ends before it can be retransmitted.
    transmit_all_bytes(&mut ends[0], NOW);
    while let Some(due) = ends[0].poll_timeout().filter(|&due| due < Instant::from_millis(5_000)) {
        ends[0].handle_timeout(due);
        transmit_all_bytes(&mut ends[0], due);
    }
    let notification = ends[0].recv(NOW, client, &mut [0; 10]);
    let Ok(Incoming::Notification(Notification::SendFailed { sent, context, stream, bytes, .. })) =
        notification
    else {
        panic!("{notification:?}");
    };
    assert_eq!((sent, context, stream, bytes), (true, 77, 1, 200));
    let counted = ends[0].abandoned(client, Scope::Current, None, None).expect("an association");
    assert_eq!((counted.sent, counted.unsent), (1, 0));
}

/// Reads all messages and notifications of a socket, and returns one text for each, in order. The text of a message has
/// its stream and its first byte, for example `1:b`, or `1u:d` for an unordered message.
fn read_all(end: &mut Sockets, id: SocketId) -> Vec<String> {
    let mut read = Vec::new();
    let mut buffer = [0; 4_000];
    while let Ok(incoming) = end.recv(NOW, id, &mut buffer) {
        read.push(match incoming {
            Incoming::Data { info, bytes, .. } => {
                let suffix = if info.unordered { "u" } else { "" };
                format!("{}{suffix}:{}", info.stream, String::from_utf8_lossy(&buffer[..bytes.min(1)]))
            }
            Incoming::Notification(Notification::SendFailed { context, sent, .. }) => {
                format!("failed {context} {}", if sent { "sent" } else { "unsent" })
            }
            Incoming::Notification(notification) => format!("{:?}", notification.kind()),
            Incoming::EndOfFile => "end".into(),
        });
        if read.last().is_some_and(|last| last == "end") {
            break;
        }
    }
    read
}

/// RFC 9260 §11.1.7: a read that names no stream returns the message that became readable first, on any stream. A
/// notification is read after the messages that had arrived before it.
#[test]
fn messages_are_read_in_the_order_of_their_arrival() {
    let mut ends = pair();
    let (client, server) = connected(&mut ends);
    for kind in [EventKind::Shutdown, EventKind::Adaptation] {
        let wanted = SocketOption::Event(kind, true);
        ends[1].set_option(NOW, server, Scope::Current, wanted).expect("an option");
    }
    let order = [
        (3, false, b"a"),
        (1, false, b"b"),
        (3, false, b"c"),
        (1, true, b"d"),
        (1, false, b"e"),
        (0, true, b"f"),
    ];
    for (stream, unordered, text) in order {
        let info = SndInfo { stream, unordered, ..SndInfo::default() };
        ends[0].send(NOW, client, text, info).expect("room");
        settle(&mut ends, NOW);
    }
    let mut next = [0; 1];
    assert!(matches!(ends[1].recv(NOW, server, &mut next), Ok(Incoming::Data { .. })));
    assert_eq!(&next, b"a");
    for stream in [2, 3] {
        let info = SndInfo { stream, immediate: true, ..SndInfo::default() };
        ends[0].send(NOW, client, b"g", info).expect("room");
        settle(&mut ends, NOW);
    }
    ends[0].shutdown(NOW, client, ShutdownHow::Write).expect("connected");
    settle(&mut ends, NOW);
    let expected = ["1:b", "3:c", "1u:d", "1:e", "0u:f", "2:g", "3:g", "Shutdown", "end"];
    assert_eq!(read_all(&mut ends[1], server), expected);
}

/// RFC 6458 §6.1.11: when an association ends, `SendFailed` is reported for every undelivered message. The end of the
/// association is reported after that.
#[test]
fn undelivered_messages_are_reported_when_the_association_ends() {
    for by_peer in [false, true] {
        let mut ends = pair();
        let (client, server) = connected(&mut ends);
        for kind in [EventKind::SendFailed, EventKind::AssociationChange] {
            let wanted = SocketOption::Event(kind, true);
            ends[0].set_option(NOW, client, Scope::Current, wanted).expect("an option");
        }
        // Sends 3,000 messages, more than the 1024 notifications that a socket queues.
        for context in 1..=3_000 {
            let info = SndInfo { stream: (context % 7) as u16, context, ..SndInfo::default() };
            ends[0].send(NOW, client, &[b'x'; 100], info).expect("room");
        }
        assert!(ends[0].poll_transmit(NOW, &mut SendBatch::new(1)), "some of it leaves");
        if by_peer {
            ends[1].send(NOW, server, b"", SndInfo { abort: true, ..SndInfo::default() }).expect("an abort");
            let aborted = transmit_all(&mut ends[1], NOW);
            aborted.iter().for_each(|packet| ends[0].handle_packet(NOW, packet.packet()));
        } else {
            ends[0].send(NOW, client, b"", SndInfo { abort: true, ..SndInfo::default() }).expect("an abort");
        }
        let mut reports = read_all(&mut ends[0], client);
        assert_eq!(reports.len(), 3_001, "by_peer {by_peer}");
        assert_eq!(reports.pop().as_deref(), Some("AssociationChange"));
        assert_eq!(reports[0], "failed 1 sent");
        assert_eq!(reports.last().map(|last| last.ends_with("unsent")), Some(true));
        let mut contexts: Vec<u32> =
            reports.iter().filter_map(|text| text.split(' ').nth(1)?.parse().ok()).collect();
        contexts.sort_unstable();
        assert!(contexts.into_iter().eq(1..=3_000), "each once");
    }
}

/// RFC 6458 §5.3.4: the data of a message with `SCTP_ABORT` is sent as the reason in the ABORT.
#[test]
fn the_data_of_an_abort_is_its_reason() {
    for reason in [&b"enough of this"[..], b""] {
        let mut ends = pair();
        let (client, _) = connected(&mut ends);
        ends[0].send(NOW, client, reason, SndInfo { abort: true, ..SndInfo::default() }).expect("an abort");
        let packet = transmit_all_bytes(&mut ends[0], NOW).into_iter().next().expect("an ABORT");
        // RFC 9260 §3.3.7, §3.3.10.12: the ABORT chunk contains the cause "user-initiated abort".
        let (chunk, cause) = packet[12..].split_at(4);
        let length = |header: &[u8]| usize::from(u16::from_be_bytes([header[2], header[3]]));
        assert_eq!((chunk[0], &cause[..2], length(cause)), (6, &[0, 12][..], 4 + reason.len()));
        assert_eq!(&cause[4..length(cause)], reason);
    }
}

/// RFC 6458 §6.1.8: if an application enables AUTH and the peer does not support AUTH, the application is notified.
#[test]
fn a_peer_without_auth_is_told() {
    for (here, there) in [(true, false), (true, true), (false, true)] {
        let mut ends = pair();
        let subscribed = |sockets: &mut Sockets, auth: bool| {
            let id = sockets.socket(Style::OneToOne);
            for option in [
                SocketOption::Supported(Extension::Auth, auth),
                SocketOption::Event(EventKind::Authentication, true),
            ] {
                sockets.set_option(NOW, id, Scope::Future, option).expect("an option");
            }
            id
        };
        let listener = subscribed(&mut ends[1], there);
        ends[1].bind(listener, 80).expect("a free port");
        ends[1].listen(listener, 1).expect("listens");
        let client = subscribed(&mut ends[0], here);
        assert_eq!(ends[0].connect(NOW, client, &[address(2)], 80), Err(Errno::InProgress));
        settle(&mut ends, NOW);
        let server = ends[1].accept(listener).expect("one waits");
        for (end, id, is_reported) in [(0, client, here && !there), (1, server, there && !here)] {
            let notification = ends[end].recv(NOW, id, &mut [0; 10]);
            let no_auth = matches!(
                notification,
                Ok(Incoming::Notification(Notification::Authentication {
                    key: 0,
                    change: KeyChange::NoAuth,
                    ..
                }))
            );
            assert_eq!(no_auth, is_reported, "{here} {there}: {notification:?}");
        }
    }
}

/// RFC 6458 §6.1.10: if too many notifications wait, the last notification reports that no more notifications follow
/// until the application subscribes again.
#[test]
fn a_storm_of_notifications_is_stopped() {
    let mut ends = pair();
    let (client, server) = connected(&mut ends);
    let dry = SocketOption::Event(EventKind::SenderDry, true);
    ends[0].set_option(NOW, client, Scope::Current, dry.clone()).expect("an option");
    for _ in 0..MAX_WAITING + 10 {
        ends[0].send(NOW, client, b"x", SndInfo { immediate: true, ..SndInfo::default() }).expect("room");
        settle(&mut ends, NOW);
        assert!(matches!(ends[1].recv(NOW, server, &mut [0; 10]), Ok(Incoming::Data { .. })));
        settle(&mut ends, NOW);
    }
    let mut kinds = Vec::new();
    while let Ok(Incoming::Notification(notification)) = ends[0].recv(NOW, client, &mut [0; 10]) {
        kinds.push(notification.kind());
    }
    assert_eq!(kinds.len(), MAX_WAITING);
    assert_eq!(kinds.pop(), Some(EventKind::Stopped));
    assert!(kinds.iter().all(|&kind| kind == EventKind::SenderDry));
    assert_eq!(ends[0].recv(NOW, client, &mut [0; 10]), Err(Errno::Again), "nothing is subscribed any more");
    ends[0].set_option(NOW, client, Scope::Current, dry).expect("an option");
    assert!(matches!(ends[0].recv(NOW, client, &mut [0; 10]), Ok(Incoming::Notification(_))));
}

/// RFC 6458 §5.3.6: `recv` also returns the length and flags of the next message. The length covers only the next
/// message, not the messages after it.
#[test]
fn the_next_message_is_told_with_its_own_length() {
    let mut ends = pair();
    let (client, server) = connected(&mut ends);
    ends[1].set_option(NOW, server, Scope::Current, SocketOption::RecvNxtInfo(true)).expect("an option");
    for (text, ppid) in [("one", 1), ("three", 3), ("seventh", 7)] {
        let snd = SndInfo { ppid, ..SndInfo::default() };
        ends[0].send(NOW, client, text.as_bytes(), snd).expect("room");
    }
    settle(&mut ends, NOW);
    for (length, ppid) in [(5, 3), (7, 7)] {
        let Ok(Incoming::Data { next: Some(next), .. }) = ends[1].recv(NOW, server, &mut [0; 10]) else {
            panic!("a message, and more");
        };
        assert_eq!((next.length, next.ppid, next.stream), (length, ppid, 0));
        assert!(next.complete && !next.unordered && !next.notification);
    }
    assert!(matches!(ends[1].recv(NOW, server, &mut [0; 10]), Ok(Incoming::Data { next: None, .. })));
}
