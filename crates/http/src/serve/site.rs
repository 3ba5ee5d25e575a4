//! The content that a server serves.

use crate::body::Pattern;
use crate::page::{Object, Page};
use anabranch_base::time::Duration;
use bytes::Bytes;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::rc::Rc;

/// A set of resources, and the responses to requests for them.
pub trait Site: 'static {
    /// Returns the resource with the request target `target`. If it returns `None`, the response has status 404.
    fn find(&self, target: &str) -> Option<Resource>;

    /// Returns the time until the response for `target` is ready, in addition to the service time of the server.
    fn service_time(&self, _target: &str) -> Duration {
        Duration::ZERO
    }

    /// Returns the response to a request. A site that supports ranges, conditions or redirects overrides this method.
    fn answer(&self, request: &SiteRequest<'_>) -> Answer {
        if !matches!(*request.method, Method::GET | Method::HEAD) {
            return Answer::refuse_method(request.method);
        }
        match self.find(request.target) {
            Some(resource) => Answer { status: StatusCode::OK, fields: HeaderMap::new(), resource },
            None => Answer::plain_text(StatusCode::NOT_FOUND, "no file has this name\n"),
        }
    }
}

/// The parts of a request that determine the response.
#[derive(Clone, Copy, Debug)]
pub struct SiteRequest<'a> {
    /// The request method. Methods other than GET and HEAD are refused.
    pub method: &'a Method,
    /// The path and the query of the request target.
    pub target: &'a str,
    /// The host and port as the client names them, in Host or in `:authority`.
    pub host: Option<&'a str>,
    /// The fields of the request.
    pub fields: &'a HeaderMap,
}

/// A response. The server adds Content-Length, Content-Type and Date to its fields.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The fields of the response, except Content-Length, Content-Type and Date.
    pub fields: HeaderMap,
    /// The body and its media type.
    pub resource: Resource,
}

impl Answer {
    /// Returns a response whose body is the line `text`.
    #[must_use]
    pub fn plain_text(status: StatusCode, text: &'static str) -> Self {
        let resource = Resource {
            content: Content::Bytes(Bytes::from_static(text.as_bytes())),
            content_type: "text/plain; charset=utf-8".to_owned(),
            head_size: None,
        };
        Self { status, fields: HeaderMap::new(), resource }
    }

    /// Returns the response that refuses a method other than GET and HEAD.
    #[must_use]
    pub fn refuse_method(method: &Method) -> Self {
        // RFC 9110 §9.1: the status is 405 for a known method that is not allowed, and 501 for an unknown method.
        let known = [
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
            Method::CONNECT,
        ];
        if !known.contains(method) {
            return Self::plain_text(StatusCode::NOT_IMPLEMENTED, "this method is not known here\n");
        }
        let mut answer =
            Self::plain_text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n");
        answer.fields.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        answer
    }
}

/// A store of bytes, for example a file, that is read while the bytes are sent.
pub trait Store: 'static {
    /// Returns at least one and at most `most` bytes from `offset` on.
    ///
    /// # Errors
    /// The bytes cannot be read, or the end has been reached.
    fn read(&self, offset: u64, most: usize) -> io::Result<Bytes>;
}

/// A part of the bytes in a [`Store`].
#[derive(Clone)]
pub struct StoredRange {
    /// The store that holds the bytes.
    pub store: Rc<dyn Store>,
    /// The offset of the part in the store, in bytes.
    pub offset: u64,
    /// The length of the part in bytes.
    pub length: u64,
}

impl fmt::Debug for StoredRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRange").field("offset", &self.offset).field("length", &self.length).finish()
    }
}

impl PartialEq for StoredRange {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.store, &other.store) && (self.offset, self.length) == (other.offset, other.length)
    }
}

impl Eq for StoredRange {}

/// A resource that can be fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// The bytes of the resource.
    pub content: Content,
    /// The media type of the resource.
    pub content_type: String,
    /// The wanted size of the response head in bytes. The head is larger if its fields need more space.
    pub head_size: Option<u64>,
}

/// The bytes of a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The given number of bytes from the start of a pattern.
    Pattern(Pattern, u64),
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of bytes in a store. The bytes are read from the store when they are needed.
    Stored(StoredRange),
}

impl Content {
    /// Returns the number of bytes in the content.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Pattern(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored(part) => part.length,
        }
    }

    /// Returns some of the bytes from `offset` on. The result is empty at the end of the content.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn bytes(&self, offset: u64) -> io::Result<Bytes> {
        self.piece(offset, PIECE)
    }

    /// Like [`Self::bytes`], but returns at most `most` bytes if they have to be read from a store.
    pub(super) fn piece(&self, offset: u64, most: usize) -> io::Result<Bytes> {
        let left = self.length().saturating_sub(offset);
        Ok(match self {
            Self::Pattern(pattern, _) => pattern.bytes(offset, left),
            // `offset` is at most the length of the bytes, so `left` fits in `usize`.
            Self::Bytes(bytes) => bytes.slice(bytes.len() - left as usize..),
            Self::Stored(_) if left == 0 => Bytes::new(),
            Self::Stored(part) => {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(most);
                part.store.read(part.offset + offset, most)?
            }
        })
    }
}

/// A site that serves the objects of a page. Only the sizes of the objects are known, so the content of each object is
/// generated from its name.
#[derive(Clone, Debug)]
pub struct PageSite {
    resources: BTreeMap<String, Resource>,
    service_times: BTreeMap<String, Duration>,
}

impl PageSite {
    /// Creates a site with all objects of `page`, even if the page has several hosts.
    #[must_use]
    pub fn new(page: &Page) -> Self {
        let resources = page.objects.iter().map(|object| {
            let resource = Resource {
                content: Content::Pattern(Pattern::of(&object.name), object.body),
                content_type: PATTERN_TYPE.to_owned(),
                head_size: Some(object.response_head),
            };
            (object.name.clone(), resource)
        });
        Self { resources: resources.collect(), service_times: BTreeMap::new() }
    }

    /// Sets the service time of each object of `page` to the time that `of` returns for the object.
    #[must_use]
    pub fn with_service_times(mut self, page: &Page, of: impl Fn(&Object) -> Duration) -> Self {
        let times = page.objects.iter().map(|object| (object.name.clone(), of(object)));
        self.service_times = times.filter(|(_, time)| !time.is_zero()).collect();
        self
    }
}

impl Site for PageSite {
    fn find(&self, target: &str) -> Option<Resource> {
        self.resources.get(target).cloned()
    }

    fn service_time(&self, target: &str) -> Duration {
        self.service_times.get(target).copied().unwrap_or_default()
    }
}

/// The media type of generated content, which is a byte pattern. The type that the page declares is not used, because
/// a decoder for that type would reject the pattern.
pub(super) const PATTERN_TYPE: &str = "application/octet-stream";

/// The maximum number of bytes that are read from a store at a time.
pub(super) const PIECE: usize = 64 * 1024;
