//! Sockets of two endpoints on a network without delay.

use super::*;
use crate::config::Config;
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

/// Carries packets until both sides are silent.
fn settle(ends: &mut [Sockets; 2], now: Instant) {
    let mut batch = Batch::new(1);
    let mut idle = 0;
    let mut from = 0;
    while idle < 2 {
        batch.clear();
        if ends[from].poll_transmit(now, &mut batch) {
            idle = 0;
            let [a, b] = &mut *ends;
            let to = if from == 0 { b } else { a };
            batch.packets().for_each(|packet| to.handle_packet(now, packet));
        } else {
            idle += 1;
            from = 1 - from;
        }
    }
}

/// A one-to-one client and the accepted socket, connected.
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
    ends[0].shutdown(NOW, client, How::Write).expect("connected");
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

#[test]
fn an_abort_shows_in_the_error_once() {
    let mut ends = pair();
    let (client, server) = connected(&mut ends);
    ends[0].set_option(NOW, client, Scope::Future, SocketOption::Linger(Some(0))).expect("an option");
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
    // The SACK may have been delayed.
    ends[1].handle_timeout(Instant::from_millis(500));
    settle(&mut ends, Instant::from_millis(500));
    let told = ends[0].recv(NOW, client, &mut buffer);
    assert!(matches!(told, Ok(Incoming::Notification(Notification::SenderDry { .. }))), "{told:?}");
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
    let params = PeerAddrParams { heartbeats: Some(false), ..PeerAddrParams::default() };
    ends[0].set_option(NOW, client, Scope::Future, SocketOption::PeerAddrParams(params)).expect("an option");
    // Deadlines that were stopped may still wake the driver, but nothing comes of it.
    ends[0].handle_timeout(Instant::from_millis(100_000));
    let sent = ends[0].poll_transmit(Instant::from_millis(100_000), &mut Batch::new(1));
    assert!(!sent && ends[0].poll_timeout().is_none(), "no heartbeat is due any more");
    let Ok(SocketOption::Status(status)) = ends[0].option(client, Scope::Future, OptionName::Status) else {
        panic!("a status");
    };
    assert_eq!(status.state, crate::AssociationState::Established);
    assert_eq!(status.primary.address, address(2).ip());
}

#[test]
fn what_is_idle_too_long_is_closed() {
    let mut ends = pair();
    let (client, server) = connected(&mut ends);
    let span = Duration::from_secs(5);
    ends[0].set_option(NOW, client, Scope::All, SocketOption::Autoclose(Some(span))).expect("an option");
    while let Some(due) = ends[0].poll_timeout().filter(|&due| due <= Instant::from_millis(5_000)) {
        assert_eq!(ends[1].recv(NOW, server, &mut [0; 10]), Err(Errno::Again));
        ends[0].handle_timeout(due);
    }
    settle(&mut ends, Instant::from_millis(5_000));
    assert_eq!(ends[1].recv(NOW, server, &mut [0; 10]), Ok(Incoming::EndOfFile));
}
