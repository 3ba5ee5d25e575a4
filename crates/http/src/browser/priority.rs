//! Computes the priority of a request from the kind of the resource and from how the resource was found.
//!
//! Source: blink `resource_fetcher.cc`, `ResourceFetcher::ComputeLoadPriority` and `AdjustImagePriority`.
//! [`super::Browser`] raises priorities after a layout.

use super::Rules;
use super::layout::{Found, Resource};
use crate::http2::priority::Priority;
use crate::page::reference::{FetchPriority, LoadPriority, ResourceType, ScriptMode};

/// Computes the priorities of requests. Remembers the earlier requests on which later priorities depend.
#[derive(Clone, Copy, Debug)]
pub struct Priorities {
    boosted_images: usize,
    /// Whether an image was found. An object that the preload scanner finds afterwards is "late" in the document.
    image_found: bool,
    /// The number of images whose priority was raised because they are the first ones of the document.
    images: usize,
}

impl Priorities {
    pub(super) const fn new(rules: &Rules) -> Self {
        Self { boosted_images: rules.boosted_images, image_found: false, images: 0 }
    }

    /// Returns the priority of the request for `resource`, which was just found.
    pub(super) fn compute(&mut self, resource: &Resource) -> LoadPriority {
        let in_document = matches!(resource.found, Found::InText { by_document: true, .. });
        self.image_found |= resource.kind == ResourceType::Image && !resource.preload;
        let late = in_document && self.image_found;
        let priority = match resource.kind {
            ResourceType::Document => LoadPriority::VeryHigh,
            ResourceType::Stylesheet | ResourceType::Image if resource.lazy => LoadPriority::VeryLow,
            ResourceType::Stylesheet if late => LoadPriority::Medium,
            // A preloaded font must not take precedence over the style sheets of the head.
            ResourceType::Font if resource.preload => LoadPriority::High,
            ResourceType::Stylesheet | ResourceType::Font => LoadPriority::VeryHigh,
            ResourceType::Script => match resource.mode {
                // `ComputeLoadPriority` lowers only classic scripts (`ScriptType::kClassic`).
                ScriptMode::Module | ScriptMode::AsyncModule => LoadPriority::High,
                ScriptMode::Async | ScriptMode::Defer => LoadPriority::Low,
                // blink `script_loader.cc`, `ScriptLoader::PrepareScript`: a script that another script inserts is
                // asynchronous.
                ScriptMode::Blocking if !in_document => LoadPriority::Low,
                ScriptMode::Blocking if late => LoadPriority::Medium,
                ScriptMode::Blocking => LoadPriority::High,
            },
            ResourceType::Fetch => LoadPriority::High,
            ResourceType::Manifest => LoadPriority::Medium,
            // Chromium does not raise the priority of small images. The page does not say how large an image is, and
            // Chromium does not treat an image of unknown size as small.
            ResourceType::Image if in_document && !resource.preload && self.images < self.boosted_images => {
                self.images += 1;
                LoadPriority::Medium
            }
            ResourceType::Other => resource.recorded.unwrap_or(LoadPriority::Low),
            ResourceType::Image | ResourceType::Media => LoadPriority::Low,
        };
        // blink `resource_request_utils.cc`, `AdjustPriorityWithPriorityHintAndRenderBlocking`.
        match resource.fetch_priority {
            None => priority,
            Some(FetchPriority::High) => priority.max(LoadPriority::High),
            Some(FetchPriority::Low)
                if resource.kind == ResourceType::Stylesheet && priority == LoadPriority::VeryHigh =>
            {
                LoadPriority::High
            }
            Some(FetchPriority::Low) => priority.min(LoadPriority::Low),
        }
    }
}

/// Returns the priority that a request has in its `priority` field (RFC 9218 §4).
///
/// blink `resource_request_utils.cc`, `ShouldLoadIncremental`. `ConvertWebKitPriorityToNetPriority` (blink
/// `request_conversion.cc`) maps Blink's priorities to HIGHEST, MEDIUM, LOW, LOWEST and IDLE. net `quic_http_utils.cc`,
/// `ConvertRequestPriorityToQuicPriority`, maps these to the urgencies 0 to 4.
pub(super) fn stated(priority: LoadPriority, kind: ResourceType) -> Priority {
    let urgency = match priority {
        LoadPriority::VeryHigh => 0,
        LoadPriority::High => 1,
        LoadPriority::Medium => 2,
        LoadPriority::Low => 3,
        LoadPriority::VeryLow => 4,
    };
    let incremental = matches!(
        kind,
        ResourceType::Document
            | ResourceType::Image
            | ResourceType::Media
            | ResourceType::Fetch
            | ResourceType::Other
    );
    Priority { urgency, incremental }
}
