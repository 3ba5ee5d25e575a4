//! Tests the controls and events of an association: message options, paths, addresses, streams, keys, and accepting or
//! refusing peers.
#![cfg(target_os = "linux")]

use crate::ends::{EndpointPair, LONG, addresses, options, soon};
use anabranch_tokio::{
    AddressChange, Association, CloseReason, ConnectError, ConnectOptions, Direction, Event, Events,
    KeyChange, KeyError, Policy, PrimaryError, ResetError, SendError, SendOptions,
};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Waits for the first event for which `wanted` returns a result, and returns that result.
async fn until<T>(events: &mut Events, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let found = async {
        loop {
            let event = events.next().await.expect("not the end");
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    };
    timeout(LONG, found).await.expect("in time")
}

pub async fn wait_for_event(events: &mut Events, wanted: Event) {
    until(events, |event| (event == wanted).then_some(())).await;
}

async fn next(association: &Association) -> anabranch_tokio::Received {
    timeout(LONG, association.recv()).await.expect("in time").expect("a message")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_attributes_arrive_with_the_message() {
    let (_ends, ours, theirs) = EndpointPair::up(&[]).await;
    for (stream, ppid, unordered) in [(0, 0, false), (3, 51, true), (7, u32::MAX, false)] {
        let options = SendOptions::new().ppid(ppid).unordered(unordered).immediate(true);
        ours.send(stream, "hello", &options).await.expect("sent");
        let message = next(&theirs).await;
        assert_eq!((message.stream, message.ppid, message.unordered), (stream, ppid, unordered));
        assert_eq!(message.bytes, "hello");
    }
    let none = ours.streams();
    assert_eq!(ours.send(none, "x", &SendOptions::new()).await, Err(SendError::NoSuchStream(none)));
    assert_eq!(ours.send(0, "x", &SendOptions::new().key(9)).await, Err(SendError::NoSuchKey(9)));
    let limit = ours.max_message_size();
    let large = vec![7; limit + 1];
    assert_eq!(ours.send(0, &large, &SendOptions::new()).await, Err(SendError::TooLarge { limit }));
    ours.send(0, &large[..limit], &SendOptions::new()).await.expect("the largest is sent");
    assert_eq!(next(&theirs).await.bytes.len(), limit);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_and_undelivered_messages_are_reported() {
    let settings = [("partial_reliability", "yes"), ("sndbuf", "100000B"), ("rcvbuf", "10000B")];
    let (_ends, ours, theirs) = EndpointPair::up(&settings).await;
    let mut events = ours.events();
    // The peer does not read. Its receive buffer fills, and the remaining messages expire in this side's send buffer.
    for context in 0..10 {
        let brief = SendOptions::new().context(context).lifetime(Duration::from_millis(50)).ppid(4);
        ours.send(2, [7; 5_000], &brief).await.expect("sent");
    }
    let given_up = until(&mut events, |event| match event {
        Event::Abandoned { stream: 2, ppid: 4, context, length: 5_000, policy: Policy::Lifetime, .. } => {
            Some(context)
        }
        _ => None,
    });
    assert!(given_up.await < 10);
    let lasting = SendOptions::new().context(99).ppid(5);
    ours.send(1, vec![9; 40_000], &lasting).await.expect("sent");
    theirs.abort();
    let failed = until(&mut events, |event| match event {
        Event::SendFailed(failed) if failed.context == 99 => Some(failed),
        _ => None,
    });
    let failed = failed.await;
    assert_eq!((failed.stream, failed.ppid, failed.length), (1, 5, 40_000));
    // The undelivered message is returned, unless the peer has acknowledged a part of it.
    assert!(failed.message.is_none_or(|message| message == vec![9; 40_000]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_come_up_and_the_primary_is_chosen() {
    let both = addresses(2);
    let ends = EndpointPair::with(options(&both, &[])).await;
    let (ours, theirs) = ends.associate().await;
    wait_for_event(&mut theirs.events(), Event::PathUp(both[1])).await;
    let info = ours.info().expect("it is up");
    assert_eq!(info.paths.iter().map(|path| path.address).collect::<Vec<_>>(), both);
    assert!(info.paths[0].primary && info.paths[0].srtt.is_some() && info.paths[0].cwnd > 0);
    assert_eq!(Some(info.local_port), ours.local_port());
    let mut events = ours.events();
    ours.set_primary(both[1]).expect("it is verified");
    wait_for_event(&mut events, Event::PrimaryChanged(both[1])).await;
    assert!(ours.info().expect("it is up").paths[1].primary);
    assert_eq!(ours.set_primary([192, 0, 2, 1].into()), Err(PrimaryError::Unknown));
    ours.send(0, "by the other path", &SendOptions::new()).await.expect("sent");
    assert_eq!(next(&theirs).await.bytes, "by the other path");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_are_removed_and_added() {
    let both = addresses(2);
    let ends = EndpointPair::with(options(&both, &[("auth", "yes"), ("asconf", "yes")])).await;
    let (ours, theirs) = ends.associate().await;
    let (mut here, mut there) = (ours.events(), theirs.events());
    wait_for_event(&mut there, Event::PathUp(both[1])).await;
    ours.remove_address(both[1]).expect("addresses are dynamic");
    wait_for_event(&mut there, Event::AddressRemoved(both[1])).await;
    let removed = Event::LocalAddress { address: both[1], change: AddressChange::Removed };
    wait_for_event(&mut here, removed).await;
    ours.add_address(both[1]).expect("addresses are dynamic");
    wait_for_event(&mut there, Event::AddressAdded(both[1])).await;
    wait_for_event(&mut there, Event::PathUp(both[1])).await;
    ours.set_peer_primary(both[1]).expect("addresses are dynamic");
    wait_for_event(&mut there, Event::PrimaryChanged(both[1])).await;
    let (_fixed, ours, _theirs) = EndpointPair::up(&[]).await;
    assert!(ours.add_address(both[1]).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_reset_and_added() {
    let (_ends, ours, theirs) = EndpointPair::up(&[("reconfig", "yes"), ("num_ostreams", "10")]).await;
    let (mut here, mut there) = (ours.events(), theirs.events());
    for (ssn, text) in [(0, "one"), (1, "two")] {
        ours.send(4, text, &SendOptions::new()).await.expect("sent");
        let message = next(&theirs).await;
        assert_eq!((message.ssn, &message.bytes[..]), (ssn, text.as_bytes()));
    }
    ours.reset_streams(Direction::Outgoing, &[4]).expect("agreed on");
    let streams_reset = |event| match event {
        Event::StreamsReset { direction, streams } => Some((direction, streams.into_vec())),
        _ => None,
    };
    assert_eq!(until(&mut here, streams_reset).await, (Direction::Outgoing, vec![4]));
    assert_eq!(until(&mut there, streams_reset).await, (Direction::Incoming, vec![4]));
    ours.send(4, "anew", &SendOptions::new()).await.expect("sent");
    assert_eq!(next(&theirs).await.ssn, 0);
    assert_eq!(ours.streams(), 10);
    ours.add_streams(5, 5).expect("agreed on");
    until(&mut here, |event| matches!(event, Event::StreamsAdded { .. }).then_some(())).await;
    soon(|| ours.streams() == 15 && theirs.streams() == 15).await;
    ours.send(14, "on a new one", &SendOptions::new()).await.expect("sent");
    assert_eq!(next(&theirs).await.stream, 14);
    let (_without, ours, _theirs) = EndpointPair::up(&[("reconfig", "no")]).await;
    assert_eq!(ours.add_streams(1, 1), Err(ResetError::Unsupported));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_signed_with_shared_keys() {
    let (_ends, ours, theirs) = EndpointPair::up(&[("auth", "yes"), ("auth_chunks", "data")]).await;
    let mut events = ours.events();
    let mut theirs_told = theirs.events();
    for end in [&ours, &theirs] {
        end.set_key(1, "a secret").expect("authenticated");
    }
    ours.activate_key(1).expect("it is known");
    ours.send(0, "signed", &SendOptions::new()).await.expect("sent");
    assert_eq!(next(&theirs).await.bytes, "signed");
    wait_for_event(&mut theirs_told, Event::Key { key: 1, change: KeyChange::PeerUses }).await;
    ours.deactivate_key(0).expect("it is not the active one");
    wait_for_event(&mut events, Event::Key { key: 0, change: KeyChange::Free }).await;
    assert_eq!(ours.delete_key(1), Err(KeyError::Active));
    let (_without, ours, _theirs) = EndpointPair::up(&[("auth", "no")]).await;
    assert_eq!(ours.set_key(1, "x"), Err(KeyError::NotAuthenticated));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incoming_associations_are_examined_before_accept() {
    let ends = EndpointPair::with(options(&addresses(2), &[]).backlog(2)).await;
    let at = ends.server.local_addresses().to_vec();
    let options = ConnectOptions::new().local_port(40_000).streams(7);
    let (client, to) = (ends.client.clone(), at.clone());
    let wanted = tokio::spawn(async move { client.connect_with(&to, 80, options).await });
    let incoming = timeout(LONG, ends.server.accept()).await.expect("in time").expect("somebody");
    assert_eq!(
        (incoming.remote_address().port(), incoming.local_port(), incoming.streams()),
        (40_000, 80, 7)
    );
    let mut from: Vec<IpAddr> = incoming.remote_addresses().to_vec();
    from.sort_unstable();
    assert_eq!(from, addresses(2));
    assert_eq!(ends.server.associations(), 0, "nothing is kept of it");
    let theirs = incoming.accept().expect("in time");
    let ours = timeout(LONG, wanted).await.expect("in time").expect("no panic").expect("associated");
    assert_eq!((ours.local_port(), theirs.remote_address().port()), (Some(40_000), 40_000));
    for because in [None, Some("no room")] {
        let (client, to) = (ends.client.clone(), at.clone());
        let unwanted = tokio::spawn(async move { client.connect(&to, 80).await });
        let incoming = timeout(LONG, ends.server.accept()).await.expect("in time").expect("somebody");
        match because {
            None => drop(incoming),
            Some(why) => incoming.refuse_with_reason(why),
        }
        let refused = timeout(LONG, unwanted).await.expect("in time").expect("no panic");
        assert_eq!(refused.err(), Some(ConnectError::Failed(CloseReason::Refused)));
    }
    // More peers connect than the backlog holds. The peers that do not fit retry until the backlog has room, and all
    // peers are accepted.
    let mut waiting = Vec::new();
    for _ in 0..5 {
        let (client, to) = (ends.client.clone(), at.clone());
        waiting.push(tokio::spawn(async move { client.connect(&to, 80).await }));
    }
    let mut all = Vec::new();
    for _ in 0..5 {
        let incoming = timeout(LONG, ends.server.accept()).await.expect("in time").expect("somebody");
        all.push(incoming.accept().expect("in time"));
    }
    for one in waiting {
        all.push(timeout(LONG, one).await.expect("in time").expect("no panic").expect("associated"));
    }
    ends.server.close();
    assert!(timeout(LONG, ends.server.accept()).await.expect("in time").is_none());
    let refused = timeout(LONG, ends.client.connect(&at, 80)).await.expect("in time");
    assert_eq!(refused.err(), Some(ConnectError::Failed(CloseReason::Refused)));
}

/// At most a fixed number of unread events is kept, and `Lagged` reports the number of lost events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_nobody_takes_are_counted() {
    let settings = [("partial_reliability", "yes"), ("rcvbuf", "2000B")];
    let (_ends, ours, _theirs) = EndpointPair::up(&settings).await;
    for context in 0..500 {
        let brief = SendOptions::new().context(context).lifetime(Duration::ZERO);
        ours.send(0, [7; 1_000], &brief).await.expect("sent");
    }
    ours.abort();
    timeout(LONG, ours.closed()).await.expect("in time");
    let mut events = ours.events();
    let mut count = 0;
    let mut last = None;
    while let Some(event) = timeout(LONG, events.next()).await.expect("in time") {
        count += match event {
            Event::Lagged(more) => more,
            _ => 1,
        };
        last = Some(event);
    }
    assert!(count > 400, "{count}");
    assert_eq!(last, Some(Event::Closed(CloseReason::Aborted)));
}
