//! Files that appear whole or not at all, and together.
//!
//! Content goes to a hidden file beside its final name; [`publish`] renames
//! all that belong together when every one is complete. What is under way is
//! known to [`clean_up`] and [`abandon`], which failures and the interrupt
//! handler call. What is no file (a pipe, a terminal, a device) is never
//! replaced: it is written to. Files whose names another host has given go
//! below one directory ([`Reserved::below`]), and links lead them nowhere else.

#[cfg(target_os = "linux")]
mod below;

use crate::Failure;
#[cfg(target_os = "linux")]
use below::Parent;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nothing is fetched where there is no operating system's world.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
enum Parent {}

#[cfg(not(target_os = "linux"))]
impl Parent {
    fn rename(&self, _partial: &Path, _target: &Path) -> std::io::Result<()> {
        match *self {}
    }
}

/// What must go if we end early. Held while a file or directory is made or renamed, so that an interrupt finds it
/// either not there or listed.
static UNDER_WAY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Numbers the hidden files: final names may be too long to be part of theirs.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A file that will be written: its place has been tried.
#[derive(Debug)]
pub struct Reserved {
    /// As the user wrote it.
    named: PathBuf,
    /// Where links lead.
    target: PathBuf,
    /// The hidden file; `None` for what is no file.
    partial: Option<PathBuf>,
    file: Option<File>,
    /// The open directory of both, where their path may lead elsewhere by now.
    parent: Option<Parent>,
}

impl Reserved {
    /// Makes sure that `named` can be written, before hours are spent on its content.
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn new(named: &Path) -> Result<Self, Failure> {
        let target = resolve(named)?;
        let kind = fs::metadata(&target).ok();
        if kind.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(Failure::Host(format!("'{}' is a directory; expected a file", named.display())));
        }
        if kind.is_some_and(|kind| !kind.is_file()) {
            return Ok(Self { named: named.to_owned(), target, partial: None, file: None, parent: None });
        }
        Self::hidden(named, target, &mut under_way())
    }

    /// Begins the hidden file beside `target`. It is always a new one: whatever has its name, a link too, stays as it is.
    fn hidden(named: &Path, target: PathBuf, under_way: &mut Vec<PathBuf>) -> Result<Self, Failure> {
        Self::begin(named, target, under_way, |partial| File::create_new(partial))
    }

    /// The same, where `create_new` makes the file.
    fn begin(
        named: &Path,
        target: PathBuf,
        under_way: &mut Vec<PathBuf>,
        create_new: impl Fn(&Path) -> std::io::Result<File>,
    ) -> Result<Self, Failure> {
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let partial =
                target.with_file_name(format!(".anabranch.{}.{number}.partial", std::process::id()));
            match create_new(&partial) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failure(named, &error)),
                Ok(file) => {
                    under_way.push(partial.clone());
                    let (named, partial, file) = (named.to_owned(), Some(partial), Some(file));
                    return Ok(Self { named, target, partial, file, parent: None });
                }
            }
        }
    }

    /// As the user wrote it.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Both would be written to the same place.
    pub fn same_place(&self, other: &Self) -> bool {
        self.target == other.target && self.partial.is_some()
    }

    /// Takes the content; it is not under the final name before [`publish`].
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn fill(mut self, content: &[u8]) -> Result<Self, Failure> {
        let written = match (self.file.take(), &self.partial) {
            (Some(mut file), _) => file.write_all(content).and_then(|()| file.sync_all()),
            (None, None) => {
                fs::OpenOptions::new().write(true).open(&self.target).and_then(|mut f| f.write_all(content))
            }
            (None, Some(_)) => Ok(()),
        };
        written.map_err(|error| failure(&self.named, &error))?;
        Ok(self)
    }

    /// Takes the next piece of the content.
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.file {
            Some(file) => file.write_all(piece),
            None => fs::OpenOptions::new().write(true).open(&self.target).and_then(|mut file| {
                let written = file.write_all(piece);
                self.file = Some(file);
                written
            }),
        };
        written.map_err(|error| failure(&self.named, &error))
    }

    /// Takes the content of another file.
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn copy(&mut self, source: &Path) -> Result<(), Failure> {
        let unreadable = |error| Failure::Host(format!("cannot read '{}': {error}", source.display()));
        let mut source = File::open(source).map_err(unreadable)?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match source.read(&mut buffer).map_err(unreadable)? {
                0 => return Ok(()),
                length => self.write(&buffer[..length])?,
            }
        }
    }

    /// No piece is missing; it is not under the final name before [`publish`].
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn done(mut self) -> Result<Self, Failure> {
        let file = self.file.take().filter(|_| self.partial.is_some());
        file.map_or(Ok(()), |file| file.sync_all()).map_err(|error| failure(&self.named, &error))?;
        Ok(self)
    }
}

/// A directory that will appear whole or not at all: until [`publish`](Self::publish) it is a hidden one beside its name.
#[derive(Debug)]
pub struct ReservedDirectory {
    named: PathBuf,
    target: PathBuf,
    partial: PathBuf,
}

impl ReservedDirectory {
    /// Makes sure that `named` is nothing yet, or an empty directory, and begins the hidden one beside it.
    ///
    /// # Errors
    /// [`Failure::Usage`] where something is there; [`Failure::Host`] with the reason.
    pub fn new(named: &Path) -> Result<Self, Failure> {
        let parent = named.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        reserve_directory(parent)?;
        let target = resolve(named)?;
        if target.file_name().is_none() {
            return Err(Failure::Usage(format!("'{}': name a new directory", named.display())));
        }
        match fs::read_dir(&target).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(false) => {
                let line = format!("'{}' is not empty; name another directory", named.display());
                return Err(Failure::Usage(line));
            }
            Err(error) => return Err(failure(named, &error)),
        }
        let mut under_way = under_way();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = target.with_file_name(format!(".anabranch.{}.{number}.partial", std::process::id()));
        fs::create_dir(&partial).map_err(|error| failure(named, &error))?;
        under_way.push(partial.clone());
        Ok(Self { named: named.to_owned(), target, partial })
    }

    /// Where its content goes.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn publish(self) -> Result<(), Failure> {
        settle(&self.partial)?;
        let mut under_way = under_way();
        fs::rename(&self.partial, &self.target).map_err(|error| failure(&self.named, &error))?;
        under_way.retain(|path| !path.starts_with(&self.partial));
        Ok(())
    }
}

/// Puts files that were filled under their final names, in this order.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn publish(filled: Vec<Reserved>) -> Result<(), Failure> {
    let mut under_way = under_way();
    for file in filled {
        let Some(partial) = &file.partial else { continue };
        let renamed = match &file.parent {
            Some(parent) => parent.rename(partial, &file.target),
            None => fs::rename(partial, &file.target),
        };
        renamed.map_err(|error| failure(&file.named, &error))?;
        under_way.retain(|other| other != partial);
    }
    Ok(())
}

/// Has the names in a directory outlive the machine's power.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn settle(directory: &Path) -> Result<(), Failure> {
    if cfg!(unix) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failure(directory, &error))?;
    }
    Ok(())
}

/// What a directory of ours has under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// Returns whether a directory of ours has something under the name `path`, which is then of this kind itself.
///
/// Directories that a command goes on with may have been changed in between. Through a link the command would write
/// elsewhere, and at a FIFO it would wait.
///
/// # Errors
/// [`Failure::Usage`]: it is a link, or of another kind; [`Failure::Host`]: it cannot be looked at.
pub fn has_own(path: &Path, kind: Kind) -> Result<bool, Failure> {
    let found = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(Failure::Host(format!("cannot read '{}': {error}", path.display()))),
    };
    check_kind(path, found, kind).map(|()| true)
}

/// Refuses what is a link, or of another kind.
///
/// # Errors
/// [`Failure::Usage`]: what it is, and what to do.
pub fn check_kind(path: &Path, found: fs::FileType, kind: Kind) -> Result<(), Failure> {
    let (is_it, expected) = match kind {
        Kind::File => (found.is_file(), "regular file"),
        Kind::Directory => (found.is_dir(), "directory"),
    };
    if is_it {
        return Ok(());
    }
    let what = if found.is_symlink() { "is a symbolic link".to_owned() } else { format!("is no {expected}") };
    Err(Failure::Usage(format!(
        "'{}' {what}; put a {expected} there, or name another directory",
        path.display()
    )))
}

/// Writes one file of a directory of ours, whole or not at all.
///
/// # Errors
/// Those of [`has_own`] and [`write()`].
pub fn write_own(target: &Path, content: &[u8]) -> Result<(), Failure> {
    has_own(target, Kind::File)?;
    write(target, content)
}

/// Makes a directory within one of ours, and tries it.
///
/// # Errors
/// Those of [`has_own`] and [`reserve_directory`].
pub fn reserve_own_directory(directory: &Path) -> Result<(), Failure> {
    has_own(directory, Kind::Directory)?;
    reserve_directory(directory)
}

/// Writes one file, whole or not at all.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn write(target: &Path, content: &[u8]) -> Result<(), Failure> {
    publish(vec![Reserved::new(target)?.fill(content)?])
}

/// Makes a directory and tries it; one that we made goes again if we end early without having put anything in it.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn reserve_directory(directory: &Path) -> Result<(), Failure> {
    let mut under_way = under_way();
    if !directory.is_dir() {
        let parents: Vec<&Path> =
            directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
        under_way.extend(parents.iter().rev().map(|parent| (*parent).to_owned()));
        fs::create_dir_all(directory).map_err(|error| failure(directory, &error))?;
    }
    let probe = Reserved::hidden(directory, directory.join("probe"), &mut under_way)?;
    if let Some(partial) = probe.partial {
        under_way.retain(|other| *other != partial);
        fs::remove_file(&partial).map_err(|error| failure(directory, &error))?;
    }
    Ok(())
}

/// Removes hidden files in `directory` that a program left which was killed. Nobody else may be writing there.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn sweep_out(directory: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(directory).map_err(|error| failure(directory, &error))? {
        let path = entry.map_err(|error| failure(directory, &error))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(".anabranch.") && name.ends_with(".partial") {
            fs::remove_file(&path).map_err(|error| failure(&path, &error))?;
        }
    }
    Ok(())
}

/// Removes what is under way: partial files, and directories we made that are still empty.
pub fn clean_up() {
    remove(&mut under_way());
}

/// Removes what is under way and ends the process, while nothing new can be made by other threads.
pub fn abandon(code: i32) -> ! {
    let mut under_way = under_way();
    remove(&mut under_way);
    std::process::exit(code)
}

fn remove(under_way: &mut Vec<PathBuf>) {
    for path in under_way.drain(..).rev() {
        // A directory that is under way goes with all that is in it; one that has its name, only while it is empty.
        let hidden = path.extension().is_some_and(|ending| ending == "partial");
        let _ = match (path.is_dir(), hidden) {
            (true, true) => fs::remove_dir_all(&path),
            (true, false) => fs::remove_dir(&path),
            (false, _) => fs::remove_file(&path),
        };
    }
}

/// Where `named` leads: a link stays a link, its target is written.
fn resolve(named: &Path) -> Result<PathBuf, Failure> {
    if fs::symlink_metadata(named).is_ok_and(|kind| kind.is_symlink()) {
        return named.canonicalize().map_err(|error| failure(named, &error));
    }
    let Some(name) = named.file_name() else { return Ok(named.to_owned()) };
    let parent = named.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(parent.canonicalize().map_err(|error| failure(named, &error))?.join(name))
}

fn under_way() -> MutexGuard<'static, Vec<PathBuf>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Host(format!("cannot write '{}': {error}", path.display()))
}
