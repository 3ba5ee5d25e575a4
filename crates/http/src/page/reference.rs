//! Describes how the initiator of an object refers to the object: where, and as what kind of resource.
//!
//! The values are taken from a recording or from the files of a site. A browser model decides how they affect the order
//! of requests.

/// How the initiator of an object refers to it. A field is `None` if the recording or the site does not tell its value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reference {
    /// The kind of resource (`_resourceType`). If it is `None`, the media type determines the kind.
    pub kind: Option<ResourceType>,
    /// The number of bytes of the initiator's transferred body up to the end of the reference (the end of the tag or
    /// of `url(..)`). Offsets in a decoded text are scaled to the transferred size.
    pub offset: Option<u64>,
    /// When a script is executed (the attributes `async`, `defer` and `type=module`).
    pub script: Option<ScriptMode>,
    /// Whether the reference precedes the `<body>` of the document.
    pub in_head: Option<bool>,
    /// Whether the initiator is a script that requests the object when it is executed (`_initiator.type` is `script`).
    pub by_script: bool,
    /// Whether the reference is a `<link>` that only preloads or prefetches.
    pub preload: bool,
    /// For a preload: the offset just after the tag that uses the object, counted like [`offset`](Self::offset). `None`
    /// if that tag is not known.
    pub used_at: Option<u64>,
    /// The attribute `fetchpriority`.
    pub fetch_priority: Option<FetchPriority>,
    /// Whether an image has `loading=lazy`, or a style sheet has a `media` that does not match.
    pub lazy: bool,
    /// Whether the initiator is a redirect to the object.
    pub redirected: bool,
    /// The last priority that the browser gave to the request (`_priority`).
    pub priority: Option<LoadPriority>,
}

impl Reference {
    /// Records that `tag` of the same document uses the object. Only for a preload for which no such tag is known yet.
    pub fn used_by(&mut self, tag: &Self) {
        let is_use = tag.script.is_some() || tag.kind == Some(ResourceType::Stylesheet);
        if self.preload && self.used_at.is_none() && !tag.preload && is_use {
            (self.used_at, self.script, self.lazy) = (tag.offset, tag.script, tag.lazy);
        }
    }
}

/// A kind of resource, as browsers distinguish them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResourceType {
    /// A document of the page or of a frame.
    Document,
    /// A style sheet.
    Stylesheet,
    /// A script.
    Script,
    /// A font.
    Font,
    /// An image.
    Image,
    /// Audio or video.
    Media,
    /// A request that a script makes: XMLHttpRequest, fetch, EventSource, or a CORS preflight.
    Fetch,
    /// A manifest of a web application.
    Manifest,
    /// Any other resource, for example a beacon.
    Other,
}

/// When a script is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptMode {
    /// When the parser reaches the script. The parser waits until the script has been executed.
    Blocking,
    /// As soon as the script has arrived.
    Async,
    /// When the document has been parsed.
    Defer,
    /// Like [`Defer`](Self::Defer), for a module. Browsers request modules with a higher priority.
    Module,
    /// Like [`Async`](Self::Async), for a module, or for a script that a module imports.
    AsyncModule,
}

/// A value of the attribute `fetchpriority`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchPriority {
    /// `high`.
    High,
    /// `low`.
    Low,
}

/// A priority in Chromium's loader, from the lowest to the highest (`ResourceLoadPriority`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LoadPriority {
    /// `VeryLow`.
    VeryLow,
    /// `Low`.
    Low,
    /// `Medium`.
    Medium,
    /// `High`.
    High,
    /// `VeryHigh`.
    VeryHigh,
}
