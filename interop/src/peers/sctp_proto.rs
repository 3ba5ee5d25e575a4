//! Adapts `sctp-proto`, the SCTP of str0m, to the interoperability tests.

use super::{EndOptions, Epoch, MESSAGE, PACKET, PORT};
use crate::peer::{DeliveryOptions, Peer, PeerEvent};
use ::sctp_proto::{
    Association, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ReliabilityType, ServerConfig, StreamEvent, TransportConfig,
};
use anabranch_base::Instant;
use anabranch_sctp::Reliability;
use anabranch_wire::sctp::ShutdownComplete;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// An endpoint of `sctp-proto`, and its associations.
pub(super) struct SctpProto {
    epoch: Epoch,
    endpoint: Endpoint,
    /// The associations by key. Each INIT starts an association, even a duplicate INIT. At most one association is
    /// established.
    associations: BTreeMap<usize, Association>,
    /// The key of the established association. If none is established, the key of the association that was started
    /// last.
    current: usize,
    packets: VecDeque<Bytes>,
    events: VecDeque<PeerEvent>,
    up: bool,
    is_closing: bool,
    down: bool,
}

/// The maximum number of rounds of the loop in [`settle`](SctpProto::settle). The loop normally ends earlier, when the
/// stack has no output left.
const ROUNDS: usize = 10_000;

const PPI: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;

fn remote() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 9899))
}

fn transport() -> Arc<TransportConfig> {
    let transport = TransportConfig::default().with_local_port(PORT).with_remote_port(PORT);
    let transport = transport.with_max_send_message_size(MESSAGE as u32);
    Arc::new(transport.with_max_receive_message_size(MESSAGE as u32))
}

impl SctpProto {
    pub(super) fn new(options: EndOptions) -> Self {
        let mut config = EndpointConfig::new();
        config.max_payload_size((PACKET - 28) as u32);
        let server = options.server.then(|| {
            let mut server = ServerConfig::new();
            server.transport = transport();
            Arc::new(server)
        });
        let endpoint = Endpoint::new(Arc::new(config), server);
        Self {
            epoch: Epoch::new(),
            endpoint,
            associations: BTreeMap::new(),
            current: 0,
            packets: VecDeque::new(),
            events: VecDeque::new(),
            up: false,
            is_closing: false,
            down: false,
        }
    }

    /// Takes all events and packets out of the associations.
    fn settle(&mut self, now: Instant) {
        let now = self.epoch.at(now);
        for (&handle, association) in &mut self.associations {
            let mut rounds = 0;
            loop {
                let mut more = false;
                let mut readable = Vec::new();
                rounds += 1;
                assert!(rounds < ROUNDS, "it sends without end: {:02x?}", self.packets.back());
                while let Some(event) = association.poll() {
                    more = true;
                    match event {
                        Event::Stream(StreamEvent::Readable { id }) => readable.push(id),
                        Event::Connected if !self.up => {
                            self.up = true;
                            self.current = handle;
                            self.events.push_back(PeerEvent::Up);
                        }
                        Event::Stream(StreamEvent::Finished { id }) => {
                            self.events.push_back(PeerEvent::TheirsReset(vec![id]))
                        }
                        Event::Stream(StreamEvent::ResetComplete { id }) => {
                            self.events.push_back(PeerEvent::OursReset(vec![id]));
                        }
                        Event::Stream(StreamEvent::ResetFailed { id, .. }) => {
                            self.events.push_back(PeerEvent::ResetRefused(vec![id]));
                        }
                        _ => {}
                    }
                }
                while association.accept_stream().is_some() {}
                for stream in readable {
                    while let Ok(mut open) = association.stream(stream)
                        && let Ok(Some(chunks)) = open.read_sctp()
                    {
                        more = true;
                        let mut payload = vec![0; chunks.len()];
                        let bytes = chunks.read(&mut payload).unwrap_or(0);
                        payload.truncate(bytes);
                        self.events.push_back(PeerEvent::Message { stream, payload });
                    }
                }
                while let Some(transmit) = association.poll_transmit(now) {
                    more = true;
                    if let Payload::RawEncode(contents) = transmit.payload {
                        // After a SHUTDOWN COMPLETE the association has ended, but the stack does not report this
                        // (README, fault 3).
                        self.is_closing |=
                            contents.iter().any(|packet| packet.get(12) == Some(&ShutdownComplete::KIND));
                        self.packets.extend(contents);
                    }
                }
                while association.poll_endpoint_event().is_some() {}
                if !more {
                    break;
                }
            }
            if handle == self.current && (association.is_closed() || self.is_closing) && !self.down {
                self.down = true;
                self.events.push_back(PeerEvent::Down("closed".to_owned()));
            }
        }
    }

    fn current_association(&mut self) -> Result<&mut Association, String> {
        self.associations.get_mut(&self.current).ok_or_else(|| "not begun".to_owned())
    }
}

impl Peer for SctpProto {
    fn connect(&mut self, now: Instant) {
        let (handle, association) = {
            let mut config = ClientConfig::new();
            config.transport = transport();
            self.endpoint.connect(config, remote())
        }
        .expect("an association");
        self.current = handle.0;
        self.associations.insert(handle.0, association);
        self.settle(now);
    }

    fn handle_packet(&mut self, now: Instant, bytes: &[u8]) {
        let at = self.epoch.at(now);
        match self.endpoint.handle(at, remote(), None, None, Bytes::copy_from_slice(bytes)) {
            Some((handle, DatagramEvent::AssociationEvent(event))) => {
                if let Some(association) = self.associations.get_mut(&handle.0) {
                    association.handle_event(event);
                }
            }
            Some((handle, DatagramEvent::NewAssociation(association))) => {
                if !self.up {
                    self.current = handle.0;
                }
                self.associations.insert(handle.0, association);
            }
            None => {}
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let at = self.epoch.at(now);
        for association in self.associations.values_mut() {
            if association.poll_timeout().is_some_and(|due| due <= at) {
                association.handle_timeout(at);
            }
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.associations.values().filter_map(Association::poll_timeout).min().map(|at| self.epoch.back(at))
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Vec<u8>> {
        self.packets.pop_front().map(Vec::from)
    }

    fn poll_event(&mut self) -> Option<PeerEvent> {
        self.events.pop_front()
    }

    fn send(&mut self, now: Instant, options: DeliveryOptions, payload: &[u8]) -> Result<(), String> {
        let association = self.current_association()?;
        if association.stream(options.stream).is_err() {
            association.open_stream(options.stream, PPI).map_err(|error| error.to_string())?;
        }
        let mut stream = association.stream(options.stream).map_err(|error| error.to_string())?;
        let (kind, value) = match options.reliability {
            Reliability::Lifetime(span) => (ReliabilityType::Timed, span.as_millis() as u32),
            Reliability::Retransmissions(most) => (ReliabilityType::Rexmit, most),
            _ => (ReliabilityType::Reliable, 0),
        };
        stream.set_reliability_params(options.unordered, kind, value).map_err(|error| error.to_string())?;
        stream.write_with_ppi(payload, PPI).map_err(|error| error.to_string())?;
        self.settle(now);
        Ok(())
    }

    fn reset(&mut self, now: Instant, streams: &[u16]) -> Result<(), String> {
        let association = self.current_association()?;
        for &stream in streams {
            association
                .stream(stream)
                .and_then(|mut stream| stream.close())
                .map_err(|error| error.to_string())?;
        }
        self.settle(now);
        Ok(())
    }

    fn shutdown(&mut self, now: Instant) -> Result<(), String> {
        self.current_association()?.shutdown().map_err(|error| error.to_string())?;
        self.settle(now);
        Ok(())
    }

    fn abort(&mut self, now: Instant) -> Result<(), String> {
        // The API has no call that sends an ABORT.
        let _ = now;
        Err("no call aborts".to_owned())
    }
}
