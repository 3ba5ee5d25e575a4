//! The setting of a contestant that selects HTTP/3: `http=3`. Only transports that open a stream for each request have
//! this setting. HTTP/3 is the default of such a transport if one of its URL schemes carries HTTP/3.

use anabranch_transport::{Capabilities, Http, Scheme, Streams};

/// Returns whether a contestant uses HTTP/3. `given` has the contestant's settings (name and value). `can` are the
/// capabilities of its transport, and `schemes` are the URL schemes of its transport.
///
/// # Errors
/// One line with the accepted forms.
pub fn read(given: &[(&str, &str)], can: &Capabilities, schemes: &[Scheme]) -> Result<bool, String> {
    if can.streams != Streams::Fresh {
        // For other transports, the key `http` does not select HTTP/3.
        return Ok(false);
    }
    match given.iter().find(|(key, _)| *key == "http") {
        None => Ok(schemes.iter().any(|scheme| scheme.http == Some(Http::Http3))),
        Some((_, "3")) => Ok(true),
        Some((_, "1.1")) => Ok(false),
        Some((_, other)) => Err(format!("http={other}: write 3 or 1.1")),
    }
}

/// The minimum size in bytes of an HTTP/3 frame header: its type and length (RFC 9114 §7.1).
pub const FRAME_HEADER_BYTES: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_decides_unless_a_key_does() {
        let can = |streams| Capabilities { streams, ..Capabilities::default() };
        let scheme =
            |http| [Scheme { name: "a", url: Some("http+a"), port: 1, in_udp: true, http: Some(http) }];
        let (fresh, http3) = (can(Streams::Fresh), scheme(Http::Http3));
        assert_eq!(read(&[("connections", "2")], &fresh, &http3), Ok(true));
        assert_eq!(read(&[("connections", "2")], &fresh, &scheme(Http::StreamPairs)), Ok(false));
        assert_eq!(read(&[("http", "3")], &fresh, &[]), Ok(true));
        assert_eq!(read(&[("http", "1.1")], &fresh, &http3), Ok(false));
        assert_eq!(read(&[("http", "2")], &fresh, &http3), Err("http=2: write 3 or 1.1".to_owned()));
        for streams in [Streams::One, Streams::Reusable] {
            assert_eq!(read(&[("http", "2")], &can(streams), &http3), Ok(false), "another's key");
        }
    }
}
