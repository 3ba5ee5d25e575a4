//! Opens files beneath a directory and never outside it, even if the directory contains symbolic links or is changed in
//! the meantime.
//!
//! Lookups start at the open handle of the directory, and each file found is used through its own handle. Therefore
//! nobody can swap the file between check and use. A symbolic link is followed only if it stays in the directory. A
//! link that leaves the directory, even temporarily, is refused with [`io::ErrorKind::CrossesDevices`], as the kernel
//! does. An absolute link stays in the directory if it begins with the directory's own path.
//!
//! On Linux, `openat2` with `RESOLVE_BENEATH` resolves a whole name in one call. Where that call is missing, or refuses
//! a name (for example because of an absolute link), this module resolves the name component by component. The kernel
//! then follows no link: this module reads each link and resolves its target.

#[cfg(not(unix))]
use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

/// A directory beneath which names are looked up. No lookup leaves the directory.
#[derive(Debug)]
pub struct RootDirectory {
    /// The absolute path of the directory without symbolic links. Absolute links may begin with this path or with
    /// `configured`.
    real: PathBuf,
    configured: PathBuf,
    #[cfg(unix)]
    open_root: std::cell::RefCell<handle::OpenRoot>,
}

/// The result of looking up the name of a file.
#[derive(Debug)]
pub struct FileLookup {
    /// The type, the size and the times of the file.
    pub metadata: Metadata,
    /// Whether the looked-up path contained a symbolic link.
    pub linked: bool,
}

impl RootDirectory {
    /// Opens the directory at `path`. Symbolic links in `path` itself are followed once, now.
    ///
    /// # Errors
    /// The directory does not exist.
    pub fn new(path: &Path) -> io::Result<Self> {
        let (real, configured) = (path.canonicalize()?, std::path::absolute(path)?);
        if !real.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            #[cfg(unix)]
            open_root: std::cell::RefCell::new(handle::OpenRoot::open(&real)?),
            real,
            configured,
        })
    }

    /// The path of the directory without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Returns `target` relative to this directory. `target` is the absolute path to which a symbolic link points.
    fn inside<'a>(&self, target: &'a Path) -> io::Result<&'a Path> {
        let rest = target.strip_prefix(&self.real).or_else(|_| target.strip_prefix(&self.configured));
        rest.map_err(|_| outside())
    }
}

/// Returns the error for a name that leads out of the directory.
fn outside() -> io::Error {
    io::ErrorKind::CrossesDevices.into()
}

#[cfg(unix)]
mod handle {
    use super::{FileLookup, RootDirectory};
    use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
    use rustix::fs::{CWD, Mode, OFlags, fstat, openat, readlinkat};
    use rustix::io::Errno;
    use std::cell::Cell;
    use std::ffi::{OsStr, OsString};
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Component, Path, PathBuf};
    use std::rc::Rc;

    /// An open directory, and its identity.
    #[derive(Debug)]
    pub(super) struct OpenRoot {
        directory: Rc<OwnedFd>,
        device: u64,
        inode: u64,
        /// Whether to let the kernel resolve whole names.
        uses_openat2: Cell<bool>,
    }

    impl OpenRoot {
        pub(super) fn open(real: &Path) -> io::Result<Self> {
            let directory = openat(CWD, real, DIRECTORY, Mode::empty())?;
            let metadata = File::from(directory.try_clone()?).metadata()?;
            let (device, inode) = (metadata.dev(), metadata.ino());
            Ok(Self { directory: Rc::new(directory), device, inode, uses_openat2: Cell::new(WHOLE) })
        }
    }

    impl RootDirectory {
        /// Looks up a file. `relative` is its path relative to this directory.
        ///
        /// # Errors
        /// The name does not exist, or leads out of the directory.
        pub fn look_up(&self, relative: &Path) -> io::Result<FileLookup> {
            let root = self.root()?;
            let (found, linked) = match self.resolve(&root, relative, LOOKUP, false) {
                Err(Errno::LOOP) => (self.resolve(&root, relative, LOOKUP, true)?, true),
                found => (found?, false),
            };
            Ok(FileLookup { metadata: File::from(found).metadata()?, linked })
        }

        /// Looks up a file without following links, at a lower cost than [`look_up`](Self::look_up). `relative` is the
        /// file's path relative to this directory, and `full` is its absolute path.
        ///
        /// # Errors
        /// The name does not exist, or its path contains a link.
        pub fn look_up_cached(&self, relative: &Path, full: &Path) -> io::Result<Metadata> {
            // For a path of few components, checking each of its directories costs less than opening the file.
            let depth = relative.components().count();
            if depth <= SHORT {
                for ancestor in full.ancestors().skip(1).take(depth.saturating_sub(1)) {
                    if !ancestor.symlink_metadata()?.is_dir() {
                        return Err(io::ErrorKind::NotADirectory.into());
                    }
                }
                return full.symlink_metadata();
            }
            let root = self.root()?;
            File::from(self.resolve(&root, relative, LOOKUP, false)?).metadata()
        }

        /// Opens a file for reading. `relative` is its path relative to this directory. Opening a FIFO without a writer
        /// does not block.
        ///
        /// # Errors
        /// The file cannot be opened, or is outside the directory.
        pub fn open(&self, relative: &Path) -> io::Result<File> {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            Ok(self.resolve(&*self.root()?, relative, flags, true)?.into())
        }

        /// Opens a directory without following links. `relative` is its path relative to the root directory.
        ///
        /// # Errors
        /// The directory does not exist, or its path contains a link.
        pub fn directory(&self, relative: &Path) -> io::Result<OwnedFd> {
            Ok(self.resolve(&*self.root()?, relative, DIRECTORY, false)?)
        }

        /// Returns the handle of the root directory. Opens the directory again if another directory is now at its path,
        /// for example with a new version of the site.
        fn root(&self) -> io::Result<Rc<OwnedFd>> {
            let metadata = self.real.symlink_metadata()?;
            let mut open_root = self.open_root.borrow_mut();
            if (metadata.dev(), metadata.ino()) != (open_root.device, open_root.inode) {
                *open_root = OpenRoot::open(&self.real)?;
            }
            Ok(open_root.directory.clone())
        }

        /// Makes later lookups resolve names component by component, as on a kernel without `openat2`.
        #[cfg(test)]
        pub(super) fn disable_kernel_resolution(&self) {
            self.open_root.borrow().uses_openat2.set(false);
        }

        /// Opens a file or directory. `relative` is its path relative to `root`. If `links` is true, follows links that
        /// stay beneath `root`.
        fn resolve(
            &self,
            root: &OwnedFd,
            relative: &Path,
            flags: OFlags,
            links: bool,
        ) -> Result<OwnedFd, Errno> {
            let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
            if self.open_root.borrow().uses_openat2.get() {
                match resolve_in_kernel(root, relative, flags, links) {
                    Err(Errno::NOSYS) => self.open_root.borrow().uses_openat2.set(false),
                    // With these errors the kernel refuses a name that may nevertheless lead to a file inside the
                    // directory. A sandbox may forbid the call (PERM). An absolute link may lead back into the
                    // directory (XDEV). Another process may be renaming parts of the path (AGAIN).
                    Err(Errno::PERM | Errno::XDEV | Errno::AGAIN) => {}
                    found => return found,
                }
            }
            self.walk(root, relative, flags, links)
        }

        /// Resolves a name component by component. Each component is opened relative to the previous directory. The
        /// kernel follows no link: this function reads each link and resolves its target. `..` returns to the previous
        /// handle, so no step leaves `root`.
        fn walk(
            &self,
            root: &OwnedFd,
            relative: &Path,
            flags: OFlags,
            links: bool,
        ) -> Result<OwnedFd, Errno> {
            let mut left: Vec<OsString> = parts(relative).collect();
            let mut directories: Vec<OwnedFd> = Vec::new();
            let mut followed = 0;
            while let Some(part) = left.pop() {
                if part == ".." {
                    directories.pop().ok_or(Errno::XDEV)?;
                    continue;
                }
                let current: BorrowedFd<'_> = directories.last().map_or(root.as_fd(), AsFd::as_fd);
                let last = left.is_empty();
                let part_flags = if last { flags } else { DIRECTORY };
                let opened = openat(current, &part, part_flags | NOT_A_LINK, Mode::empty());
                let error = match opened {
                    // On Linux, opening a symbolic link with `PATH` does not fail, but returns a handle of the link.
                    // Treat this like the error `LOOP`, with which other opens fail.
                    Ok(found) if part_flags.contains(LOOKUP) && is_link(&found)? => Errno::LOOP,
                    Ok(found) if last => return Ok(found),
                    Ok(found) => {
                        directories.push(found);
                        continue;
                    }
                    Err(error) => error,
                };
                let Ok(target) = readlinkat(current, &part, Vec::new()) else { return Err(error) };
                followed += 1;
                if !links || followed > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                let inside = if target.is_absolute() {
                    directories.clear();
                    self.inside(&target).map_err(|_| Errno::XDEV)?
                } else {
                    &target
                };
                left.extend(parts(inside));
            }
            let current = directories.last().map_or(root.as_fd(), AsFd::as_fd);
            openat(current, OsStr::new("."), flags | NOT_A_LINK, Mode::empty())
        }
    }

    /// Resolves the whole name with RESOLVE_BENEATH. The kernel refuses names that lead out of `root`, and names that
    /// change during the resolution.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn resolve_in_kernel(
        root: &OwnedFd,
        relative: &Path,
        flags: OFlags,
        links: bool,
    ) -> Result<OwnedFd, Errno> {
        use rustix::fs::{ResolveFlags, openat2};
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_SYMLINKS, !links);
        let mut tries = 0;
        loop {
            match openat2(root, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if tries < TRIES => tries += 1,
                found => return found,
            }
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn resolve_in_kernel(
        _root: &OwnedFd,
        _below: &Path,
        _flags: OFlags,
        _links: bool,
    ) -> Result<OwnedFd, Errno> {
        Err(Errno::NOSYS)
    }

    fn is_link(found: &OwnedFd) -> Result<bool, Errno> {
        Ok(rustix::fs::FileType::from_raw_mode(fstat(found)?.st_mode).is_symlink())
    }

    /// Returns the components of a path, the last one first. The root component of an absolute path is left out.
    fn parts(path: &Path) -> impl Iterator<Item = OsString> {
        path.components().rev().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsStr::new("..").to_owned()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
    }

    const NOT_A_LINK: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
    /// The flags to look up a file. A lookup must not require read permission.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const LOOKUP: OFlags = OFlags::PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const LOOKUP: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
    const DIRECTORY: OFlags = LOOKUP.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    /// Whether this platform's kernel may be able to resolve whole names (`openat2`).
    const WHOLE: bool = cfg!(any(target_os = "linux", target_os = "android"));
    /// How many times a name is resolved again because it changed during the resolution.
    const TRIES: u32 = 16;
    /// For paths of at most this many components, the directories on the path are checked one by one, because this
    /// costs less than opening a handle.
    const SHORT: usize = 3;
    /// The maximum number of symbolic links on one path, the same as in the kernel.
    const MAX_LINKS: u32 = 40;
}

/// This implementation is for platforms without handles of directories. A name is checked first, and the file is then
/// opened by its path.
#[cfg(not(unix))]
impl RootDirectory {
    fn real(&self, relative: &Path) -> io::Result<PathBuf> {
        let real = self.real.join(relative).canonicalize()?;
        self.inside(&real)?;
        Ok(real)
    }

    /// Looks up a file. `relative` is its path relative to this directory.
    ///
    /// # Errors
    /// The name does not exist, or leads out of the directory.
    pub fn look_up(&self, relative: &Path) -> io::Result<FileLookup> {
        let full = self.real.join(relative);
        let real = self.real(relative)?;
        Ok(FileLookup { metadata: real.metadata()?, linked: real != full })
    }

    /// Opens a file for reading. `relative` is its path relative to this directory.
    ///
    /// # Errors
    /// The file cannot be opened, or is outside the directory.
    pub fn open(&self, relative: &Path) -> io::Result<File> {
        File::open(self.real(relative)?)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// The kernel's resolution and the component-wise walk must agree on every name.
    #[test]
    fn kernel_and_component_walk_resolve_alike() {
        let scratch = std::env::temp_dir().join(format!("anabranch-beneath-{}", std::process::id()));
        let _ = fs::remove_dir_all(&scratch);
        let at = scratch.join("root");
        fs::create_dir_all(at.join("a/b")).expect("directories");
        for name in ["root/f", "root/a/f", "root/a/b/f", "out"] {
            fs::write(scratch.join(name), name).expect("a file");
        }
        let full = at.canonicalize().expect("a path");
        for (link, target) in [
            ("l", "f"),
            ("a/l", "../f"),
            ("a/b/l", "../../a/f"),
            ("d", "a/b"),
            ("e", "d"),
            ("out", "../out"),
            ("up", ".."),
            ("a/up", "../.."),
            ("again", "again"),
            ("none", "nothing"),
            ("slash", "/"),
            ("etc", "/etc"),
            ("file", "f/x"),
            ("dot", "./a/./f"),
        ] {
            symlink(target, at.join(link)).expect("a link");
        }
        symlink(full.join("a/b"), at.join("whole")).expect("a link");
        symlink(full.join("../out"), at.join("wholeout")).expect("a link");
        let (kernel, walk) =
            (RootDirectory::new(&at).expect("there"), RootDirectory::new(&at).expect("there"));
        walk.disable_kernel_resolution();
        let read = |root: &RootDirectory, name: &str| {
            let lookup = root.look_up(Path::new(name)).map_err(|error| error.kind())?;
            let file = root.open(Path::new(name)).map_err(|error| error.kind())?;
            let text = if lookup.metadata.is_file() {
                io::read_to_string(file).expect("text")
            } else {
                String::new()
            };
            Ok::<_, io::ErrorKind>((lookup.metadata.is_dir(), lookup.linked, text))
        };
        let mut served = 0;
        for name in [
            "",
            ".",
            "f",
            "a",
            "a/f",
            "a/b/f",
            "l",
            "a/l",
            "a/b/l",
            "d/f",
            "e/f",
            "e/l",
            "out",
            "up",
            "up/out",
            "a/up/f",
            "up/root/f",
            "again",
            "none",
            "slash/etc",
            "etc/passwd",
            "file",
            "f/x",
            "dot",
            "whole/f",
            "whole",
            "wholeout",
            "d/../f",
            "e/../../f",
            "../root/f",
            "a/../f",
            "..",
            "a/b/../../../out",
            "no/f",
        ] {
            let (one, other) = (read(&kernel, name), read(&walk, name));
            assert_eq!(one, other, "{name}");
            if let Ok((false, _, text)) = one {
                served += 1;
                assert!(text.starts_with("root/"), "{name}: {text}");
            }
        }
        assert!(served > 10, "{served}");
        assert_eq!(read(&walk, "up/out"), Err(io::ErrorKind::CrossesDevices));
        fs::remove_dir_all(&scratch).expect("removed");
    }
}
