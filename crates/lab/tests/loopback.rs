//! Tests a client and a server on one machine: runs with one processor, and losses in the sender's packet filter.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::{self, Options};
use anabranch_results::{Outcome, Run};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn plan(line: &str) -> Plan {
    let flags: Vec<(&str, &str)> = line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
    let draft = Draft::from_flags(flags).expect("flags");
    Plan::interpret(draft, &Transports::standard()).expect("a plan")
}

/// Runs the plan of `line`, whose words are flags of the form `key=value`.
fn runs(line: &str) -> Vec<Run> {
    let plan = plan(line);
    batch::check(&plan).expect("a plan of the virtual world");
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let race = batch::races(&[&plan], &options).expect("a race").remove(0);
    race.points.into_iter().flat_map(|point| point.contestants).flat_map(|one| one.runs).collect()
}

/// A plan with ten connections on a loopback interface, which begin 40 ms apart.
const LOOPBACK: &str = "rate=unlimited rtt=40us queue=unlimited mtu=16436 objects=10x100B arrivals=25/s \
                        arrivals-of=connections runs=1 loss=0 causes=off \
                        transport=tcp:profile=linux-2.6,per-object=yes,fin=alone,byte-cost=6ns,request-cost=400us";

/// With one processor, the server has sent its response and closed before the client reads. The client's FIN therefore
/// carries the acknowledgement of the server's FIN. With two processors, the FINs cross, and each needs an
/// acknowledgement of its own.
#[test]
fn a_connection_on_one_processor_has_a_packet_less() {
    let packets = |processors: &str| {
        let run = &runs(&format!("{LOOPBACK} processors={processors}"))[0];
        assert_eq!(run.outcome, Outcome::Done);
        run.packets.up.sent + run.packets.down.sent
    };
    let [one, two] = ["one", "two"].map(packets);
    // A connection takes ten packets with one processor, and eleven with two. The run ends with the last object, when
    // the last connection has sent nine or seven packets.
    assert_eq!((one, two), (9 * 10 + 9, 9 * 11 + 7));
}

/// Every fifth packet of the server is dropped. If the link drops the packet, TCP must detect the loss and retransmit.
/// If the sender's packet filter drops it, TCP knows of the drop, and no data segment may count as retransmitted.
#[test]
fn a_sender_that_knows_of_a_drop_retransmits_nothing() {
    let network = "rate=10mbit rtt=20ms queue=unlimited down-loss=nth:5/first=5 objects=1x200kB runs=1 \
                   causes=off transport=tcp";
    let run = |by: &str| runs(&format!("{network} loss-by={by}")).remove(0);
    let (link, output) = (run("link"), run("iptables-out"));
    for run in [&link, &output] {
        assert_eq!(run.outcome, Outcome::Done);
        assert!(run.packets.down.lost > 10);
    }
    assert!(link.packets.down.retransmitted > 0 && link.rules.is_none());
    assert_eq!(output.packets.down.retransmitted, 0);
    assert_eq!(output.events.fast, 0);
    let rules = output.rules.expect("the rule counts");
    assert_eq!(rules.down.dropped, output.packets.down.lost);
    assert_eq!((rules.up.dropped, rules.down.dropped), (0, rules.down.packets / 5));
}

/// With a shared packet count, one rule must count the packets of both hosts, and drop packets of both.
#[test]
fn a_rule_of_one_machine_counts_both_directions() {
    let line =
        "rate=10mbit rtt=20ms loss=nth:5/first=5/shared objects=1x200kB runs=1 causes=off transport=tcp";
    let rules = runs(&format!("{line} loss-by=iptables-out")).remove(0).rules.expect("the rule counts");
    assert!(rules.up.dropped > 0 && rules.down.dropped > 0, "{rules:?}");
    let sent = rules.up.packets + rules.down.packets;
    assert_eq!(rules.up.dropped + rules.down.dropped, sent / 5);
}

/// SCTP considers a packet sent even if the packet filter drops it. A run must therefore have the same times and losses
/// as a run in which the link drops the packets.
#[test]
fn sctp_is_not_told_of_a_drop() {
    let network =
        "rate=unlimited rtt=20ms down-loss=nth:7/first=7 objects=1x100kB runs=1 causes=off transport=sctp";
    let run = |by: &str| runs(&format!("{network} loss-by={by}")).remove(0);
    let (link, output) = (run("link"), run("iptables-out"));
    assert!(output.packets.down.retransmitted > 0);
    assert_eq!(output.page_ns, link.page_ns);
    assert_eq!(output.packets.down.lost, link.packets.down.lost);
}

#[test]
fn both_need_one_client_and_one_server() {
    for line in [
        "processors=one together=yes transport=tcp,sctp runs=1",
        "processors=one cross=tcp:flows=1 runs=1",
        "loss-by=iptables-out origins=keep page=gallery runs=1",
    ] {
        let error = batch::check(&plan(line)).expect_err(line).to_string();
        assert!(error.contains("one client and one server"), "{line}: {error}");
    }
    let error = batch::check(&plan("loss-by=iptables runs=1")).expect_err("a real kernel's").to_string();
    assert!(error.contains("iptables loses packets of real kernels only"), "{error}");
}
