//! Parses the unidirectional streams of a peer: stream types, the control stream, settings and the QPACK streams.
//!
//! Implements RFC 9114 §5.2, §6.2, §7.2.3 to §7.2.8 and RFC 9204 §4.2. This module does no I/O.

use super::code::{Code, Error};
use super::frame::{FrameHeader, MAX_VARINT, Payload, Varint, kind, single_varint};
use super::instructions::{DecoderInstructions, EncoderInstructions};
use bytes::Bytes;
use std::collections::BTreeSet;

/// What a peer has announced on its unidirectional streams: its settings, its limits and its GOAWAY.
#[derive(Debug)]
pub(super) struct Peer {
    /// Whether the peer is the client.
    is_client: bool,
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
    /// SETTINGS_MAX_FIELD_SECTION_SIZE: the maximum size of a header section that the peer accepts.
    max_field_section_size: u64,
    /// The identifier in the last GOAWAY of the peer, if any.
    goaway: Option<u64>,
    max_push_id: Option<u64>,
    /// The number of frame bytes received on the control stream.
    control_bytes: u64,
}

/// A unidirectional stream of the peer.
#[derive(Debug)]
pub(super) enum PeerStream {
    /// The type of the stream has not been received completely.
    Untyped(Varint),
    /// RFC 9114 §6.2.1: the control stream.
    Control(Box<Control>),
    /// RFC 9204 §4.2: the QPACK encoder stream.
    Encoder(EncoderInstructions),
    /// RFC 9204 §4.2: the QPACK decoder stream.
    Decoder(DecoderInstructions),
    /// A stream of unknown type (RFC 9114 §6.2.3).
    Unknown,
}

/// The control stream of the peer.
#[derive(Default, Debug)]
pub(super) struct Control {
    has_settings: bool,
    header: FrameHeader,
    frame: Option<Frame>,
}

/// A frame whose header has been received.
#[derive(Debug)]
enum Frame {
    /// A frame that is processed only when it is complete. The values are its type, its length in bytes, and the
    /// payload received so far.
    Complete(u64, u64, Payload),
    /// An ignored frame, with the number of bytes that remain.
    Ignored(u64),
}

impl Default for PeerStream {
    fn default() -> Self {
        Self::Untyped(Varint::default())
    }
}

impl Peer {
    /// Returns the state of a peer that has sent nothing.
    pub(super) fn new(is_client: bool) -> Self {
        Self {
            is_client,
            has_control: false,
            has_encoder: false,
            has_decoder: false,
            max_field_section_size: MAX_VARINT,
            goaway: None,
            max_push_id: None,
            control_bytes: 0,
        }
    }

    /// Returns the maximum size of a header section that the peer accepts.
    pub(super) fn max_field_section_size(&self) -> u64 {
        self.max_field_section_size
    }

    /// Returns the identifier in the last GOAWAY of the peer, if any.
    pub(super) fn goaway(&self) -> Option<u64> {
        self.goaway
    }

    /// Processes data that was received on `stream`.
    pub(super) fn read(&mut self, stream: &mut PeerStream, mut input: Bytes) -> Result<(), Error> {
        if let PeerStream::Untyped(varint) = stream {
            let Some(of) = varint.take(&mut input) else { return Ok(()) };
            *stream = self.begin(of)?;
        }
        match stream {
            PeerStream::Control(control) => self.read_control(control, input),
            PeerStream::Encoder(instructions) => instructions.read(&input),
            PeerStream::Decoder(instructions) => instructions.read(&input),
            PeerStream::Untyped(_) | PeerStream::Unknown => Ok(()),
        }
    }

    /// Records that `stream` has ended, gracefully or not.
    pub(super) fn end(&self, stream: &PeerStream) -> Result<(), Error> {
        match stream {
            // RFC 9114 §6.2: the peer may end a stream before the stream's type is complete.
            PeerStream::Untyped(_) | PeerStream::Unknown => Ok(()),
            // RFC 9114 §6.2.1, RFC 9204 §4.2: control and QPACK streams must not be closed.
            _ => Err(Error::connection(
                Code::H3_CLOSED_CRITICAL_STREAM,
                "a control or QPACK stream was closed",
            )),
        }
    }

    fn begin(&mut self, of: u64) -> Result<PeerStream, Error> {
        let (has_one, stream) = match of {
            0x00 => (&mut self.has_control, PeerStream::Control(Box::default())),
            0x02 => (&mut self.has_encoder, PeerStream::Encoder(EncoderInstructions::default())),
            0x03 => (&mut self.has_decoder, PeerStream::Decoder(DecoderInstructions::default())),
            // RFC 9114 §6.2.2: only servers open push streams.
            0x01 if self.is_client => {
                return Err(Error::connection(
                    Code::H3_STREAM_CREATION_ERROR,
                    "a client began a push stream",
                ));
            }
            // RFC 9114 §4.6: the server may not push, because this endpoint sent no MAX_PUSH_ID.
            0x01 => return Err(Error::connection(Code::H3_ID_ERROR, "a push stream that nothing allows")),
            _ => return Ok(PeerStream::Unknown),
        };
        // RFC 9114 §6.2.1, RFC 9204 §4.2: a peer opens at most one control stream and one QPACK stream of each type.
        if std::mem::replace(has_one, true) {
            let reason = "a second control or QPACK stream of one type";
            return Err(Error::connection(Code::H3_STREAM_CREATION_ERROR, reason));
        }
        Ok(stream)
    }

    fn read_control(&mut self, control: &mut Control, mut input: Bytes) -> Result<(), Error> {
        self.control_bytes += input.len() as u64;
        if self.control_bytes > MAX_CONTROL {
            let reason = format!("more than {MAX_CONTROL} bytes of control frames");
            return Err(Error::connection(Code::H3_EXCESSIVE_LOAD, reason));
        }
        loop {
            match &mut control.frame {
                None => {
                    let Some((of, length)) = control.header.take(&mut input) else { return Ok(()) };
                    control.frame = Some(self.frame(of, length, control.has_settings)?);
                    control.has_settings = true;
                }
                Some(Frame::Ignored(left)) => {
                    let skipped = input.split_to((*left).min(input.len() as u64) as usize);
                    *left -= skipped.len() as u64;
                    if *left > 0 {
                        return Ok(());
                    }
                    control.frame = None;
                }
                Some(Frame::Complete(of, length, payload)) => {
                    let Some(payload) = payload.take(&mut input, *length) else { return Ok(()) };
                    let of = *of;
                    control.frame = None;
                    self.apply_frame(of, payload)?;
                }
            }
        }
    }

    /// Checks the type and the length of a frame on the control stream.
    fn frame(&self, of: u64, length: u64, has_settings: bool) -> Result<Frame, Error> {
        // RFC 9114 §6.2.1: the first frame is SETTINGS. §7.2.4: no later frame is SETTINGS.
        if !has_settings && of != kind::SETTINGS {
            return Err(Error::connection(
                Code::H3_MISSING_SETTINGS,
                "the first control frame is not SETTINGS",
            ));
        }
        let unexpected = || {
            Error::connection(
                Code::H3_FRAME_UNEXPECTED,
                format!("a frame of type {of:#x} on a control stream"),
            )
        };
        let most = match of {
            kind::SETTINGS if has_settings => return Err(unexpected()),
            kind::SETTINGS => MAX_SETTINGS,
            // RFC 9114 §7.2.7: servers do not send MAX_PUSH_ID.
            kind::MAX_PUSH_ID if !self.is_client => return Err(unexpected()),
            kind::CANCEL_PUSH | kind::GOAWAY | kind::MAX_PUSH_ID => size_of::<u64>() as u64,
            // RFC 9114 §7.2.1, §7.2.2, §7.2.5: the frame types of this arm are not allowed on the control stream.
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => return Err(unexpected()),
            // RFC 9218 §7.2: only clients send PRIORITY_UPDATE. Its content is ignored.
            of if kind::PRIORITY_UPDATE.contains(&of) && !self.is_client => return Err(unexpected()),
            // RFC 9114 §7.2.8: these frames of HTTP/2 are not allowed.
            of if kind::RESERVED.contains(&of) => return Err(unexpected()),
            // RFC 9114 §9: a frame of an unknown type is ignored.
            _ => return Ok(Frame::Ignored(length)),
        };
        match length > most {
            false => Ok(Frame::Complete(of, length, Payload::default())),
            true if of == kind::SETTINGS => {
                let reason = format!("SETTINGS of {length} bytes");
                Err(Error::connection(Code::H3_EXCESSIVE_LOAD, reason))
            }
            // RFC 9114 §7.1: CANCEL_PUSH, GOAWAY and MAX_PUSH_ID carry a single integer, which has at most eight bytes.
            true => Err(wrong_length(of)),
        }
    }

    /// Processes a complete frame of the control stream.
    fn apply_frame(&mut self, of: u64, payload: Bytes) -> Result<(), Error> {
        if of == kind::SETTINGS {
            return self.settings(payload);
        }
        // RFC 9114 §7.1: the payload contains exactly the fields that its frame type defines, here one integer.
        let id = single_varint(payload).ok_or_else(|| wrong_length(of))?;
        let wrong_id = |reason: &str| Err(Error::connection(Code::H3_ID_ERROR, format!("{reason} {id}")));
        match of {
            // RFC 9114 §5.2: the GOAWAY of a server names a request stream, whose identifier is a multiple of 4.
            kind::GOAWAY if !self.is_client && id % 4 != 0 => {
                wrong_id("GOAWAY does not name a request stream:")
            }
            // RFC 9114 §5.2: a later GOAWAY must not have a larger identifier.
            kind::GOAWAY if self.goaway.is_some_and(|earlier| id > earlier) => wrong_id("GOAWAY grew to"),
            kind::GOAWAY => {
                self.goaway = Some(id);
                Ok(())
            }
            // RFC 9114 §7.2.7: a later MAX_PUSH_ID must not have a smaller identifier.
            kind::MAX_PUSH_ID if self.max_push_id.is_some_and(|earlier| id < earlier) => {
                wrong_id("MAX_PUSH_ID shrank to")
            }
            kind::MAX_PUSH_ID => {
                self.max_push_id = Some(id);
                Ok(())
            }
            // RFC 9114 §7.2.3: CANCEL_PUSH is an error, because this endpoint has neither promised nor allowed a push.
            _ => wrong_id("CANCEL_PUSH of a push that is not known:"),
        }
    }

    /// RFC 9114 §7.2.4: processes the payload of SETTINGS.
    fn settings(&mut self, mut payload: Bytes) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let mut varint = Varint::default();
        while !payload.is_empty() {
            let setting = varint.take(&mut payload).zip(varint.take(&mut payload));
            let (id, value) = setting.ok_or_else(|| wrong_length(kind::SETTINGS))?;
            // RFC 9114 §7.2.4.1: some identifiers are reserved, because they belong to HTTP/2 settings without a
            // counterpart in HTTP/3.
            if matches!(id, 0x0 | 0x2..=0x5) {
                let reason = format!("SETTINGS has the reserved identifier {id:#x}");
                return Err(Error::connection(Code::H3_SETTINGS_ERROR, reason));
            }
            // RFC 9114 §7.2.4: each identifier occurs at most once.
            if !seen.insert(id) {
                let reason = format!("SETTINGS has the identifier {id:#x} twice");
                return Err(Error::connection(Code::H3_SETTINGS_ERROR, reason));
            }
            if id == MAX_FIELD_SECTION_SIZE {
                self.max_field_section_size = value;
            }
        }
        Ok(())
    }
}

fn wrong_length(of: u64) -> Error {
    Error::connection(Code::H3_FRAME_ERROR, format!("a frame of type {of:#x} is too short or too long"))
}

/// The identifier of SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 §7.2.4.1).
pub(super) const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
/// The maximum size in bytes of an accepted SETTINGS payload.
const MAX_SETTINGS: u64 = 16 * 1024;
/// The maximum number of bytes that the peer may send on its control stream during a connection.
const MAX_CONTROL: u64 = 1 << 20;
