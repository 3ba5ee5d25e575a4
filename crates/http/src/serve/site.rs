//! What there is to serve.

use crate::body::Pattern;
use crate::page::Page;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Finds what a request asks for.
pub trait Site: 'static {
    /// The resource with this request target; `None` is answered with 404.
    fn find(&self, target: &str) -> Option<Resource>;
}

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
}

impl Content {
    /// How many bytes there are.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Pattern(_, length) => *length,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Some of the bytes from `offset` on; empty at the end.
    #[must_use]
    pub fn bytes(&self, offset: u64) -> Bytes {
        let left = self.length().saturating_sub(offset);
        match self {
            Self::Pattern(pattern, _) => pattern.bytes(offset, left),
            // `offset` is within the bytes, so it fits.
            Self::Bytes(bytes) => bytes.slice(bytes.len() - left as usize..),
        }
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
                // The content is a pattern, not what the page's type promises: a decoder that believed the type
                // would call it malformed.
                content_type: "application/octet-stream".to_owned(),
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
