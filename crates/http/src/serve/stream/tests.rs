//! Tests that a stream counts the bytes it buffers, and that a response head is padded by exactly the given size.

use super::super::testing::{FakeStream, activity, service, world};
use super::*;
use anabranch_base::Budget;
use http::header::CONTENT_LENGTH;
use std::collections::BTreeMap;

#[test]
fn a_stream_counts_written_bytes_and_releases_them_when_dropped() {
    let (_network, world) = world();
    let budget = Budget::new(4 << 20, 10);
    let before = budget.room();
    let (service, activity) = (service(&world), activity(&budget));
    let stream = FakeStream { written: 500, ..FakeStream::default() };
    let exchanges = StreamExchanges::of(&mut BTreeMap::new(), 1, &stream);
    exchanges.accepted.set(0);
    let io = Io {
        stream,
        guard: SmugglingGuard::new(MAX_BUFFER, service.options.strictness),
        filtered_bytes: Bytes::new(),
        exchanges: exchanges.clone(),
        service,
        activity: activity.clone(),
    };
    // Without vectored writes, hyper would copy the body into its own buffer.
    assert!(io.is_write_vectored());
    let unfinished_response = Answering::begin(&exchanges, &activity);
    unfinished_response.hold(300 << 10);
    io.on_accepted(100 << 10);
    assert_eq!((exchanges.accepted.get(), activity.buffered.get()), (500, 200 << 10));
    drop(unfinished_response);
    assert_eq!(activity.requests_in_progress.get(), 1);
    drop(io);
    assert_eq!((activity.requests_in_progress.get(), activity.buffered.get(), budget.room()), (0, 0, before));
}

#[test]
fn a_head_grows_by_exactly_the_gap() {
    let size = |fields: &http::HeaderMap| -> usize {
        fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
    };
    for gap in 0..60 {
        let mut fields = http::HeaderMap::new();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
        fields.insert(CONTENT_LENGTH, HeaderValue::from_static("17"));
        let before = size(&fields);
        assert_eq!(pad(&mut fields, gap), gap);
        assert_eq!(size(&fields), before + gap);
    }
}
