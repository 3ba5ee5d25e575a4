//! Reads files that a user names, up to a maximum size. Without the limit, reading a device such as `/dev/zero` would
//! never end. The name `-` stands for standard input.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::sync::OnceLock;

/// The name that stands for standard input.
pub const STDIN: &str = "-";

/// The content of standard input. It is kept, because it can be read only once, and a plan may read a file twice.
static INPUT: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();

/// Returns the content of standard input, up to [`MAX_RESULT`] bytes plus one.
///
/// # Errors
/// One line that says why standard input cannot be read. A terminal is not read, because it never ends.
pub fn stdin() -> Result<&'static [u8], String> {
    let read = INPUT.get_or_init(|| {
        let input = std::io::stdin();
        if input.is_terminal() {
            return Err("standard input is a terminal; write a file name, or < FILE".to_owned());
        }
        let mut bytes = Vec::new();
        let read = input.lock().take(MAX_RESULT + 1).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|error| format!("standard input: {error}"))
    });
    read.as_deref().map_err(Clone::clone)
}

/// Returns the text of the file named `file`. The file may have at most `most` bytes.
///
/// # Errors
/// One line that says why the file cannot be read, or that it is too large or not text.
pub fn read(file: &str, most: u64) -> Result<String, String> {
    bytes(file, most).and_then(|bytes| text(bytes, most))
}

/// Returns the beginning of the file named `file`: at most `most` bytes plus one, so that the caller notices a larger
/// file.
///
/// # Errors
/// One line that says why the file cannot be read.
pub fn bytes(file: &str, most: u64) -> Result<Vec<u8>, String> {
    if file == STDIN {
        let all = stdin()?;
        let most = usize::try_from(most.saturating_add(1)).unwrap_or(usize::MAX);
        return Ok(all[..all.len().min(most)].to_owned());
    }
    let mut bytes = Vec::new();
    let mut source = File::open(file).map_err(|error| error.to_string())?.take(most.saturating_add(1));
    source.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Checks that `bytes` are UTF-8 text of at most `most` bytes, and returns the text.
///
/// # Errors
/// One line that says that the content is too large or not text.
pub fn text(bytes: Vec<u8>, most: u64) -> Result<String, String> {
    if bytes.len() as u64 > most {
        return Err(format!("more than {most} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line}: not UTF-8, so not a text")
    })
}

/// The maximum size of a plan in bytes.
pub const MAX_PLAN: u64 = 16 << 20;
/// The maximum size of a trace in bytes.
pub const MAX_TRACE: u64 = 1 << 30;
/// The maximum size in bytes of an earlier result that `--compare` reads.
pub const MAX_RESULT: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_or_is_no_text_is_refused() {
        let file = std::env::temp_dir().join(format!("anabranch-file-{}", std::process::id()));
        let name = file.to_string_lossy().into_owned();
        std::fs::write(&file, b"one\ntwo \xff").expect("written");
        assert_eq!(read(&name, 100), Err("line 2: not UTF-8, so not a text".to_owned()));
        std::fs::write(&file, b"12345").expect("written");
        assert_eq!(read(&name, 5).as_deref(), Ok("12345"));
        assert_eq!(read(&name, 4), Err("more than 4 bytes".to_owned()));
        let _ = std::fs::remove_file(&file);
        #[cfg(target_os = "linux")]
        assert_eq!(read("/dev/zero", 1000), Err("more than 1000 bytes".to_owned()));
    }
}
