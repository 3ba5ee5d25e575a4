//! One run with all its objects and packets, for drawings over time.

use anabranch_lab::plan::Plan;
use anabranch_lab::run::{batch, ns_trace, one};
use anabranch_results::{Object, label};
use serde::Serialize;

/// The maximum number of packets of a drawing. Further packets are only counted.
const MOST_PACKETS: usize = 40_000;

/// A run to be drawn. Times are microseconds on the run's clock.
#[derive(Debug, Serialize)]
pub struct Drawn {
    /// The contestant's name.
    name: String,
    /// The seed of the run.
    seed: u64,
    /// When the last object was delivered, in nanoseconds; null if the run did not finish.
    page_ns: Option<u64>,
    /// The objects, in the order of the page. Results hold them as columns, and a drawing needs one after another.
    objects: Vec<Object>,
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
        seed: run.seed,
        page_ns: run.page_ns,
        objects: run.objects,
        left_out: sent.len().saturating_sub(MOST_PACKETS),
        packets: sent.iter().take(MOST_PACKETS).map(packet).collect(),
        windows: windows.into_iter().map(|(at, connection, bytes)| (at / 1000, connection, bytes)).collect(),
        waits,
    })
}

#[cfg(test)]
mod tests {
    use crate::{lab::Lab, protocol};
    use serde_json::Value;

    fn answer(lab: &mut Lab, request: &str) -> Value {
        serde_json::from_str(&protocol::answer(lab, request)).expect("JSON")
    }

    #[test]
    fn objects_of_a_drawing_are_a_list_with_the_fields_that_the_page_draws() {
        let mut lab = Lab::default();
        let plan =
            r#"{"do":"plan","flags":[["page","article"],["transport","tcp"],["loss","0"]],"file":null}"#;
        assert!(answer(&mut lab, plan)["error"].is_null());
        let drawn = answer(&mut lab, r#"{"do":"draw","point":0,"contestant":0,"seed":1}"#);
        let drawn = &drawn["ok"];
        let objects = drawn["objects"].as_array().expect("a list of objects");
        assert!(objects.len() > 1, "{drawn}");
        for object in objects {
            assert!(object["name"].is_string() && object["bytes"].is_u64(), "{object}");
            assert!(object["issued_ns"].as_u64() < object["delivered_ns"].as_u64(), "{object}");
            assert!(object["why"]["wire_ns"].is_u64(), "{object}");
        }
        let ends = objects.iter().filter_map(|object| object["delivered_ns"].as_u64());
        assert_eq!(ends.max(), drawn["page_ns"].as_u64());
        assert!(drawn["packets"].as_array().is_some_and(|packets| packets.len() > objects.len()), "{drawn}");
    }
}
