//! The MTU of the only path drops during a transfer (RFC 9260 §6.9, §7.3). Two simulated hosts exchange packets through
//! a router.

use anabranch_base::Instant;
use anabranch_link::LinkSpec;
use anabranch_sctp::Config;
use anabranch_sim::{Network, NetworkChange};
use anabranch_transport::sctp::{LowerProtocol, SctpHost};
use anabranch_transport::{Listener, Session, Stream};
use anabranch_wire::ip::Packet;
use anabranch_wire::pcap::Reader;
use std::net::IpAddr;
use std::process::Command;

/// Transfers 300 kB over two links with an MTU of 1500 bytes. After 300 ms the MTU of the link between router and
/// server becomes `mtu`. Returns the time of completion, the number of fragmented packets, and the receiver's capture.
fn transfer(near: &str, far: &str, carrier: LowerProtocol, mtu: u32) -> (Instant, u64, Vec<u8>) {
    let [near, far]: [IpAddr; 2] = [near, far].map(|text| text.parse().expect("an address"));
    let link =
        |mtu: u32| LinkSpec::parse(&format!("rate=4mbit,delay=10ms,queue=400p,mtu={mtu}")).expect("a link");
    let network = Network::new(1);
    let (client, router) = (network.host("client", &[near]), network.router("router"));
    let server = network.host("server", &[far]);
    network.link(client, router, &link(1500)).expect("a link");
    let narrow = network.link(router, server, &link(1500)).expect("a link");
    network
        .schedule(Instant::from_millis(300), NetworkChange::Respec(narrow, Box::new(link(mtu))))
        .expect("a change");
    network.capture(server);
    let (here, there) = (network.world(client), network.world(server));
    let content: Vec<u8> = (0..300_000_usize).map(|i| (i * 7 + (i >> 8)) as u8).collect();
    let program = async {
        let config = Config::default();
        let a = SctpHost::new(here.clone(), config.clone(), carrier, None).await.expect("a host");
        let b = SctpHost::new(there.clone(), config, carrier, None).await.expect("a host");
        let mut listener = b.listen(80).expect("the port is free");
        let port = match carrier {
            LowerProtocol::Udp { port } => port,
            LowerProtocol::Ip => 0,
        };
        let session = a.connect(&[(far, port).into()], 80).expect("a way");
        session.established().await.expect("an association");
        let mut out = session.open(0).expect("a stream");
        let accepted = listener.accept().await.expect("an association");
        let sent = content.clone();
        let writer = anabranch_world::World::spawn(&here, "writer", async move {
            out.write_all(&sent).await.expect("it is taken");
            out
        });
        let mut input = accepted.accept().await.expect("a stream");
        let (mut got, mut buffer) = (Vec::new(), vec![0; 4096]);
        while got.len() < content.len() {
            let bytes = input.read(&mut buffer).await.expect("it goes on");
            got.extend_from_slice(&buffer[..bytes]);
        }
        assert!(got == content, "every byte, in order");
        drop(writer.await);
        anabranch_world::World::now(&here)
    };
    let done = network.run(program, Instant::from_millis(60_000)).expect_done();
    let cut = network.host_counters(client).fragmented + network.host_counters(router).fragmented;
    let receiver = network.host_counters(server);
    assert_eq!((receiver.reassembled, receiver.reassembly_failed), (cut, 0));
    (done, cut, network.finish_capture(server).expect("memory takes it"))
}

#[test]
fn after_an_mtu_drop_only_chunks_with_a_tsn_are_fragmented_by_ip() {
    for (name, near, far, carrier, mtu) in [
        ("v4", "10.0.0.1", "10.0.1.1", LowerProtocol::Ip, 600),
        ("v4 in UDP", "10.0.0.1", "10.0.1.1", LowerProtocol::Udp { port: 9899 }, 600),
        ("v6", "2001:db8::1", "2001:db8:1::1", LowerProtocol::Ip, 1280),
        ("v6 in UDP", "2001:db8::1", "2001:db8:1::1", LowerProtocol::Udp { port: 9899 }, 1280),
    ] {
        let (done, cut, capture) = transfer(near, far, carrier, mtu);
        // At 4 Mbit/s, 300 kB take 0.6 s, and slow start adds some time. A T3-rtx expiry (1 s) would exceed the limit.
        assert!(done < Instant::from_millis(1_500), "{name}: {done}");
        assert!((1..100).contains(&cut), "{name}: {cut} packets were cut");
        let mut reader = Reader::new(&capture).expect("a capture");
        while let Some(record) = reader.next_packet().expect("whole") {
            let packet = Packet::parse(record.packet).expect("a right checksum");
            let early = record.at_nanos < 330_000_000;
            assert!(early || packet.len() <= mtu as usize, "{name}: {} bytes", packet.len());
            assert!(!early || packet.fragment.is_none(), "{name}: cut before the link narrowed");
        }
        if let Some(faults) = tshark(&capture, BAD) {
            assert_eq!(faults, "", "{name}");
            let whole = tshark(&capture, "sctp.checksum.status == 1 && (ip.fragments || ipv6.fragments)");
            assert_eq!(whole.map(|lines| lines.lines().count() as u64), Some(cut), "{name}");
        }
    }
}

const BAD: &str = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0 || \
                   sctp.checksum.status == 0 || ip.fragment.error || ipv6.fragment.error || \
                   _ws.expert.severity >= 8388608";

/// Returns the packets of a capture that match a filter; `None` if tshark is not installed.
fn tshark(capture: &[u8], filter: &str) -> Option<String> {
    let name = format!("anabranch-mtu-{}.pcapng", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, capture).ok()?;
    let mut command = Command::new("tshark");
    for check in ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE", "sctp.checksum:CRC-32C"] {
        command.args(["-o", check]);
    }
    let output = command.args(["-n", "-2", "-Y", filter, "-r", path.to_str()?]).output().ok()?;
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
