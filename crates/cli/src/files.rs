//! Files that appear whole or not at all.
//!
//! Content goes to a hidden file beside its final name and is renamed when
//! complete. What is under way is known to [`clean_up`], which failures and
//! the interrupt handler call.

use crate::Failure;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What must go if we end early.
static UNDER_WAY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that will be written: its place has been tried.
#[derive(Debug)]
pub struct Reserved {
    target: PathBuf,
    partial: PathBuf,
}

impl Reserved {
    /// Makes sure that `target` can be written, before hours are spent on its content.
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn new(target: &Path) -> Result<Self, Failure> {
        if target.is_dir() {
            return Err(Failure::Host(format!("'{}' is a directory; a file was expected", target.display())));
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let partial = target.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        remember(&partial);
        fs::File::create(&partial).map_err(|error| failure(target, &error))?;
        Ok(Self { target: target.to_owned(), partial })
    }

    /// Puts `content` under the final name.
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason; the final name is as it was.
    pub fn write(self, content: &[u8]) -> Result<(), Failure> {
        let written = fs::File::create(&self.partial).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written
            .and_then(|()| fs::rename(&self.partial, &self.target))
            .map_err(|error| failure(&self.target, &error))?;
        forget(&self.partial);
        Ok(())
    }
}

/// Writes one file, whole or not at all.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn write(target: &Path, content: &[u8]) -> Result<(), Failure> {
    Reserved::new(target)?.write(content)
}

/// Makes a directory and tries it; one that we made goes again if we end early without having put anything in it.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn reserve_directory(directory: &Path) -> Result<(), Failure> {
    if !directory.is_dir() {
        let parents: Vec<&Path> =
            directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
        for parent in parents.iter().rev() {
            remember(parent);
        }
        fs::create_dir_all(directory).map_err(|error| failure(directory, &error))?;
    }
    let probe = directory.join(format!(".probe.{}.partial", std::process::id()));
    fs::File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(|error| failure(directory, &error))
}

/// Removes what is under way: partial files, and directories we made that are still empty.
pub fn clean_up() {
    let Ok(mut under_way) = UNDER_WAY.lock() else { return };
    for path in under_way.drain(..).rev() {
        let _ = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
    }
}

fn remember(path: &Path) {
    if let Ok(mut under_way) = UNDER_WAY.lock() {
        under_way.push(path.to_owned());
    }
}

fn forget(path: &Path) {
    if let Ok(mut under_way) = UNDER_WAY.lock() {
        under_way.retain(|other| other != path);
    }
}

fn failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Host(format!("cannot write '{}': {error}", path.display()))
}
