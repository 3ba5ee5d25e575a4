//! The framing of bodies, which shows where a body ends. This module decodes the framing of received bodies, and writes
//! the framing of forwarded bodies.
//!
//! Implements RFC 9112 §6 and §7.1 for a gateway that forwards bodies, and for a server that looks for the next head.
//! Hyper and [`crate::fetch`] read bodies themselves. Chunks are decoded and encoded again without their extensions,
//! so a malformed or unusual chunk is never forwarded. Trailers are dropped unless the caller asks for them.

/// How a body ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// The body ends after this number of bytes.
    Length(u64),
    /// The body ends with a chunk of size 0.
    Chunked,
    /// The body ends when the connection closes.
    Close,
}

/// The error if the framing of a body is broken, or the body ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// Decodes the framing of a body.
#[derive(Debug)]
pub struct Decoder {
    state: DecoderState,
    /// The part of a chunk-size line or a trailer line that has been received.
    line: Vec<u8>,
    /// The number of bytes of trailers received so far.
    trailer_bytes: usize,
    /// The trailer lines; `None` unless the caller asked for them.
    trailers: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DecoderState {
    /// The number of bytes that remain of the body.
    Body(u64),
    ToTheEnd,
    Size,
    Chunk(u64),
    ChunkCr,
    ChunkLf,
    Trailer,
    Done,
}

impl Decoder {
    /// Returns the decoder of a body with the framing `framing`.
    #[must_use]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => DecoderState::Done,
            Framing::Length(length) => DecoderState::Body(length),
            Framing::Chunked => DecoderState::Size,
            Framing::Close => DecoderState::ToTheEnd,
        };
        Self { state, line: Vec::new(), trailer_bytes: 0, trailers: None }
    }

    /// Keeps the trailers that are received from now on.
    pub fn keep_trailers(&mut self) {
        self.trailers = Some(Vec::new());
    }

    /// Returns the trailer lines as received, each with its CR LF. Empty unless [`keep_trailers`](Self::keep_trailers)
    /// was called.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        self.trailers.as_deref().unwrap_or_default()
    }

    /// Whether the whole body has been decoded.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == DecoderState::Done
    }

    /// Returns the number of bytes that remain of a body of known length.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        if let DecoderState::Body(left) = self.state { Some(left) } else { None }
    }

    /// Removes framing from the front of `input`, then returns the next bytes of the body. The result is empty if more
    /// input is needed or the body is complete. Bytes after the body stay in `input`.
    ///
    /// # Errors
    /// [`Broken`]. The decoder must not be used after it.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<&'a [u8], Broken> {
        loop {
            match self.state {
                DecoderState::Done => return Ok(&[]),
                DecoderState::ToTheEnd => return Ok(take(input, u64::MAX)),
                DecoderState::Body(left) => {
                    let bytes = take(input, left);
                    let left = left - bytes.len() as u64;
                    self.state = if left == 0 { DecoderState::Done } else { DecoderState::Body(left) };
                    return Ok(bytes);
                }
                DecoderState::Chunk(left) => {
                    let bytes = take(input, left);
                    let left = left - bytes.len() as u64;
                    self.state = if left == 0 { DecoderState::ChunkCr } else { DecoderState::Chunk(left) };
                    return Ok(bytes);
                }
                DecoderState::Size
                | DecoderState::ChunkCr
                | DecoderState::ChunkLf
                | DecoderState::Trailer => {
                    let Some((&byte, rest)) = input.split_first() else { return Ok(&[]) };
                    *input = rest;
                    self.frame(byte)?;
                }
            }
        }
    }

    /// Processes one byte of framing: of a chunk-size line, a line end or a trailer line.
    fn frame(&mut self, byte: u8) -> Result<(), Broken> {
        match (self.state, byte) {
            (DecoderState::ChunkCr, b'\r') => self.state = DecoderState::ChunkLf,
            (DecoderState::ChunkLf, b'\n') => self.state = DecoderState::Size,
            (DecoderState::Size | DecoderState::Trailer, _) => {
                self.line.push(byte);
                self.trailer_bytes += usize::from(self.state == DecoderState::Trailer);
                if self.line.len() > MAX_LINE || self.trailer_bytes > MAX_TRAILERS {
                    return Err(Broken);
                }
                match byte {
                    b'\n' => {
                        let line = std::mem::take(&mut self.line);
                        // A line must end with CR LF: a bare LF does not end a line, and a CR may only stand before the
                        // LF.
                        let line = line.strip_suffix(b"\r\n").filter(|line| !line.contains(&b'\r'));
                        self.line(line.ok_or(Broken)?)?;
                    }
                    b'\t' | b'\r' | b' '..=b'~' | 0x80.. => {}
                    _ => return Err(Broken),
                }
            }
            _ => return Err(Broken),
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Broken> {
        if self.state == DecoderState::Trailer {
            if line.is_empty() {
                self.state = DecoderState::Done;
            } else if let Some(trailers) = &mut self.trailers {
                trailers.extend_from_slice(line);
                trailers.extend_from_slice(b"\r\n");
            }
            return Ok(());
        }
        let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
        // RFC 9112 §7.1.1: after the size only an extension may follow, with optional white space before the extension.
        let rest = line[end..].trim_ascii_start();
        if !(1..=MAX_DIGITS).contains(&end)
            || !(rest.is_empty() && line.len() == end || rest.starts_with(b";"))
        {
            return Err(Broken);
        }
        let digits = std::str::from_utf8(&line[..end]).map_err(|_| Broken)?;
        let size = u64::from_str_radix(digits, 16).map_err(|_| Broken)?;
        self.state = if size == 0 { DecoderState::Trailer } else { DecoderState::Chunk(size) };
        Ok(())
    }

    /// Records the end of the stream and checks that the body is complete.
    ///
    /// # Errors
    /// [`Broken`] if the body is incomplete.
    pub fn end(&mut self) -> Result<(), Broken> {
        match self.state {
            DecoderState::ToTheEnd | DecoderState::Done => {
                self.state = DecoderState::Done;
                Ok(())
            }
            _ => Err(Broken),
        }
    }
}

/// Appends `bytes` to `out` as a chunk. Appends nothing if `bytes` is empty, because an empty chunk would end the body.
pub fn write_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

/// The bytes that end a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Takes at most `left` bytes off the front of `input`.
pub(crate) fn take<'a>(input: &mut &'a [u8], left: u64) -> &'a [u8] {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    let (data, rest) = input.split_at(length);
    *input = rest;
    data
}

/// The maximum size in bytes of a chunk-size line or a trailer line.
const MAX_LINE: usize = 4096;
/// The maximum size in bytes of all trailers.
const MAX_TRAILERS: usize = 16 * 1024;
/// The maximum number of hexadecimal digits of a chunk size. With this limit, the size fits into `u64`.
const MAX_DIGITS: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    /// Decodes `bytes` in pieces of `piece` bytes. Returns the body, the bytes after the body, and whether the body is
    /// complete.
    fn decode(framing: Framing, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>, bool), Broken> {
        let mut decoder = Decoder::new(framing);
        let (mut body, mut rest) = (Vec::new(), Vec::new());
        for mut input in bytes.chunks(piece) {
            loop {
                let data = decoder.step(&mut input)?;
                body.extend_from_slice(data);
                if data.is_empty() {
                    break;
                }
            }
            rest.extend_from_slice(input);
        }
        Ok((body, rest, decoder.is_done()))
    }

    #[test]
    fn bodies_end_where_their_framing_says() {
        let chunked = b"3;x=\"y\"\r\nabc\r\n00A \t;q\r\n0123456789\r\n0\r\nT: v\r\n\r\nGET";
        for piece in 1..chunked.len() {
            let expected = (b"abc0123456789".to_vec(), b"GET".to_vec(), true);
            assert_eq!(decode(Framing::Chunked, chunked, piece), Ok(expected), "{piece}");
            let expected = (b"abcde".to_vec(), b"fgh".to_vec(), true);
            assert_eq!(decode(Framing::Length(5), b"abcdefgh", piece), Ok(expected));
            assert_eq!(decode(Framing::Close, b"abc", piece), Ok((b"abc".to_vec(), vec![], false)));
            assert_eq!(decode(Framing::Empty, b"abc", piece), Ok((vec![], b"abc".to_vec(), true)));
        }
        assert!(Decoder::new(Framing::Close).end().is_ok());
        assert!(
            Decoder::new(Framing::Length(1)).end().is_err() && Decoder::new(Framing::Chunked).end().is_err()
        );
    }

    #[test]
    fn trailers_are_kept_where_they_are_wanted() {
        let body = b"3\r\nabc\r\n0\r\nT: v\r\nU:w \r\n\r\nGET";
        for (keep_trailers, expected) in [(true, &b"T: v\r\nU:w \r\n"[..]), (false, b"")] {
            let mut decoder = Decoder::new(Framing::Chunked);
            if keep_trailers {
                decoder.keep_trailers();
            }
            let mut input = &body[..];
            while !decoder.step(&mut input).expect("chunks").is_empty() {}
            assert_eq!((decoder.trailers(), input, decoder.is_done()), (expected, &b"GET"[..], true));
        }
    }

    #[test]
    fn chunks_are_made_as_they_are_taken_apart() {
        let mut out = Vec::new();
        for piece in [&b"abc"[..], b"", &[7; 5000]] {
            write_chunk(&mut out, piece);
        }
        out.extend_from_slice(LAST_CHUNK);
        let (body, rest, done) = decode(Framing::Chunked, &out, 17).expect("chunks");
        assert!(body.len() == 5003 && body.starts_with(b"abc") && rest.is_empty() && done);
    }

    #[test]
    fn odd_chunks_are_refused() {
        let cases: [&[u8]; 17] = [
            b"\r\nabc",
            b"x\r\n",
            b"0x3\r\nabc\r\n",
            b"+3\r\nabc\r\n",
            b"-3\r\nabc\r\n",
            b" 3\r\nabc\r\n",
            b"3 \r\nabc\r\n",
            b"3\nabc\r\n",
            b"3\rx\nabc\r\n",
            b"3;\rx\r\nabc\r\n",
            b"3\0\r\nabc\r\n",
            b"3\r\nabcd\r\n",
            b"3\r\nabc\n",
            b"3\r\nabc\rx",
            b"1000000000000000\r\n",
            b"ffffffffffffffffff\r\n",
            b"0\r\nT: v\n\r\n",
        ];
        for bytes in cases {
            for piece in [1, bytes.len()] {
                assert_eq!(decode(Framing::Chunked, bytes, piece), Err(Broken), "{}", bytes.escape_ascii());
            }
        }
        let long = [b"3;".as_slice(), &[b'x'; MAX_LINE]].concat();
        assert_eq!(decode(Framing::Chunked, &long, 1000), Err(Broken));
        let many = [b"0\r\n".as_slice(), &b"T: v\r\n".repeat(MAX_TRAILERS / 6 + 1)].concat();
        assert_eq!(decode(Framing::Chunked, &many, 1000), Err(Broken));
    }

    #[test]
    fn noise_never_panics_or_yields_extra_bytes() {
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let length = 1 + rng.below(40) as usize;
            let alphabet = b"0123aAfF;\r\n\r\n x\0";
            let bytes: Vec<u8> =
                (0..length).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect();
            if let Ok((body, rest, _)) = decode(Framing::Chunked, &bytes, 1 + rng.below(8) as usize) {
                assert!(body.len() + rest.len() <= bytes.len());
            }
        }
    }
}
