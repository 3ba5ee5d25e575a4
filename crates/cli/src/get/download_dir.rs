//! Stores the objects of `get --page` in files below a directory. The server determines the names of these files.
//!
//! All files stay below the directory and are not hidden, whatever names the page contains. A page that is saved into a
//! home directory therefore cannot write to `.bashrc` or `.ssh`. Symbolic links in the directory cannot lead out of it
//! (`PendingFile::confined`).

use super::meter::Meter;
use crate::Failure;
use crate::files::{self, PendingFile};
use anabranch_http::visit::{BodySink, Step};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Stores files below a directory. Each file is complete or does not exist.
pub struct DownloadDir {
    directory: Option<PathBuf>,
    /// The paths that are in use below the directory. The value is the request target of a file, or `None` for a
    /// subdirectory.
    names: RefCell<BTreeMap<PathBuf, Option<String>>>,
    meter: Rc<Meter>,
}

impl DownloadDir {
    /// Creates a store for objects below `directory`. If `directory` is `None`, objects are discarded.
    pub fn new(directory: Option<PathBuf>, meter: Rc<Meter>) -> Self {
        Self { directory, names: RefCell::default(), meter }
    }

    /// Returns the path of the file for a request target. If a name in that path is already in use for another target,
    /// a number is appended to the name.
    fn name(&self, target: &str) -> PathBuf {
        let mut names = self.names.borrow_mut();
        let wanted_name = name_of(target);
        let last = wanted_name.components().count().saturating_sub(1);
        let mut name = PathBuf::new();
        for (depth, part) in wanted_name.iter().enumerate() {
            let holds = (depth == last).then(|| target.to_owned());
            let numbered = |number: u32| match number {
                1 => name.join(part),
                _ => name.join(format!("{}~{number}", part.to_string_lossy())),
            };
            let mut free = (1..).map(numbered).filter(|name| names.get(name).is_none_or(|has| *has == holds));
            name = free.next().unwrap_or_else(|| name.join(part));
            names.insert(name.clone(), holds);
        }
        name
    }
}

impl BodySink for DownloadDir {
    type File = PendingFile;

    fn open(&self, target: &str) -> Result<Option<PendingFile>, String> {
        let Some(directory) = &self.directory else { return Ok(None) };
        PendingFile::confined(directory, &self.name(target)).map(Some).map_err(Failure::line)
    }

    fn write(&self, file: &mut PendingFile, piece: &[u8]) -> Result<(), String> {
        file.write(piece).map_err(Failure::line)
    }

    fn done(&self, file: PendingFile) -> Result<(), String> {
        file.done().and_then(|file| files::publish(vec![file])).map_err(Failure::line)
    }

    fn progress(&self, object: usize, step: Step) {
        self.meter.step(object, step);
    }
}

/// Returns the file path for a request target, for example `a/index.html` for `/a/`. Percent-escapes in a segment are
/// decoded if the result is a valid file name.
fn name_of(target: &str) -> PathBuf {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let mut file = PathBuf::new();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        let plain = decoded(segment).filter(|plain| is_name(plain));
        file.push(bounded(without_leading_dot(plain.unwrap_or_else(|| segment.to_owned()))));
    }
    if path.ends_with('/') {
        file.push("index.html");
    }
    match query {
        Some(query) => {
            let path = file.file_name().unwrap_or_default().to_string_lossy();
            let name = bounded(format!("{path}?{}", query.replace('/', "%2F")));
            file.with_file_name(name)
        }
        None => file,
    }
}

/// Limits a name to a length that file systems accept. A longer name is cut, and a hash of the whole name is appended,
/// which keeps it unique.
fn bounded(name: String) -> String {
    if name.len() <= MAX_NAME_BYTES {
        return name;
    }
    // The hash is FNV-1a with 64 bits.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let end = (0..=MAX_NAME_BYTES - 17).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    format!("{}~{hash:016x}", &name[..end])
}

/// Replaces a leading dot, so that the file is not hidden: `.bashrc` becomes `_bashrc`. This also covers `..`, which
/// would lead out of the directory.
fn without_leading_dot(name: String) -> String {
    name.strip_prefix('.').map(|rest| format!("_{rest}")).unwrap_or(name)
}

/// Whether a decoded path segment is a valid file name. A segment stays percent-encoded if it would lead to another
/// directory, or if it contains control characters.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(|c: char| c == '/' || c.is_control())
}

fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok()
}

/// The maximum length of a file name, in bytes of UTF-8. Most file systems accept 255 bytes.
const MAX_NAME_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_stay_below_their_directory() {
        for (target, file) in [
            ("/", "index.html"),
            ("/a/b.css", "a/b.css"),
            ("/a/", "a/index.html"),
            ("/one%20two.png", "one two.png"),
            ("/a?b=/c", "a?b=%2Fc"),
            ("/?q", "index.html?q"),
            ("/%2e%2e/x", "%2e%2e/x"),
            ("/..%2fx", "_.%2fx"),
            ("/../x", "_./x"),
            ("/.bashrc", "_bashrc"),
            ("/%2Ebashrc", "_bashrc"),
            ("/.ssh/authorized_keys", "_ssh/authorized_keys"),
            ("/a/.git/", "a/_git/index.html"),
            ("/.?q", "_?q"),
            ("/...", "_.."),
            ("/.anabranch.1.0.partial", "_anabranch.1.0.partial"),
            ("/a%00", "a%00"),
            ("/a%1b%5b2J%0a", "a%1b%5b2J%0a"),
            ("/%zz", "%zz"),
            ("//x", "x"),
        ] {
            let named = name_of(target);
            assert_eq!(named, Path::new(file), "{target}");
            assert!(named.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
        let long = |end: &str| name_of(&format!("/a?{}{end}", "q".repeat(300)));
        let (one, other) = (long("1"), long("2"));
        assert!(one != other && one == long("1"));
        assert!(one.as_os_str().len() <= MAX_NAME_BYTES && one.to_string_lossy().starts_with("a?qq"));
        assert!(name_of(&format!("/{}", "%C3%A4".repeat(300))).as_os_str().len() <= MAX_NAME_BYTES);
    }

    #[test]
    fn no_file_takes_the_place_of_another() {
        let meter = Meter::new();
        let download_dir = DownloadDir::new(None, meter);
        for (target, file) in [
            ("/", "index.html"),
            ("/index.html", "index.html~2"),
            ("/", "index.html"),
            ("/docs", "docs"),
            ("/docs/a", "docs~2/a"),
            ("/docs/b", "docs~2/b"),
            ("/x/y", "x/y"),
            ("/x", "x~2"),
            ("/x//y", "x/y~2"),
            ("/_rc", "_rc"),
            ("/.rc", "_rc~2"),
        ] {
            assert_eq!(download_dir.name(target), Path::new(file), "{target}");
        }
    }
}
