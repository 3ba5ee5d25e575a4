//! What there is to serve.

use crate::body::Pattern;
use crate::page::Page;
use bytes::Bytes;
use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::rc::Rc;

/// Finds what a request asks for.
pub trait Site: 'static {
    /// The resource with this request target; `None` is answered with 404.
    fn find(&self, target: &str) -> Option<Resource>;

    /// The answer to a request. A site that knows more than what there is (parts,
    /// conditions, redirections) has its own.
    fn answer(&self, asked: &Asked<'_>) -> Answer {
        if !matches!(*asked.method, Method::GET | Method::HEAD) {
            return Answer::refuse_method(asked.method);
        }
        match self.find(asked.target) {
            Some(resource) => Answer { status: StatusCode::OK, fields: HeaderMap::new(), resource },
            None => Answer::said(StatusCode::NOT_FOUND, "there is nothing of that name\n"),
        }
    }
}

/// A request, as far as it decides the answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// GET, HEAD, or what is refused.
    pub method: &'a Method,
    /// Path and query.
    pub target: &'a str,
    /// The host and its port, as the client names them: Host, or `:authority` of HTTP/2.
    pub host: Option<&'a str>,
    /// All fields.
    pub fields: &'a HeaderMap,
}

/// An answer. Content-Length, Content-Type and Date are added by the server.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Other fields.
    pub fields: HeaderMap,
    /// The body and what is said of it.
    pub resource: Resource,
}

impl Answer {
    /// A line of text.
    #[must_use]
    pub fn said(status: StatusCode, text: &'static str) -> Self {
        let resource = Resource {
            content: Content::Bytes(Bytes::from_static(text.as_bytes())),
            content_type: "text/plain; charset=utf-8".to_owned(),
            head: None,
        };
        Self { status, fields: HeaderMap::new(), resource }
    }

    /// Refuses a method, which is neither GET nor HEAD.
    #[must_use]
    pub fn refuse_method(method: &Method) -> Self {
        // RFC 9110 §9.1: 405 for methods that are known and not allowed, 501 for others.
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
            return Self::said(StatusCode::NOT_IMPLEMENTED, "this method is not known here\n");
        }
        let mut answer = Self::said(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served here\n");
        answer.fields.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        answer
    }
}

/// Bytes that are kept elsewhere and read as they are sent.
pub trait Store: 'static {
    /// At most `most` bytes from `offset` on; at least one.
    ///
    /// # Errors
    /// They cannot be read, or there are no more.
    fn read(&self, offset: u64, most: usize) -> io::Result<Bytes>;
}

/// A part of a [`Store`].
#[derive(Clone)]
pub struct Stored {
    /// Where the bytes are.
    pub store: Rc<dyn Store>,
    /// Where the part begins.
    pub offset: u64,
    /// Its length.
    pub length: u64,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("offset", &self.offset).field("length", &self.length).finish()
    }
}

impl PartialEq for Stored {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.store, &other.store) && (self.offset, self.length) == (other.offset, other.length)
    }
}

impl Eq for Stored {}

/// One thing that can be fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// Its bytes.
    pub content: Content,
    /// Its media type.
    pub content_type: String,
    /// Bytes the response head is to have; fewer than are necessary are not possible.
    pub head: Option<u64>,
}

/// The bytes of a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// So many bytes of a pattern.
    Pattern(Pattern, u64),
    /// These.
    Bytes(Bytes),
    /// Those of a store.
    Stored(Stored),
}

impl Content {
    /// How many bytes there are.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Pattern(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored(part) => part.length,
        }
    }

    /// Some of the bytes from `offset` on; empty at the end.
    ///
    /// # Errors
    /// A store cannot be read.
    pub fn bytes(&self, offset: u64) -> io::Result<Bytes> {
        self.piece(offset, PIECE)
    }

    /// The same, at most `most` of them where they have to be read.
    pub(super) fn piece(&self, offset: u64, most: usize) -> io::Result<Bytes> {
        let left = self.length().saturating_sub(offset);
        Ok(match self {
            Self::Pattern(pattern, _) => pattern.bytes(offset, left),
            // `offset` is within the bytes, so it fits.
            Self::Bytes(bytes) => bytes.slice(bytes.len() - left as usize..),
            Self::Stored(_) if left == 0 => Bytes::new(),
            Self::Stored(part) => {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(most);
                part.store.read(part.offset + offset, most)?
            }
        })
    }
}

/// A page served from its sizes: each object has its pattern as content.
#[derive(Clone, Debug)]
pub struct PageSite {
    resources: BTreeMap<String, Resource>,
}

impl PageSite {
    /// All objects of `page`, whatever their hosts.
    #[must_use]
    pub fn new(page: &Page) -> Self {
        let resources = page.objects.iter().map(|object| {
            let resource = Resource {
                content: Content::Pattern(Pattern::of(&object.name), object.body),
                content_type: PATTERN_TYPE.to_owned(),
                head: Some(object.response_head),
            };
            (object.name.clone(), resource)
        });
        Self { resources: resources.collect() }
    }
}

impl Site for PageSite {
    fn find(&self, target: &str) -> Option<Resource> {
        self.resources.get(target).cloned()
    }
}

/// The content is a pattern, not what the page's type promises: a decoder that believed the type would call it malformed.
pub(super) const PATTERN_TYPE: &str = "application/octet-stream";

/// What is read from a store at a time, at most.
pub(super) const PIECE: usize = 64 * 1024;
