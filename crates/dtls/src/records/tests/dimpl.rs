//! Checks that dimpl opens the records that we seal, and that we open the records that dimpl seals. Covers all ciphers
//! of both versions, many sizes, record numbers whose transmitted low bits wrap, and key updates by either end.

use super::harness::{HandshakePair, NEVER, SUITES, V13, connected_pair};
use crate::records::Records;
use anabranch_base::Rng;

const SIZES: [usize; 12] = [1, 2, 3, 15, 16, 17, 100, 255, 1_234, 1_400, 9_000, 16_384];

fn packet(rng: &mut Rng, size: usize) -> Vec<u8> {
    let mut packet = vec![0; size];
    rng.fill(&mut packet);
    packet
}

/// Returns the number of the next record that this end sends, so that the test can change the number.
fn next(records: &mut Records) -> &mut u64 {
    match records {
        Records::V12(records) => records.next(),
        Records::V13(records) => records.next().1,
    }
}

#[test]
fn each_end_decrypts_the_others_records() {
    for suite in SUITES {
        let mut rng = Rng::new(1);
        let HandshakePair { mut ends, .. } = connected_pair(suite, NEVER, NEVER);
        for from in 0..2 {
            for size in SIZES {
                let packet = packet(&mut rng, size);
                let sealed = ends[from].library_seals(&packet);
                let [one] = &sealed[..] else { panic!("{suite:?}: {} datagrams", sealed.len()) };
                assert_eq!(ends[1 - from].ours(one).0, [packet], "{suite:?} {size}: ours opens");
                // A second copy of the datagram is a replay, so nothing is delivered.
                assert!(ends[1 - from].ours(one).0.is_empty(), "{suite:?} {size}: a replay");
            }
            // The test raises our record numbers far above dimpl's, so that the last 16 bits of our numbers wrap
            // around.
            for number in [
                100, 101, 15_000, 30_000, 32_765, 32_766, 32_767, 32_768, 32_769, 32_800, 48_000, 63_000,
                65_535, 65_537, 65_536, 80_000,
            ] {
                for (more, size) in [(0, SIZES[(number % 12) as usize]), (1, 1_400)] {
                    let packet = packet(&mut rng, size);
                    *next(ends[from].records()) = 2 * number + more;
                    let one = ends[from].ours_seals(&packet);
                    let opened = ends[1 - from].library(Some(&one)).1;
                    assert!(opened == [packet], "{suite:?} {number}: {size} bytes, {} packets", opened.len());
                }
            }
        }
    }
}

/// dimpl sends more than 2^16 records, and some of its records arrive late. Our receiver opens all of them.
#[test]
fn the_library_counts_past_sixteen_bits() {
    for suite in [SUITES[0], SUITES[2], SUITES[3], SUITES[5]] {
        let HandshakePair { mut ends, .. } = connected_pair(suite, NEVER, NEVER);
        let mut late = None;
        for number in 0_u32..66_000 {
            let sealed = ends[0].library_seals(&number.to_be_bytes()).remove(0);
            if number % 1_000 == 998 {
                late = Some((number, sealed));
                continue;
            }
            assert_eq!(ends[1].ours(&sealed).0, [number.to_be_bytes()], "{suite:?} {number}");
            if let Some((number, sealed)) = late.take() {
                assert_eq!(ends[1].ours(&sealed).0, [number.to_be_bytes()], "{suite:?} {number} late");
            }
        }
    }
}

/// RFC 9147 §4: a datagram may contain several records, and our receiver opens each of them.
#[test]
fn records_share_a_datagram() {
    for suite in SUITES {
        let HandshakePair { mut ends, .. } = connected_pair(suite, NEVER, NEVER);
        let packets: Vec<Vec<u8>> = (1..20).map(|size| vec![size; usize::from(size)]).collect();
        let datagram: Vec<u8> = packets.iter().flat_map(|packet| ends[0].ours_seals(packet)).collect();
        // The record in the middle of this datagram fails authentication. The records before and after it are opened.
        let wrong = ends[0].ours_seals(&[1; 9]);
        let mut with = [&datagram[..], &wrong, &ends[0].ours_seals(&[77; 7])].concat();
        with[datagram.len() + wrong.len() - 1] ^= 1;
        let expected: Vec<_> = packets.iter().cloned().chain([vec![77; 7]]).collect();
        assert_eq!(ends[1].ours(&with).0, expected, "{suite:?}");
        // The end of this datagram is cut off. The records before the cut are opened.
        let again: Vec<u8> = packets.iter().flat_map(|packet| ends[0].ours_seals(packet)).collect();
        let cut = &again[..again.len() - 3];
        assert_eq!(ends[1].ours(cut).0, packets[..packets.len() - 1], "{suite:?}");
    }
}

/// Sends packets in both directions between dimpl and our records, while dimpl, our records, or both change keys.
/// Returns the last epoch in which our records send, and the last epoch in which they receive.
fn change_keys(library_limit: u64, update_after: u64, client: usize) -> [u64; 2] {
    let HandshakePair { mut ends, .. } = connected_pair(V13, library_limit, update_after);
    let (library, ours) = (client, 1 - client);
    for number in 0_u32..3_000 {
        let packet = number.to_be_bytes();
        // Delivers dimpl's packet, and all messages that the two ends send in response.
        let mut towards = ends[library].library_seals(&packet);
        towards.extend(ends[library].library(None).0);
        let (mut progress, mut back) = (Vec::new(), Vec::new());
        let mut round = 0;
        while !towards.is_empty() || !back.is_empty() {
            for datagram in std::mem::take(&mut towards) {
                let (packets, sent) = ends[ours].ours(&datagram);
                progress.extend(packets);
                back.extend(sent);
            }
            for datagram in std::mem::take(&mut back) {
                let (sent, packets) = ends[library].library(Some(&datagram));
                assert!(packets.is_empty());
                towards.extend(sent);
            }
            round += 1;
            assert!(round < 10, "{number}: it never ends");
        }
        assert_eq!(progress, [packet], "{number}");
        let sealed = ends[ours].ours_seals(&packet);
        let (sent, packets) = ends[library].library(Some(&sealed));
        assert_eq!(packets, [packet], "{number} back");
        let now = ends[ours].now;
        let mut own = Vec::new();
        if ends[ours].records().wants_update() {
            ends[ours].records().expire(now, |datagram| own.push(datagram.to_vec()));
        }
        // dimpl and our records acknowledge each other's messages.
        for datagram in sent {
            own.extend(ends[ours].ours(&datagram).1);
        }
        for datagram in own {
            for datagram in ends[library].library(Some(&datagram)).0 {
                assert!(ends[ours].ours(&datagram).0.is_empty());
            }
        }
    }
    let Records::V13(records) = ends[ours].records() else { panic!("another version") };
    [records.next().0, records.receiving_epoch()]
}

#[test]
fn keys_are_changed_by_either() {
    for client in [0, 1] {
        // Each key update by dimpl also asks our records to update their sending keys.
        let [sent, received] = change_keys(100, NEVER, client);
        assert!(received > 25 && sent > 25, "{sent} {received}");
        let [sent, received] = change_keys(NEVER, 100, client);
        assert!(received == 3 && sent > 25, "{sent} {received}");
        let [sent, received] = change_keys(150, 70, client);
        assert!(received > 15 && sent > 25, "{sent} {received}");
    }
}

/// Datagrams are corrupted at random. Every packet that they still yield is a packet that the sender encrypted.
#[test]
fn corrupted_records_yield_no_packet() {
    for suite in SUITES {
        let mut rng = Rng::new(3);
        let HandshakePair { mut ends, .. } = connected_pair(suite, NEVER, NEVER);
        let sealed: Vec<_> = (0..40).map(|size| ends[0].ours_seals(&vec![5; 1 + size])).collect();
        for _ in 0..20_000 {
            let mut datagram = sealed[rng.below(40) as usize].clone();
            match rng.below(4) {
                0 => datagram = packet(&mut rng, 1 + sealed.len()),
                1 => datagram.truncate(rng.below(datagram.len() as u64) as usize),
                2 => datagram.extend_from_slice(&sealed[rng.below(40) as usize]),
                _ => {}
            }
            for _ in 0..1 + rng.below(3) {
                if let Some(last) = datagram.len().checked_sub(1) {
                    let at = rng.below(last as u64 + 1).min(if rng.below(2) == 0 { 14 } else { u64::MAX });
                    datagram[at as usize] ^= 1 << rng.below(8);
                }
            }
            for packet in ends[1].ours(&datagram).0 {
                assert!(!packet.is_empty() && packet.iter().all(|byte| *byte == 5), "{suite:?}: {packet:?}");
            }
        }
    }
}
