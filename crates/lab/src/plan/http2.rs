//! The keys of a contestant that uses HTTP/2: `http=2`, and the flow-control windows that its client grants.

use anabranch_base::units::Bytes;
use anabranch_http::http2::{CLIENTS, Windows};
use anabranch_transport::Capabilities;

/// The HTTP/2 settings of a contestant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Http2 {
    /// The name of the HTTP/2 client whose flow-control windows are used.
    pub client: &'static str,
    /// The flow-control windows, after other keys have changed them.
    pub windows: Windows,
}

impl Http2 {
    /// Interprets the HTTP/2 settings of a contestant. Returns `None` if the contestant does not use HTTP/2. `can` is
    /// the set of the transport's capabilities.
    ///
    /// # Errors
    /// One line with the accepted forms.
    pub fn read(given: &[(&str, &str)], can: &Capabilities) -> Result<Option<Self>, String> {
        if can.is_multistream() {
            // HTTP/2 is not available over a multi-stream transport. For such a transport, the parser of contestants
            // rejects the keys of HTTP/2.
            return Ok(None);
        }
        let value = |key: &str| given.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        match value("http") {
            Some("2") => {}
            None | Some("1") => {
                let without = OWN.into_iter().find_map(|key| Some((key, value(key)?)));
                return match without {
                    Some((key, value)) => Err(format!("{key}={value}: needs http=2")),
                    None => Ok(None),
                };
            }
            Some(other) => return Err(format!("http={other}: write 1 or 2")),
        }
        let wanted = value("windows").unwrap_or(CLIENTS[0].0);
        let Some((client, mut windows, _)) = CLIENTS.iter().find(|(name, ..)| *name == wanted).copied()
        else {
            let names: Vec<&str> = CLIENTS.iter().map(|(name, ..)| *name).collect();
            return Err(format!("windows={wanted}: write one of {}", names.join(", ")));
        };
        let size = |key: &str, least: u64, most: u64, into: &mut u32| match value(key) {
            None => Ok(()),
            Some(text) => match text.parse::<Bytes>() {
                Ok(bytes) if (least..=most).contains(&bytes.0) => {
                    *into = bytes.0 as u32;
                    Ok(())
                }
                _ => Err(format!("{key}={text}: write a size from {} to {}", Bytes(least), Bytes(most))),
            },
        };
        size("stream-window", 1_000, MOST, &mut windows.stream)?;
        size("connection-window", 65_535, MOST, &mut windows.connection)?;
        size("frame", 16_384, (1 << 24) - 1, &mut windows.max_frame_size)?;
        if let Some(text) = value("concurrent") {
            windows.concurrent = text
                .parse()
                .ok()
                .filter(|n| (1..=128).contains(n))
                .ok_or_else(|| format!("concurrent={text}: write a number from 1 to 128"))?;
        }
        Ok(Some(Self { client, windows }))
    }

    /// Returns the contestant's HTTP/2 keys with their values.
    #[must_use]
    pub fn settings(&self) -> [(&'static str, String); 6] {
        let size = |bytes: u32| Bytes(bytes.into()).to_string();
        [
            ("http", "2".to_owned()),
            ("windows", self.client.to_owned()),
            ("stream-window", size(self.windows.stream)),
            ("connection-window", size(self.windows.connection)),
            ("frame", size(self.windows.max_frame_size)),
            ("concurrent", self.windows.concurrent.to_string()),
        ]
    }
}

/// The keys that a contestant may have only with `http=2`.
const OWN: [&str; 5] = ["windows", "stream-window", "connection-window", "frame", "concurrent"];
/// The size of a frame header in bytes (RFC 9113 §4.1).
pub const FRAME_HEADER_BYTES: u64 = 9;
/// The maximum size of a flow-control window in bytes (RFC 9113 §6.9.1).
const MOST: u64 = (1 << 31) - 1;
