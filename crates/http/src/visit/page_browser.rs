//! The browser that decides when the objects of a visited page are requested. It is the browser model that the
//! simulated races of transports also use ([`Browser`]). The page grows while the documents are read.

use crate::browser::{Browser, rules};
use crate::http2::priority::Priority;
use crate::page::directory::content_type;
use crate::page::reference::{Reference, ResourceType};
use crate::page::{Object, Page};
use std::collections::VecDeque;
use std::path::Path;

/// A browser, and the part of the page that has been discovered so far.
pub(super) struct PageBrowser {
    browser: Browser,
    page: Page,
}

impl PageBrowser {
    /// Returns a browser that begins to load the document `target`. The size of the document is not known yet.
    pub(super) fn new(target: &str, takes_priorities: bool) -> Self {
        let mut document = Object::new(target, u64::MAX);
        document.reference.kind = Some(ResourceType::Document);
        let page = Page {
            name: target.to_owned(),
            source: String::new(),
            hosts: vec![String::new()],
            coalesce: vec![0],
            public: Vec::new(),
            objects: vec![document],
            tls_objects: 0,
            warnings: Vec::new(),
            body_start: Some(u64::MAX),
            recording: None,
        };
        let mut browser = Browser::new(&rules::CHROMIUM, &page, false);
        if takes_priorities {
            browser.takes_priorities(0);
        }
        Self { browser, page }
    }

    /// Records that the object `initiator` refers to the object `object`, whose target is `target`. The object may
    /// already be known.
    pub(super) fn name(&mut self, object: usize, initiator: usize, target: &str, reference: &Reference) {
        if let Some(known) = self.page.objects.get_mut(object) {
            let was_used = known.reference.used_at;
            if known.initiator == Some(initiator) {
                known.reference.used_by(reference);
            }
            if known.reference.used_at != was_used {
                self.browser.update(&self.page, object);
            }
            return;
        }
        let path = target.split('?').next().unwrap_or_default();
        self.page.objects.push(Object {
            initiator: Some(initiator),
            content_type: content_type(Path::new(path)).to_owned(),
            reference: reference.clone(),
            ..Object::new(target, 0)
        });
        self.browser.update(&self.page, object);
    }

    /// Handles the head of the response for `object`. `announces_http3` says whether the response announces that the
    /// host speaks HTTP/3 (RFC 7838). Such a host supports priorities.
    pub(super) fn answered(&mut self, object: usize, announces_http3: bool) {
        if announces_http3 {
            self.browser.takes_priorities(0);
        }
        // A real browser takes some time to commit the document. Here there is no renderer to wait for, so the document
        // is committed at once.
        if self.browser.is_committed_later(object) {
            self.browser.commit();
        }
    }

    /// Reports that `bytes` bytes of `object` have arrived. The objects to which these bytes refer must have been added
    /// before.
    pub(super) fn delivered(&mut self, object: usize, bytes: u64) {
        self.browser.delivered(object, bytes);
    }

    /// Sets the offset at which the body of the document begins.
    pub(super) const fn set_body_start(&mut self, offset: u64) {
        self.browser.set_body_start(offset);
    }

    /// Reports that the response for `object` has ended.
    pub(super) fn finished(&mut self, object: usize) {
        self.browser.finished(object);
    }

    /// Returns the priority with which `object` is requested.
    pub(super) fn priority(&self, object: usize) -> Priority {
        self.browser.urgency(object)
    }

    /// Adds the objects that are requested now to `queue`, the most urgent first.
    pub(super) fn request(&mut self, queue: &mut VecDeque<usize>) {
        while let Some(object) = self.browser.next_found() {
            self.browser.request(object);
        }
        while let Some(object) = self.browser.next_dispatched() {
            self.browser.receive(object);
        }
        while let Some(object) = self.browser.next_request() {
            let urgency = |object: usize| self.browser.urgency(object).urgency;
            let at = queue.iter().position(|&other| urgency(other) > urgency(object)).unwrap_or(queue.len());
            queue.insert(at, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::embed;
    use crate::page::reference::ScriptMode;

    #[test]
    fn objects_are_requested_by_the_rules_of_the_browser() {
        let mut browser = PageBrowser::new("/", true);
        let requests = |browser: &mut PageBrowser| {
            let mut queue = VecDeque::new();
            browser.request(&mut queue);
            Vec::from(queue)
        };
        assert_eq!(requests(&mut browser), [0]);
        browser.answered(0, false);
        let html = "<link rel=preload as=script href=b.js><script src=a.js></script><body><img src=1><img src=2><img src=3>";
        let found = embed::in_html(html.as_bytes());
        browser.set_body_start(found.body_start.expect("a body"));
        for (object, (target, reference)) in found.with_references().enumerate() {
            browser.name(object + 1, 0, &format!("/{target}"), &reference);
        }
        browser.delivered(0, 10);
        assert_eq!(requests(&mut browser), [0; 0]);
        browser.delivered(0, html.len() as u64);
        assert_eq!(requests(&mut browser), [1, 2, 3, 4], "two scripts and two images");
        assert_eq!([2, 3].map(|object| browser.priority(object).to_string()), ["u=1", "u=2, i"]);
        let script = Reference { offset: Some(html.len() as u64 + 30), ..Reference::default() };
        browser.name(1, 0, "/b.js", &Reference { script: Some(ScriptMode::Blocking), ..script });
        browser.finished(2);
        assert_eq!(requests(&mut browser), [5], "the body has begun");
    }
}
