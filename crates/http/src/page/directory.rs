//! Reads a page from a site on disk. Starts with `index.html` and the files that it embeds. Continues with the files
//! that these files embed, for example fonts of style sheets and documents of frames.
//!
//! Nothing outside the directory is ever read. `..` stops at the top directory, as in any URL. A symbolic link that
//! leads out of the directory is refused (`RootDirectory`).

use super::reference::Reference;
use super::{MAX_BODY, MAX_OBJECTS, Object, Page, PageError, embed};
use crate::root_dir::RootDirectory;
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Reads the site in `directory`. Leaves out embedded addresses on other hosts and those without a file on disk.
/// [`Page::warnings`] counts them.
///
/// # Errors
/// [`PageError`] if there is no `index.html`, if a file cannot be read, or if a symbolic link leads out of the
/// directory.
pub fn load(directory: &Path) -> Result<Page, PageError> {
    let shown = directory.display();
    let wrong = |why: String| PageError::new(format!("{shown}: {why}"));
    let root = RootDirectory::new(directory).map_err(|why| wrong(why.to_string()))?;
    let is_empty = fs::read_dir(root.path()).map_err(|why| wrong(why.to_string()))?.next().is_none();
    if is_empty {
        return Err(wrong("the directory is empty; an index.html is needed".to_owned()));
    }
    let first = Site { root: &root }
        .locate("/index.html")?
        .ok_or_else(|| wrong("there is no index.html in it".to_owned()))?;

    let site = Site { root: &root };
    let mut objects = vec![site.object("/index.html", &first, None)?];
    let mut files = vec![first];
    let mut placed = BTreeMap::from([("/index.html".to_owned(), 0_usize)]);
    let (mut elsewhere, mut missing, mut deferred) = (Vec::new(), Vec::new(), Vec::new());
    let (mut next, mut body_start) = (0, None);
    while next < files.len() {
        let base = objects[next].name.clone();
        let embedded = site.embedded(&files[next], &base, &objects[next].content_type)?;
        deferred.extend(embedded.deferred);
        if next == 0 {
            body_start = embedded.body_start;
        }
        let references = embedded.references.into_iter().chain(std::iter::repeat_with(Reference::default));
        for (address, reference) in embedded.targets.into_iter().zip(references) {
            let Some(target) = address else { continue };
            match target {
                Target::OtherHost(url) => elsewhere.push(url),
                Target::Here(path) if placed.contains_key(&path) => {
                    let known = &mut objects[placed[&path]];
                    if known.initiator == Some(next) {
                        known.reference.used_by(&reference);
                    }
                }
                Target::Here(path) => match site.locate(&path)? {
                    None => missing.push(path),
                    Some(_) if files.len() >= MAX_OBJECTS => {
                        return Err(wrong(format!("more than {MAX_OBJECTS} files")));
                    }
                    Some(file) => {
                        objects.push(Object { reference, ..site.object(&path, &file, Some(next))? });
                        placed.insert(path, files.len());
                        files.push(file);
                    }
                },
            }
        }
        next += 1;
    }

    let mut warnings = Vec::new();
    let too_far = "of lazy images or frames far below the viewport, not loaded";
    for (what, mut list) in [
        ("embedded from other hosts, left out", elsewhere),
        ("not on disk, left out", missing),
        (too_far, deferred),
    ] {
        list.sort();
        list.dedup();
        if !list.is_empty() {
            let more = if list.len() > NAMED { ", …" } else { "" };
            let named: Vec<_> = list.iter().take(NAMED).map(String::as_str).collect();
            warnings.push(format!("{} addresses {what}: {}{more}", list.len(), named.join(", ")));
        }
    }
    let name =
        root.path().file_name().map_or_else(|| "site".to_owned(), |name| name.to_string_lossy().into_owned());
    let page = Page {
        name,
        source: format!("directory {shown}"),
        hosts: vec!["server".to_owned()],
        coalesce: vec![0],
        public: Vec::new(),
        objects,
        tls_objects: 0,
        warnings,
        body_start,
        recording: None,
    };
    page.validate()?;
    Ok(page)
}

struct Site<'a> {
    root: &'a RootDirectory,
}

impl Site<'_> {
    /// Finds the file for `path`, the path of an address. Returns the path of the file relative to the root directory;
    /// `None` if there is no such file.
    fn locate(&self, path: &str) -> Result<Option<PathBuf>, PageError> {
        let mut below = PathBuf::new();
        let decoded = decode(path);
        for part in decoded.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            // The decoded part may be `..` or contain a separator, even if the address contains neither.
            let Ok(part) = std::str::from_utf8(part) else { return Ok(None) };
            if part == ".." || part.contains(['\0', '\\']) {
                return Ok(None);
            }
            below.push(part);
        }
        if self.metadata(&below)?.is_some_and(|metadata| metadata.is_dir()) {
            below.push("index.html");
        }
        Ok(self.metadata(&below)?.filter(fs::Metadata::is_file).map(|_| below))
    }

    /// Returns the metadata of a file; `None` if the file does not exist.
    fn metadata(&self, below: &Path) -> Result<Option<fs::Metadata>, PageError> {
        match self.root.look_up(below) {
            Ok(look) => Ok(Some(look.metadata)),
            Err(why) if why.kind() == ErrorKind::CrossesDevices => Err(PageError::new(format!(
                "{}: a symbolic link that leads out of the site is refused",
                self.full(below).display()
            ))),
            Err(_) => Ok(None),
        }
    }

    fn full(&self, below: &Path) -> PathBuf {
        self.root.path().join(below)
    }

    fn object(&self, path: &str, below: &Path, initiator: Option<usize>) -> Result<Object, PageError> {
        let full = self.full(below);
        let look = self.root.look_up(below).map_err(|why| unreadable(&full, &why))?;
        let length = look.metadata.len();
        if length > MAX_BODY {
            return Err(PageError::new(format!("{}: {length} bytes, more than {MAX_BODY}", full.display())));
        }
        let mut object = Object::new(path, length);
        object.content_type = content_type(below).to_owned();
        object.initiator = initiator;
        Ok(object)
    }

    /// Returns the addresses that a file embeds. `below` is the file's path relative to the root directory; `path` is
    /// its path in the URL.
    fn embedded(&self, below: &Path, path: &str, kind: &str) -> Result<Embedded, PageError> {
        if !matches!(kind, "text/html" | "text/css" | "image/svg+xml") {
            return Ok(Embedded::default());
        }
        let mut bytes = Vec::new();
        let file = self.root.open(below).and_then(|file| {
            let regular = file.metadata()?.is_file();
            if regular { Ok(file) } else { Err(std::io::Error::other("it is no longer a file")) }
        });
        let read = file.and_then(|file| file.take(MAX_SCANNED + 1).read_to_end(&mut bytes));
        read.map_err(|why| unreadable(&self.full(below), &why))?;
        if bytes.len() as u64 > MAX_SCANNED {
            return Ok(Embedded::default());
        }
        Ok(embedded(&bytes, path, kind))
    }
}

/// The embedded addresses of a file.
#[derive(Default)]
struct Embedded {
    /// The targets of the addresses, in the order of the file; `None` for an address that needs no fetch.
    targets: Vec<Option<Target>>,
    /// For each target, how the file refers to it; set only if the file is a document.
    references: Vec<Reference>,
    /// The offset at which the body begins, if the file is a document.
    body_start: Option<u64>,
    /// The addresses, as written in the file, that a browser would load only after the page (lazy loading).
    deferred: Vec<String>,
}

/// The file or host that an embedded address refers to.
enum Target {
    /// A file of the site, as an absolute path.
    Here(String),
    /// An address on another host.
    OtherHost(String),
}

/// Returns the addresses of the resources that a document embeds. `bytes` is the content of the document, and `path` is
/// the path at which clients fetch the document.
fn embedded(bytes: &[u8], path: &str, kind: &str) -> Embedded {
    let embed::Embeds { base, addresses, references, body_start, deferred } = if kind == "text/css" {
        embed::Embeds { addresses: embed::in_css(bytes), ..embed::Embeds::default() }
    } else {
        embed::in_html(bytes)
    };
    let base = match base.map(|base| resolve(path, &base)) {
        Some(Some(Target::Here(base))) => base,
        // The base URL is on another host, so all relative addresses are on that host, too.
        Some(Some(Target::OtherHost(base))) => {
            let far = |address: &String| Some(Target::OtherHost(format!("{base}{address}")));
            let targets = addresses.iter().map(far).collect();
            return Embedded { targets, references, body_start, deferred };
        }
        Some(None) | None => path.to_owned(),
    };
    let targets = addresses.iter().map(|address| resolve(&base, address)).collect();
    Embedded { targets, references, body_start, deferred }
}

/// Resolves `address`, which occurs in the document at the absolute path `base`.
fn resolve(base: &str, address: &str) -> Option<Target> {
    let address = address.split('#').next().unwrap_or_default();
    let lower = address.to_ascii_lowercase();
    if lower.starts_with("//") || lower.starts_with("http:") || lower.starts_with("https:") {
        return Some(Target::OtherHost(address.to_owned()));
    }
    // Addresses with a scheme other than HTTP (data:, blob:, javascript:, about:) need no fetch.
    let scheme = lower.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    if address.is_empty() || scheme.is_some_and(|end| end > 0 && lower[end..].starts_with(':')) {
        return None;
    }
    let address = address.split('?').next().unwrap_or_default();
    let joined = match (address.is_empty(), address.starts_with('/')) {
        (true, _) => return None,
        (false, true) => address.to_owned(),
        (false, false) => {
            format!("{}/{address}", base.rsplit_once('/').map_or("", |(directory, _)| directory))
        }
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let slash = if joined.ends_with('/') && !parts.is_empty() { "/" } else { "" };
    let mut path = String::with_capacity(joined.len());
    for byte in format!("/{}{slash}", parts.join("/")).bytes() {
        if byte.is_ascii_graphic() {
            path.push(char::from(byte))
        } else {
            path.push_str(&format!("%{byte:02X}"))
        }
    }
    Some(Target::Here(path))
}

/// Percent-decodes `path`.
fn decode(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| bytes[at] == b'%') {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    decoded
}

/// Returns the media type that the extension of a file's name implies.
#[must_use]
pub fn content_type(file: &Path) -> &'static str {
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "html" | "htm" | "xhtml" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "svg" => "image/svg+xml",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "mp3" => "audio/mpeg",
        "ogg" => "audio/ogg",
        "pdf" => "application/pdf",
        "wasm" => "application/wasm",
        "xml" => "application/xml",
        "txt" => "text/plain",
        _ => "application/octet-stream",
    }
}

fn unreadable(file: &Path, why: &std::io::Error) -> PageError {
    PageError::new(format!("{}: {why}", file.display()))
}

/// The maximum number of addresses that one warning names. The remaining addresses are only counted.
const NAMED: usize = 3;
/// The maximum size in bytes of a file that is searched for embedded addresses.
const MAX_SCANNED: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary directory, which is removed when this value is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("anabranch-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a directory");
            for (name, text) in files {
                let file = path.join(name);
                fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
                fs::write(file, text).expect("a file");
            }
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_site_is_followed_from_its_index() {
        let site = Scratch::new(
            "site",
            &[
                (
                    "index.html",
                    "<link rel=stylesheet href=css/a.css?v=1><img src='pictures/one%20two.png'><img src=/x.png>
                     <img src=https://elsewhere.example/y.png><img src=gone.png><img src=data:image/png;base64,AA>
                     <img src='pictures/one two.png#again'><iframe src=frame/></iframe><img src=../../../etc/passwd>",
                ),
                ("css/a.css", "@import 'b.css'; p { background: url(../x.png) }"),
                ("css/b.css", "@font-face { src: url('../f.woff2') } @import 'a.css'"),
                ("pictures/one two.png", "12345"),
                ("x.png", "123"),
                ("f.woff2", "1"),
                ("frame/index.html", "<script src=s.js></script>"),
                ("frame/s.js", ""),
                ("unused.png", "1"),
            ],
        );
        let page = load(&site.0).expect("a page");
        let seen: Vec<_> = page.objects.iter().map(|o| (o.name.as_str(), o.initiator, o.body)).collect();
        let [index, a, b] = ["index.html", "css/a.css", "css/b.css"]
            .map(|name| fs::metadata(site.0.join(name)).expect("a file").len());
        let frame = 26;
        assert_eq!(
            seen,
            [
                ("/index.html", None, index),
                ("/css/a.css", Some(0), a),
                ("/pictures/one%20two.png", Some(0), 5),
                ("/x.png", Some(0), 3),
                ("/frame/", Some(0), frame),
                ("/css/b.css", Some(1), b),
                ("/frame/s.js", Some(4), 0),
                ("/f.woff2", Some(5), 1),
            ]
        );
        assert_eq!(page.objects[1].content_type, "text/css");
        assert_eq!(page.warnings.len(), 2, "{:?}", page.warnings);
        assert!(page.warnings[0].contains("1 addresses embedded from other hosts"), "{:?}", page.warnings);
        assert!(page.warnings[1].contains("/gone.png") && page.warnings[1].contains("/etc/passwd"));
    }

    #[test]
    fn images_are_chosen_as_by_a_browser() {
        let site = Scratch::new(
            "pictures",
            &[
                (
                    "index.html",
                    "<picture><source srcset=big.webp type=image/webp><img src=fallback.jpg></picture>
                     <img src=lo.png srcset='one.png 1x, two.png 2x'><div style=height:5000px></div><img loading=lazy src=far.png>",
                ),
                ("big.webp", "1"),
                ("fallback.jpg", "12"),
                ("lo.png", "123"),
                ("one.png", "1234"),
                ("two.png", "12345"),
                ("far.png", "123456"),
            ],
        );
        let page = load(&site.0).expect("a page");
        let names: Vec<_> = page.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!(names, ["/index.html", "/big.webp", "/one.png"]);
        assert_eq!(
            page.warnings,
            ["1 addresses of lazy images or frames far below the viewport, not loaded: far.png"]
        );
    }

    #[test]
    fn invalid_sites_are_refused_in_one_line() {
        let refused = |path: &Path| {
            let error = load(path).expect_err("refused").to_string();
            assert!(error.contains(path.to_str().expect("UTF-8")) && !error.contains('\n'), "{error}");
            error
        };
        let empty = Scratch::new("empty", &[]);
        assert!(refused(&empty.0).contains("empty"));
        let other = Scratch::new("other", &[("a.txt", "x")]);
        assert!(refused(&other.0).contains("no index.html"));
        assert!(refused(&other.0.join("a.txt")).contains("not a directory"));
        refused(&other.0.join("missing"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_out_is_refused_and_one_within_is_followed() {
        use std::os::unix::fs::symlink;
        let outside = Scratch::new("outside", &[("secret.png", "1234567")]);
        let site = Scratch::new("links", &[("index.html", "<img src=in.png>"), ("real.png", "12")]);
        symlink(site.0.join("real.png"), site.0.join("in.png")).expect("a link");
        assert_eq!(load(&site.0).expect("a page").objects[1].body, 2);
        fs::remove_file(site.0.join("in.png")).expect("removed");
        symlink(outside.0.join("secret.png"), site.0.join("in.png")).expect("a link");
        assert!(load(&site.0).expect_err("refused").to_string().contains("leads out"));
        fs::remove_file(site.0.join("in.png")).expect("removed");
        symlink(&outside.0, site.0.join("in.png")).expect("a link");
        fs::write(outside.0.join("index.html"), "x").expect("a file");
        assert!(load(&site.0).expect_err("refused").to_string().contains("leads out"));
    }
}
