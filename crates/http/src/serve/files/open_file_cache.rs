//! A cache of the open files that are being sent. Each file is opened only once, even if it is requested by several
//! names. The number of open files is bounded.
//!
//! An entry stays in the cache as long as a response holds it, but its file may be closed meanwhile. If too many files
//! are open, or the system has no more descriptors, the least recently read file is closed. It is opened again for its
//! next read. Therefore a client that stalls ten thousand responses keeps no file open. If the reopened file is another
//! file or version, the response is aborted, because it would mix two versions.

use super::Identity;
use crate::root_dir::RootDirectory;
use crate::serve::Store;
use bytes::{Bytes, BytesMut};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};

/// The cache of the files that the responses of a site are sending.
#[derive(Debug)]
pub(super) struct OpenFileCache {
    root: Rc<RootDirectory>,
    files: RefCell<BTreeMap<Identity, Weak<CachedFile>>>,
    /// The number of files that are open now.
    open_count: Cell<usize>,
    max_open: usize,
    /// The number of reads so far. Each file stores the number of its last read, so that the least recently read file
    /// can be found.
    reads: Cell<u64>,
}

/// A cached file, shared by all responses that send it.
#[derive(Debug)]
pub(super) struct CachedFile {
    cache: Rc<OpenFileCache>,
    /// The path of the file below the root directory, as it was first requested.
    relative: PathBuf,
    identity: Identity,
    file: RefCell<Option<File>>,
    read: Cell<u64>,
}

impl OpenFileCache {
    /// Returns a cache for files beneath `root`. At most `max_open` files are open at a time.
    pub(super) fn new(root: Rc<RootDirectory>, max_open: usize) -> Rc<Self> {
        let (files, open_count, reads) = Default::default();
        Rc::new(Self { root, files, open_count, max_open, reads })
    }

    /// Returns the file at `relative`, a path relative to the root directory; `None` if it is no longer a regular file.
    /// `seen` is the last known identity of the file.
    pub(super) fn take(
        self: &Rc<Self>,
        relative: &Path,
        seen: Identity,
    ) -> io::Result<Option<Rc<CachedFile>>> {
        let cached = self.files.borrow().get(&seen).and_then(Weak::upgrade);
        if let Some(shared) = cached {
            shared.mark_used();
            return Ok(Some(shared));
        }
        let Some((file, identity)) = self.open(relative)? else { return Ok(None) };
        self.open_count.set(self.open_count.get() + 1);
        let shared = Rc::new(CachedFile {
            cache: self.clone(),
            relative: relative.to_owned(),
            identity,
            file: RefCell::new(Some(file)),
            read: Cell::new(0),
        });
        shared.mark_used();
        self.files.borrow_mut().insert(identity, Rc::downgrade(&shared));
        Ok(Some(shared))
    }

    /// Opens a regular file. Closes another file if too many are open.
    fn open(&self, relative: &Path) -> io::Result<Option<(File, Identity)>> {
        if self.open_count.get() >= self.max_open {
            self.close_one();
        }
        let file = match self.root.open(relative) {
            Err(error) if is_out_of_descriptors(&error) && self.close_one() => self.root.open(relative)?,
            file => file?,
        };
        // The file may have been replaced since it was looked up, so check its type again.
        let metadata = file.metadata()?;
        Ok(metadata.is_file().then(|| (file, Identity::of(&metadata))))
    }

    /// Closes the least recently read file. Returns false if no file was open.
    pub(super) fn close_one(&self) -> bool {
        let files = self.files.borrow();
        let open = files.values().filter_map(Weak::upgrade).filter(|shared| shared.file.borrow().is_some());
        let Some(oldest) = open.min_by_key(|shared| shared.read.get()) else { return false };
        oldest.file.borrow_mut().take();
        self.open_count.set(self.open_count.get() - 1);
        true
    }
}

impl CachedFile {
    /// Returns the identity of this version of the file.
    pub(super) const fn identity(&self) -> Identity {
        self.identity
    }

    fn mark_used(&self) {
        let reads = self.cache.reads.get() + 1;
        self.cache.reads.set(reads);
        self.read.set(reads);
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        if self.file.get_mut().take().is_some() {
            self.cache.open_count.set(self.cache.open_count.get() - 1);
        }
        let mut files = self.cache.files.borrow_mut();
        // A newer entry with the same identity may have replaced this entry in the cache. The newer entry must stay.
        if files.get(&self.identity).is_some_and(|cached| cached.strong_count() == 0) {
            files.remove(&self.identity);
        }
    }
}

impl Store for CachedFile {
    fn read(&self, offset: u64, most: usize) -> io::Result<Bytes> {
        self.mark_used();
        if self.file.borrow().is_none() {
            let opened = self.cache.open(&self.relative)?.filter(|(_, identity)| *identity == self.identity);
            let (file, _) = opened.ok_or_else(|| io::Error::other("the file has changed"))?;
            self.cache.open_count.set(self.cache.open_count.get() + 1);
            *self.file.borrow_mut() = Some(file);
        }
        let file = self.file.borrow();
        let Some(file) = file.as_ref() else { return Err(io::ErrorKind::NotFound.into()) };
        let mut bytes = BytesMut::zeroed(most);
        loop {
            match file.read_at(&mut bytes, offset) {
                // The file has become shorter since the response head stated its length.
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    bytes.truncate(read);
                    return Ok(bytes.freeze());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns whether the error means that the process or the system has no more file descriptors.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// The error codes `ENFILE` and `EMFILE` of the operating system.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A temporary directory with three files, which is removed when this value is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("anabranch-cache-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a directory");
            for name in ["a", "b", "c"] {
                fs::write(path.join(name), name.repeat(3)).expect("a file");
            }
            Self(path.canonicalize().expect("a directory"))
        }

        fn cache(&self, most: usize) -> Rc<OpenFileCache> {
            OpenFileCache::new(Rc::new(RootDirectory::new(&self.0).expect("a directory")), most)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn take(cache: &Rc<OpenFileCache>, name: &str) -> Rc<CachedFile> {
        let seen = Identity::of(&cache.root.look_up(Path::new(name)).expect("there").metadata);
        cache.take(Path::new(name), seen).expect("opened").expect("a file")
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let scratch = Scratch::new("unreadable");
        let file = take(&scratch.cache(10), "a");
        let write_only = fs::OpenOptions::new().write(true).open(scratch.0.join("a")).expect("opened");
        *file.file.borrow_mut() = Some(write_only);
        assert!(file.read(0, 3).is_err());
    }

    #[test]
    fn a_file_is_open_once_and_forgotten_when_nobody_holds_it() {
        let scratch = Scratch::new("once");
        let cache = scratch.cache(10);
        fs::hard_link(scratch.0.join("a"), scratch.0.join("d")).expect("a link");
        let files = ["a", "d", "./a", "a"].map(|name| take(&cache, name));
        assert!(files.iter().all(|file| Rc::ptr_eq(file, &files[0])) && cache.open_count.get() == 1);
        let second = take(&cache, "b");
        assert_eq!((cache.open_count.get(), cache.files.borrow().len()), (2, 2));
        drop((files, second));
        assert_eq!((cache.open_count.get(), cache.files.borrow().len()), (0, 0));
        let seen = Identity::of(&cache.root.look_up(Path::new(".")).expect("there").metadata);
        assert!(cache.take(Path::new("."), seen).expect("there").is_none());
        assert_eq!(cache.open_count.get(), 0);
    }

    #[test]
    fn the_least_recently_read_file_is_closed_at_the_limit() {
        let scratch = Scratch::new("many");
        let cache = scratch.cache(2);
        let [a, b, c] = ["a", "b", "c"].map(|name| take(&cache, name));
        let is_open = |file: &CachedFile| file.file.borrow().is_some();
        assert_eq!((is_open(&a), is_open(&b), is_open(&c), cache.open_count.get()), (false, true, true, 2));
        for _ in 0..3 {
            for (file, text) in [(&a, "aaa"), (&b, "bbb"), (&c, "ccc")] {
                assert_eq!(file.read(0, 3).expect("bytes"), text);
                assert_eq!(file.read(1, 1).expect("bytes"), text[..1]);
                assert_eq!(cache.open_count.get(), 2);
            }
        }
        // A file was replaced while the cache had it closed. Its path now leads to another file, so the read must fail.
        fs::write(scratch.0.join("a"), "another").expect("a file");
        assert!(a.read(0, 3).is_err() && cache.open_count.get() <= 2);
        drop((a, b, c));
        assert_eq!(cache.open_count.get(), 0);
    }

    #[test]
    fn a_lack_of_descriptors_is_distinguished_from_not_found() {
        for (code, out) in [(2, false), (13, false), (23, true), (24, true)] {
            assert_eq!(is_out_of_descriptors(&io::Error::from_raw_os_error(code)), out, "{code}");
        }
    }
}
