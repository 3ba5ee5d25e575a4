//! Connects a client to a server in memory before an experiment, so that the client has resumption tickets (RFC 8446
//! §4.6.1).
//!
//! Unlike a ticket of TLS over TCP, a QUIC ticket includes the limits that the server granted, which early data must
//! obey (RFC 9000 §7.4.1). Therefore the connection that obtains the tickets uses QUIC with the settings of the
//! experiment.

use crate::config::Config;
use crate::endpoint::{Endpoint, EndpointOptions, Event};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Packet, Rng, SendBatch};
use anabranch_tls::{Client, HostTls, Pair, Server};
use anabranch_transport::Settings;
use std::net::{Ipv4Addr, SocketAddr};

/// The number of simulation steps after which the connection counts as failed.
const PATIENCE: u64 = 100;

/// Connects the client to the server once, so that the client gets resumption tickets.
///
/// # Errors
/// A one-line text that says why the connection failed.
pub fn obtain_tickets(settings: &dyn Settings, client: &Client, server: &Server) -> Result<(), String> {
    let config = settings.downcast::<Config>().map_err(|error| error.to_string())?;
    let [near, far] = [1, 2].map(|host| SocketAddr::from((Ipv4Addr::new(10, 0, 0, host), 443)));
    let end = |local, seed, tls| {
        Endpoint::new(EndpointOptions {
            config: config.clone(),
            local,
            rng: Rng::new(seed),
            tls,
            segments: 1,
            shard: None,
            logs: None,
        })
    };
    let visitor = Some((client.clone(), Pair::NAME.to_owned()));
    let ends = [
        HostTls { surroundings: client.surroundings(), client: visitor, server: None },
        HostTls { surroundings: server.surroundings(), client: None, server: Some(server.clone()) },
    ];
    let [ours, theirs] = ends;
    let (mut client, mut server) = (end(near, 1, ours)?, end(far, 2, theirs)?);
    server.set_listening(Some(443));
    let mut now = Instant::ZERO;
    let id = client.connect(now, far)?;
    // The server sends the tickets after the handshake. They have arrived when the handshake is done and neither
    // endpoint has sent a packet in two consecutive steps.
    let (mut stands, mut quiet) = (false, 0);
    for _ in 0..PATIENCE {
        let moved = carry(&mut client, &mut server, now) + carry(&mut server, &mut client, now);
        while let Some(event) = client.poll_event() {
            match event {
                Event::Connected { .. } => stands = true,
                Event::Closed { reason, .. } => {
                    return Err(reason.map_or("closed".to_owned(), |reason| reason.to_string()));
                }
                _ => {}
            }
        }
        while server.poll_event().is_some() {}
        quiet = if moved == 0 { quiet + 1 } else { 0 };
        if stands && quiet == 2 {
            client.close(now, id);
            return Ok(());
        }
        now += Duration::from_millis(10);
        client.handle_timeout(now);
        server.handle_timeout(now);
    }
    Err("a visit before the experiment came to nothing".to_owned())
}

/// Delivers to `to` all packets that `from` has to send. Returns the number of packets.
fn carry(from: &mut Endpoint, to: &mut Endpoint, now: Instant) -> usize {
    let mut batch = SendBatch::new(1);
    let mut carried = 0;
    while from.poll_transmit(now, &mut batch) {
        for packet in batch.packets() {
            to.handle_packet(now, Packet { source: batch.source, target: batch.target, ..packet });
            carried += 1;
        }
        batch.clear();
    }
    carried
}
