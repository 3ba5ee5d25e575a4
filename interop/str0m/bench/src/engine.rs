//! A transfer between two `sctp-proto` endpoints, without ICE and DTLS.

use crate::link::Link;
use crate::{CAP, LIMIT, MESSAGE, Outcome, begin, processor_time};
use sctp_proto::{
    Association, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ServerConfig, StreamEvent, TransportConfig,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

const STREAM: u16 = 1;

struct BoundEngine {
    endpoint: Endpoint,
    association: Option<Association>,
    peer: SocketAddr,
}

impl BoundEngine {
    fn transmit(&mut self, now: Instant, link: &mut Link) {
        while let Some(transmit) =
            self.association.as_mut().and_then(|association| association.poll_transmit(now))
        {
            if let Payload::RawEncode(packets) = transmit.payload {
                packets.iter().for_each(|packet| link.send(now, packet));
            }
        }
    }

    fn receive(&mut self, now: Instant, packet: Vec<u8>) {
        match self.endpoint.handle(now, self.peer, None, None, packet.into()) {
            Some((_, DatagramEvent::NewAssociation(association))) => self.association = Some(association),
            Some((_, DatagramEvent::AssociationEvent(event))) => {
                if let Some(association) = &mut self.association {
                    association.handle_event(event);
                }
            }
            None => {}
        }
    }
}

fn settings() -> Arc<TransportConfig> {
    Arc::new(TransportConfig::default().with_max_init_retransmits(None).with_max_data_retransmits(None))
}

/// Sends `bytes` bytes from one endpoint to the other.
pub fn transfer(mut there: Link, mut back: Link, bytes: u64) -> Outcome {
    let peer: SocketAddr = ([10, 0, 0, 1], 5000).into();
    let mut config = EndpointConfig::default();
    // str0m sets this payload size for its datagrams of 1,200 bytes.
    config.max_payload_size(1_120);
    let config = Arc::new(config);
    let mut server = ServerConfig::default();
    server.transport = settings();
    let mut receiver = BoundEngine {
        endpoint: Endpoint::new(config.clone(), Some(Arc::new(server))),
        association: None,
        peer,
    };
    let mut client = ClientConfig::new();
    client.transport = settings();
    let mut now = begin();
    let mut endpoint = Endpoint::new(config, None);
    let (_, association) = endpoint.connect(client, peer).expect("an association");
    let mut sender = BoundEngine { endpoint, association: Some(association), peer };

    let message = vec![7; MESSAGE];
    let (mut given, mut received, mut began) = (0, 0, None);
    loop {
        let mut up = false;
        let Some(association) = &mut sender.association else { break };
        let mut wants = false;
        while let Some(event) = association.poll() {
            up |= matches!(event, Event::Connected);
            wants |= matches!(event, Event::Stream(StreamEvent::BufferedAmountLow { .. }));
        }
        if up {
            began = Some((now, processor_time()));
            let mut stream =
                association.open_stream(STREAM, PayloadProtocolIdentifier::Binary).expect("a stream");
            stream.set_buffered_amount_low_threshold(CAP / 2).expect("a stream");
        }
        if let Ok(mut stream) = association.stream(STREAM)
            && (up || wants)
        {
            while given < bytes && stream.buffered_amount().is_ok_and(|amount| amount + MESSAGE <= CAP) {
                given += stream.write(&message).expect("a message") as u64;
            }
        }
        if let Some(association) = &mut receiver.association {
            while association.poll().is_some() {}
            if let Ok(mut stream) = association.stream(STREAM) {
                let mut buffer = vec![0; MESSAGE];
                while let Ok(Some(chunks)) = stream.read() {
                    received += chunks.read(&mut buffer).expect("room") as u64;
                }
            }
        }
        sender.transmit(now, &mut there);
        receiver.transmit(now, &mut back);
        let done = received >= bytes;
        let late = began.is_some_and(|(began, _)| now - began > LIMIT);
        if done || late {
            break;
        }
        let timers =
            [&sender, &receiver].into_iter().filter_map(|end| end.association.as_ref()?.poll_timeout());
        let Some(next) = timers.chain(there.next()).chain(back.next()).min() else { break };
        now = now.max(next);
        while let Some(packet) = there.receive(now) {
            receiver.receive(now, packet);
        }
        while let Some(packet) = back.receive(now) {
            sender.receive(now, packet);
        }
        for association in [&mut sender, &mut receiver].into_iter().filter_map(|end| end.association.as_mut())
        {
            association.handle_timeout(now);
        }
    }
    let (began, processor) = began.expect("the association comes up");
    Outcome { took: now - began, bytes: received, processor: processor_time() - processor }
}
