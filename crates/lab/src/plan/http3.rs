//! HTTP/3 of a contestant: `http=3`, what is spoken where streams are fresh, unless `http=1.1` says otherwise.

use anabranch_transport::{Capabilities, Streams};

/// Whether these keys of a contestant mean HTTP/3; the transport can do this.
///
/// # Errors
/// One line with the accepted forms.
pub fn read(given: &[(&str, &str)], can: &Capabilities) -> Result<bool, String> {
    if can.streams != Streams::Fresh {
        // The key, if there is one, is not of fresh streams.
        return Ok(false);
    }
    match given.iter().find(|(key, _)| *key == "http") {
        None | Some((_, "3")) => Ok(true),
        Some((_, "1.1")) => Ok(false),
        Some((_, other)) => Err(format!("http={other}: write 3 or 1.1")),
    }
}

/// Bytes of a frame's type and length, at least (RFC 9114 §7.1).
pub const FRAME: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_streams_speak_http3_unless_told_otherwise() {
        let can = |streams| Capabilities { streams, ..Capabilities::default() };
        let fresh = can(Streams::Fresh);
        assert_eq!(read(&[("connections", "2")], &fresh), Ok(true));
        assert_eq!(read(&[("http", "3")], &fresh), Ok(true));
        assert_eq!(read(&[("http", "1.1")], &fresh), Ok(false));
        assert_eq!(read(&[("http", "2")], &fresh), Err("http=2: write 3 or 1.1".to_owned()));
        for streams in [Streams::One, Streams::Reusable] {
            assert_eq!(read(&[("http", "2")], &can(streams)), Ok(false), "another's key");
        }
    }
}
