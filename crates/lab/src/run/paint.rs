//! When a user sees the page that a browser loads: start render, the largest image, and the byte index.
//!
//! A run draws no picture. The figures are therefore of the network alone: the times that a browser needs to lay out and
//! paint the page are not included. They have these rules:
//!
//! - *Start render*: the browser's parser has reached the body of the document, and each style sheet of the head has
//!   arrived. Before that, the parser has waited for each blocking script of the head. Chromium paints nothing earlier
//!   (`Document::HaveRenderBlockingResourcesLoaded`).
//! - *Largest image*: the image with the most body bytes is complete. Largest Contentful Paint takes the image with the
//!   largest area on the screen instead, which a recording does not hold.
//! - *Byte index*: the integral over time of the share of the page's body bytes that has not been delivered. It is the
//!   Speed Index with bytes in place of pixels (E. Bocchi, L. De Cicco, D. Rossi: Measuring the Quality of Experience of
//!   Web users, Internet-QoE 2016). It equals the mean of the times at which the bytes arrive.

use crate::plan::PointPlan;
use anabranch_base::Instant;
use anabranch_http::browser::Client;
use anabranch_http::observe::Record;
use anabranch_http::page::Page;
use anabranch_http::page::reference::ResourceType;
use anabranch_results::Object;

/// The figures of a run, in nanoseconds from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Paint {
    /// `None` if the browser could not render the document before the run ended.
    pub start_render_ns: Option<u64>,
    /// `None` if the page has no images, or if the largest was not delivered.
    pub largest_image_ns: Option<u64>,
    /// For a run that did not finish: the integral up to the end of the run. `None` if the page has no bytes.
    pub byte_index_ns: Option<u64>,
}

/// Returns the figures of a run between these instants. `objects` are its results, in the order of the page. They are
/// empty if no browser loaded the page.
pub fn of(point: &PointPlan, record: &Record, objects: &[Object], [begun, end]: [Instant; 2]) -> Paint {
    if point.workload.client == Client::Plain {
        return Paint::default();
    }
    Paint {
        start_render_ns: record.start_render.map(|at| since(at, begun)),
        largest_image_ns: largest_image(&point.workload.page)
            .and_then(|index| objects.get(index)?.delivered_ns),
        byte_index_ns: byte_index(record, objects, begun, end),
    }
}

fn since(at: Instant, begun: Instant) -> u64 {
    at.as_nanos().saturating_sub(begun.as_nanos())
}

/// Returns the index of the image with the most body bytes. Of several, the first on the page counts.
fn largest_image(page: &Page) -> Option<usize> {
    let images = page.objects.iter().enumerate();
    let images = images.filter(|(_, object)| object.kind() == ResourceType::Image && object.body > 0);
    images.max_by_key(|(index, object)| (object.body, usize::MAX - index)).map(|(index, _)| index)
}

/// Returns the byte index. Bytes that were not delivered count with the end of the run.
fn byte_index(record: &Record, objects: &[Object], begun: Instant, end: Instant) -> Option<u64> {
    let all: u128 = objects.iter().map(|object| u128::from(object.bytes)).sum();
    let (mut read, mut times) = (0_u128, 0_u128);
    for object in &record.objects {
        read += object.read.iter().map(|&(_, bytes)| u128::from(bytes)).sum::<u128>();
        times += object.read_times;
    }
    let missing = all.saturating_sub(read) * u128::from(end.as_nanos());
    let mean = (times + missing).checked_div(all.max(read))?;
    Some((mean as u64).saturating_sub(begun.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_http::observe::Recorder;

    fn object(bytes: u64) -> Object {
        let text = format!(
            r#"{{"name":"/","bytes":{bytes},"connection":null,"stream":null,"issued_ns":0,"first_byte_ns":null,
               "delivered_ns":null,"failure":null,"why":null,"send_detail":null,"instants":null}}"#
        );
        serde_json::from_str(&text).expect("an object")
    }

    #[test]
    fn byte_index_is_the_integral_of_the_share_that_is_missing() {
        let (at, recorder) = (Instant::from_nanos, Recorder::new());
        let objects = [object(300), object(100)];
        recorder.read(0, at(1_000_000), 100);
        // Reads within a millisecond are one entry of the record. The index has the time of each.
        recorder.read(0, at(1_500_000), 200);
        recorder.read(1, at(3_000_000), 100);
        let record = recorder.take();
        // All 400 bytes are missing for 0.9 ms, then 300 for 0.5 ms, then 100 for 1.5 ms: (360 + 150 + 150) / 400.
        let found = byte_index(&record, &objects, at(100_000), at(3_000_000));
        assert_eq!(found, Some(1_650_000));
        // Of 800 bytes, 400 never arrive.
        let unfinished = [object(300), object(500)];
        assert_eq!(byte_index(&record, &unfinished, at(100_000), at(5_100_000)), Some(3_325_000));
        assert_eq!(byte_index(&Record::default(), &[object(0)], at(0), at(9)), None);
    }

    #[test]
    fn largest_image_is_the_one_with_the_most_bytes() {
        let mut page = Page::from_sizes("9kB,1kB,5kB,5kB,0B").expect("a page");
        assert_eq!(largest_image(&page), None);
        page.objects[4].reference.kind = Some(ResourceType::Image);
        assert_eq!(largest_image(&page), None, "an empty image is not seen");
        for image in &mut page.objects[1..4] {
            image.reference.kind = Some(ResourceType::Image);
        }
        assert_eq!(largest_image(&page), Some(2));
    }
}
