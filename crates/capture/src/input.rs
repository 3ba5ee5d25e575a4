//! Tells from the first bytes of a file whether it is a capture or a log.

/// The number of bytes that are examined. qlog and webrtc-internals dumps name themselves near their beginning.
pub(super) const HEAD: usize = 4_096;

/// The format of a file that the decoder can read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InputFormat {
    /// pcap or pcapng, or a file that is none of these formats.
    Capture,
    /// Text with SCTP packets in some of its lines.
    PacketLog,
    /// Events of QUIC connections, as JSON or as JSON text sequences (RFC 7464).
    Qlog,
    /// The dump of chrome://webrtc-internals, as JSON.
    Statistics,
}

impl InputFormat {
    /// Returns the format of a file that begins with these bytes.
    pub fn of(head: &[u8]) -> Self {
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        let has = |word: &str| text.windows(word.len()).any(|window| window == word.as_bytes());
        match text.first() {
            Some(0x1e) => Self::Qlog,
            Some(b'{') if ["\"qlog_", "\"file_schema\"", "\"traces\""].into_iter().any(has) => Self::Qlog,
            Some(b'{') if ["\"PeerConnections\"", "\"getUserMedia\""].into_iter().any(has) => {
                Self::Statistics
            }
            // Captures have zeros in their headers, and logs have no zeros.
            Some(first) if first.is_ascii() && !head.contains(&0) => Self::PacketLog,
            _ => Self::Capture,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_beginning() {
        for (head, format) in [
            (&b""[..], InputFormat::Capture),
            (b" \n", InputFormat::Capture),
            (b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a", InputFormat::Capture),
            (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", InputFormat::Capture),
            (b"\xd4\xc3", InputFormat::Capture),
            (b"\x1e{\"qlog_version\":\"0.3\"}", InputFormat::Qlog),
            (b"\xef\xbb\xbf {\n\"qlog_format\": \"JSON\"", InputFormat::Qlog),
            (b"{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\"", InputFormat::Qlog),
            (b"{\n \"getUserMedia\": [", InputFormat::Statistics),
            (b"{\"PeerConnections\":{", InputFormat::Statistics),
            (b"\nI 00:00:00.000 0000 13", InputFormat::PacketLog),
            (b"{}", InputFormat::PacketLog),
        ] {
            assert_eq!(InputFormat::of(head), format, "{head:?}");
        }
    }
}
