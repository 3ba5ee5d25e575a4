//! The engine can return undelivered messages to the application, with their bytes. A setting turns this on.

use anabranch_sctp::testing::{Pair, Side};
use anabranch_sctp::{Config, Event, Message, Reliability};

/// Returns the messages that `SendFailed` events gave back to the application of `side`. For each message: its
/// context, whether at least a part of it was sent, and its bytes.
fn handed_back(pair: &mut Pair, side: Side) -> Vec<(u32, bool, Option<Vec<u8>>)> {
    let mut all: Vec<_> = pair
        .events(side)
        .into_iter()
        .filter_map(|event| match event {
            Event::SendFailed { context, sent, payload, .. } => Some((context, sent, payload)),
            _ => None,
        })
        .collect();
    all.sort();
    all
}

fn send(pair: &mut Pair, id: anabranch_sctp::AssociationId, context: u32, payload: &[u8]) {
    let reliability = if context == 3 { Reliability::Retransmissions(9) } else { Reliability::Full };
    let message = Message { stream: 1, context, reliability, ..Message::default() };
    pair.a.send(pair.now, id, message, payload).expect("there is room");
}

#[test]
fn what_was_not_acknowledged_comes_back_whole() {
    let mut config = Config::default();
    config.return_undelivered = true;
    let (mut pair, id, _) = Pair::associated(&config);
    pair.network.cut.push(0);
    let large: Vec<u8> = (0..50_000u32).map(|at| at as u8).collect();
    send(&mut pair, id, 1, b"one");
    send(&mut pair, id, 2, &large);
    send(&mut pair, id, 3, b"three");
    pair.a.abort(pair.now, id);
    let back = handed_back(&mut pair, Side::A);
    let bytes: Vec<_> = back.into_iter().map(|(context, _, payload)| (context, payload)).collect();
    assert_eq!(bytes, [(1, Some(b"one".to_vec())), (2, Some(large)), (3, Some(b"three".to_vec()))]);
}

#[test]
fn without_the_setting_only_the_description_does() {
    let (mut pair, id, _) = Pair::associated(&Config::default());
    pair.network.cut.push(0);
    send(&mut pair, id, 1, b"one");
    pair.a.abort(pair.now, id);
    assert_eq!(handed_back(&mut pair, Side::A).first().map(|back| back.2.clone()), Some(None));
}
