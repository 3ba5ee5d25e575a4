//! A host changes its address during a transfer. With dynamic addresses (RFC 5061) the transfer continues; without them
//! the transfer fails.

use anabranch_base::Instant;
use anabranch_link::LinkSpec;
use anabranch_sctp::{AssociationStats, Config, SharedKeys};
use anabranch_sim::{Network, NetworkChange};
use anabranch_transport::sctp::{LowerProtocol, SctpHost};
use anabranch_transport::{Listener, Session, Stream};
use anabranch_world::World;
use std::net::{IpAddr, SocketAddr};

const SIZE: usize = 10_000_000;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A server sends 10 MB to a client whose address changes. The client gets its second address at the time `comes`, and
/// loses its first address at the time `leaves`. Both times are in milliseconds. Returns the time at which the last
/// byte arrived, and the server's counters. Returns `None` if the transfer did not complete.
fn download(
    asconf: bool,
    carrier: LowerProtocol,
    comes: u64,
    leaves: u64,
) -> Option<(Instant, AssociationStats)> {
    download_with([None; 2], asconf, carrier, comes, leaves)
}

/// Does the same as [`download`], with the shared keys `keys`: the client's first, then the server's.
fn download_with(
    keys: [Option<&str>; 2],
    asconf: bool,
    carrier: LowerProtocol,
    comes: u64,
    leaves: u64,
) -> Option<(Instant, AssociationStats)> {
    let network = Network::new(3);
    let (first, second) = (ip("10.0.0.1"), ip("10.1.0.1"));
    let client = network.host("client", &[first, second]);
    let server = network.host("server", &[ip("10.0.0.2"), ip("10.1.0.2")]);
    let spec = LinkSpec::parse("rate=20mbit,delay=10ms,queue=100p").expect("a link");
    let links =
        [0, 1].map(|n| network.link(client.interface(n), server.interface(n), &spec).expect("a link"));
    for (at, change) in [
        (0, NetworkChange::RemoveAddress(client.interface(1), second)),
        (comes, NetworkChange::AddAddress(client.interface(1), second)),
        (leaves, NetworkChange::RemoveAddress(client.interface(0), first)),
        (leaves, NetworkChange::Down(links[0])),
    ] {
        network.schedule(ms(at), change).expect("the host is there");
    }
    let mut config = Config::profile("rfc9260").expect("a profile");
    for key in ["auth", "asconf"] {
        config.set(key, if asconf { "yes" } else { "no" }).expect("a knob");
    }
    let (here, there) = (network.world(client), network.world(server));
    let [ours, theirs] = keys.map(|keys| {
        let mut config = config.clone();
        if let Some(text) = keys {
            config.shared_keys = SharedKeys::parse(text).expect("keys");
        }
        config
    });
    let outcome = network.run(
        async {
            here.sleep_until(ms(1)).await;
            let server = SctpHost::new(there.clone(), theirs, carrier, None).await.expect("a socket");
            let mut listener = server.listen(80).expect("the port is free");
            let serving = there.spawn("server", async move {
                let session = listener.accept().await.expect("a client");
                let mut stream = session.accept().await.expect("a stream");
                let block: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
                for _ in 0..SIZE / block.len() {
                    if stream.write_all(&block).await.is_err() {
                        return;
                    }
                }
                session.closed().await;
            });
            let host = SctpHost::new(here.clone(), ours, carrier, None).await.expect("a socket");
            let port = if let LowerProtocol::Udp { port } = carrier { port } else { 0 };
            let peer = ["10.0.0.2", "10.1.0.2"].map(|address| SocketAddr::new(ip(address), port));
            // Only the INIT ACK lists the server's second address. A client whose first address is removed during the
            // handshake can miss the INIT ACK. Such a client gets both server addresses at the start.
            let known = if comes < 100 { 2 } else { 1 };
            let session = host.connect(&peer[..known], 80).expect("begun");
            let mut stream = session.open(0).expect("a stream");
            stream.write_all(b"go").await.expect("early data");
            let mut buffer = vec![0; 65_536];
            let mut got = 0;
            while got < SIZE {
                match stream.read(&mut buffer).await {
                    Ok(bytes) if bytes > 0 => {
                        for (i, &byte) in buffer[..bytes].iter().enumerate() {
                            assert_eq!(byte, ((got + i) % 100_000 % 251) as u8, "byte {}", got + i);
                        }
                        got += bytes;
                    }
                    _ => return None,
                }
            }
            let done = here.now();
            let sum = server.inspect(|engine| engine.totals().sum);
            session.abort();
            drop(serving);
            Some((done, sum))
        },
        ms(900_000),
    );
    outcome.expect_done()
}

/// The client's new address is added two seconds before the old address is removed. The transfer continues.
#[test]
fn make_before_break() {
    for carrier in [LowerProtocol::Ip, LowerProtocol::Udp { port: 9899 }] {
        let (done, sum) = download(true, carrier, 1_000, 3_000).expect("it goes on");
        println!("make before break, {carrier:?}: {done}, {} chunks again", sum.retransmitted_timeout);
        assert!(done < ms(12_000), "done at {done}");
    }
}

/// The client's old address is removed two seconds before the new address is added. The transfer continues.
#[test]
fn break_before_make() {
    for carrier in [LowerProtocol::Ip, LowerProtocol::Udp { port: 9899 }] {
        let (done, sum) = download(true, carrier, 4_000, 2_000).expect("it goes on");
        println!("break before make, {carrier:?}: {done}, {} chunks again", sum.retransmitted_timeout);
        assert!(done < ms(20_000), "done at {done}");
    }
}

/// The INIT is sent at 1 ms and the COOKIE ECHO at 21 ms; the COOKIE ACK would arrive at 41 ms. The client's address
/// changes before, during or after these exchanges. The transfer completes in each case.
#[test]
fn a_handshake_survives_a_change_of_address() {
    for (comes, leaves) in [(0, 10), (5, 10), (15, 10), (0, 30), (10, 1_000)] {
        let done = download(true, LowerProtocol::Ip, comes, leaves).map(|(done, _)| done);
        assert!(done.is_some_and(|done| done < ms(12_000)), "{comes}, {leaves}: done at {done:?}");
    }
}

/// RFC 4895 §4: with equal shared keys at both ends, the transfer continues. With different keys, or a key at one end
/// only, it fails.
#[test]
fn shared_keys_decide_who_may_roam() {
    let (one, other) = ("1 00112233445566778899aabbccddeeff", "1 ffeeddccbbaa99887766554433221100");
    for (comes, leaves) in [(1_000, 3_000), (4_000, 2_000)] {
        let (done, sum) =
            download_with([Some(one); 2], true, LowerProtocol::Ip, comes, leaves).expect("it goes on");
        assert!(done < ms(20_000), "done at {done}");
        assert_eq!(sum.auth_refused, 0);
        for keys in [[Some(one), Some(other)], [None, Some(one)]] {
            assert_eq!(download_with(keys, true, LowerProtocol::Ip, comes, leaves), None, "{keys:?}");
        }
    }
}

/// Without dynamic addresses, the peer never learns the new address, and the association times out.
#[test]
fn without_asconf_the_association_times_out() {
    assert_eq!(download(false, LowerProtocol::Ip, 1_000, 3_000), None);
    assert_eq!(download(false, LowerProtocol::Ip, 4_000, 2_000), None);
}
