//! A page: a dependency graph of the objects to fetch.
//!
//! Defines a page (objects, sizes, initiators) and reads it from one of four sources: sizes given as text, a directory
//! on disk ([`directory`]), the HAR of a browser ([`crate::har`]), or the pages that ship with the program
//! ([`har::shipped`](crate::har::shipped)). The client assigns the objects of a page to streams.

pub mod directory;
pub mod embed;
pub mod recorded;
pub mod reference;

use anabranch_base::units::Bytes;
use recorded::{Recorded, Recording};
use reference::{Reference, ResourceType};
use std::time::Duration;

/// The assumed size of a request head, in bytes.
pub const REQUEST_HEAD: u64 = 400;
/// The assumed size of a response head, in bytes.
pub const RESPONSE_HEAD: u64 = 300;
/// The maximum number of objects of a page.
pub const MAX_OBJECTS: usize = 100_000;
/// The maximum size of an object in bytes.
pub const MAX_BODY: u64 = 1 << 40;
/// The maximum size in bytes of a head that is sent. Servers and clients refuse heads that are much larger.
pub const MAX_HEAD: u64 = 32 * 1024;

/// Returns the size in bytes with which a head of `size` bytes is sent: at most [`MAX_HEAD`].
#[must_use]
pub const fn bounded_head(size: u64) -> u64 {
    if size < MAX_HEAD { size } else { MAX_HEAD }
}

/// A page: all objects that a browser fetches to display it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The display name: the name of a shipped page, the name of a file, or the text in which the user gave the sizes.
    pub name: String,
    /// Where the sizes and times of the objects come from.
    pub source: String,
    /// The hosts that the objects are fetched from; never empty. [`Object::host`] is an index into this list.
    pub hosts: Vec<String>,
    /// A number for each host of [`hosts`](Self::hosts). A browser uses the same HTTP/2 or HTTP/3 connection for hosts
    /// with equal numbers, because they have the same address and a certificate with both names. The number is the
    /// index of the first of these hosts. HTTP/1.1 never shares connections between hosts.
    pub coalesce: Vec<usize>,
    /// The hosts that have a publicly routable address in the recording, as indices into [`hosts`](Self::hosts) in
    /// ascending order. Chromium estimates the quality of the network only from requests to such hosts.
    pub public: Vec<usize>,
    /// The objects to fetch. The initiator of an object precedes it in the list.
    pub objects: Vec<Object>,
    /// The number of objects that were recorded over TLS.
    pub tls_objects: usize,
    /// One line for each reason why entries were left out or values were assumed when the page was read.
    pub warnings: Vec<String>,
    /// The offset of `<body>` in the transferred bytes of the document, if its text is known.
    pub body_start: Option<u64>,
    /// The times of the recorded load, and estimates of its network; `None` if the page was not read from a recording
    /// with times.
    pub recording: Option<Recording>,
}

/// An object to fetch with GET.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// The request target (path and query). It starts with `/` and contains only visible ASCII. It is unique within the
    /// page, even among objects of different hosts.
    pub name: String,
    /// The index of the host in [`Page::hosts`].
    pub host: usize,
    /// The size of the request in bytes, including its empty line.
    pub request_head: u64,
    /// The size of the response head in bytes, including its empty line.
    pub response_head: u64,
    /// The size of the response body in bytes.
    pub body: u64,
    /// The media type without parameters, for example `text/html`.
    pub content_type: String,
    /// The index of the earlier object that causes this fetch; `None` if the object is requested at the start.
    pub initiator: Option<usize>,
    /// The recorded time between the end of the initiator's response and the start of this request. With
    /// `--think recorded`, the client waits this long.
    pub think: Duration,
    /// The processor time that a browser needs for this request and for its response, in thousandths of the usual time
    /// ([`crate::browser::Rules`]). Loads of a page differ in this time.
    pub processing: u32,
    /// How the initiator refers to this object.
    pub reference: Reference,
    /// The recorded times; `None` if the page was not read from a recording with times.
    pub recorded: Option<Recorded>,
}

impl Object {
    /// Returns an object with a body of `body` bytes, which the client requests at the start of the page load. The
    /// request head and the response head have the default sizes.
    #[must_use]
    pub fn new(name: impl Into<String>, body: u64) -> Self {
        Self {
            name: name.into(),
            host: 0,
            request_head: REQUEST_HEAD,
            response_head: RESPONSE_HEAD,
            body,
            content_type: "application/octet-stream".to_owned(),
            initiator: None,
            think: Duration::ZERO,
            processing: 1000,
            reference: Reference::default(),
            recorded: None,
        }
    }

    /// Returns the kind of resource: the recorded one, or else the one that the media type implies.
    #[must_use]
    pub fn kind(&self) -> ResourceType {
        if let Some(kind) = self.reference.kind {
            return kind;
        }
        let content_type = self.content_type.as_str();
        let (family, of) = content_type.split_once('/').unwrap_or((content_type, ""));
        match (family, of) {
            ("text", "html") | ("application", "xhtml+xml") => ResourceType::Document,
            ("text", "css") => ResourceType::Stylesheet,
            ("font", _) | ("application", "font-woff" | "font-woff2" | "x-font-ttf") => ResourceType::Font,
            ("text" | "application", "javascript" | "x-javascript" | "ecmascript") => ResourceType::Script,
            ("text", "plain" | "xml") | ("application", "json" | "xml") => ResourceType::Fetch,
            ("application", "manifest+json") => ResourceType::Manifest,
            ("image", _) => ResourceType::Image,
            ("audio" | "video", _) => ResourceType::Media,
            _ => ResourceType::Other,
        }
    }

    /// Returns the total size of the response head and body in bytes.
    #[must_use]
    pub const fn response(&self) -> u64 {
        self.response_head.saturating_add(self.body)
    }
}

/// The reason why the input is not a valid page. The message is one line. It says where the error is and what to write
/// instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct PageError(String);

impl PageError {
    /// Creates an error with the message `line`.
    pub(crate) fn new(line: impl Into<String>) -> Self {
        Self(line.into())
    }
}

impl Page {
    /// Parses a page of independent objects from their sizes, for example `8x100kB`, `1kB,10kB,100kB`, or a mix of
    /// these forms. All objects are requested at the start.
    ///
    /// # Errors
    /// [`PageError`], which names the invalid part and the accepted forms.
    pub fn from_sizes(spec: &str) -> Result<Self, PageError> {
        let mut sizes = Vec::new();
        for part in spec.split(',') {
            let part = part.trim();
            let wrong =
                |why: &str| PageError::new(format!("objects '{spec}': '{part}': {why}; write {SIZES_FORMS}"));
            let (count, size) = match part.split_once('x') {
                Some((count, size)) => {
                    let count = count.parse::<usize>().map_err(|_| wrong("the count is not a number"))?;
                    (count, size)
                }
                None => (1, part),
            };
            if count == 0 {
                return Err(wrong("none is no object"));
            }
            let size = size.parse::<Bytes>().map_err(|why| wrong(&why.to_string()))?;
            if count > MAX_OBJECTS - sizes.len() {
                return Err(wrong(&format!("more than {MAX_OBJECTS} objects")));
            }
            sizes.extend(std::iter::repeat_n(size.0, count));
        }
        let digits = sizes.len().to_string().len();
        let objects = sizes
            .iter()
            .enumerate()
            .map(|(i, &body)| Object::new(format!("/object-{:0digits$}", i + 1), body))
            .collect();
        let page = Self {
            name: spec.to_owned(),
            source: "sizes given on the command line or in the plan".to_owned(),
            hosts: vec!["server".to_owned()],
            coalesce: vec![0],
            public: Vec::new(),
            objects,
            tls_objects: 0,
            warnings: Vec::new(),
            body_start: None,
            recording: None,
        };
        page.validate()?;
        Ok(page)
    }

    /// Inserts an object of `body` bytes before all others. The new object has no initiator, and becomes the initiator
    /// of every object that had none. Its name contains the number 0, so it differs from all other names.
    ///
    /// # Errors
    /// [`PageError`] if the result is not a valid page.
    pub fn with_first(mut self, body: u64) -> Result<Self, PageError> {
        let digits = self.objects.len().to_string().len();
        for object in &mut self.objects {
            object.initiator = Some(object.initiator.map_or(0, |initiator| initiator + 1));
        }
        self.objects.insert(0, Object::new(format!("/object-{:0digits$}", 0), body));
        self.name = format!("{}, then {}", Bytes(body), self.name);
        self.validate()?;
        Ok(self)
    }

    /// Checks that the page is valid: it has at least one object, every host exists, and the number and sizes of
    /// objects are bounded. Every name is a valid request target and occurs once. Every object stands after its
    /// initiator, so there is no cycle.
    ///
    /// # Errors
    /// [`PageError`], which names the object and the field.
    pub fn validate(&self) -> Result<(), PageError> {
        if self.objects.is_empty() {
            return Err(PageError::new(format!("page '{}' has no objects", self.name)));
        }
        if self.objects.len() > MAX_OBJECTS {
            let n = self.objects.len();
            return Err(PageError::new(format!(
                "page '{}' has {n} objects, more than {MAX_OBJECTS}",
                self.name
            )));
        }
        if self.coalesce.len() != self.hosts.len() || self.coalesce.iter().enumerate().any(|(i, &of)| of > i)
        {
            return Err(PageError::new(format!("page '{}': hosts share connections in no order", self.name)));
        }
        let mut names = std::collections::BTreeSet::new();
        for (i, object) in self.objects.iter().enumerate() {
            let wrong = |why: String| {
                PageError::new(format!("page '{}': object {i} ({}): {why}", self.name, object.name))
            };
            if !object.name.starts_with('/') || !object.name.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(wrong(
                    "the name is not a request target: it must begin with '/' and have visible ASCII only"
                        .into(),
                ));
            }
            if !names.insert(object.name.as_str()) {
                return Err(wrong("another object has the same name".into()));
            }
            if object.host >= self.hosts.len() {
                return Err(wrong(format!("host {} of {} hosts", object.host, self.hosts.len())));
            }
            if object.initiator.is_some_and(|initiator| initiator >= i) {
                let initiator = object.initiator.unwrap_or_default();
                return Err(wrong(format!("its initiator, object {initiator}, does not stand before it")));
            }
            if object.body > MAX_BODY {
                return Err(wrong(format!("larger than {MAX_BODY} bytes")));
            }
            if object.request_head > MAX_HEAD || object.response_head > MAX_HEAD {
                return Err(wrong(format!("a head larger than {MAX_HEAD} bytes")));
            }
        }
        Ok(())
    }

    /// Returns the index of the document: the first object, or the object that its redirects lead to. If that object is
    /// not HTML, the document is the first HTML object.
    #[must_use]
    pub fn document(&self) -> usize {
        let mut document = 0;
        for (index, object) in self.objects.iter().enumerate() {
            if object.reference.redirected && object.initiator == Some(document) {
                document = index;
            }
        }
        let is_html = |object: &Object| object.kind() == ResourceType::Document;
        match self.objects.get(document).is_some_and(is_html) {
            true => document,
            false => self.objects.iter().position(is_html).unwrap_or(0),
        }
    }

    /// Returns the total size of all response bodies, in bytes.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.objects.iter().fold(0, |sum, object| sum.saturating_add(object.body))
    }

    /// Returns the number of objects in the longest chain of initiators. It is 1 for independent objects.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.objects.len());
        for object in &self.objects {
            let above = object.initiator.and_then(|initiator| depths.get(initiator)).copied().unwrap_or(0);
            depths.push(above + 1);
        }
        depths.into_iter().max().unwrap_or(0)
    }
}

const SIZES_FORMS: &str = "8x100kB, 1kB,10kB,100kB or 1x20kB,7x100kB";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_both_forms() {
        let page = Page::from_sizes("8x100kB").expect("a page");
        assert_eq!(page.objects.len(), 8);
        assert!(page.objects.iter().all(|o| o.body == 100_000 && o.initiator.is_none()));
        let page = Page::from_sizes("1kB, 10kB,2x1KiB").expect("a page");
        let bodies: Vec<_> = page.objects.iter().map(|o| o.body).collect();
        assert_eq!(bodies, [1_000, 10_000, 1_024, 1_024]);
        assert_eq!((page.depth(), page.body_bytes()), (1, 13_048));
    }

    #[test]
    fn a_first_object_stands_before_all_and_is_waited_for() {
        let page = Page::from_sizes("12x1kB").expect("a page").with_first(60_000).expect("a page");
        assert_eq!((page.objects.len(), page.depth(), page.body_bytes()), (13, 2, 72_000));
        assert_eq!((page.objects[0].initiator, page.objects[0].body), (None, 60_000));
        assert!(page.objects[1..].iter().all(|object| object.initiator == Some(0)));
        let names: Vec<_> = page.objects.iter().map(|object| object.name.as_str()).collect();
        assert_eq!((names[0], names[1], names[12]), ("/object-00", "/object-01", "/object-12"));
        // An object with an initiator must keep its initiator.
        let mut page = Page::from_sizes("3x1kB").expect("a page");
        page.objects[2].initiator = Some(1);
        let page = page.with_first(1).expect("a page");
        let initiators: Vec<_> = page.objects.iter().map(|object| object.initiator).collect();
        assert_eq!(initiators, [None, Some(0), Some(0), Some(2)]);
    }

    #[test]
    fn wrong_sizes_name_the_part_and_the_forms() {
        for spec in ["", "8x", "x100kB", "0x1kB", "8x100", "1kB,,2kB", "99999999x1kB", "-1x1kB", "8x100zB"] {
            let error = Page::from_sizes(spec).expect_err(spec).to_string();
            assert!(error.contains("8x100kB") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_page_that_breaks_a_promise_is_refused() {
        let page = Page::from_sizes("3x1kB").expect("a page");
        let refused = |change: fn(&mut Page)| {
            let mut page = page.clone();
            change(&mut page);
            page.validate().expect_err("refused").to_string()
        };
        assert!(refused(|p| p.objects.clear()).contains("no objects"));
        assert!(refused(|p| p.objects[1].initiator = Some(1)).contains("object 1"));
        assert!(refused(|p| p.objects[1].initiator = Some(2)).contains("before"));
        assert!(refused(|p| p.objects[2].host = 1).contains("host 1 of 1"));
        assert!(refused(|p| p.objects[2].name = "/object-1".into()).contains("same name"));
        assert!(refused(|p| p.objects[2].name = "/a b".into()).contains("request target"));
        assert!(refused(|p| p.objects[2].body = u64::MAX).contains("larger"));
    }
}
