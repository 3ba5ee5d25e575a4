//! One run with all its objects and packets, for drawings over time.

use anabranch_lab::plan::Plan;
use anabranch_lab::run::{batch, ns_trace, one};
use anabranch_results::{Run, label};
use serde::Serialize;

/// The maximum number of packets of a drawing. Further packets are only counted.
const MOST_PACKETS: usize = 40_000;

/// A run to be drawn. Times are microseconds on the run's clock.
#[derive(Debug, Serialize)]
pub struct Drawn {
    /// The contestant's name.
    name: String,
    /// The results of the run.
    run: Run,
    /// The packets, in the order in which they were sent.
    packets: Vec<Packet>,
    /// The number of packets that are missing in `packets`.
    left_out: usize,
    /// The congestion windows of the server: time, connection and bytes.
    windows: Vec<(u64, u64, u64)>,
    /// The queueing delays of packets from the server: time of arrival and delay.
    waits: Vec<(u64, u64)>,
}

/// A packet: when it was sent, when it arrived (absent if it was lost), whether the client sent it, and its bytes.
type Packet = (u64, Option<u64>, bool, usize);

/// Repeats a run, and returns it with its packets.
///
/// # Errors
/// One line if the run broke an invariant.
pub fn draw(plan: &Plan, point: usize, contestant: usize, seed: u64) -> Result<Drawn, String> {
    let (alone, index) = if plan.together { (None, contestant) } else { (Some(contestant), 0) };
    let scenario = batch::scenario(plan, point, alone, seed);
    let (runs, captured) = one::capture(&scenario)?;
    let run = runs.into_iter().nth(index).ok_or("a run without a result")?;
    let own: Vec<_> = captured.iter().filter(|host| host.contestant == index).collect();
    let hosts: Vec<&[u8]> = own.iter().map(|host| host.pcapng.as_slice()).collect();
    let sent = ns_trace::packets(&hosts).map_err(|error| error.to_string())?;
    let packet = |packet: &ns_trace::SentPacket| -> Packet {
        let arrival = packet.arrivals.first().map(|at| at / 1000);
        (packet.at / 1000, arrival, packet.node == 0, packet.bytes.len())
    };
    let servers = || own.iter().filter(|host| host.host != "client").map(|host| &host.course);
    let mut windows: Vec<_> = servers().flat_map(|course| &course.windows).copied().collect();
    windows.sort_unstable();
    let mut waits: Vec<_> =
        servers().flat_map(|course| &course.waits).map(|it| (it.0 / 1000, it.2 / 1000)).collect();
    waits.sort_unstable();
    Ok(Drawn {
        name: label::shown(&plan.contestants[contestant].text).to_owned(),
        run,
        left_out: sent.len().saturating_sub(MOST_PACKETS),
        packets: sent.iter().take(MOST_PACKETS).map(packet).collect(),
        windows: windows.into_iter().map(|(at, connection, bytes)| (at / 1000, connection, bytes)).collect(),
        waits,
    })
}
