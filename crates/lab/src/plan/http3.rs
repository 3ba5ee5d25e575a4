//! The key of a contestant that uses HTTP/3: `http=3`. It is the default for transports that open a stream for each
//! request.

use anabranch_transport::{Capabilities, Streams};

/// Returns whether the keys of a contestant select HTTP/3. `can` are the transport's capabilities.
///
/// # Errors
/// One line with the accepted forms.
pub fn read(given: &[(&str, &str)], can: &Capabilities) -> Result<bool, String> {
    if can.streams != Streams::Fresh {
        // The key `http` of transports of another kind does not concern HTTP/3.
        return Ok(false);
    }
    match given.iter().find(|(key, _)| *key == "http") {
        None | Some((_, "3")) => Ok(true),
        Some((_, "1.1")) => Ok(false),
        Some((_, other)) => Err(format!("http={other}: write 3 or 1.1")),
    }
}

/// The minimum size in bytes of a frame's type and length (RFC 9114 §7.1).
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
