//! Creates files below an output directory, with names that come from another host.
//!
//! Each directory of the path is opened relative to its parent directory. The file is created and renamed relative to
//! the innermost directory. A symbolic link that somebody creates between these steps therefore cannot lead out of the
//! output directory.

use super::{PendingFile, failure, pending_paths};
use crate::Failure;
use anabranch_http::root_dir::RootDirectory;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, renameat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The open directory in which a file is created and renamed.
#[derive(Debug)]
pub(super) struct Parent(OwnedFd);

impl Parent {
    /// Renames the file `partial` to its final name `target` within this directory.
    pub(super) fn rename(&self, partial: &Path, target: &Path) -> io::Result<()> {
        let (Some(from), Some(to)) = (partial.file_name(), target.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    fn create_new(&self, partial: &Path) -> io::Result<File> {
        let name = partial.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The kernel applies the user's umask to this mode, as to any new file.
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?.into())
    }
}

impl PendingFile {
    /// Prepares to write the file `name` below `directory`. `name` is a path that comes from another host. Creates the
    /// missing directories of `name`. Fails if a symbolic link among the directories of `name` leads out of `directory`
    /// or to a hidden directory. Also fails if `name` is a symbolic link, or exists and is not a regular file.
    ///
    /// # Errors
    /// [`Failure::Host`] if the file must not or cannot be written.
    pub fn confined(directory: &Path, name: &Path) -> Result<Self, Failure> {
        let user_path = directory.join(name);
        let refused =
            |reason: &str| Failure::Host(format!("cannot write '{}': {reason}", user_path.display()));
        let failed = |error: io::Error| failure(&user_path, &error);
        let mut parts: Vec<_> = name.components().collect();
        let Some(Component::Normal(last)) = parts.pop() else { return Err(refused("it names no file")) };
        if parts.iter().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(refused("it leads out of the directory"));
        }
        let root = RootDirectory::new(directory).map_err(failed)?;
        let mut parent =
            openat(CWD, root.path(), DIRECTORY, Mode::empty()).map_err(|error| failed(error.into()))?;
        let mut parents = PathBuf::new();
        let mut under_way = pending_paths();
        for part in parts {
            match mkdirat(&parent, part.as_os_str(), Mode::from_raw_mode(0o777)) {
                Ok(()) => under_way.push(root.path().join(&parents).join(part)),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error.into())),
            }
            match openat(&parent, part.as_os_str(), DIRECTORY, Mode::empty()) {
                Ok(next) => {
                    parents.push(part);
                    parent = next;
                }
                // `part` is a symbolic link, or exists but is no directory.
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    let link = root.path().join(&parents).join(part);
                    let destination = link.canonicalize().map_err(failed)?;
                    let is_hidden =
                        |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
                    let problem = match destination.strip_prefix(root.path()) {
                        Err(_) => "leads out of the directory",
                        Ok(destination) if destination.components().any(is_hidden) => {
                            "leads to a hidden directory"
                        }
                        Ok(destination) => {
                            parent = root.directory(destination).map_err(failed)?;
                            parents = destination.to_owned();
                            continue;
                        }
                    };
                    return Err(refused(&format!("the link '{}' {problem}", link.display())));
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        if let Ok(destination) = statat(&parent, last, AtFlags::SYMLINK_NOFOLLOW) {
            match FileType::from_raw_mode(destination.st_mode) {
                FileType::RegularFile => {}
                FileType::Symlink => return Err(refused("a symbolic link has that name")),
                FileType::Directory => return Err(refused("a directory has that name")),
                _ => return Err(refused("that name is not a file")),
            }
        }
        let parent = Parent(parent);
        let target = root.path().join(parents).join(last);
        let file = Self::begin(&user_path, target, &mut under_way, |partial| parent.create_new(partial))?;
        Ok(Self { parent: Some(parent), ..file })
    }
}

/// Flags to open a directory relative to another directory, without following a symbolic link.
const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::publish;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// While files are written into a directory, another thread replaces the directory with a symbolic link. Each file
    /// must end up in the directory or nowhere.
    #[test]
    fn a_directory_that_is_swapped_meanwhile_leads_nowhere_else() {
        let scratch = std::env::temp_dir().join(format!("anabranch-below-{}", std::process::id()));
        let _ = fs::remove_dir_all(&scratch);
        let (copy, outside) = (scratch.join("copy"), scratch.join("outside"));
        for directory in [copy.join("sub"), outside.clone()] {
            fs::create_dir_all(directory).expect("directories");
        }
        let over = Arc::new(AtomicBool::new(false));
        let (stop, path, lure) = (over.clone(), copy.clone(), outside.clone());
        let swapping = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let _ = fs::rename(path.join("sub"), path.join("away"));
                // Errors are ignored, because the writing thread may have created the directory again in the meantime.
                let _ = symlink(&lure, path.join("sub"));
                let _ = fs::remove_file(path.join("sub"));
                let _ = fs::remove_dir_all(path.join("sub"));
                let _ = fs::rename(path.join("away"), path.join("sub"));
            }
        });
        let (mut written, mut refused) = (0, 0);
        for number in 0..20_000 {
            let name = format!("sub/deep/{number}");
            let reserved = PendingFile::confined(&copy, Path::new(&name));
            match reserved.and_then(|file| file.fill(b"x")).and_then(|file| publish(vec![file])) {
                Ok(()) => written += 1,
                Err(_) => refused += 1,
            }
            if written > 200 && refused > 200 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
        swapping.join().expect("swapped");
        let led: Vec<_> =
            fs::read_dir(&outside).expect("there").flatten().map(|entry| entry.file_name()).collect();
        assert!(led.is_empty(), "{led:?} of {written} written, {refused} refused");
        assert!(written > 0 && refused > 0, "{written} written, {refused} refused");
        fs::remove_dir_all(&scratch).expect("removed");
    }
}
