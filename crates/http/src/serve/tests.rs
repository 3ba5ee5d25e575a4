//! Tests at which time a server closes an idle session.

use super::testing::world;
use super::*;
use crate::limits::FakeSession;

#[test]
fn a_session_is_idle_from_the_last_acknowledgment_on() {
    let (_network, world) = world();
    let options = Options { idle_timeout: Some(Duration::from_secs(3)), ..Options::default() };
    let (session, activity) = (FakeSession::of(1), Activity::default());
    let at = |second| Instant::ZERO + Duration::from_secs(second);
    let mut watch = SessionTimeouts::new(&world, &options).expect("a watch");
    session.unacknowledged.set(1_000);
    assert_eq!(watch.check(at(0), &options, &session, &activity), at(3));
    session.unacknowledged.set(900);
    assert_eq!(watch.check(at(2), &options, &session, &activity), at(5));
    assert_eq!(watch.check(at(4), &options, &session, &activity), at(5));
    assert!(watch.closing.is_none());
    assert_eq!(watch.check(at(5), &options, &session, &activity), at(5) + CLOSING);
    assert_eq!(watch.closing, Some(at(5) + CLOSING));
}
