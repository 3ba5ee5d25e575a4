//! Varies the loads of one page, because real loads differ from each other. Without this variation, all loads without
//! loss would be identical, and a single packet could decide the result.
//!
//! - After an object has arrived, the client waits for up to 10 ms (uniform) before it requests the objects that the
//!   arrived object causes. These objects keep their order. The limit of 10 ms is estimated from 25 loads of the page
//!   `news` in Chromium 156 over HTTP/2. The emulated link had 10 Mbit/s, 80 ms and no loss. Of the 25 loads, 21 took
//!   1400 to 1457 ms, and the other four were left out. On this page, chains of three to four objects cause each other,
//!   so each object adds some 10 ms.
//! - The browser's processor times, such as that of a response, lie between half and one and a half times the usual ones
//!   (uniform). In eleven recorded loads, those before the first requests lay between 0.4 and 1.6 times the usual ones.
//!   For others, the limits are an assumption.
//! - The size of one body in thirteen changes by up to 10 % (uniform). One in thirteen was measured in three loads of
//!   the page from which `news` was made (`expressen.har` in sitespeedio/pagexray): of 144 bodies that were loaded more
//!   than once, 11 differed. The limit of 10 % is an assumption: most of these bodies differed by more.

use anabranch_base::Rng;
use anabranch_base::time::{Duration, nanos};
use anabranch_http::page::{MAX_BODY, Page};

/// The description of the variation between page loads, for the heading of a table of results.
pub const SHORT: &str = "loads vary (requests by up to 10 ms, sizes of 1 in 13 bodies by up to 10 %)";

/// The maximum time that the client waits after an object has arrived, before it requests the objects that the object
/// causes.
const PROCESSING: Duration = Duration::from_millis(10);
/// The sizes of some bodies change from load to load: on average, one body in this many.
const BODIES: u64 = 13;
/// The maximum change of a body's size, in thousandths of the recorded size.
const DIFFERENCE: u64 = 100;

/// Changes `page` at random, as real loads of one page differ.
pub fn apply(page: &mut Page, rng: &mut Rng) {
    let count = page.objects.len();
    let processing: Vec<Duration> =
        (0..count).map(|_| Duration::from_nanos(rng.below(nanos(PROCESSING)))).collect();
    // The size of each body in thousandths of the recorded one.
    let sizes: Vec<u64> = (0..count)
        .map(|_| (rng.below(BODIES), rng.below(2 * DIFFERENCE + 1)))
        .map(|(chosen, size)| if chosen == 0 { 1000 - DIFFERENCE + size } else { 1000 })
        .collect();
    let scaled = |size: u64, thousandths: u64| (u128::from(size) * u128::from(thousandths) / 1000) as u64;
    for (object, size) in page.objects.iter_mut().zip(&sizes) {
        if let Some(initiator) = object.initiator {
            object.think += processing[initiator];
            let reference = &mut object.reference;
            for offset in [&mut reference.offset, &mut reference.used_at] {
                *offset = offset.map(|offset| scaled(offset, sizes[initiator]));
            }
        }
        object.body = scaled(object.body, *size).min(MAX_BODY);
        object.processing = 500 + rng.below(1001) as u32;
    }
    if let Some(size) = sizes.get(page.document()) {
        page.body_start = page.body_start.map(|offset| scaled(offset, *size));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_http::har::shipped;

    /// If the size of a document changes, all offsets in the document change with it, even if it is not the first
    /// object.
    #[test]
    fn offsets_change_with_the_size_of_the_document() {
        let mut page = shipped::named("news").expect("a page");
        let document = page.document();
        let sheet = page.objects.iter().position(|object| object.initiator == Some(document));
        let sheet = sheet.expect("an object of the document");
        let mut redirect = page.objects[document].clone();
        (redirect.name, redirect.body) = ("/old".to_owned(), 0);
        page.objects.insert(0, redirect);
        for object in &mut page.objects[1..] {
            object.initiator = object.initiator.map(|initiator| initiator + 1).or(Some(0));
        }
        page.objects[1].reference.redirected = true;
        let length = page.objects[1].body;
        page.body_start = Some(length);
        let reference = &mut page.objects[sheet + 1].reference;
        (reference.offset, reference.used_at) = (Some(length), Some(length));
        let mut is_changed = false;
        for seed in 0..100 {
            let mut load = page.clone();
            apply(&mut load, &mut Rng::new(seed));
            let (size, reference) = (load.objects[1].body, &load.objects[sheet + 1].reference);
            is_changed |= size != length;
            assert_eq!(
                (load.body_start, reference.offset, reference.used_at),
                (Some(size), Some(size), Some(size))
            );
        }
        assert!(is_changed, "the size of the document never changed");
    }

    #[test]
    fn loads_keep_the_order_of_requests_and_differ_in_few_sizes() {
        let page = shipped::named("news").expect("a page");
        let (mut changed, mut objects) = (0, 0);
        for seed in 0..100 {
            let mut load = page.clone();
            load.objects.iter_mut().for_each(|object| object.think = Duration::ZERO);
            apply(&mut load, &mut Rng::new(seed));
            load.validate().expect("a page");
            for (before, after) in page.objects.iter().zip(&load.objects) {
                objects += 1;
                changed += usize::from(before.body != after.body);
                assert!(after.body.abs_diff(before.body) * 10 <= before.body + 10);
                assert!(after.think < PROCESSING);
                assert!((500..=1500).contains(&after.processing));
            }
            let siblings = load.objects.iter().filter(|object| object.initiator == Some(0));
            let delays: std::collections::BTreeSet<Duration> = siblings.map(|object| object.think).collect();
            assert_eq!(delays.len(), 1, "what one object causes keeps its order");
        }
        let share = changed as f64 / objects as f64;
        assert!((0.06..0.09).contains(&share), "{share}");
    }
}
