//! Tests of batches: segments of one size, and payload that a packet shares with its sender.

use super::*;

#[test]
fn segments_have_one_size_and_a_short_one_closes_the_batch() {
    let mut batch = SendBatch::new(3);
    batch.push(&[1; 10]);
    batch.push(&[2; 4]);
    assert!(!batch.has_room());
    let sizes: Vec<_> = batch.segments().map(<[u8]>::len).collect();
    assert_eq!(sizes, [10, 4]);
    batch.clear();
    assert!(batch.is_empty() && batch.segments().next().is_none());
}

#[test]
fn segments_received_in_one_piece_are_taken_apart() {
    let mut batch = RecvBatch::new(1);
    batch.push(&[9; 70]);
    batch.put_segments(&[1, 1, 1, 2, 2, 2, 3], 3);
    assert_eq!(batch.segments().collect::<Vec<_>>(), [&[1, 1, 1][..], &[2, 2, 2], &[3]]);
    for (index, packet) in [Some(&[1, 1, 1][..]), Some(&[2, 2, 2]), Some(&[3]), None].into_iter().enumerate()
    {
        assert_eq!(batch.segment_mut(index).map(|packet| &*packet), packet);
    }
    batch.put_segments(&[5, 5], 1200);
    assert_eq!((batch.len(), batch.stride(), batch.bytes()), (1, 2, &[5, 5][..]));
}

#[test]
fn an_aligned_packet_keeps_its_bytes_and_headroom() {
    for room in [0, 56, 100] {
        let mut batch = SendBatch::new(1);
        batch.end_on(64, 1480, room);
        batch.push(&[3; 1480]);
        let mut buffer = Vec::new();
        let start = batch.take_buffer(&mut buffer);
        assert!(start >= room.max(HEADROOM) && buffer[start..] == [3; 1480]);
        batch.push(&[4; 9]);
        assert_eq!(batch.bytes(), [4; 9]);
    }
}

/// Two batches get the same packets, one through `put_train`, the other by copying. All later operations must give
/// the same results.
#[test]
fn packets_in_an_exchanged_buffer_behave_like_copied_ones() {
    for (length, stride) in [(1, 1), (10, 3), (12, 4), (5, 9)] {
        let bytes: Vec<u8> = (0..length).collect();
        let (mut copied, mut exchanged) = (SendBatch::new(8), SendBatch::new(8));
        exchanged.push(&[9; 70]);
        copied.put_segments(&bytes, stride);
        let mut buffer = bytes.clone();
        exchanged.put_train(&mut buffer, stride);
        assert!(exchanged.segments().eq(copied.segments()) && exchanged.bytes() == bytes);
        assert_eq!((exchanged.len(), exchanged.stride()), (copied.len(), copied.stride()));
        assert_eq!(exchanged.has_room(), copied.has_room());
        let [mut first, mut second] = [Vec::new(), Vec::new()];
        let starts = [copied.take_buffer(&mut first), exchanged.take_buffer(&mut second)];
        assert_eq!((starts, &first[HEADROOM..]), ([HEADROOM; 2], &second[HEADROOM..]));
        exchanged.push(&[4; 9]);
        assert_eq!(exchanged.bytes(), [4; 9]);
        exchanged.put_train(&mut bytes.clone(), stride);
        exchanged.clear();
        exchanged.push(&[5; 3]);
        assert_eq!((exchanged.bytes(), exchanged.len()), (&[5; 3][..], 1));
    }
}

/// A buffer keeps its memory address from the sending engine to the receiving engine.
#[test]
fn a_buffer_moves_through_without_a_copy() {
    let mut out = SendBatch::new(1);
    out.push(&[7; 100]);
    let memory = out.bytes().as_ptr();
    let mut buffer = Vec::new();
    let start = out.take_buffer(&mut buffer);
    assert_eq!(start, HEADROOM);
    let mut input = RecvBatch::new(1);
    assert!(input.only().is_none());
    input.put_buffer(&mut buffer, start);
    assert_eq!(input.segments().next(), Some(&[7; 100][..]));
    assert_eq!(input.only().map(|packet| packet.payload), Some(&[7; 100][..]));
    let mut taken_buffer = Vec::new();
    let (.., mut packet) = input.only_owned().expect("one packet");
    let start = packet.take_buffer(&mut taken_buffer).expect("its own buffer");
    assert_eq!((taken_buffer[start..].as_ptr(), input.len()), (memory, 0));
}

/// `take_buffer` returns `None` if the batch holds several packets or has room for several.
#[test]
fn the_buffer_of_several_packets_stays() {
    for (max, packets) in [(1, 2), (2, 1), (2, 2)] {
        let mut sent = SendBatch::new(2);
        (0..packets).for_each(|_| sent.push(&[7; 100]));
        let mut input = RecvBatch::new(max);
        input.receive(&mut sent);
        assert!(sent.is_empty());
        let taken = input.only_owned().and_then(|(.., mut packet)| packet.take_buffer(&mut Vec::new()));
        assert_eq!((taken, input.len()), (None, packets));
    }
}
