//! A site that serves the files of a directory.
//!
//! Names are percent-decoded once and then taken literally. A target is found only if it leads to a regular file inside
//! the directory. Nobody can swap the file between the check and the opening ([`RootDirectory`]). Links that stay
//! inside the directory are followed. Names that begin with a dot are found only with [`FileSite::with_dotfiles`]; the
//! exception is `/.well-known/` (RFC 8615). The rule about dots applies to the name of a link, not to the name of its
//! target.
//!
//! Files are read while they are sent, so large files need no more memory than small ones. Recently requested files
//! stay open (`open_file_cache`), so the next request for one of them needs only one lookup of its name.
//!
//! Implements RFC 9110 §13 (conditional requests) and §14 (ranges, but only one range per request).

mod open_file_cache;

use super::date::LAST_DATE;
use super::site::{Answer, Content, Resource, Site, SiteRequest, StoredRange};
use crate::page::directory::content_type;
use crate::root_dir::{FileLookup, RootDirectory};
use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_RANGE, ETAG, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use open_file_cache::{CachedFile, OpenFileCache, is_out_of_descriptors};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Serves the files below a directory. The response to a request for a directory is its `index.html`.
#[derive(Debug)]
pub struct FileSite {
    root: Rc<RootDirectory>,
    /// Whether files whose names begin with a dot are served.
    dotfiles: bool,
    /// Recently requested files, by request path.
    remembered: RefCell<BTreeMap<String, RememberedPath>>,
    cache: Rc<OpenFileCache>,
}

/// A file that stays open because it is likely to be requested again.
#[derive(Debug)]
struct RememberedPath {
    file: Rc<CachedFile>,
    /// The path of the file relative to the root directory. `full` is its absolute path.
    relative: PathBuf,
    full: PathBuf,
    validators: Rc<Validators>,
    content_type: &'static str,
}

/// Identifies a version of a file. As long as the identity is the same, the content is assumed to be the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The result of looking up a request target.
enum TargetLookup {
    File {
        file: Rc<CachedFile>,
        relative: PathBuf,
        /// Whether the path contains a symbolic link.
        linked: bool,
    },
    /// The target is a directory, but has no trailing slash. Relative URLs need that slash.
    NeedsSlash,
    Nothing,
    /// The file cannot be opened at present, because no more file descriptors are available.
    Busy,
}

impl FileSite {
    /// Returns a site with the files below `root`.
    ///
    /// # Errors
    /// `root` is not a directory.
    pub fn new(root: &Path) -> io::Result<Self> {
        let root = Rc::new(RootDirectory::new(root)?);
        let cache = OpenFileCache::new(root.clone(), MAX_OPEN);
        Ok(Self { root, dotfiles: false, remembered: RefCell::default(), cache })
    }

    /// Sets whether files whose names begin with a dot are served.
    #[must_use]
    pub fn with_dotfiles(mut self, served: bool) -> Self {
        self.dotfiles = served;
        self
    }

    /// Returns the file that was served before for the request path `path`, if the path still leads to the same version
    /// of the file.
    fn known(&self, path: &str) -> Option<(StoredRange, Rc<Validators>, &'static str)> {
        let mut all = self.remembered.borrow_mut();
        let remembered = all.get(path)?;
        let metadata = self.root.look_up_cached(&remembered.relative, &remembered.full);
        if metadata.is_err()
            || metadata.is_ok_and(|metadata| Identity::of(&metadata) != remembered.file.identity())
        {
            all.remove(path);
            return None;
        }
        let stored = StoredRange {
            store: remembered.file.clone(),
            offset: 0,
            length: remembered.file.identity().length,
        };
        Some((stored, remembered.validators.clone(), remembered.content_type))
    }

    fn remember(&self, path: &str, remembered: RememberedPath) {
        let mut all = self.remembered.borrow_mut();
        if all.len() >= MAX_KEPT {
            // If this many different paths are requested, each path is requested rarely. So forget all paths.
            all.clear();
        }
        if path.len() <= MAX_KEPT_BYTES {
            all.insert(path.to_owned(), remembered);
        }
    }

    fn locate(&self, target: &str) -> TargetLookup {
        let found =
            path_of(target, self.dotfiles).map(|(relative, slash)| self.look_up_target(relative, slash));
        match found {
            Some(Ok(found)) => found,
            Some(Err(why)) if is_out_of_descriptors(&why) => TargetLookup::Busy,
            Some(Err(_)) | None => TargetLookup::Nothing,
        }
    }

    /// Looks up a file. `relative` is its path relative to the root directory. If `slash` is true, the request ends
    /// with a slash and thus names a directory.
    fn look_up_target(&self, mut relative: PathBuf, slash: bool) -> io::Result<TargetLookup> {
        let mut lookup = self.look_up(&relative)?;
        match (lookup.metadata.is_dir(), slash) {
            (true, false) => return Ok(TargetLookup::NeedsSlash),
            (false, true) => return Ok(TargetLookup::Nothing),
            (true, true) => {
                relative.push("index.html");
                lookup = self.look_up(&relative)?;
            }
            (false, false) => {}
        }
        if !lookup.metadata.is_file() {
            return Ok(TargetLookup::Nothing);
        }
        let file = self.cache.take(&relative, Identity::of(&lookup.metadata))?;
        Ok(file.map_or(TargetLookup::Nothing, |file| TargetLookup::File {
            file,
            relative,
            linked: lookup.linked,
        }))
    }

    /// Looks up a name. The lookup needs a file descriptor for a moment, and another file may have to be closed for it.
    fn look_up(&self, relative: &Path) -> io::Result<FileLookup> {
        match self.root.look_up(relative) {
            Err(error) if is_out_of_descriptors(&error) && self.cache.close_one() => {
                self.root.look_up(relative)
            }
            lookup => lookup,
        }
    }
}

impl Site for FileSite {
    fn find(&self, _target: &str) -> Option<Resource> {
        None
    }

    fn answer(&self, request: &SiteRequest<'_>) -> Answer {
        if !matches!(*request.method, Method::GET | Method::HEAD) {
            return Answer::refuse_method(request.method);
        }
        if let Some((whole, validators, content_type)) = self.known(path_of_target(request.target)) {
            return with_content_type(validators.choose(request, whole), content_type);
        }
        let (file, relative, linked) = match self.locate(request.target) {
            TargetLookup::File { file, relative, linked } => (file, relative, linked),
            TargetLookup::Nothing => return not_found(),
            TargetLookup::Busy => return busy(),
            TargetLookup::NeedsSlash => {
                let mut answer =
                    Answer::plain_text(StatusCode::MOVED_PERMANENTLY, "a directory ends with a slash\n");
                let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
                let mark = if query.is_empty() { "" } else { "?" };
                // RFC 9110 §10.2.2: two slashes at the start of Location would name another host.
                let target = format!("/{}/{mark}{query}", path.trim_start_matches('/'));
                if let Ok(target) = HeaderValue::from_str(&target) {
                    answer.fields.insert(LOCATION, target);
                }
                return answer;
            }
        };
        let (identity, content_type) = (file.identity(), served_type(&relative));
        let validators = Rc::new(Validators::new(identity));
        let whole = StoredRange { store: file.clone(), offset: 0, length: identity.length };
        // A path with a symbolic link is looked up for each request and not remembered, because the target of the link
        // may change.
        if !linked {
            let full = self.root.path().join(&relative);
            let remembered =
                RememberedPath { file, relative, full, validators: validators.clone(), content_type };
            self.remember(path_of_target(request.target), remembered);
        }
        with_content_type(validators.choose(request, whole), content_type)
    }
}

/// Returns the path in the request target `target`, without query and fragment.
fn path_of_target(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

/// Sets the media type of the response to that of the file, if the response has none.
fn with_content_type(mut answer: Answer, content_type: &str) -> Answer {
    if answer.resource.content_type.is_empty() {
        content_type.clone_into(&mut answer.resource.content_type);
    }
    answer
}

/// Returns the media type of a file. Text types have a charset, because clients would otherwise guess the encoding.
fn served_type(file: &Path) -> &'static str {
    match content_type(file) {
        "text/html" => "text/html; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        "text/javascript" => "text/javascript; charset=utf-8",
        "text/plain" => "text/plain; charset=utf-8",
        other => other,
    }
}

fn not_found() -> Answer {
    Answer::plain_text(StatusCode::NOT_FOUND, "no file has this name\n")
}

fn busy() -> Answer {
    let text = "too many files are open here; try again\n";
    let mut answer = Answer::plain_text(StatusCode::SERVICE_UNAVAILABLE, text);
    answer.fields.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// Converts a request target to a path relative to the root directory. The returned flag says whether the target's path
/// ends with a slash or `/.`. If `dotfiles` is true, names may begin with a dot.
fn path_of(target: &str, dotfiles: bool) -> Option<(PathBuf, bool)> {
    let path = path_of_target(target).strip_prefix('/')?;
    let mut relative = PathBuf::new();
    let mut last_empty = true;
    for segment in path.split('/') {
        let name = decode(segment)?;
        last_empty = name.is_empty();
        // `/a//b` means the same as `/a/b`. A name must not lead upwards, contain a separator or contain a NUL.
        if last_empty || name == b"." {
            last_empty = true;
            continue;
        }
        if name == b".." || name.iter().any(|byte| matches!(byte, 0 | b'/' | b'\\')) {
            return None;
        }
        // RFC 8615 §3: `.well-known` is the first segment of the path.
        let well_known = name == b".well-known" && relative.as_os_str().is_empty();
        if name[0] == b'.' && !dotfiles && !well_known {
            return None;
        }
        relative.push(OsStr::from_bytes(&name));
    }
    Some((relative, last_empty))
}

/// Percent-decodes a segment once (RFC 3986 §2.1). Returns `None` if a `%` is not followed by two hexadecimal digits.
fn decode(segment: &str) -> Option<Vec<u8>> {
    let mut bytes = segment.bytes();
    let mut decoded = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        decoded.push((high * 16 + low) as u8);
    }
    Some(decoded)
}

/// The validators of one version of a file.
#[derive(Debug)]
struct Validators {
    tag: String,
    /// The fields ETag, Last-Modified and Accept-Ranges of a response.
    fields: HeaderMap,
    /// The modification time in whole seconds, because HTTP dates have no finer resolution.
    modified: SystemTime,
}

impl Validators {
    fn new(version: Identity) -> Self {
        let (length, (seconds, nanos)) = (version.length, version.modified);
        let since = u64::try_from(seconds).map_or(Duration::ZERO, |seconds| {
            Duration::from_secs(seconds) + Duration::from_nanos(nanos.unsigned_abs())
        });
        let tag = format!("\"{:x}-{length:x}\"", since.as_nanos());
        // RFC 9110 §5.6.7: the year of an HTTP date has four digits. A modification time after the year 9999 is
        // replaced by the last valid date.
        let modified = UNIX_EPOCH + Duration::from_secs(since.as_secs().min(LAST_DATE));
        let mut fields = HeaderMap::new();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            fields.insert(ETAG, tag);
        }
        if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(modified)) {
            fields.insert(LAST_MODIFIED, date);
        }
        fields.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        Self { tag, fields, modified }
    }

    /// Evaluates the preconditions of a request and returns the response (RFC 9110 §13.2.2).
    fn choose(&self, request: &SiteRequest<'_>, whole: StoredRange) -> Answer {
        let field = |name: HeaderName| request.fields.get(name).map(HeaderValue::as_bytes);
        // RFC 9110 §5.3: the list of tags may be spread over several field lines.
        let among = |name: &HeaderName, weakly| {
            let lines = request.fields.get_all(name);
            lines.iter().any(|tags| self.is_among(tags.as_bytes(), weakly))
        };
        let precondition_holds = match request.fields.contains_key(IF_MATCH) {
            // Step 1: If-Match compares tags strongly.
            true => among(&IF_MATCH, false),
            // Step 2: without If-Match, If-Unmodified-Since is evaluated.
            false => field(IF_UNMODIFIED_SINCE).and_then(date).is_none_or(|since| self.modified <= since),
        };
        if !precondition_holds {
            return Answer::plain_text(StatusCode::PRECONDITION_FAILED, "the file has changed\n");
        }
        let known = match request.fields.contains_key(IF_NONE_MATCH) {
            // Step 3: If-None-Match compares tags weakly.
            true => among(&IF_NONE_MATCH, true),
            // Step 4: without If-None-Match, If-Modified-Since is evaluated.
            false => field(IF_MODIFIED_SINCE).and_then(date).is_some_and(|since| self.modified <= since),
        };
        // The map has room for the fields that are added to each response later.
        let mut fields = HeaderMap::with_capacity(2 * self.fields.len());
        fields.extend(self.fields.iter().map(|(name, value)| (name.clone(), value.clone())));
        let resource = |content| Resource { content, content_type: String::new(), head_size: None };
        if known {
            let resource = resource(Content::Bytes(Bytes::new()));
            return Answer { status: StatusCode::NOT_MODIFIED, fields, resource };
        }
        // Step 5: a range is sent, unless If-Range names another version. RFC 9110 §14.2: ranges are defined for GET
        // only.
        let range = field(RANGE).filter(|_| *request.method == Method::GET);
        let range = range.filter(|_| field(IF_RANGE).is_none_or(|version| self.is_version(version)));
        match range.map_or(Part::Whole, |range| part(range, whole.length)) {
            Part::Whole => {
                Answer { status: StatusCode::OK, fields, resource: resource(Content::Stored(whole)) }
            }
            Part::Bytes { first, last } => {
                let content_range = format!("bytes {first}-{last}/{}", whole.length);
                if let Ok(content_range) = HeaderValue::from_str(&content_range) {
                    fields.insert(CONTENT_RANGE, content_range);
                }
                let part = StoredRange { store: whole.store, offset: first, length: last - first + 1 };
                let resource = resource(Content::Stored(part));
                Answer { status: StatusCode::PARTIAL_CONTENT, fields, resource }
            }
            Part::Beyond => {
                let mut answer = Answer::plain_text(
                    StatusCode::RANGE_NOT_SATISFIABLE,
                    "the file is shorter than this range\n",
                );
                if let Ok(content_range) = HeaderValue::from_str(&format!("bytes */{}", whole.length)) {
                    answer.fields.insert(CONTENT_RANGE, content_range);
                }
                answer
            }
        }
    }

    fn is_among(&self, tags: &[u8], weakly: bool) -> bool {
        tags.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).any(|tag| {
            let strong = tag.strip_prefix(b"W/").filter(|_| weakly).unwrap_or(tag);
            tag == b"*" || strong == self.tag.as_bytes()
        })
    }

    /// Returns whether this version of the file matches `version` exactly. `version` is the tag or the date in If-Range
    /// (RFC 9110 §13.1.5).
    fn is_version(&self, version: &[u8]) -> bool {
        version == self.tag.as_bytes() || date(version) == Some(self.modified)
    }
}

fn date(text: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()
}

/// The part of a file that a Range field requests.
#[derive(PartialEq, Eq, Debug)]
enum Part {
    Whole,
    /// The bytes from the first to the last one, both inclusive.
    Bytes {
        first: u64,
        last: u64,
    },
    Beyond,
}

/// RFC 9110 §14.1.2: parses a Range field. Only one range of bytes is supported. For any other value, the whole file is
/// sent, as §14.2 allows.
fn part(range: &[u8], length: u64) -> Part {
    let parse = || -> Option<(Option<u64>, Option<u64>)> {
        let text = std::str::from_utf8(range).ok()?;
        let (unit, set) = text.split_once('=')?;
        let (first, last) = set.trim().split_once('-')?;
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // A number above `u64::MAX` is parsed as `u64::MAX`, because both are larger than the size of any file.
            digits.then(|| text.parse().unwrap_or(u64::MAX))
        };
        let (first, last) = (first.trim(), last.trim());
        let valid = unit.trim().eq_ignore_ascii_case("bytes")
            && [first, last].iter().all(|text| text.is_empty() || number(text).is_some());
        valid.then(|| (number(first), number(last)))
    };
    match parse() {
        Some((Some(first), _)) if first >= length => Part::Beyond,
        Some((Some(first), Some(last))) if last < first => Part::Whole,
        Some((Some(first), last)) => Part::Bytes { first, last: last.unwrap_or(u64::MAX).min(length - 1) },
        Some((None, Some(0))) => Part::Beyond,
        // A suffix range of an empty file cannot be expressed in Content-Range (RFC 9110 §14.1.2), so the whole file is
        // sent.
        Some((None, Some(_))) if length == 0 => Part::Whole,
        Some((None, Some(last))) => Part::Bytes { first: length.saturating_sub(last), last: length - 1 },
        Some((None, None)) | None => Part::Whole,
    }
}

/// The maximum number of files that are open at a time.
const MAX_OPEN: usize = 256;
/// The maximum number of request paths that are remembered.
const MAX_KEPT: usize = 256;
/// The maximum length in bytes of a request path that is remembered. A longer path is looked up for each request.
const MAX_KEPT_BYTES: usize = 1024;

#[cfg(test)]
#[path = "files/tests.rs"]
mod tests;
