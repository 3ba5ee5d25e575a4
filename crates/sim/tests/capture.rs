//! Captures: the reader reads what the writer wrote, and tshark, if installed, reports no errors.

use crate::support::*;
use anabranch_base::time::Duration;
use anabranch_sim::{Network, NodeId};
use anabranch_wire::ip::{self, Packet};
use anabranch_wire::pcap::{self, LINKTYPE_RAW, Reader};
use anabranch_world::{Local, World};
use std::io::Write;
use std::process::{Command, Stdio};

/// Exchanges UDP and ICMP of both IP versions, over two paths. Returns the client's capture.
fn capture() -> Vec<u8> {
    let network = Network::new(1);
    let client = network.host("client", &[ip("10.0.0.1"), ip("2001:db8::1")]);
    let server = network.host("server", &[ip("10.0.0.2"), ip("2001:db8::2")]);
    network.link(client.interface(0), server.interface(0), &link("rate=8mbit,delay=1ms")).expect("a link");
    network.link(client.interface(1), server.interface(1), &link("rate=8mbit,delay=2ms")).expect("a link");
    network.capture(client);
    talk(&network, client, server);
    network.finish_capture(client).expect("memory takes it")
}

fn talk(network: &Network, client: NodeId, server: NodeId) {
    let (here, there) = (network.world(client), network.world(server));
    let program = async {
        let a = here.bind(Local::Udp { port: 40_000 }).await.expect("bound");
        let b = there.bind(Local::Udp { port: 40_001 }).await.expect("bound");
        for (near, far) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            for size in [1, 2, 33, 1400] {
                send(&a, (ip(near), 40_000).into(), (ip(far), 40_001).into(), &vec![size as u8; size]).await;
                let batch = recv(&b).await;
                send(&b, batch.target, batch.source, b"yes").await;
                recv(&a).await;
            }
            send(&a, (ip(near), 40_000).into(), (ip(far), 40_002).into(), b"nobody is there").await;
            let report = recv_within(&here, &a, Duration::from_secs(1)).await;
            assert!(report.is_some_and(|batch| batch.icmp.is_some()));
        }
    };
    network.run(program, LATE).expect_done();
}

#[test]
fn one_interface_a_path_and_every_packet_both_ways() {
    let bytes = capture();
    let mut reader = Reader::new(&bytes).expect("a capture");
    let (mut inbound, mut outbound, mut last) = (0, 0, 0);
    while let Some(record) = reader.next_packet().expect("whole") {
        let packet = Packet::parse(record.packet).expect("an IP packet with a right checksum");
        assert_eq!(record.interface, usize::from(packet.source.is_ipv6()), "each path has its interface");
        assert_eq!(record.original_len, record.packet.len());
        assert!(record.at_nanos >= last, "in the order of time");
        last = record.at_nanos;
        match record.direction {
            Some(pcap::Direction::Inbound) => inbound += 1,
            Some(pcap::Direction::Outbound) => outbound += 1,
            None => panic!("each packet has a direction"),
        }
        assert!([ip::protocol::UDP, ip::protocol::ICMP, ip::protocol::ICMPV6].contains(&packet.protocol));
    }
    assert_eq!((inbound, outbound), (10, 10));
    let described: Vec<_> = reader.interfaces().iter().map(|i| (i.name.as_str(), i.link_type)).collect();
    assert_eq!(described, [("path1", LINKTYPE_RAW), ("path2", LINKTYPE_RAW)]);
}

/// Returns tshark's output for a capture, with every checksum validated; `None` if tshark is not installed.
fn tshark(capture: &[u8], arguments: &[&str]) -> Option<String> {
    let checks = ["ip.check_checksum", "udp.check_checksum", "tcp.check_checksum"];
    let mut command = Command::new("tshark");
    command.args(["-r", "-", "-n"]);
    for check in checks {
        command.args(["-o", &format!("{check}:TRUE")]);
    }
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take()?.write_all(capture).ok()?;
    let output = child.wait_with_output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn tshark_finds_no_fault() {
    let bytes = capture();
    let Some(all) = tshark(&bytes, &["-T", "fields", "-e", "_ws.col.Protocol", "-e", "frame.interface_name"])
    else {
        eprintln!("skipped: no tshark here");
        return;
    };
    assert_eq!(all.lines().count(), 20, "{all}");
    assert_eq!(all.lines().filter(|line| line.contains("path1")).count(), 10, "{all}");
    assert_eq!(all.lines().filter(|line| line.starts_with("ICMP")).count(), 2, "{all}");
    let bad = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0 || \
               icmp.checksum.status == 0 || icmpv6.checksum.status == 0 || _ws.expert.severity >= 6291456";
    assert_eq!(tshark(&bytes, &["-Y", bad]).as_deref(), Some(""));
    // The display filter selects the packets whose checksums tshark has verified.
    let good = "(ip.checksum.status == 1 || ipv6) && (udp.checksum.status == 1 || icmp.checksum.status == 1 || \
                icmpv6.checksum.status == 1)";
    let good = tshark(&bytes, &["-Y", good]).unwrap_or_default();
    assert_eq!(good.lines().count(), 20, "{good}");
}
