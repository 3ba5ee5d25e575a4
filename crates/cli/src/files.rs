//! Output files that appear complete or not at all. All files of a command appear together.
//!
//! Content is written to a hidden file next to its final name. [`publish`] renames all files of a command when every
//! one is complete. After a failure or an interrupt, [`clean_up`] or [`abandon`] removes unfinished files. A target
//! that is not a regular file (a pipe, a terminal, a device) is written to and never replaced. Files whose names come
//! from another host stay in one directory, even if it contains symbolic links ([`PendingFile::confined`]).

#[cfg(target_os = "linux")]
mod confined;

use crate::Failure;
#[cfg(target_os = "linux")]
use confined::Parent;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Replaces `confined::Parent`, which exists only on Linux. Other systems have no command that needs a parent
/// directory, so this type has no values.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
enum Parent {}

#[cfg(not(target_os = "linux"))]
impl Parent {
    fn rename(&self, _partial: &Path, _target: &Path) -> std::io::Result<()> {
        match *self {}
    }
}

/// The paths to remove if the process ends early. The lock is held while a file or directory is created or renamed. An
/// interrupt therefore finds every unfinished file and directory in this list.
static PENDING_PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A counter that gives each hidden file a unique name. The hidden name does not contain the final name, because the
/// hidden name could then be too long.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A file that will be written. The directory of the file was writable when this value was created.
#[derive(Debug)]
pub struct PendingFile {
    /// The path of the file, as the user wrote it.
    user_path: PathBuf,
    /// The path of the file, with symbolic links resolved.
    target: PathBuf,
    /// The path of the hidden file, which is renamed to `target` when it is complete. `None` if `target` is a device or
    /// a pipe, which is written directly.
    partial: Option<PathBuf>,
    file: Option<File>,
    /// A file descriptor of the directory that contains the hidden file and the final file; set by
    /// [`confined`](Self::confined). A rename relative to this descriptor is safe even if the path of the directory now
    /// leads elsewhere.
    parent: Option<Parent>,
}

impl PendingFile {
    /// Checks that the file `user_path` can be written, before a command spends hours on its content.
    ///
    /// # Errors
    /// [`Failure::Host`] if the file cannot be written.
    pub fn new(user_path: &Path) -> Result<Self, Failure> {
        let target = resolve(user_path)?;
        let metadata = fs::metadata(&target).ok();
        if metadata.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(Failure::Host(format!("'{}' is a directory; expected a file", user_path.display())));
        }
        if metadata.is_some_and(|metadata| !metadata.is_file()) {
            return Ok(Self {
                user_path: user_path.to_owned(),
                target,
                partial: None,
                file: None,
                parent: None,
            });
        }
        Self::hidden(user_path, target, &mut pending_paths())
    }

    /// Creates the hidden file next to `target`. The file is always new: an existing file or symbolic link of that name
    /// is not touched.
    fn hidden(user_path: &Path, target: PathBuf, under_way: &mut Vec<PathBuf>) -> Result<Self, Failure> {
        Self::begin(user_path, target, under_way, |partial| File::create_new(partial))
    }

    /// Like [`hidden`](Self::hidden), but calls `create_new` to create the file.
    fn begin(
        user_path: &Path,
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
                Err(error) => return Err(failure(user_path, &error)),
                Ok(file) => {
                    under_way.push(partial.clone());
                    let (user_path, partial, file) = (user_path.to_owned(), Some(partial), Some(file));
                    return Ok(Self { user_path, target, partial, file, parent: None });
                }
            }
        }
    }

    /// The path of the file, as the user wrote it.
    pub fn user_path(&self) -> &Path {
        &self.user_path
    }

    /// Whether this file and `other` would be written to the same path.
    pub fn same_target(&self, other: &Self) -> bool {
        self.target == other.target && self.partial.is_some()
    }

    /// Writes the whole content of the file. The final name appears only when [`publish`] is called.
    ///
    /// # Errors
    /// [`Failure::Host`] if the content cannot be written.
    pub fn fill(mut self, content: &[u8]) -> Result<Self, Failure> {
        let written = match (self.file.take(), &self.partial) {
            (Some(mut file), _) => file.write_all(content).and_then(|()| file.sync_all()),
            (None, None) => {
                fs::OpenOptions::new().write(true).open(&self.target).and_then(|mut f| f.write_all(content))
            }
            (None, Some(_)) => Ok(()),
        };
        written.map_err(|error| failure(&self.user_path, &error))?;
        Ok(self)
    }

    /// Appends `piece` to the content of the file.
    ///
    /// # Errors
    /// [`Failure::Host`] if `piece` cannot be written.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let written = match &mut self.file {
            Some(file) => file.write_all(piece),
            None => fs::OpenOptions::new().write(true).open(&self.target).and_then(|mut file| {
                let written = file.write_all(piece);
                self.file = Some(file);
                written
            }),
        };
        written.map_err(|error| failure(&self.user_path, &error))
    }

    /// Appends the content of the file `source`.
    ///
    /// # Errors
    /// [`Failure::Host`] if `source` cannot be read, or if its content cannot be written.
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

    /// Marks the content as complete. The final name appears only when [`publish`] is called.
    ///
    /// # Errors
    /// [`Failure::Host`] if the content cannot be stored on the disk.
    pub fn done(mut self) -> Result<Self, Failure> {
        let file = self.file.take().filter(|_| self.partial.is_some());
        file.map_or(Ok(()), |file| file.sync_all()).map_err(|error| failure(&self.user_path, &error))?;
        Ok(self)
    }
}

/// A directory that appears complete or not at all. Until [`publish`](Self::publish) is called, it has a hidden name
/// next to its final name.
#[derive(Debug)]
pub struct ReservedDirectory {
    user_path: PathBuf,
    target: PathBuf,
    partial: PathBuf,
}

impl ReservedDirectory {
    /// Checks that `user_path` does not exist or is an empty directory. Creates a directory with a hidden name next to
    /// it, for the files until they are complete.
    ///
    /// # Errors
    /// [`Failure::Usage`] if `user_path` exists and is not an empty directory; [`Failure::Host`] with any other reason.
    pub fn new(user_path: &Path) -> Result<Self, Failure> {
        let parent =
            user_path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        reserve_directory(parent)?;
        let target = resolve(user_path)?;
        if target.file_name().is_none() {
            return Err(Failure::Usage(format!("'{}': name a new directory", user_path.display())));
        }
        match fs::read_dir(&target).map(|mut entries| entries.next().is_none()) {
            Ok(true) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(false) => {
                let line = format!("'{}' is not empty; name another directory", user_path.display());
                return Err(Failure::Usage(line));
            }
            Err(error) => return Err(failure(user_path, &error)),
        }
        let mut under_way = pending_paths();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = target.with_file_name(format!(".anabranch.{}.{number}.partial", std::process::id()));
        fs::create_dir(&partial).map_err(|error| failure(user_path, &error))?;
        under_way.push(partial.clone());
        Ok(Self { user_path: user_path.to_owned(), target, partial })
    }

    /// The path of the hidden directory, into which the content is written.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Renames the directory to its final name.
    ///
    /// # Errors
    /// [`Failure::Host`] if the directory cannot be synced or renamed.
    pub fn publish(self) -> Result<(), Failure> {
        settle(&self.partial)?;
        let mut under_way = pending_paths();
        fs::rename(&self.partial, &self.target).map_err(|error| failure(&self.user_path, &error))?;
        under_way.retain(|path| !path.starts_with(&self.partial));
        Ok(())
    }
}

/// Renames the completed files in `filled` to their final names, one after another.
///
/// # Errors
/// [`Failure::Host`] if a file cannot be renamed.
pub fn publish(filled: Vec<PendingFile>) -> Result<(), Failure> {
    let mut under_way = pending_paths();
    for file in filled {
        let Some(partial) = &file.partial else { continue };
        let renamed = match &file.parent {
            Some(parent) => parent.rename(partial, &file.target),
            None => fs::rename(partial, &file.target),
        };
        renamed.map_err(|error| failure(&file.user_path, &error))?;
        under_way.retain(|other| other != partial);
    }
    Ok(())
}

/// Syncs a directory, so that the names in it survive a power failure.
///
/// # Errors
/// [`Failure::Host`] if the directory cannot be synced.
pub fn settle(directory: &Path) -> Result<(), Failure> {
    if cfg!(unix) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| failure(directory, &error))?;
    }
    Ok(())
}

/// The expected type of an entry in a directory that belongs to this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// Returns whether `path`, in a directory that belongs to this program, exists. An existing entry must be of type
/// `kind`.
///
/// Somebody may have changed a directory before a command resumes in it. A symbolic link would make the command write
/// elsewhere, and a FIFO would block it.
///
/// # Errors
/// [`Failure::Usage`] if `path` is a symbolic link, or is not of type `kind`; [`Failure::Host`] if its metadata cannot
/// be read.
pub fn has_own(path: &Path, kind: EntryKind) -> Result<bool, Failure> {
    let found = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(Failure::Host(format!("cannot read '{}': {error}", path.display()))),
    };
    check_kind(path, found, kind).map(|()| true)
}

/// Rejects `path` if it is a symbolic link or is not of type `kind`.
///
/// # Errors
/// [`Failure::Usage`]. The message states the type of `path` and how to proceed.
pub fn check_kind(path: &Path, found: fs::FileType, kind: EntryKind) -> Result<(), Failure> {
    let (is_it, expected) = match kind {
        EntryKind::File => (found.is_file(), "regular file"),
        EntryKind::Directory => (found.is_dir(), "directory"),
    };
    if is_it {
        return Ok(());
    }
    let problem =
        if found.is_symlink() { "is a symbolic link".to_owned() } else { format!("is no {expected}") };
    Err(Failure::Usage(format!(
        "'{}' {problem}; put a {expected} there, or name another directory",
        path.display()
    )))
}

/// Writes a file in this program's own output directory, completely or not at all.
///
/// # Errors
/// The errors of [`has_own`] and [`write()`].
pub fn write_own(target: &Path, content: &[u8]) -> Result<(), Failure> {
    has_own(target, EntryKind::File)?;
    write(target, content)
}

/// Creates a directory inside this program's own output directory, and checks that the new directory is writable.
///
/// # Errors
/// The errors of [`has_own`] and [`reserve_directory`].
pub fn reserve_own_directory(directory: &Path) -> Result<(), Failure> {
    has_own(directory, EntryKind::Directory)?;
    reserve_directory(directory)
}

/// Writes one file, completely or not at all.
///
/// # Errors
/// [`Failure::Host`] if the file cannot be written.
pub fn write(target: &Path, content: &[u8]) -> Result<(), Failure> {
    publish(vec![PendingFile::new(target)?.fill(content)?])
}

/// Creates the directory that `--out` of a race names, and checks that it is writable. An existing directory must be
/// empty or the output of an earlier race, because the race overwrites files in it.
///
/// # Errors
/// [`Failure::Usage`] if the directory holds something else, and the errors of [`reserve_directory`].
pub fn reserve_race_directory(directory: &Path) -> Result<(), Failure> {
    let mut names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_empty = names.all(|name| name.to_string_lossy().starts_with(".anabranch."));
    if !is_empty && !RACE_FILES.iter().any(|(name, schema)| begins_with(&directory.join(name), schema)) {
        return Err(Failure::Usage(format!(
            "--out: '{}' is not empty, and no race has written it; name a new directory",
            directory.display()
        )));
    }
    reserve_directory(directory)
}

/// The files by which a directory of a race is recognized, each with its schema.
const RACE_FILES: [(&str, &str); 2] =
    [("results.json", "\"anabranch.race/"), ("sweep.json", "\"anabranch.sweep/")];

/// Returns whether the first bytes of a file contain `text`.
fn begins_with(file: &Path, text: &str) -> bool {
    let mut first = Vec::new();
    let read = File::open(file).and_then(|file| file.take(1024).read_to_end(&mut first));
    read.is_ok() && String::from_utf8_lossy(&first).contains(text)
}

/// Creates a directory and checks that it is writable. If the process ends early and the new directory is still empty,
/// it is removed.
///
/// # Errors
/// [`Failure::Host`] if the directory cannot be created or is not writable.
pub fn reserve_directory(directory: &Path) -> Result<(), Failure> {
    let mut under_way = pending_paths();
    if !directory.is_dir() {
        let parents: Vec<&Path> =
            directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
        under_way.extend(parents.iter().rev().map(|parent| (*parent).to_owned()));
        fs::create_dir_all(directory).map_err(|error| failure(directory, &error))?;
    }
    let probe = PendingFile::hidden(directory, directory.join("probe"), &mut under_way)?;
    if let Some(partial) = probe.partial {
        under_way.retain(|other| *other != partial);
        fs::remove_file(&partial).map_err(|error| failure(directory, &error))?;
    }
    Ok(())
}

/// Removes the hidden files that a killed process left in `directory`. No other process may be writing to `directory`.
///
/// # Errors
/// [`Failure::Host`] if the directory cannot be read, or if a file cannot be removed.
pub fn remove_leftovers(directory: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(directory).map_err(|error| failure(directory, &error))? {
        let path = entry.map_err(|error| failure(directory, &error))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(".anabranch.") && name.ends_with(".partial") {
            fs::remove_file(&path).map_err(|error| failure(&path, &error))?;
        }
    }
    Ok(())
}

/// Removes unfinished output: partial files, and directories that this process created and that are still empty.
pub fn clean_up() {
    remove(&mut pending_paths());
}

/// Removes unfinished output and ends the process. The lock on the list of paths is kept, so that no other thread can
/// create files in the meantime.
pub fn abandon(code: i32) -> ! {
    let mut under_way = pending_paths();
    remove(&mut under_way);
    std::process::exit(code)
}

fn remove(under_way: &mut Vec<PathBuf>) {
    for path in under_way.drain(..).rev() {
        // A directory that still has its hidden, temporary name is removed with all its content. A directory that has
        // its final name is removed only if it is empty.
        let hidden = path.extension().is_some_and(|ending| ending == "partial");
        let _ = match (path.is_dir(), hidden) {
            (true, true) => fs::remove_dir_all(&path),
            (true, false) => fs::remove_dir(&path),
            (false, _) => fs::remove_file(&path),
        };
    }
}

/// Resolves the path `user_path`. For a symbolic link, returns the path of its target: the caller then replaces the
/// target and not the link.
fn resolve(user_path: &Path) -> Result<PathBuf, Failure> {
    if fs::symlink_metadata(user_path).is_ok_and(|metadata| metadata.is_symlink()) {
        return user_path.canonicalize().map_err(|error| failure(user_path, &error));
    }
    let Some(name) = user_path.file_name() else { return Ok(user_path.to_owned()) };
    let parent = user_path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(parent.canonicalize().map_err(|error| failure(user_path, &error))?.join(name))
}

fn pending_paths() -> MutexGuard<'static, Vec<PathBuf>> {
    PENDING_PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Host(format!("cannot write '{}': {error}", path.display()))
}
