//! Tests how much memory a session and a stream take before any data arrives. A server may hold tens of thousands of
//! sessions that wait for data.

use super::{PageSite, preface, serve_session};
use anabranch_sim::SimWorld;
use anabranch_transport::erased::AnySession;

/// Returns the size in bytes of the future that an async function returns.
macro_rules! future_size {
    ($function:expr, $($argument:ident),+) => {{
        fn size<$($argument,)+ Future>(_: impl FnOnce($($argument),+) -> Future) -> usize {
            size_of::<Future>()
        }
        size($function)
    }};
}

#[test]
fn idle_sessions_reserve_no_memory_for_other_versions() {
    let session = future_size!(serve_session::<SimWorld, PageSite, AnySession>, A, B, C);
    let stream = future_size!(preface::serve::<SimWorld, PageSite, AnySession>, A, B, C, D, E);
    // The two futures take 288 and 256 bytes, because they box the futures that serve a certain HTTP version. With the
    // HTTP/3 future inside, each would take 3,128 bytes. With the futures of HTTP/1.1 and HTTP/2 inside, each would
    // take 2,096 bytes.
    assert!(
        session <= 512 && stream <= 512,
        "{session} bytes a session, {stream} a stream that has not begun"
    );
}
