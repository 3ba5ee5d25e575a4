//! Converts ISO 8601 dates and times, as in HAR, to and from milliseconds since 1970.

/// Converts a time, for example `2016-01-24T15:42:23.759+01:00`, to milliseconds since 1970-01-01T00:00Z; `None` if it
/// is invalid. A time without a zone counts as UTC, because only differences of times matter.
pub(super) fn unix_millis(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let year = digits(parts.next()?, 4, 4)?;
    let month = digits(parts.next()?, 2, 2)?;
    let day = digits(parts.next()?, 2, 2)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, zone_minutes) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => (&time[..at], zone(&time[at..])?),
        None => (time, 0),
    };
    let mut parts = clock.splitn(3, ':');
    let hour = digits(parts.next()?, 2, 2)?;
    let minute = digits(parts.next()?, 2, 2)?;
    let (second, fraction) = match parts.next() {
        None => (0, 0.0),
        Some(seconds) => match seconds.split_once(['.', ',']) {
            None => (digits(seconds, 2, 2)?, 0.0),
            Some((whole, fraction)) => {
                digits(fraction, 1, 15)?;
                (digits(whole, 2, 2)?, format!("0.{fraction}").parse::<f64>().ok()?)
            }
        },
    };
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let minutes = (days(year, month, day) * 24 + hour) * 60 + minute - zone_minutes;
    Some((minutes * 60 + second) as f64 * 1e3 + fraction * 1e3)
}

/// Formats a time, for example 0 as `1970-01-01T00:00:00.000Z`. HAR files usually have three decimals.
pub(super) fn iso(unix_millis: u64) -> String {
    let (days, rest) = (unix_millis / 86_400_000, unix_millis % 86_400_000);
    let (year, month, day) = civil(days as i64);
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

fn digits(text: &str, least: usize, most: usize) -> Option<i64> {
    let fits = (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// Parses a time zone, for example `Z`, `+01:00`, `+0100` or `+01`. Returns its offset from UTC in minutes.
fn zone(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let plain: String = text.get(1..)?.chars().filter(|c| *c != ':').collect();
    let minutes = match plain.len() {
        2 => digits(&plain, 2, 2)? * 60,
        4 => digits(plain.get(..2)?, 2, 2)? * 60 + digits(plain.get(2..)?, 2, 2)?,
        _ => return None,
    };
    Some(sign * minutes)
}

/// Returns the number of days from 1970-01-01 to the given day in the proleptic Gregorian calendar. In the calculation,
/// a year begins in March, so that the leap day is the last day of a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    // The year is first estimated by a lower bound and then increased until it is right.
    let mut year = 1970 + days / 366;
    while self::days(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut month = 12;
    while self::days(year, month, 1) > days {
        month -= 1;
    }
    (year, month, days - self::days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_forms_that_browsers_write() {
        assert_eq!(unix_millis("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(unix_millis("2000-03-01T00:00:00.5Z"), Some(951_868_800_500.0));
        let paris = unix_millis("2016-01-24T15:42:23.759+01:00");
        assert_eq!(paris, unix_millis("2016-01-24T14:42:23.759Z"));
        assert_eq!(paris, unix_millis("2016-01-24T15:42:23.759+0100"));
        for text in
            ["", "now", "2016-01-24", "2016-13-24T00:00:00Z", "2016-01-24T1:00Z", "2016-01-24T10:00:00.Z"]
        {
            assert_eq!(unix_millis(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_written_as_they_are_read() {
        for millis in [0, 951_782_399_999, 951_868_800_500, 1_453_646_543_759, 1_709_251_199_001] {
            assert_eq!(unix_millis(&iso(millis)), Some(millis as f64), "{}", iso(millis));
        }
        assert_eq!(iso(951_782_400_000), "2000-02-29T00:00:00.000Z");
    }
}
