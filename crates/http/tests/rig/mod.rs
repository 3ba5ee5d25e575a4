//! Helpers that several tests use: sessions in memory, virtual networks, small pages.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod memory;
pub mod sim;

use anabranch_http::page::Page;
use std::rc::Rc;

/// Returns an HTML page that embeds objects of these sizes.
pub fn page(html: u64, embedded: &[u64]) -> Rc<Page> {
    let sizes = std::iter::once(html).chain(embedded.iter().copied());
    let spec = sizes.map(|size| format!("{size}B")).collect::<Vec<_>>().join(",");
    let mut page = Page::from_sizes(&spec).expect("a page");
    for object in page.objects.iter_mut().skip(1) {
        object.initiator = Some(0);
    }
    Rc::new(page)
}
