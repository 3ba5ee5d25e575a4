//! Counts the packets that a contestant sent on the paths, and those that the paths lost.

use super::topology::{Built, ContestantHosts};
use anabranch_base::Instant;
use anabranch_http::observe::ObjectRecord;
use anabranch_results::{BUCKET_NS, Directions, Packets, PathSeries, Rules, Series, Spacing};
use anabranch_sim::{Direction, TapEvent, TapRecord};

/// The packets and bytes of one contestant on the paths.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// The number of packets in each direction.
    pub packets: Directions<Packets>,
    /// The number of packets in each direction that the sender's packet filter dropped. These packets count as sent and
    /// lost.
    pub filtered: Directions<u64>,
    /// The number of bytes sent on the paths in each direction, with IP headers.
    pub wire_bytes: Directions<u64>,
    /// The number of bytes in each interval of time.
    pub series: Series,
    /// The largest burst of the servers, and the gaps between lost packets.
    pub spacing: Spacing,
}

impl Traffic {
    /// Returns how many packets the packet filters of the sending hosts examined and dropped.
    #[must_use]
    pub fn filter_counts(&self) -> Directions<Rules> {
        let of = |packets: &Packets, dropped| Rules { packets: packets.sent, dropped };
        Directions {
            up: of(&self.packets.up, self.filtered.up),
            down: of(&self.packets.down, self.filtered.down),
        }
    }
}

/// Returns the traffic of one contestant, summed over all paths.
#[must_use]
pub fn of(built: &Built, lane: &ContestantHosts, link_events: &[TapRecord]) -> Traffic {
    let mut traffic = Traffic::default();
    traffic.series.bucket_ns = BUCKET_NS;
    traffic.series.paths = built.paths.iter().map(|_| Directions::default()).collect();
    let radios = built.lanes.iter().position(|own| own == lane).and_then(|at| built.radios.get(at));
    let mut order = Order::default();
    for link_event in link_events {
        if radios.is_some_and(|radios| radios.contains(&link_event.link)) {
            lost_by_radio(&mut traffic.packets, link_event);
            continue;
        }
        let Some(path) = built.paths.iter().position(|link| *link == link_event.link) else { continue };
        let up = link_event.direction == Direction::Up;
        let client = if up { link_event.source } else { link_event.target };
        if built.lanes.len() > 1 && !lane.client_addresses.contains(&client) {
            continue;
        }
        order.add(link_event);
        let both = &mut traffic.series.paths[path];
        let (packets, wire_bytes, series): (&mut Packets, &mut u64, &mut PathSeries) = if up {
            (&mut traffic.packets.up, &mut traffic.wire_bytes.up, &mut both.up)
        } else {
            (&mut traffic.packets.down, &mut traffic.wire_bytes.down, &mut both.down)
        };
        let (at, bytes) = (link_event.at.as_nanos(), u64::from(link_event.bytes));
        match link_event.event {
            TapEvent::Entered => {
                packets.sent += 1;
                *wire_bytes += bytes;
                add(&mut series.wire, at, bytes);
                add(&mut series.packets, at, 1);
            }
            TapEvent::Left => add(&mut series.delivered, at, bytes),
            TapEvent::Lost(_) => packets.lost += 1,
            TapEvent::Filtered => {
                packets.sent += 1;
                packets.lost += 1;
                *if up { &mut traffic.filtered.up } else { &mut traffic.filtered.down } += 1;
            }
        }
    }
    traffic.spacing = order.spacing;
    if let [_] = built.lanes.as_slice() {
        // A damaged packet reaches its receiver, but the receiver drops it, so it counts as lost.
        for link in &built.paths {
            let damaged =
                |direction| built.network.link_counters(*link, direction).meter.changed.corrupted.packets;
            traffic.packets.up.lost += damaged(Direction::Up);
            traffic.packets.down.lost += damaged(Direction::Down);
        }
    }
    traffic
}

/// Reads the event records of the links in order, and finds the largest burst of the servers and the gaps between lost
/// packets.
#[derive(Default)]
struct Order {
    spacing: Spacing,
    /// The time at which the last packet entered a path to the client, and the number of packets that entered at that
    /// time.
    last_sent: (Instant, u64),
    /// The number of packets that entered the paths.
    entered: u64,
    /// The number of packets that had entered the paths at the last loss.
    lost: Option<u64>,
}

impl Order {
    fn add(&mut self, link_event: &TapRecord) {
        match link_event.event {
            TapEvent::Entered => {
                self.entered += 1;
                if link_event.direction == Direction::Down {
                    let before = if self.last_sent.0 == link_event.at { self.last_sent.1 } else { 0 };
                    self.last_sent = (link_event.at, before + 1);
                    self.spacing.burst = self.spacing.burst.max(before + 1);
                }
            }
            TapEvent::Lost(_) => self.lose(),
            TapEvent::Filtered => {
                self.entered += 1;
                self.lose();
            }
            TapEvent::Left => {}
        }
    }

    /// Records that the packet that was sent last is lost.
    fn lose(&mut self) {
        if let Some(before) = self.lost.replace(self.entered) {
            let gap = self.entered.saturating_sub(before + 1);
            let [least, most] = self.spacing.loss_gaps.unwrap_or([gap, gap]);
            self.spacing.loss_gaps = Some([least.min(gap), most.max(gap)]);
        }
    }
}

/// Counts a packet that was lost on the radio link because the client was out of the network's range.
fn lost_by_radio(packets: &mut Directions<Packets>, link_event: &TapRecord) {
    match (link_event.event, link_event.direction) {
        (TapEvent::Lost(_), Direction::Up) => {
            // No path has counted this packet as sent, because the client was out of range and could not send it.
            packets.up.sent += 1;
            packets.up.lost += 1;
        }
        (TapEvent::Lost(_), Direction::Down) => packets.down.lost += 1,
        _ => {}
    }
}

/// Returns how many bytes of `objects` the application received in each bucket of time. The first bucket begins at
/// `begun`.
#[must_use]
pub fn application(objects: &[ObjectRecord], begun: Instant) -> Vec<u64> {
    let mut buckets = Vec::new();
    for &(at, bytes) in objects.iter().flat_map(|object| &object.read) {
        add(&mut buckets, at.as_nanos().saturating_sub(begun.as_nanos()), bytes);
    }
    buckets
}

/// Adds `bytes` to the bucket (interval of `BUCKET_NS`) that contains the time `at`.
pub fn add(buckets: &mut Vec<u64>, at: u64, bytes: u64) {
    let bucket = (at / BUCKET_NS) as usize;
    if buckets.len() <= bucket {
        buckets.resize(bucket + 1, 0);
    }
    buckets[bucket] += bytes;
}
