//! Decompresses captures that are compressed with gzip, while they are read.
//!
//! The expanded size of a gzip file is not known in advance, and a small file may expand to a very large one. Beyond
//! [`FREE`] bytes, the output may therefore be at most [`MOST`] times the number of bytes read from the file.

use anabranch_http::har::file::GzipReader;
use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

/// The first bytes of a gzip file (RFC 1952 §2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The number of bytes to which any file may expand, however small the file is.
const FREE: u64 = 1 << 30;
/// The maximum ratio of output bytes to compressed bytes after the first [`FREE`] output bytes. Captures expand 2 to 50
/// times, and deflate can reach 1032.
const MOST: u64 = 100;

/// A capture, decompressed if necessary.
pub struct Capture {
    /// The content of the capture, uncompressed.
    pub bytes: Box<dyn Read>,
    /// Whether the compressed input ends too early. The value is valid only after [`bytes`](Self::bytes) has been read
    /// to its end.
    pub is_cut: Rc<Cell<bool>>,
}

/// Returns the content of `input`, decompressed if `input` is compressed.
pub fn unpacked(input: impl Read + 'static) -> io::Result<Capture> {
    unpacked_within(input, FREE, MOST)
}

fn unpacked_within(mut input: impl Read + 'static, free_bytes: u64, max_ratio: u64) -> io::Result<Capture> {
    let is_cut = Rc::new(Cell::new(false));
    let mut begins = Vec::new();
    input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut begins)?;
    let packed = begins == MAGIC;
    let whole = io::Cursor::new(begins).chain(input);
    if !packed {
        return Ok(Capture { bytes: Box::new(whole), is_cut });
    }
    let compressed = Rc::new(Cell::new(0));
    let counted = Counted { input: whole, compressed: compressed.clone() };
    let decoder = GzipReader::new(BufReader::with_capacity(1 << 16, counted));
    let bytes = Box::new(Unpacked {
        decoder,
        compressed,
        uncompressed: 0,
        free_bytes,
        max_ratio,
        is_cut: is_cut.clone(),
    });
    Ok(Capture { bytes, is_cut })
}

/// A reader that counts the bytes read from `input`.
struct Counted<R> {
    input: R,
    compressed: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.compressed.set(self.compressed.get() + read as u64);
        Ok(read)
    }
}

struct Unpacked<R> {
    decoder: GzipReader<BufReader<Counted<R>>>,
    compressed: Rc<Cell<u64>>,
    uncompressed: u64,
    free_bytes: u64,
    max_ratio: u64,
    is_cut: Rc<Cell<bool>>,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wrong = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
        let read = match self.decoder.read(into) {
            Ok(read) => read,
            // The compressed file is incomplete. The packets before the cut can still be shown, so the cut is treated
            // as the end of the capture.
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut.set(true);
                return Ok(0);
            }
            // An error with a code of the operating system comes from reading the file, not from its content.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(error) => return Err(wrong(format!("gzip: {error}"))),
        };
        self.uncompressed += read as u64;
        let bound = self.free_bytes.saturating_add(self.max_ratio.saturating_mul(self.compressed.get()));
        if self.uncompressed > bound {
            let max_ratio = self.max_ratio;
            return Err(wrong(format!(
                "gzip: unpacks to more than {max_ratio} times its size; gunzip it first if this is intended"
            )));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("packed");
        encoder.finish().expect("packed")
    }

    /// Returns the whole content of the file, and whether the file was cut off.
    fn read(bytes: Vec<u8>, free: u64, most: u64) -> io::Result<(Vec<u8>, bool)> {
        let Capture { mut bytes, is_cut } = unpacked_within(io::Cursor::new(bytes), free, most)?;
        let mut out = Vec::new();
        bytes.read_to_end(&mut out)?;
        Ok((out, is_cut.get()))
    }

    #[test]
    fn gzip_is_decompressed_and_other_input_is_unchanged() {
        let text = b"some bytes of a capture".repeat(100);
        assert_eq!(read(text.clone(), 0, 0).expect("plain"), (text.clone(), false));
        assert_eq!(read(vec![0x1f], 0, 0).expect("one byte"), (vec![0x1f], false));
        let twice = [packed(&text), packed(b"more"), vec![0; 512]].concat();
        assert_eq!(read(twice, 1 << 20, 0).expect("two members"), ([&text[..], b"more"].concat(), false));
    }

    #[test]
    fn a_bomb_is_refused_in_one_line_and_a_cut_file_is_told() {
        let bomb = packed(&vec![0; 1 << 20]);
        let error = read(bomb.clone(), 1 << 16, 100).expect_err("a bomb").to_string();
        assert_eq!(
            error,
            "gzip: unpacks to more than 100 times its size; gunzip it first if this is intended"
        );
        assert!(read(bomb.clone(), 1 << 20, 0).is_ok(), "it is the size that matters");
        assert!(read(bomb.clone(), 1 << 16, 2000).is_ok());
        let noise: Vec<u8> =
            (0..100_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        let mut cut = packed(&noise);
        cut.truncate(cut.len() / 2);
        let (before, is_cut) = read(cut, 1 << 20, 100).expect("what comes before");
        assert!(is_cut && !before.is_empty() && noise.starts_with(&before));
        let mut damaged = packed(&noise);
        damaged[100] ^= 0xff;
        assert!(read(damaged, 1 << 20, 100).expect_err("damaged").to_string().starts_with("gzip: "));
    }
}
