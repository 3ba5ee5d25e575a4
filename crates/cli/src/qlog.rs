//! `--qlog DIR`, or the environment variable `QLOGDIR` as in curl and other programs: writes a log file for each QUIC
//! connection.

use crate::{Failure, complain};
use anabranch_transport::network::Logs;
use anabranch_transports::UrlScheme;
use clap::ArgMatches;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Arc, Once};

/// The destination of the connection logs; `None` disables logging.
pub type LogDestination = Option<Arc<dyn Logs>>;

/// Returns the destination that `--qlog` names. Without this flag, `QLOGDIR` names the destination.
pub fn log_destination<'a>(
    matches: &ArgMatches,
    schemes: impl IntoIterator<Item = &'a UrlScheme>,
) -> Result<LogDestination, Failure> {
    let has_logs = schemes.into_iter().any(|scheme| scheme.protocol().has_logs());
    let Some(directory) = matches.get_one::<String>("qlog") else {
        let directory = std::env::var_os("QLOGDIR").filter(|name| has_logs && !name.is_empty());
        return Ok(directory.map(|name| Arc::new(Directory(name.into())) as Arc<dyn Logs>));
    };
    if !has_logs {
        return Err(Failure::Usage(format!(
            "--qlog {directory}: no URL uses HTTP/3; write h3://, or https:// with --http 3"
        )));
    }
    Ok(Some(self::directory(directory)?))
}

/// Returns a destination that writes files to this directory, which is created if it does not exist.
pub fn directory(directory: &str) -> Result<Arc<dyn Logs>, Failure> {
    let created = fs::create_dir_all(directory);
    created.map_err(|error| Failure::Usage(format!("--qlog {directory}: {error}; expected a directory")))?;
    Ok(Arc::new(Directory(directory.into())))
}

/// Writes log files to the directory at this path.
struct Directory(PathBuf);

impl Logs for Directory {
    fn begin(&self, name: &str) -> Option<Box<dyn Write + Send>> {
        static ONCE: Once = Once::new();
        let path = self.0.join(name);
        // Never overwrites an existing file, because the client chose the connection ID in the name.
        match File::create_new(&path) {
            Ok(file) => Some(Box::new(BufWriter::new(file))),
            Err(why) => {
                ONCE.call_once(|| {
                    complain(&format!("{}: {why}; connections are not logged", path.display()))
                });
                None
            }
        }
    }
}
