//! Computes the lower bound for the page time of a run. Converts the network and the page to the types of `limit.rs`.

use crate::limit::{self, Capacity, Item};
use crate::plan::{Network, Workload};
use anabranch_base::time::nanos;
use anabranch_base::{BitRate, Instant};
use anabranch_http::browser::Client;
use anabranch_http::browser::layout::{Found, Layout};
use anabranch_link::trace::OPPORTUNITY_BYTES;
use anabranch_link::{DirectionSpec, LinkSpec};

/// Returns the earliest time in nanoseconds at which any contestant can finish, or `None` if the network never carries
/// all data.
#[must_use]
pub fn of(network: &Network, items: &[Item]) -> Option<u64> {
    let side = |pick: fn(&LinkSpec) -> &DirectionSpec| limit::Direction {
        paths: network.paths.iter().map(|path| capacity(pick(path))).collect(),
        // Jitter can shorten the delay of a packet, and reordering can remove it, so the calculation uses the shortest
        // possible delay.
        delay_ns: network.paths.iter().map(|path| shortest(pick(path))).min().unwrap_or(0),
    };
    limit::limit(items, &side(|path| &path.up), &side(|path| &path.down)).page_ns
}

/// Returns the objects of a page as items from which the lower bound of the page time is computed. `streams` is the
/// number of streams of a connection. `frame_header_bytes` is the size of a frame header in bytes, if the contestant
/// uses HTTP/2 or HTTP/3.
#[must_use]
pub fn items(workload: &Workload, streams: usize, frame_header_bytes: Option<u64>) -> Vec<Item> {
    let issued = workload.issue_times(streams);
    let browsed = (workload.client == Client::Chromium).then(|| Layout::of(&workload.page));
    let item = |(index, object): (usize, &anabranch_http::page::Object)| {
        let think = if workload.think { nanos(object.think) } else { 0 };
        // If objects are requested at fixed times, no object waits for the object that otherwise triggers its request
        // (its initiator).
        let (initiator, think_ns) = match issued.as_ref().and_then(|times| times.get(index)) {
            Some(at) => (None, nanos(*at)),
            None => (object.initiator, think),
        };
        // HTTP/2 and HTTP/3 compress heads. The only certain part of a compressed head is its frame header.
        let (request, response) = match frame_header_bytes {
            None => (object.request_head, object.response()),
            Some(frame_header_bytes) => (frame_header_bytes, object.body + frame_header_bytes),
        };
        let found = browsed.as_ref().map(|layout| layout.resources[index].found);
        let part = match (found, initiator) {
            (Some(Found::InText { offset, .. }), Some(by)) => {
                let head = workload.page.objects[by].response_head;
                Some(offset + if frame_header_bytes.is_none() { head } else { 0 })
            }
            _ => None,
        };
        Item {
            request,
            response,
            initiator,
            part,
            think_ns,
            server_ns: nanos(workload.server_time_of(object)),
        }
    };
    workload.page.objects.iter().enumerate().map(item).collect()
}

fn shortest(side: &DirectionSpec) -> u64 {
    let lead = side.reorder.map_or(0, |reorder| reorder.lead.map_or(u64::MAX, nanos));
    nanos(side.delay).saturating_sub(nanos(side.jitter)).saturating_sub(lead)
}

/// Returns the rate that a link leaves for payload. Every packet is assumed to have the maximum size, which minimises
/// the overhead.
fn net_rate(side: &DirectionSpec, rate: BitRate) -> u64 {
    let rate = u128::from(rate.bits_per_second());
    // Converts bytes to billionths of a bit, the unit in which the link's serializer counts.
    let bits = |bytes: u64| u128::from(bytes) * 8_000_000_000;
    // The packet time is a fixed time for which each packet occupies the link, in addition to the time for its bits. If
    // the rate changes, a packet may spend this time before the change, and then send all its bits at the new rate. The
    // packet time is therefore counted only on a link with a constant rate, so that the result remains an upper bound.
    let steady = side.rate.changes().is_empty() && side.outages.is_empty();
    let time = if steady { rate * u128::from(nanos(side.packet_time)) } else { 0 };
    let mtu = u64::from(side.mtu);
    let net = (rate * bits(mtu)).div_ceil(bits(mtu + side.overhead.0) + time);
    u64::try_from(net).unwrap_or(u64::MAX)
}

fn capacity(side: &DirectionSpec) -> Capacity {
    let trace = side.trace.as_ref().and_then(|spec| spec.trace.as_ref());
    let recorded = trace.and_then(|trace| match (trace.opportunities(), trace.rates()) {
        (Some(opportunities), _) => {
            let times: Vec<u64> = opportunities.times_ms().iter().map(|ms| u64::from(*ms)).collect();
            Some(Capacity::opportunities(&times, OPPORTUNITY_BYTES))
        }
        (None, Some(rates)) => Some(Capacity::repeating(rates.steps().to_vec(), rates.period())),
        (None, None) => None,
    });
    let capacity = match (recorded, side.rate.first()) {
        (Some(capacity), _) => capacity,
        (_, None) => Capacity::constant(limit::UNLIMITED),
        (_, Some(rate)) => {
            let later = side.rate.changes().iter().map(|(at, rate)| (at.as_nanos(), net_rate(side, *rate)));
            Capacity::stepwise(std::iter::once((0, net_rate(side, rate))).chain(later).collect())
        }
    };
    side.outages.iter().fold(capacity, |capacity, down| {
        let until = if down.until == Instant::MAX { u64::MAX } else { down.until.as_nanos() };
        capacity.with_outage(down.from.as_nanos(), until)
    })
}
