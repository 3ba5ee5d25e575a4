//! Determines where the documents, style sheets and scripts of a page refer to its objects: as the page records it, or
//! else by assumptions.
//!
//! If the page does not record where a document refers to an object, the assumption is as follows. Style sheets and
//! scripts stand in the head, in their order, each in [`REFERENCE`] bytes, and the parser waits for each script. All
//! other objects are spread evenly over the rest of the document. A script that was recorded with priority Low is
//! asynchronous, and one with priority Medium stands in the body. Scripts in the text of the document stand at the
//! beginning of the body. An object with another initiator is found when that initiator is complete.

use crate::page::reference::{FetchPriority, LoadPriority, Reference, ResourceType, ScriptMode};
use crate::page::{Object, Page};

/// How an object is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The object is requested at the start.
    AtStart,
    /// The object is found when the first `offset` bytes of its initiator have been delivered.
    InText {
        /// The index of the initiator.
        by: usize,
        /// The number of bytes of the initiator up to the end of the reference.
        offset: u64,
        /// Whether the initiator is the document of the page.
        by_document: bool,
    },
    /// The object is found when the parser executes a script in the text of the document. The script ends at this
    /// offset.
    ByInlineScript(u64),
    /// The object is found when the script with this index has been executed.
    ByScript(usize),
    /// The object is found when this style sheet or document has arrived and the document is rendered. For fonts,
    /// backgrounds and lazy images.
    ByStyle(usize),
}

/// An object of a page with the properties that matter to the browser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// The type of the resource, as browsers distinguish them.
    pub kind: ResourceType,
    /// How the resource is found.
    pub found: Found,
    /// How the resource is executed, if it is a script.
    pub mode: ScriptMode,
    /// Whether a `<link>` preloads or prefetches the resource.
    pub preload: bool,
    /// The offset in the document at which the parser reaches the tag of the resource. `None` if this offset is not
    /// known, or if the document does not refer to the resource.
    pub parsed_at: Option<u64>,
    /// The priority that the document asks for (`fetchpriority`).
    pub fetch_priority: Option<FetchPriority>,
    /// The recorded priority, if the kind of the resource does not determine the priority. An example is a prefetch.
    pub recorded: Option<LoadPriority>,
    /// Whether the resource is loaded lazily (`loading=lazy`), or is a style sheet for another medium.
    pub lazy: bool,
    /// Whether the resource is an image that the layout finds in the visible part of the page.
    pub visible: bool,
    /// Whether the resource is requested without credentials, because it is on another host than the document.
    pub without_credentials: bool,
}

/// All objects of a page as the browser finds them, and the document of the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The objects, with the same indices as in the page.
    pub resources: Vec<Resource>,
    /// The index of the document.
    pub document: usize,
    /// The indices of the document and of the redirects to it.
    pub navigations: Vec<usize>,
    /// The number of bytes of the document up to the end of its `<body>` tag.
    pub body_start: u64,
}

/// The number of bytes that a reference in the head is assumed to take.
pub const REFERENCE: u64 = 100;

impl Layout {
    /// Returns where and how a browser finds the objects of `page`.
    #[must_use]
    pub fn of(page: &Page) -> Self {
        let document = page.document();
        let (offsets, body_start) = offsets(page, document);
        let objects = page.objects.iter().zip(offsets);
        let resources = objects.map(|(object, offset)| resource(page, document, object, offset)).collect();
        let navigations = std::iter::successors(Some(document), |&object| page.objects[object].initiator);
        Self { resources, document, navigations: navigations.collect(), body_start }
    }

    /// Adds or updates the object `index` of a page that is being loaded. If the offset of the object is not known, the
    /// object is found when its initiator is complete.
    pub(super) fn update(&mut self, page: &Page, index: usize) {
        let object = &page.objects[index];
        let offset = object.reference.offset.unwrap_or(u64::MAX);
        let resource = resource(page, self.document, object, offset);
        match self.resources.get_mut(index) {
            Some(known) => *known = resource,
            None => self.resources.push(resource),
        }
    }
}

/// Returns the properties of `object` that matter to the browser. The initiator of `object` refers to it at `offset`.
fn resource(page: &Page, document: usize, object: &Object, offset: u64) -> Resource {
    let found = match object.initiator {
        None => Found::AtStart,
        Some(by) => found(page, by, object, offset, by == document),
    };
    let kind = match (object.kind(), found) {
        // HTML that a script requests is data for the script, and not the document of a frame.
        (ResourceType::Document, Found::ByScript(_)) => ResourceType::Fetch,
        (kind, _) => kind,
    };
    // Requests for fonts and requests that scripts make always use CORS mode. By default, these requests have
    // credentials only for the origin of the document (CSS Fonts 4 §4.8.2, Fetch §5.4).
    let without_credentials = matches!(kind, ResourceType::Font | ResourceType::Fetch)
        && object.host != page.objects[document].host;
    // Chromium gives an image priority High only after a layout, and records the last priority of each request. So an
    // image that was recorded with High is visible.
    let visible = kind == ResourceType::Image && object.reference.priority >= Some(LoadPriority::High);
    let Reference { preload, used_at, fetch_priority, lazy, priority, .. } = object.reference;
    let parsed_at = match found {
        Found::InText { by_document: true, .. } if preload => used_at,
        Found::InText { by_document: true, offset, .. } => Some(offset),
        _ => None,
    };
    let mode = match mode(object, found) {
        // It is not known where this preloaded script is used. Assume that it is executed when it arrives.
        ScriptMode::Blocking if preload && used_at.is_none() => ScriptMode::AsyncModule,
        mode => mode,
    };
    let recorded = priority.filter(|_| kind == ResourceType::Other);
    Resource {
        kind,
        found,
        mode,
        preload,
        parsed_at,
        fetch_priority,
        recorded,
        lazy,
        visible,
        without_credentials,
    }
}

fn found(page: &Page, by: usize, object: &Object, offset: u64, by_document: bool) -> Found {
    let initiator = page.objects[by].kind();
    // A module is requested when the module that imports it has arrived, even before the importing module is executed
    // (HTML, "fetch the descendants of and link a module script").
    if initiator == ResourceType::Script && object.reference.script == Some(ScriptMode::AsyncModule) {
        return Found::InText { by, offset, by_document: false };
    }
    if object.reference.by_script || initiator == ResourceType::Script {
        // A script in the text of a document is not an object of the page. The objects that it requests are found at
        // its offset in the document.
        return match initiator {
            ResourceType::Script => Found::ByScript(by),
            _ if by_document => Found::ByInlineScript(offset),
            _ => Found::InText { by, offset, by_document: false },
        };
    }
    match (initiator, object.kind()) {
        (ResourceType::Stylesheet, ResourceType::Font | ResourceType::Image) => Found::ByStyle(by),
        // blink `html_preload_scanner.cc`: the scanner skips lazy images. The layout finds them.
        (ResourceType::Document, ResourceType::Image) if object.reference.lazy => Found::ByStyle(by),
        _ => Found::InText { by, offset, by_document },
    }
}

/// Returns how the script `object` is executed.
fn mode(object: &Object, found: Found) -> ScriptMode {
    let in_document = matches!(found, Found::InText { by_document: true, .. });
    let recorded = match object.reference.priority {
        Some(LoadPriority::Low | LoadPriority::VeryLow) => ScriptMode::Async,
        // A script that another script requests has this priority by default only if it is a module.
        Some(LoadPriority::High) if !in_document => ScriptMode::AsyncModule,
        _ => ScriptMode::Blocking,
    };
    object.reference.script.unwrap_or(recorded)
}

/// Whether `object`, to which the document refers, is assumed to stand in the head of the document. `image` is the
/// offset of the first image, if it is known.
fn stands_in_head(object: &Object, image: Option<u64>) -> bool {
    let reference = &object.reference;
    let usual = match object.kind() {
        ResourceType::Stylesheet | ResourceType::Script => {
            let is_late = image.zip(reference.offset).is_some_and(|(image, own)| own > image);
            !is_late && reference.priority != Some(LoadPriority::Medium)
        }
        _ => false,
    };
    reference.in_head.unwrap_or(usual)
}

/// Returns the offset at which the initiator of each object refers to it, and the offset at which the body of the
/// document begins.
fn offsets(page: &Page, document: usize) -> (Vec<u64>, u64) {
    let length = page.objects[document].body;
    let of_document = |object: &&Object| object.initiator == Some(document) && !object.reference.by_script;
    let images =
        page.objects.iter().filter(of_document).filter(|object| object.kind() == ResourceType::Image);
    let image = images.filter_map(|object| object.reference.offset).min();
    let stands_in_head = |object: &Object| stands_in_head(object, image);
    let unknown = |object: &&Object| of_document(object) && object.reference.offset.is_none();
    let in_head = page.objects.iter().filter(unknown).filter(|object| stands_in_head(object)).count() as u64;
    let in_body = page.objects.iter().filter(unknown).count() as u64 - in_head;
    let known_head = page.objects.iter().filter(of_document).filter(|object| stands_in_head(object));
    let known_head = known_head.filter_map(|object| object.reference.offset).max().unwrap_or(0);
    let assumed_head = known_head + in_head * REFERENCE;
    let body_start = page.body_start.unwrap_or(assumed_head).min(length);
    let rest = length - body_start;
    let (mut head, mut body) = (0_u64, 0_u64);
    let offset = |object: &Object| {
        let Some(by) = object.initiator else { return 0 };
        let whole = page.objects[by].body;
        let assumed = if by != document {
            whole
        } else if object.reference.by_script {
            body_start + 1
        } else if object.reference.offset.is_some() {
            0
        } else if stands_in_head(object) {
            head += 1;
            known_head + head * REFERENCE
        } else {
            body += 1;
            body_start + (u128::from(rest) * u128::from(body) / u128::from(in_body + 1)) as u64
        };
        object.reference.offset.unwrap_or(assumed).min(whole)
    };
    (page.objects.iter().map(offset).collect(), body_start)
}
