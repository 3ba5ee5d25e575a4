//! Finds those errors in a client's frames that h2 reports as PROTOCOL_ERROR, although RFC 9113 requires another error
//! code (§4.2, §5.1, §6). Also finds a missing SETTINGS frame (§3.4), for which h2 reports nothing.
//!
//! The inspector parses frame headers and the values of settings. It does not decompress field blocks. Only h2 sees
//! compression errors (COMPRESSION_ERROR, §4.3), which it reports as PROTOCOL_ERROR.

use h2::Reason;
use std::collections::VecDeque;

/// Inspects the frames that a client sends.
#[derive(Debug)]
pub(crate) struct Inspector {
    /// The number of bytes until the next frame header.
    skip: u64,
    /// Whether the bytes until the next frame header are settings.
    settings: bool,
    /// The part of a frame header or a setting that has been received.
    part: Vec<u8>,
    /// The streams that the client has ended most recently.
    ended: VecDeque<u32>,
    /// The highest stream that the client has ended.
    highest_ended: u32,
    /// The first error since [`Self::begin`] was called.
    fault: Option<Reason>,
    /// The number of frames received so far.
    frames: u64,
    /// Whether the first frame was not SETTINGS.
    lacks_settings: bool,
}

impl Inspector {
    /// Returns an inspector for a connection that starts with a preface of `preface` bytes.
    pub(crate) fn new(preface: usize) -> Self {
        Self {
            skip: preface as u64,
            settings: false,
            part: Vec::new(),
            ended: VecDeque::new(),
            highest_ended: 0,
            fault: None,
            frames: 0,
            lacks_settings: false,
        }
    }

    /// Forgets an earlier error, which h2 has ignored.
    pub(crate) fn begin(&mut self) {
        self.fault = None;
    }

    /// Returns the first error since [`Self::begin`] was called.
    pub(crate) fn fault(&self) -> Option<Reason> {
        self.fault
    }

    /// Returns the number of frames received so far.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns whether the first frame of the client was not SETTINGS. h2 does not check this.
    pub(crate) fn lacks_settings(&self) -> bool {
        self.lacks_settings
    }

    /// Inspects the next bytes from the client.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let left = if self.skip == 0 { HEADER } else { SETTING };
            if self.skip > 0 && !self.settings {
                let skipped = self.skip.min(bytes.len() as u64);
                self.skip -= skipped;
                bytes = &bytes[skipped as usize..];
                continue;
            }
            let copied = bytes.len().min(left - self.part.len());
            self.part.extend_from_slice(&bytes[..copied]);
            bytes = &bytes[copied..];
            if self.part.len() < left {
                return;
            }
            let mut part = std::mem::take(&mut self.part);
            if self.skip == 0 {
                self.header(&part)
            } else {
                self.setting(&part)
            }
            // Reuse the allocation for the next header or setting.
            part.clear();
            self.part = part;
        }
    }

    fn header(&mut self, header: &[u8]) {
        let &[a, b, c, kind, flags, d, e, f, g] = header else { return };
        let length = u32::from_be_bytes([0, a, b, c]);
        let stream = u32::from_be_bytes([d, e, f, g]) & (u32::MAX >> 1);
        self.lacks_settings |= self.frames == 0 && !begins_with_settings(header);
        self.frames += 1;
        // Settings are parsed only if their payload has a valid length, which is a multiple of the size of a setting.
        self.settings = kind == SETTINGS && length.is_multiple_of(SETTING as u32);
        self.skip = length.into();
        let sized = match kind {
            PRIORITY => stream == 0 || length == 5,
            RST_STREAM => stream == 0 || length == 4,
            SETTINGS => {
                stream > 0 || (length.is_multiple_of(SETTING as u32) && (flags & ACK == 0 || length == 0))
            }
            PING => stream > 0 || length == 8,
            GOAWAY => stream > 0 || length >= 8,
            WINDOW_UPDATE => length == 4,
            _ => true,
        };
        if !sized {
            return self.found(Reason::FRAME_SIZE_ERROR);
        }
        // Most requests begin a stream above all ended streams. For such a stream, the list is not searched.
        let is_ended = stream <= self.highest_ended && self.ended.contains(&stream);
        if matches!(kind, DATA | HEADERS) && is_ended {
            return self.found(Reason::STREAM_CLOSED);
        }
        let ends = matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 || kind == RST_STREAM;
        if ends && !is_ended {
            self.ended.push_back(stream);
            self.highest_ended = self.highest_ended.max(stream);
            if self.ended.len() > REMEMBERED {
                self.ended.pop_front();
            }
        }
    }

    /// RFC 9113 §6.5.2: an initial window of 2^31 or more is an error.
    fn setting(&mut self, setting: &[u8]) {
        self.skip -= SETTING as u64;
        if let &[0, 4, 0x80..=0xff, _, _, _] = setting {
            self.found(Reason::FLOW_CONTROL_ERROR);
        }
    }

    fn found(&mut self, fault: Reason) {
        self.fault.get_or_insert(fault);
    }
}

/// Returns whether the first frame of a peer may have this header, of which only the beginning may have been received.
/// RFC 9113 §3.4: the first frame is SETTINGS. An acknowledgment of settings is not such a frame.
pub(crate) fn begins_with_settings(header: &[u8]) -> bool {
    header.get(3).is_none_or(|kind| *kind == SETTINGS) && header.get(4).is_none_or(|flags| flags & ACK == 0)
}

/// The size of a frame's header in bytes.
const HEADER: usize = 9;
/// The size of a setting in bytes.
const SETTING: usize = 6;
/// The maximum number of closed streams that are remembered. A frame on an older stream gets PROTOCOL_ERROR.
const REMEMBERED: usize = 128;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len().to_be_bytes();
        [&length[5..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    }

    #[test]
    fn errors_have_their_codes_however_the_bytes_are_cut() {
        let head = frame(HEADERS, END_STREAM, 1, b"x");
        let window = |first| frame(SETTINGS, 0, 0, &[0, 5, 0, 0, 0x40, 0, 0, 4, first, 0xff, 0xff, 0xff]);
        let size = Some(Reason::FRAME_SIZE_ERROR);
        let closed = Some(Reason::STREAM_CLOSED);
        for (frames, fault) in [
            (vec![head.clone(), frame(PING, 0, 0, &[0; 8]), window(0x7f)], None),
            (vec![frame(SETTINGS, ACK, 0, b""), frame(WINDOW_UPDATE, 0, 1, &[0; 4])], None),
            (vec![frame(HEADERS, 0, 1, b"x"), frame(DATA, 0, 1, b"y"), frame(HEADERS, 1, 1, b"t")], None),
            (vec![frame(99, 0, 1, &[0; 50]), frame(GOAWAY, 0, 0, &[0; 20])], None),
            (vec![frame(PRIORITY, 0, 1, &[0; 4])], size),
            (vec![frame(RST_STREAM, 0, 1, &[0; 5])], size),
            (vec![frame(SETTINGS, 0, 0, &[0; 5])], size),
            (vec![frame(SETTINGS, ACK, 0, &[0; 6])], size),
            (vec![frame(PING, 0, 0, &[0; 7])], size),
            (vec![frame(GOAWAY, 0, 0, &[0; 7])], size),
            (vec![frame(WINDOW_UPDATE, 0, 0, &[0; 3])], size),
            (vec![window(0x80)], Some(Reason::FLOW_CONTROL_ERROR)),
            (vec![head.clone(), frame(DATA, 0, 1, b"y")], closed),
            (vec![head.clone(), head.clone()], closed),
            (vec![frame(HEADERS, 0, 1, b"x"), frame(RST_STREAM, 0, 1, &[0; 4]), head.clone()], closed),
            // If a frame type is not allowed on a stream, h2 itself reports the right error code. The inspector then
            // reports nothing.
            (vec![frame(PRIORITY, 0, 0, &[0; 4]), frame(PING, 0, 1, &[0; 7])], None),
        ] {
            let bytes = [&b"preface"[..], &frames.concat()].concat();
            for cut in 1..bytes.len() {
                let mut inspector = Inspector::new(7);
                bytes.chunks(cut).for_each(|part| inspector.pass(part));
                assert_eq!(
                    (inspector.fault(), inspector.frames()),
                    (fault, frames.len() as u64),
                    "{frames:?}"
                );
                inspector.begin();
                assert_eq!(inspector.fault(), None);
            }
        }
    }

    #[test]
    fn the_first_frame_is_settings() {
        let (settings, ping) = (frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[0; 8]));
        let ack = frame(SETTINGS, ACK, 0, &[]);
        for (frames, lacks) in
            [([&settings[..], &ping], false), ([&ping[..], &settings], true), ([&ack[..], &settings], true)]
        {
            for cut in 1..8 {
                let mut inspector = Inspector::new(0);
                frames.concat().chunks(cut).for_each(|part| inspector.pass(part));
                assert_eq!(inspector.lacks_settings(), lacks, "{frames:?}");
            }
        }
    }

    #[test]
    fn closed_streams_are_remembered_up_to_a_limit() {
        let mut inspector = Inspector::new(0);
        for _ in 0..3 {
            for stream in 0..=255 {
                inspector.pass(&frame(RST_STREAM, 0, stream, &[0; 4]));
            }
        }
        assert_eq!(inspector.ended.len(), REMEMBERED);
    }
}
