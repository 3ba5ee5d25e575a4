//! Logs the TLS secrets of sessions to the file that `SSLKEYLOGFILE` names, for programs that decode captures.
//!
//! The format is the NSS key log format. Each line has a label, and the client random and the secret in hexadecimal.

use crate::complain;
use anabranch_transports::security::KeyLog;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Returns the key log of this process. It writes nothing if `SSLKEYLOGFILE` is not set or names a file that is
/// refused.
pub fn key_log() -> Arc<dyn KeyLog> {
    static LOG: LazyLock<Arc<KeyLogFile>> = LazyLock::new(|| Arc::new(KeyLogFile::from_environment()));
    LOG.clone()
}

/// A key log that appends to a file; `None` if it is disabled.
#[derive(Debug)]
struct KeyLogFile(Option<File>);

impl KeyLogFile {
    fn from_environment() -> Self {
        let Some(path) = std::env::var_os("SSLKEYLOGFILE").filter(|path| !path.is_empty()) else {
            return Self(None);
        };
        let path = Path::new(&path);
        match open(path) {
            Ok(file) => Self(Some(file)),
            Err(why) => {
                complain(&format!("SSLKEYLOGFILE {}: {why}; no secrets are written", path.display()));
                Self(None)
            }
        }
    }
}

/// Opens the file for appending. A new file is readable only by its owner.
///
/// A symbolic link is refused, because another user may have created it to redirect the secrets.
fn open(path: &Path) -> Result<File, String> {
    // Without NONBLOCK, opening a FIFO that nobody reads would block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags.bits() as i32).open(path);
    let file = opened.map_err(|why| match Errno::from_io_error(&why) {
        Some(Errno::LOOP) => "it is a symbolic link; name the file itself".to_owned(),
        _ => why.to_string(),
    })?;
    let is_file = file.metadata().map_err(|error| error.to_string())?.is_file();
    if is_file { Ok(file) } else { Err("it is not a regular file".to_owned()) }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let Some(mut file) = self.0.as_ref() else { return };
        let mut line = format!("{label} ");
        let append_hex = |line: &mut String, bytes: &[u8]| {
            bytes.iter().for_each(|byte| {
                let _ = write!(line, "{byte:02x}");
            });
        };
        append_hex(&mut line, client_random);
        line.push(' ');
        append_hex(&mut line, secret);
        line.push('\n');
        // The line is written with a single call, so that lines of several threads and programs do not mix. If the
        // write fails, for example because the disk is full, the session continues.
        let _ = file.write_all(line.as_bytes());
    }

    fn will_log(&self, _label: &str) -> bool {
        self.0.is_some()
    }
}
