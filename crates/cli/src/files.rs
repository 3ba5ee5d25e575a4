//! Output files that appear complete or not at all, and together.
//!
//! Content is written to a hidden file next to its final name; [`publish`] renames all files of a command once every
//! one is complete. Failures and the interrupt handler call [`clean_up`] or [`abandon`], which remove unfinished files.
//! A target that is not a regular file (a pipe, a terminal, a device) is written to and never replaced. Files whose
//! names come from another host are confined to one directory ([`Reserved::below`]); symbolic links cannot lead them
//! out of it.
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

/// Without the operating system's world nothing is fetched, so this type has no values.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
enum Parent {}

#[cfg(not(target_os = "linux"))]
impl Parent {
    fn rename(&self, _partial: &Path, _target: &Path) -> std::io::Result<()> {
        match *self {}
    }
}

/// Paths to remove if the process ends early. Locked while a file or directory is created or renamed, so that an
/// interrupt finds it either absent or listed.
static UNDER_WAY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Numbers the hidden files. Their names do not contain the final names, which may be too long for that.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A file that will be written. Its directory has been checked to be writable.
#[derive(Debug)]
pub struct Reserved {
    /// The path as the user wrote it.
    named: PathBuf,
    /// The path with symbolic links resolved.
    target: PathBuf,
    /// The hidden file; `None` if the target is not a regular file.
    partial: Option<PathBuf>,
    file: Option<File>,
    /// The open directory of both files, used where the path to it may have been replaced in the meantime.
    parent: Option<Parent>,
}

impl Reserved {
    /// Checks that `named` can be written, before hours are spent on its content.
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

    /// Creates the hidden file next to `target`. It is always a new file: an existing file or link of that name is not
    /// touched.
    fn hidden(named: &Path, target: PathBuf, under_way: &mut Vec<PathBuf>) -> Result<Self, Failure> {
        Self::begin(named, target, under_way, |partial| File::create_new(partial))
    }

    /// Does the same, with `create_new` to make the file.
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

    /// The path as the user wrote it.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Whether both would be written to the same file.
    pub fn same_place(&self, other: &Self) -> bool {
        self.target == other.target && self.partial.is_some()
    }

    /// Writes the whole content. The final name appears only with [`publish`].
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

    /// Appends a piece of the content.
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

    /// Appends the content of another file.
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

    /// Marks the content as complete. The final name appears only with [`publish`].
    ///
    /// # Errors
    /// [`Failure::Host`] with the reason.
    pub fn done(mut self) -> Result<Self, Failure> {
        let file = self.file.take().filter(|_| self.partial.is_some());
        file.map_or(Ok(()), |file| file.sync_all()).map_err(|error| failure(&self.named, &error))?;
        Ok(self)
    }
}

/// A directory that appears complete or not at all: until [`publish`](Self::publish) it is hidden, next to its final
/// name.
#[derive(Debug)]
pub struct ReservedDirectory {
    named: PathBuf,
    target: PathBuf,
    partial: PathBuf,
}

impl ReservedDirectory {
    /// Checks that `named` does not exist or is an empty directory, and creates the hidden directory next to it.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it exists and is not empty; [`Failure::Host`] with the reason.
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

    /// The hidden directory, into which the content is written.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Renames it to its final name.
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

/// Renames completed files to their final names, in this order.
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

/// Syncs a directory, so that the names in it survive a power failure.
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

/// The expected type of an entry in one of our directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// Returns whether one of our directories has an entry `path`, which must be of type `kind`.
///
/// A directory that a command resumes may have been changed in the meantime. Through a symbolic link the command would
/// write elsewhere, and on a FIFO it would block.
///
/// # Errors
/// [`Failure::Usage`]: it is a symbolic link or of another type; [`Failure::Host`]: its metadata cannot be read.
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

/// Rejects an entry that is a symbolic link or of another type.
///
/// # Errors
/// [`Failure::Usage`]: what the entry is, and what to do.
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

/// Writes a file in one of our directories, completely or not at all.
///
/// # Errors
/// Those of [`has_own`] and [`write()`].
pub fn write_own(target: &Path, content: &[u8]) -> Result<(), Failure> {
    has_own(target, Kind::File)?;
    write(target, content)
}

/// Creates a directory in one of our directories, and checks that it is writable.
///
/// # Errors
/// Those of [`has_own`] and [`reserve_directory`].
pub fn reserve_own_directory(directory: &Path) -> Result<(), Failure> {
    has_own(directory, Kind::Directory)?;
    reserve_directory(directory)
}

/// Writes one file, completely or not at all.
///
/// # Errors
/// [`Failure::Host`] with the reason.
pub fn write(target: &Path, content: &[u8]) -> Result<(), Failure> {
    publish(vec![Reserved::new(target)?.fill(content)?])
}

/// Creates a directory and checks that it is writable. It is removed again if the process ends early and it is still
/// empty.
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

/// Removes hidden files that a killed process left in `directory`. No other process may be writing there.
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

/// Removes unfinished output: partial files, and directories that we created and that are still empty.
pub fn clean_up() {
    remove(&mut under_way());
}

/// Removes unfinished output and ends the process. It keeps the lock, so that no other thread can create files
/// meanwhile.
pub fn abandon(code: i32) -> ! {
    let mut under_way = under_way();
    remove(&mut under_way);
    std::process::exit(code)
}

fn remove(under_way: &mut Vec<PathBuf>) {
    for path in under_way.drain(..).rev() {
        // A hidden directory is removed with its content; one that has its final name, only if it is empty.
        let hidden = path.extension().is_some_and(|ending| ending == "partial");
        let _ = match (path.is_dir(), hidden) {
            (true, true) => fs::remove_dir_all(&path),
            (true, false) => fs::remove_dir(&path),
            (false, _) => fs::remove_file(&path),
        };
    }
}

/// Resolves `named`: a symbolic link is kept, and its target is written.
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
