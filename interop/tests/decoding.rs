//! Decodes the same bytes with our decoder and dcsctp's, and fails on a difference that no [`Rule`] explains.
//!
//! [`Rule`]: anabranch_interop::decoding::Rule

use anabranch_interop::decoding::{compare, corpus, kinds};

#[test]
fn differences_have_reasons() {
    let corpus = corpus();
    let kinds = kinds(&corpus);
    for kind in [0x00, 0x01, 0x02, 0x03, 0x06, 0x07, 0x08, 0x0a, 0x0b, 0x0e, 0x40, 0x82, 0xc0, 0xc2] {
        assert!(kinds.contains(&kind), "no chunk of type {kind:#04x} to begin with");
    }
    let comparison = compare(&corpus, 100_000, 1);
    assert!(comparison.unexplained.is_empty(), "{:#02x?}", comparison.unexplained);
    assert_eq!(comparison.panics, 0);
    assert!(comparison.both_take > 20_000 && comparison.neither_takes > 20_000, "{comparison:?}");
}
