//! Checks that a client and a server use no nonce twice with one key, from their handshake on. The network loses,
//! duplicates and reorders datagrams, and keys are changed every fifty records.

use super::harness::{NEVER, RecordEndpoint, SUITES, Suite, unconnected_pair};
use crate::records::keys::{EPOCH_12, Header, Header12, Keys13};
use crate::records::window::Window;
use crate::secrets::{CLIENT_HANDSHAKE, CLIENT_TRAFFIC, SERVER_HANDSHAKE, SERVER_TRAFFIC};
use anabranch_base::Rng;
use anabranch_base::time::Duration;
use std::collections::BTreeSet;

/// An observer that knows the keys of one direction, and checks that no record encrypted with them repeats a nonce.
struct Observer {
    /// The keys of each epoch, and the sequence number that the epoch's next record must have.
    epochs: Vec<Option<(Keys13, u64)>>,
    secret: Option<crate::secrets::TrafficSecret>,
    explicit: usize,
    nonces: BTreeSet<(u64, u64)>,
    records: usize,
}

impl Observer {
    fn new(end: &RecordEndpoint, client: bool) -> Self {
        let aead = end.secrets.aead.expect("a cipher");
        let (handshake, data) =
            if client { (CLIENT_HANDSHAKE, CLIENT_TRAFFIC) } else { (SERVER_HANDSHAKE, SERVER_TRAFFIC) };
        let keys = |label| {
            end.secrets.secret(label).and_then(|secret| Keys13::new(aead, &secret)).map(|keys| (keys, 0))
        };
        Self {
            epochs: vec![None, None, keys(handshake), keys(data)],
            secret: end.secrets.secret(data),
            explicit: aead.explicit,
            nonces: BTreeSet::new(),
            records: 0,
        }
    }

    fn inspect(&mut self, end: &RecordEndpoint, datagram: &[u8]) {
        let mut rest = datagram;
        loop {
            if let Some(header) = Header::read(rest) {
                let (record, after) = rest.split_at(header.end);
                rest = after;
                self.inspect_13(end, header, record);
            } else if let Some(header) = Header12::read(rest) {
                let (record, after) = rest.split_at(header.end);
                rest = after;
                if header.epoch == EPOCH_12 {
                    // The nonce of a DTLS 1.2 record is its explicit nonce. A cipher without an explicit nonce uses the
                    // record number.
                    let explicit_nonce = record[13..].first_chunk().copied().map_or(0, u64::from_be_bytes);
                    self.note(1, if self.explicit == 0 { header.number } else { explicit_nonce });
                }
            } else {
                assert!(rest.is_empty(), "something else");
                return;
            }
        }
    }

    fn inspect_13(&mut self, end: &RecordEndpoint, header: Header, record: &[u8]) {
        // An endpoint derives the keys of the next epoch as soon as it uses the last epoch that it has keys for.
        if self.epochs.last().is_some_and(|last| last.as_ref().is_some_and(|(_, number)| *number > 0))
            && let Some(secret) = &self.secret
        {
            let secret = secret.next();
            self.epochs.push(Keys13::new(end.secrets.aead.expect("a cipher"), &secret).map(|keys| (keys, 0)));
            self.secret = Some(secret);
        }
        for (epoch, known) in self.epochs.iter_mut().enumerate().rev() {
            let Some((keys, last)) = known.as_mut().filter(|_| epoch & 3 == usize::from(header.epoch)) else {
                continue;
            };
            if let Some(content) = keys.open(&Window::at(*last), header, &mut record.to_vec()) {
                *last = content.number + 1;
                let (epoch, number) = (epoch as u64, content.number);
                self.note(epoch, number);
                return;
            }
        }
        panic!("a record that nobody can open");
    }

    fn note(&mut self, epoch: u64, nonce: u64) {
        self.records += 1;
        assert!(self.nonces.insert((epoch, nonce)), "twice: {nonce:#x} in epoch {epoch}");
    }
}

/// Runs a client and a server for a long time. Returns the number of epochs of the endpoint that had fewer, and the
/// total number of records.
fn run(suite: Suite, seed: u64) -> (usize, usize) {
    let mut rng = Rng::new(seed);
    let mut pair = unconnected_pair(suite, NEVER, 50);
    // With an odd seed and DTLS 1.3, the client's last flight is lost.
    pair.shake_hands(|from, number| {
        seed % 2 == 1 && (from, number) == (0, 1) && matches!(suite, Suite::V13(_))
    });
    let mut observers = [0, 1].map(|end| Observer::new(&pair.ends[end], end == 0));
    for (observer, (end, sent)) in observers.iter_mut().zip(pair.ends.iter().zip(&pair.sent)) {
        sent.iter().for_each(|datagram| observer.inspect(end, datagram));
    }
    let mut ends = pair.ends;
    for end in &mut ends {
        let now = end.now;
        end.records().begin(now);
    }
    // The datagrams under way, each with its sender.
    let mut under_way: Vec<(usize, Vec<u8>)> = Vec::new();
    for round in 0..4_000_u32 {
        let from = rng.below(2) as usize;
        ends.iter_mut().for_each(|end| end.now += Duration::from_millis(20));
        let mut out = vec![ends[from].ours_seals(&round.to_be_bytes())];
        let now = ends[from].now;
        let is_due = ends[from].records().deadline().is_some_and(|at| at <= now);
        if is_due || ends[from].records().wants_update() {
            assert_eq!(ends[from].records().expire(now, |datagram| out.push(datagram.to_vec())), None);
        }
        if !under_way.is_empty() && rng.below(10) < 9 {
            let at = rng.below(under_way.len().min(3) as u64) as usize;
            let (sender, datagram) = under_way.remove(at);
            let answers = ends[1 - sender].ours(&datagram).1;
            // One tenth of the datagrams is delivered twice in a row. Another tenth is delivered again later.
            match rng.below(10) {
                0 => drop(ends[1 - sender].ours(&datagram)),
                1 => under_way.push((sender, datagram)),
                _ => {}
            }
            for answer in answers {
                observers[1 - sender].inspect(&ends[1 - sender], &answer);
                if rng.below(10) > 0 {
                    under_way.push((1 - sender, answer));
                }
            }
        }
        for datagram in out {
            observers[from].inspect(&ends[from], &datagram);
            if rng.below(10) > 0 {
                under_way.push((from, datagram));
            }
        }
    }
    let epochs = observers.iter().map(|observer| observer.epochs.len() - 1).min().unwrap_or(0);
    (epochs, observers.iter().map(|observer| observer.records).sum())
}

#[test]
fn no_nonce_is_used_twice() {
    for suite in SUITES {
        for seed in 0..4 {
            let (epochs, records) = run(suite, seed);
            assert!(records > 4_000, "{suite:?}: {records} records");
            assert!(epochs > 8 || matches!(suite, Suite::V12(_)), "{suite:?}: {epochs} epochs");
        }
    }
}

/// In DTLS 1.2, dimpl draws its explicit nonces at random. Our explicit nonces have a two-byte prefix that no nonce
/// sent by dimpl on the same connection has.
#[test]
fn explicit_nonces_avoid_the_prefixes_of_dimpl() {
    let mut pair = unconnected_pair(SUITES[0], NEVER, NEVER);
    pair.shake_hands(|_, _| false);
    let [mut end, _] = pair.ends;
    for prefix in [1_u16, 2, 3, 5] {
        let mut out = Vec::new();
        end.records().seal(b"as if it were the library", &mut out);
        out[13..15].copy_from_slice(&prefix.to_be_bytes());
        let now = end.now;
        end.records().adopt(&out, now);
    }
    let crate::records::Records::V12(records) = end.records() else { panic!("another version") };
    assert_eq!(records.prefix(), 4);
}
