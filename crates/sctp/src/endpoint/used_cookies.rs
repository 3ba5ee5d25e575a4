//! Tags of used cookies whose associations have ended.
//!
//! When an accepted association ends, its tag is kept here until its State Cookie is stale. Otherwise a delayed copy of
//! the COOKIE ECHO would set up the association again, and deliver the DATA in the same packet a second time.
//!
//! The checks of RFC 9260 §5.1.5 consider only the age and the signature of a cookie. So these checks do not detect a
//! delayed copy of a used cookie.

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use std::collections::{BTreeSet, VecDeque};

/// The maximum number of tags kept. When this number is reached, the oldest tag is dropped.
const MAX_TAGS: usize = 65_536;

/// The local verification tags whose cookies are no longer valid: those of associations that have ended, and those of
/// association requests that were refused.
#[derive(Debug, Default)]
pub(super) struct UsedCookies {
    tags: BTreeSet<u32>,
    /// The expiry time of each tag, oldest first.
    expiries: VecDeque<(Instant, u32)>,
}

impl UsedCookies {
    /// Records that the association with this local tag has ended. The record is kept for `life` from `now`. After this
    /// time, the cookie of the association is no longer valid.
    pub(super) fn add(&mut self, now: Instant, life: Duration, tag: u32) {
        self.expire(now);
        if self.expiries.len() >= MAX_TAGS
            && let Some((_, oldest)) = self.expiries.pop_front()
        {
            self.tags.remove(&oldest);
        }
        if self.tags.insert(tag) {
            self.expiries.push_back((now + life, tag));
        }
    }

    /// Returns whether the cookie with this local tag has been used by an association that has ended.
    pub(super) fn contains(&mut self, now: Instant, tag: u32) -> bool {
        self.expire(now);
        self.tags.contains(&tag)
    }

    /// Returns the number of tags kept.
    pub(super) fn count(&self) -> usize {
        self.expiries.len()
    }

    /// Returns whether the tag is stored. This may include tags of stale cookies, because this call removes none.
    pub(super) fn has(&self, tag: u32) -> bool {
        self.tags.contains(&tag)
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(until, tag)) = self.expiries.front()
            && until <= now
        {
            self.expiries.pop_front();
            self.tags.remove(&tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §5.3.1: no new association gets the tag of an ended association whose cookie may still be valid.
    #[test]
    fn a_used_tag_is_not_drawn_again() {
        let endpoint = || {
            let config = crate::Config::profile("rfc9260").expect("a profile");
            let address = "192.0.2.1:0".parse().expect("an address");
            crate::Endpoint::new(config, vec![address], anabranch_base::Rng::new(1))
        };
        let tag = endpoint().new_tag();
        let mut other = endpoint();
        other.used_cookies.add(Instant::ZERO, Duration::from_secs(60), tag);
        assert_ne!(other.new_tag(), tag);
    }

    #[test]
    fn a_tag_is_kept_as_long_as_its_cookie_lives() {
        let mut spent = UsedCookies::default();
        let at = Instant::from_millis;
        spent.add(at(0), Duration::from_millis(100), 7);
        spent.add(at(50), Duration::from_millis(100), 8);
        assert!(spent.contains(at(99), 7) && !spent.contains(at(99), 9));
        assert!(!spent.contains(at(100), 7) && spent.contains(at(100), 8));
    }

    #[test]
    fn the_number_is_bounded() {
        let mut spent = UsedCookies::default();
        for tag in 0..=MAX_TAGS as u32 {
            spent.add(Instant::ZERO, Duration::from_secs(1), tag);
        }
        assert_eq!((spent.tags.len(), spent.expiries.len()), (MAX_TAGS, MAX_TAGS));
        assert!(!spent.contains(Instant::ZERO, 0) && spent.contains(Instant::ZERO, 1));
    }
}
