//! The dates in responses. Formats Date (RFC 9110 §6.6.1) at most once per second, and replaces a Last-Modified that is
//! in the future.

use http::header::{DATE, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue};
use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

/// The wall clock of a server, and the last date that was formatted.
#[derive(Debug)]
pub struct Date {
    wall_clock: Option<fn() -> u64>,
    last: RefCell<Option<Written>>,
}

/// A formatted date, and the Unix time in whole seconds for which it is valid.
#[derive(Debug)]
struct Written {
    unix_seconds: u64,
    value: HeaderValue,
    /// The last value of Last-Modified that was not in the future.
    past: Option<HeaderValue>,
}

impl Date {
    /// Creates a `Date` that reads the clock `wall_clock`, which returns Unix time in seconds. Without a clock,
    /// responses have no Date field.
    #[must_use]
    pub const fn new(wall_clock: Option<fn() -> u64>) -> Self {
        Self { wall_clock, last: RefCell::new(None) }
    }

    /// Adds the Date field to a response, if there is a clock.
    pub(super) fn mark(&self, fields: &mut HeaderMap) {
        let Some(date) = self.now() else { return };
        // RFC 9110 §8.8.2.1: a modification date in the future is replaced by the current date.
        if let Some(modified) = fields.get_mut(LAST_MODIFIED)
            && self.is_future(modified)
        {
            modified.clone_from(&date);
        }
        fields.insert(DATE, date);
    }

    /// Whether `modified` is later than the last date that was formatted.
    fn is_future(&self, modified: &HeaderValue) -> bool {
        let mut last = self.last.borrow_mut();
        let Some(last) = last.as_mut().filter(|last| last.past.as_ref() != Some(modified)) else {
            return false;
        };
        let at = modified.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok());
        let future = at.is_some_and(|at| at > UNIX_EPOCH + Duration::from_secs(last.unix_seconds));
        if !future {
            last.past = Some(modified.clone());
        }
        future
    }

    /// Returns the current value of Date, or `None` without a clock.
    #[must_use]
    pub fn now(&self) -> Option<HeaderValue> {
        let unix_seconds = self.wall_clock?();
        let mut last = self.last.borrow_mut();
        if let Some(last) = last.as_ref().filter(|last| last.unix_seconds == unix_seconds) {
            return Some(last.value.clone());
        }
        let value = HeaderValue::from_str(&imf_date(unix_seconds)).ok()?;
        *last = Some(Written { unix_seconds, value: value.clone(), past: None });
        Some(value)
    }
}

/// RFC 9110 §5.6.7: formats a date as in `Sun, 06 Nov 1994 08:49:37 GMT`. Its year has four digits, so times after the
/// year 9999 give the last date of that year.
fn imf_date(unix_seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds.min(LAST_DATE)))
}

/// The Unix time of 9999-12-31 23:59:59.
pub(super) const LAST_DATE: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(imf_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(imf_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(imf_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(imf_date(1_735_689_599), "Tue, 31 Dec 2024 23:59:59 GMT");
    }

    #[test]
    fn last_modified_is_never_after_date() {
        let date = Date::new(Some(|| 784_111_777));
        let modified = |at: &'static str| {
            let mut fields = HeaderMap::new();
            fields.insert(LAST_MODIFIED, HeaderValue::from_static(at));
            date.mark(&mut fields);
            assert_eq!(fields[DATE], "Sun, 06 Nov 1994 08:49:37 GMT");
            fields[LAST_MODIFIED].to_str().expect("text").to_owned()
        };
        for past in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sat, 05 Nov 1994 08:49:37 GMT"] {
            assert_eq!(modified(past), past);
        }
        for future in ["Sun, 06 Nov 1994 08:49:38 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(modified(future), "Sun, 06 Nov 1994 08:49:37 GMT");
        }
        assert_eq!(modified("Sat, 05 Nov 1994 08:49:37 GMT"), "Sat, 05 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn a_date_follows_the_clock_also_when_it_is_set_back() {
        static CLOCK: AtomicU64 = AtomicU64::new(0);
        let date = Date::new(Some(|| CLOCK.load(Ordering::Relaxed)));
        for at in [784_111_777, 784_111_777, 784_111_778, 0, 784_111_777] {
            CLOCK.store(at, Ordering::Relaxed);
            assert_eq!(date.now().expect("a date"), imf_date(at).as_str());
        }
        assert_eq!(Date::new(None).now(), None);
    }
}
