//! The rule that finds losses in many separate places, while the sender had data to send.

use super::recovery::{BURST, is_mostly_spurious};
use super::{Case, Evidence, MILLISECOND, is_share, packets};
use crate::data_class::DataClass;
use crate::table::counted;
use crate::timeline::{Data, LostPackets};
use std::collections::BTreeMap;

/// The least number of round trips with a loss. The end of slow start, or a single burst, causes losses in one or two.
const LEAST_PLACES: usize = 5;
/// The least share of lost packets is one in this number. The window of Reno is then 1.2 times its square root on
/// average (Mathis et al. 1997): 17 packets, which is less than most paths hold.
const MOST_PER_LOSS: u64 = 200;
/// The least amount of data. Shorter transfers end within a few round trips.
const LEAST_BYTES: u64 = 50_000;
/// The least number of packets with data from one round trip before a loss to one round trip after it. The sender had
/// data to send then. Fewer packets do not allow a fast retransmission (RFC 5681 §3.2).
const LEAST_BUSY: usize = 4;

/// Lost packets, or the losses of one round trip.
struct Lost {
    at: u64,
    /// The numbers in the capture of the lost packets, of the packets after gaps, or of the retransmissions.
    packets: Vec<u64>,
    count: u64,
    bytes: u64,
    is_captured: bool,
}

/// Finds losses in many separate round trips. Congestion control takes each of them for a sign of congestion (RFC 5681
/// §3.1, RFC 9002 §7.3.2).
pub(super) fn scattered(case: &Case<'_>) -> Option<Evidence> {
    if case.talk.directions[case.side].bytes < LEAST_BYTES {
        return None;
    }
    let round_trip = case.round_trip().max(MILLISECOND);
    let sent: Vec<u64> = case.data().map(|(entry, _)| entry.at).collect();
    let is_busy = |place: &Lost| {
        let from = sent.partition_point(|at| *at < place.at.saturating_sub(round_trip));
        let until = sent.partition_point(|at| *at <= place.at.saturating_add(round_trip));
        until - from >= LEAST_BUSY
    };
    let mut places = places(lost(case), round_trip);
    // The rule about bursts explains losses of many packets at once.
    places.retain(|place| place.count < BURST as u64 && is_busy(place));
    let again = &case.talk.directions[case.side].retransmitted;
    let is_repaired_fast = again.fast > again.timeout;
    if places.len() < LEAST_PLACES || !is_repaired_fast || is_link_full(case, round_trip) {
        return None;
    }
    let share = share(case, &places)?;
    let mut numbers: Vec<u64> = places.iter().flat_map(|place| place.packets.iter().copied()).collect();
    numbers.dedup();
    let show = match (case.talk.transport, places[0].is_captured) {
        ("quic", true) => format!("They are {}.", packets(&numbers)),
        ("quic", false) => format!("The gaps in its packet numbers come before {}.", packets(&numbers)),
        _ => format!("It was sent again in {}.", packets(&numbers)),
    };
    let repair = match case.talk.directions[case.side].timeouts {
        0 => "Fast retransmissions repaired the losses, without a timeout.".to_owned(),
        timeouts => {
            format!("Fast retransmissions repaired most losses, and {} others.", counted(timeouts, "timeout"))
        }
    };
    let text = format!(
        "The network lost {share}, in {} of {} round trips. {show} {repair} A congestion control such as Reno or CUBIC \
         reduces its window at each of these losses. The rate then follows the losses, not the link.",
        places.len(),
        (case.active() / round_trip + 1).max(places.len() as u64),
    );
    Some(Evidence { cost_ns: 0, text, packets: numbers })
}

/// Returns the lost packets, by time. QUIC shows them in its packet numbers, SCTP and TCP in their retransmissions.
fn lost(case: &Case<'_>) -> Vec<Lost> {
    if case.talk.transport == "quic" {
        let of_quic = |lost: &LostPackets| {
            let LostPackets { at, packet, count, is_captured } = *lost;
            Lost { at, packets: vec![packet], count, bytes: 0, is_captured }
        };
        return case.losses.lost.iter().map(of_quic).collect();
    }
    if is_mostly_spurious(case) {
        return Vec::new();
    }
    let is_repair = |data: &Data| {
        matches!(data.class, DataClass::Retransmitted { spurious: false, .. }) && data.bytes > 0
    };
    let repairs = case.data().filter(|(_, data)| is_repair(data)).map(|(entry, data)| Lost {
        at: entry.at,
        packets: vec![entry.packet],
        count: 1,
        bytes: data.bytes.into(),
        is_captured: true,
    });
    repairs.collect()
}

/// Combines the losses of each round trip.
fn places(lost: Vec<Lost>, round_trip: u64) -> Vec<Lost> {
    let mut places: Vec<Lost> = Vec::new();
    for lost in lost {
        match places.last_mut().filter(|place| lost.at < place.at.saturating_add(round_trip)) {
            Some(place) => {
                place.packets.extend(lost.packets);
                place.count += lost.count;
                place.bytes += lost.bytes;
            }
            None => places.push(lost),
        }
    }
    places
}

/// Describes the share of what was lost. Returns `None` if it is small.
fn share(case: &Case<'_>, places: &[Lost]) -> Option<String> {
    let sender = case.sender();
    let (lost, all) = match case.talk.transport {
        "quic" => (places.iter().map(|place| place.count).sum(), case.losses.all),
        // A network card may split what the capture shows as one segment, so bytes are counted, not segments.
        _ => (
            places.iter().map(|place| place.bytes).sum::<u64>(),
            case.data().map(|(_, data)| u64::from(data.bytes)).sum(),
        ),
    };
    if lost == 0 || lost.saturating_mul(MOST_PER_LOSS) < all {
        return None;
    }
    let percent = lost as f64 * 100.0 / all as f64;
    Some(match case.talk.transport {
        "quic" => format!("{percent:.1} % of the packets of {sender} ({lost} of {all})"),
        _ => format!("{percent:.1} % of the data of {sender}"),
    })
}

/// Returns whether data was sent at nearly the same rate all the time. A link that is always full loses packets when its
/// queue overflows, and the rate then follows the link. The same holds for an application that paces its data.
fn is_link_full(case: &Case<'_>, round_trip: u64) -> bool {
    let mut data = case.data().peekable();
    let Some(first) = data.peek().map(|(entry, _)| entry.at) else { return true };
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    for (entry, data) in data {
        *sums.entry(entry.at.saturating_sub(first) / round_trip).or_default() += u64::from(data.bytes);
    }
    // The last round trip is not complete.
    let last = sums.pop_last().map_or(0, |(last, _)| last).max(1);
    let mean = sums.values().sum::<u64>() / last;
    // Round trips without data count as well. The largest tenth may belong to slow start.
    let mut rates: Vec<u64> = sums.into_values().collect();
    rates.sort_unstable();
    let large = rates.len().saturating_sub(1 + last as usize / 10);
    rates.get(large).is_none_or(|large| is_share(mean, 80, *large))
}
