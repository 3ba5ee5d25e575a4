//! The frames of a throughput test, which both ends send.
//!
//! All data on a session consists of frames. A frame has a kind and a length, so that the peer can separate frames on a
//! transport without messages. If the transport has messages, each frame is one message. The first frame is the
//! client's [`Hello`], on stream 0.
//!
//! ```text
//! byte 0          kind
//! bytes 1 to 3    zero
//! bytes 4 to 7    length of the frame in bytes, including these 8 bytes; big-endian
//! from byte 8     content
//! ```

use super::paths::{MAX_REPORT, PathReport};
use anabranch_base::time::Duration;

/// The size in bytes of the header of every frame, which is also the minimum size of a message.
pub(super) const HEADER: usize = 8;
const MAGIC: [u8; 4] = *b"abt1";
/// The maximum size of a frame in bytes.
pub(super) const MAX_FRAME: usize = 16 << 20;

/// The client's request, which describes the test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    /// Whether the client sends data (`up`), and whether the server sends data (`down`).
    pub(super) up: bool,
    pub(super) down: bool,
    pub(super) unordered: bool,
    /// Whether the server has to send the settings of its transport to the client.
    pub(super) settings: bool,
    /// Whether the server has to report on its network paths at the end.
    pub(super) paths: bool,
    pub(super) streams: u16,
    /// The size of a message in bytes.
    pub(super) message: u32,
    /// The time for which data is sent (`span`), or the number of bytes to send in each direction (`bytes`). If `bytes`
    /// is 0, data is sent for the time `span`.
    pub(super) span: Duration,
    pub(super) bytes: u64,
}

/// The sender's final report, which follows its last data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderReport {
    /// The number of bytes in whole messages.
    pub bytes: u64,
    /// The number of messages.
    pub messages: u64,
    /// The time that sending took, in nanoseconds.
    pub nanos: u64,
    /// The CPU time of the sender's process in user mode, in nanoseconds.
    pub user: u64,
    /// The CPU time of the sender's process in the kernel, in nanoseconds.
    pub system: u64,
    /// The number of bytes that the receiver's transport had not acknowledged when the sender wrote its last bytes;
    /// `None` if the sender does not report it.
    pub unacknowledged: Option<u64>,
}

impl SenderReport {
    /// Returns the number of bytes that the receiver's transport had acknowledged when the sender wrote its last bytes;
    /// `None` if the sender does not report it.
    #[must_use]
    pub fn acknowledged(&self) -> Option<u64> {
        self.unacknowledged.map(|left| self.bytes.saturating_sub(left))
    }
}

/// The receiver's report on the data that has arrived so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// The number of bytes of messages that have arrived.
    pub bytes: u64,
    /// The number of complete messages.
    pub messages: u64,
    /// The time from the start to the last arrival of data, in nanoseconds.
    pub nanos: u64,
    /// The CPU time of the receiver's process in user mode, in nanoseconds.
    pub user: u64,
    /// The CPU time of the receiver's process in the kernel, in nanoseconds.
    pub system: u64,
    /// The number of streams on which data has arrived.
    pub streams: u64,
    /// The number of bytes received on the stream with the least data.
    pub min_stream_bytes: u64,
    /// The number of bytes received on the stream with the most data.
    pub max_stream_bytes: u64,
    /// Whether all data of the sender has arrived.
    pub whole: bool,
}

/// The names and values of a transport's settings, as reported by the end that uses them.
pub type Settings = Vec<(String, String)>;

/// A control frame, which is any frame that is not data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Control {
    Hello(Hello),
    Sent(SenderReport),
    Received(Received),
    /// The settings of the server's transport. The server sends this frame at the start if the client has requested the
    /// settings.
    Settings(Settings),
    /// The server will report on its network paths. The server sends this frame at the start if the client has
    /// requested a report.
    PathsFollow,
    /// The server's report on its network paths. This frame is the last one that the server sends.
    Paths(PathReport),
    /// Begins a stream of the client. On some transports, a stream exists for the server only after the client has sent
    /// data on it.
    StreamStart,
}

const DATA: u8 = 0;
const HELLO: u8 = 1;
const SENT: u8 = 2;
const RECEIVED: u8 = 3;
const SETTINGS: u8 = 4;
const STREAM_START: u8 = 5;
const PATHS: u8 = 6;
/// The maximum size in bytes of a frame with settings. All settings of SCTP take about 1 kB.
const MAX_SETTINGS: usize = 8 << 10;

/// Returns a frame of test data that has `size` bytes.
pub(super) fn data(size: usize) -> Vec<u8> {
    let mut message: Vec<u8> = (0..size.clamp(HEADER, MAX_FRAME)).map(|n| n as u8).collect();
    let length = (message.len() as u32).to_be_bytes();
    message[..HEADER].copy_from_slice(&[DATA, 0, 0, 0, length[0], length[1], length[2], length[3]]);
    message
}

impl Control {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut frame = vec![0; HEADER];
        let numbers: Vec<u64> = match self {
            Self::Settings(settings) => {
                frame[0] = SETTINGS;
                for (key, value) in settings {
                    if frame.len() + key.len() + value.len() + 2 <= MAX_SETTINGS {
                        frame.extend_from_slice(format!("{key}={value}\n").as_bytes());
                    }
                }
                Vec::new()
            }
            // The frame that announces a path report has no content.
            Self::PathsFollow => {
                frame[0] = PATHS;
                Vec::new()
            }
            Self::Paths(report) => {
                frame[0] = PATHS;
                frame.push(b'\n');
                frame.extend_from_slice(report.encode().as_bytes());
                Vec::new()
            }
            Self::Hello(hello) => {
                frame[0] = HELLO;
                frame.extend_from_slice(&MAGIC);
                frame.extend([hello.up, hello.down, hello.unordered].map(u8::from));
                // Bit 0 requests the settings, and bit 1 requests reports on paths. Older servers do not know bit 1.
                // They send the settings if the byte is not 0.
                frame.push(u8::from(hello.settings) | u8::from(hello.paths) << 1);
                let nanos = anabranch_base::time::nanos(hello.span);
                vec![u64::from(hello.streams), u64::from(hello.message), nanos, hello.bytes]
            }
            Self::Sent(sent) => {
                frame[0] = SENT;
                let mut numbers = vec![sent.bytes, sent.messages, sent.nanos, sent.user, sent.system];
                numbers.extend(sent.unacknowledged);
                numbers
            }
            Self::Received(r) => {
                frame[0] = RECEIVED;
                let whole = u64::from(r.whole);
                vec![
                    r.bytes,
                    r.messages,
                    r.nanos,
                    r.user,
                    r.system,
                    r.streams,
                    r.min_stream_bytes,
                    r.max_stream_bytes,
                    whole,
                ]
            }
            Self::StreamStart => {
                frame[0] = STREAM_START;
                Vec::new()
            }
        };
        for number in numbers {
            frame.extend_from_slice(&number.to_be_bytes());
        }
        let length = frame.len() as u32;
        frame[4..HEADER].copy_from_slice(&length.to_be_bytes());
        frame
    }

    fn decode(kind: u8, content: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let bytes = content.get(at * 8..)?.first_chunk::<8>()?;
            Some(u64::from_be_bytes(*bytes))
        };
        Some(match kind {
            HELLO => {
                let flag = |at: usize| content.get(at).map(|&flag| flag != 0);
                let hello = Hello {
                    up: flag(4)?,
                    down: flag(5)?,
                    unordered: flag(6)?,
                    settings: content.get(7)? & 1 != 0,
                    paths: content.get(7)? & 2 != 0,
                    streams: u16::try_from(number(1)?).ok()?,
                    message: u32::try_from(number(2)?).ok()?,
                    span: Duration::from_nanos(number(3)?),
                    bytes: number(4)?,
                };
                let sizes = HEADER as u32..=MAX_FRAME as u32;
                let sound =
                    content.starts_with(&MAGIC) && sizes.contains(&hello.message) && hello.streams > 0;
                return sound.then_some(Self::Hello(hello));
            }
            SENT => Self::Sent(SenderReport {
                bytes: number(0)?,
                messages: number(1)?,
                nanos: number(2)?,
                user: number(3)?,
                system: number(4)?,
                unacknowledged: number(5),
            }),
            RECEIVED => Self::Received(Received {
                bytes: number(0)?,
                messages: number(1)?,
                nanos: number(2)?,
                user: number(3)?,
                system: number(4)?,
                streams: number(5)?,
                min_stream_bytes: number(6)?,
                max_stream_bytes: number(7)?,
                whole: number(8)? != 0,
            }),
            SETTINGS => {
                // The peer's settings are printed on a terminal, so unusual characters are refused.
                let plain = |text: &str| {
                    !text.is_empty()
                        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.+/%:".contains(&b))
                };
                let lines = std::str::from_utf8(content).ok()?.lines();
                let pairs = lines.filter_map(|line| line.split_once('='));
                let plain = pairs.filter(|(key, value)| plain(key) && plain(value));
                Self::Settings(plain.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
            }
            STREAM_START => Self::StreamStart,
            PATHS if content.is_empty() => Self::PathsFollow,
            PATHS => Self::Paths(PathReport::decode(std::str::from_utf8(content).ok()?)),
            _ => return None,
        })
    }
}

/// What a call of [`Parser::step`] found in the bytes of a stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ParseProgress {
    /// The number of data bytes that were parsed.
    pub(super) bytes: u64,
    /// The number of data messages whose last byte was parsed.
    pub(super) messages: u64,
    /// A complete control frame. Bytes after it have not been parsed yet.
    pub(super) control: Option<Control>,
}

/// Parses the frames on one stream.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The received part of a header or of a control frame.
    partial: Vec<u8>,
    /// The number of bytes of the current data message that are still missing.
    missing: usize,
    /// Whether this stream accepts the peer's settings and the peer's path report.
    settings: bool,
}

impl Parser {
    /// Creates a parser. It accepts frames with the peer's settings or path report only if `settings` is true. These
    /// frames take more memory than other control frames.
    pub(super) fn new(settings: bool) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Parses `input` until a control frame is complete, or until no bytes are left.
    ///
    /// # Errors
    /// If the bytes are not a valid frame.
    pub(super) fn step(&mut self, input: &mut &[u8]) -> Result<ParseProgress, &'static str> {
        let mut progress = ParseProgress::default();
        loop {
            if self.missing > 0 {
                let consumed = self.missing.min(input.len());
                *input = &input[consumed..];
                self.missing -= consumed;
                progress.bytes += consumed as u64;
                if self.missing > 0 {
                    return Ok(progress);
                }
                progress.messages += 1;
            }
            // The usual case: the input begins with the complete header of a data frame.
            if self.partial.is_empty()
                && let Some(header) = input.first_chunk::<HEADER>()
                && let (DATA, length) = of(header, self.settings)?
            {
                self.missing = length;
                continue;
            }
            let needed = match self.partial.first_chunk::<HEADER>() {
                None => HEADER,
                Some(header) => of(header, self.settings)?.1,
            };
            let consumed = (needed - self.partial.len()).min(input.len());
            self.partial.extend_from_slice(&input[..consumed]);
            *input = &input[consumed..];
            if self.partial.len() < needed {
                return Ok(progress);
            }
            let Some(header) = self.partial.first_chunk::<HEADER>() else { return Ok(progress) };
            let (kind, length) = of(header, self.settings)?;
            if kind == DATA {
                progress.bytes += HEADER as u64;
                self.missing = length - HEADER;
                self.partial.clear();
                if self.missing == 0 {
                    progress.messages += 1;
                }
            } else if self.partial.len() == length {
                let control = Control::decode(kind, &self.partial[HEADER..]);
                self.partial.clear();
                progress.control = Some(control.ok_or("the peer does not speak this protocol")?);
                return Ok(progress);
            }
        }
    }
}

/// Returns the kind of a frame, and its length in bytes. `settings` is true if frames with settings and frames with
/// path reports are allowed.
fn of(header: &[u8; HEADER], settings: bool) -> Result<(u8, usize), &'static str> {
    let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
    let most = match header[0] {
        DATA => MAX_FRAME,
        HELLO | SENT | RECEIVED | STREAM_START => 256,
        SETTINGS if settings => MAX_SETTINGS,
        PATHS if settings => HEADER + 1 + MAX_REPORT,
        _ => return Err("the peer does not speak this protocol"),
    };
    if (HEADER..=most).contains(&length) {
        Ok((header[0], length))
    } else {
        Err("a frame has an impossible length")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    fn read(bytes: &[u8], piece: usize) -> Result<(u64, u64, Vec<Control>), &'static str> {
        let (mut parser, mut all) = (Parser::new(true), (0, 0, Vec::new()));
        for mut input in bytes.chunks(piece) {
            while !input.is_empty() {
                let brought = parser.step(&mut input)?;
                all.0 += brought.bytes;
                all.1 += brought.messages;
                all.2.extend(brought.control);
            }
        }
        Ok(all)
    }

    fn some() -> (Vec<u8>, Vec<Control>) {
        let span = Duration::from_secs(3);
        let hello = Hello {
            up: true,
            down: false,
            unordered: true,
            settings: true,
            paths: true,
            streams: 9,
            message: 8,
            span,
            bytes: u64::MAX,
        };
        let received =
            Received { bytes: 7, messages: 1, max_stream_bytes: 5, whole: true, ..Received::default() };
        let settings = Control::Settings(vec![("cc".to_owned(), "cubic".to_owned())]);
        let controls = vec![
            Control::Hello(hello),
            Control::Sent(SenderReport::default()),
            Control::Sent(SenderReport { bytes: 9, unacknowledged: Some(4), ..SenderReport::default() }),
            Control::PathsFollow,
            Control::Paths(PathReport::default()),
            Control::Received(received),
            settings,
            Control::StreamStart,
        ];
        let mut bytes = data(8);
        for control in &controls {
            bytes.extend(control.encode());
            bytes.extend(data(8));
            bytes.extend(data(100));
        }
        (bytes, controls)
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let (bytes, controls) = some();
        for piece in 1..=bytes.len() {
            assert_eq!(read(&bytes, piece), Ok((8 + 8 * 108, 17, controls.clone())), "pieces of {piece}");
        }
    }

    /// The settings of a server are printed on a terminal and kept in memory. Therefore they must be harmless and
    /// limited in size.
    #[test]
    fn settings_are_plain_and_bounded() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let settings =
            vec![pair("cc", "\u{1b}[2J"), pair("sndbuf", "4MiB"), pair("a b", "1"), pair("rtt", "")];
        let read_all = |frame: &[u8]| read(frame, 100).expect("a frame").2;
        let found = read_all(&Control::Settings(settings).encode());
        assert_eq!(found, [Control::Settings(vec![pair("sndbuf", "4MiB")])]);
        let many: Settings = (0..5_000).map(|n| pair(&format!("key{n}"), "value")).collect();
        let frame = Control::Settings(many).encode();
        assert!(
            frame.len() <= MAX_SETTINGS
                && matches!(&read_all(&frame)[..], [Control::Settings(s)] if s.len() > 400)
        );
        let mut long = frame.clone();
        long[4..8].copy_from_slice(&(MAX_SETTINGS as u32 + 1).to_be_bytes());
        assert!(read(&long, 100).is_err());
        assert!(Parser::new(false).step(&mut &frame[..]).is_err(), "a client has none to tell");
    }

    #[test]
    fn noise_never_panics_nor_counts_for_much() {
        let mut rng = Rng::new(3);
        for _ in 0..20_000 {
            let mut bytes = some().0;
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u32() as u8;
            }
            let piece = 1 + rng.below(64) as usize;
            if let Ok((counted, _, _)) = read(&bytes, piece) {
                assert!(counted <= bytes.len() as u64);
            }
        }
    }
}
