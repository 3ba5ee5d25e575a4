//! Adapts `rtc-sctp`, the SCTP of webrtc-rs's sans-IO stack, to the benchmarks.

use super::{BUFFER, PACKET, StackPair};
use rtc_sctp::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Payload,
    PayloadProtocolIdentifier, ServerConfig, TransportConfig, max_payload_size_for_mtu,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct BoundEndpoint {
    endpoint: Endpoint,
    address: SocketAddr,
    associations: Vec<Option<Association>>,
}

/// Two endpoints of `rtc-sctp` that are joined by one association.
pub struct Rtc {
    ends: [BoundEndpoint; 2],
    now: Instant,
    packets: u64,
    buffer: Vec<u8>,
    limit: usize,
    handle: AssociationHandle,
}

const PPI: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;

impl Rtc {
    /// Creates two endpoints without an association. Unsent data is limited to `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let addresses = [1, 2].map(|n| SocketAddr::from(([10, 0, 0, n], 9899)));
        let mut config = EndpointConfig::new();
        config.max_payload_size(max_payload_size_for_mtu(PACKET as u32));
        let config = Arc::new(config);
        let transport = TransportConfig::default().with_max_receive_buffer_size(BUFFER as u32);
        let server = Arc::new(ServerConfig::new(transport));
        let ends = [None, Some(server)].map(|server| {
            let address = addresses[usize::from(server.is_some())];
            let endpoint = Endpoint::new(address, Default::default(), config.clone(), server);
            BoundEndpoint { endpoint, address, associations: Vec::new() }
        });
        Self {
            ends,
            now: Instant::now(),
            packets: 0,
            buffer: vec![0; 1 << 18],
            limit,
            handle: AssociationHandle(0),
        }
    }

    /// Creates two endpoints with one association and a stream.
    #[must_use]
    pub fn connected(limit: usize) -> Self {
        let mut pair = Self::new(limit);
        pair.associate();
        let handle = pair.handle;
        pair.association(0, handle).open_stream(0, PPI).expect("a stream");
        pair
    }

    /// Opens one more association, and waits until both ends have established it.
    pub fn associate(&mut self) {
        let transport = TransportConfig::default().with_max_receive_buffer_size(BUFFER as u32);
        let remote = self.ends[1].address;
        let (handle, association) = self.ends[0]
            .endpoint
            .connect(self.now, ClientConfig::new(transport), remote)
            .expect("an association");
        self.handle = handle;
        put(&mut self.ends[0].associations, handle, association);
        for _ in 0..3 {
            self.now += Duration::from_micros(100);
            let handle = self.handle;
            self.carry(0, handle);
            while self.association(0, handle).poll().is_some() {}
            self.carry(1, handle);
        }
        assert!(!self.association(0, handle).is_handshaking(), "no association");
    }

    fn association(&mut self, end: usize, handle: AssociationHandle) -> &mut Association {
        self.ends[end].associations[handle.0].as_mut().expect("it was opened")
    }

    fn carry(&mut self, from: usize, handle: AssociationHandle) -> u64 {
        let mut packets = 0;
        let [a, b] = &mut self.ends;
        let (from, to) = if from == 0 { (a, b) } else { (b, a) };
        let Some(Some(association)) = from.associations.get_mut(handle.0) else {
            return 0;
        };
        while let Some(transmit) = association.poll_transmit(self.now) {
            let Payload::RawEncode(contents) = transmit.message else {
                continue;
            };
            for packet in contents {
                packets += 1;
                match to.endpoint.handle(self.now, from.address, None, packet) {
                    Some((handle, DatagramEvent::AssociationEvent(event))) => {
                        if let Some(Some(association)) = to.associations.get_mut(handle.0) {
                            association.handle_event(event);
                        }
                    }
                    Some((handle, DatagramEvent::NewAssociation(association))) => {
                        put(&mut to.associations, handle, association);
                    }
                    _ => {}
                }
            }
        }
        packets
    }
}

fn put(list: &mut Vec<Option<Association>>, handle: AssociationHandle, association: Association) {
    if list.len() <= handle.0 {
        list.resize_with(handle.0 + 1, || None);
    }
    list[handle.0] = Some(association);
}

impl StackPair for Rtc {
    fn send(&mut self, message: &[u8]) -> bool {
        let (now, limit, handle) = (self.now, self.limit, self.handle);
        let mut stream = self.association(0, handle).stream(0).expect("a stream");
        if stream.buffered_amount().expect("open") + message.len() > limit {
            return false;
        }
        stream.write_with_ppi(now, message, PPI).expect("open");
        true
    }

    fn turn(&mut self, on_message: &mut dyn FnMut(&[u8], bool)) {
        self.now += Duration::from_micros(100);
        let (now, handle) = (self.now, self.handle);
        for end in 0..2 {
            let association = self.association(end, handle);
            if association.poll_timeout().is_some_and(|at| at <= now) {
                association.handle_timeout(now);
            }
        }
        self.packets += self.carry(0, handle);
        let mut buffer = std::mem::take(&mut self.buffer);
        let association = self.association(1, handle);
        while association.poll().is_some() {}
        while association.accept_stream().is_some() {}
        if let Ok(mut stream) = association.stream(0) {
            while let Ok(Some(chunks)) = stream.read_sctp() {
                let bytes = chunks.read(&mut buffer).expect("room");
                on_message(&buffer[..bytes], true);
            }
        }
        self.buffer = buffer;
        self.carry(1, handle);
        let association = self.association(0, handle);
        while association.poll().is_some() {}
    }

    fn packets(&self) -> u64 {
        self.packets
    }
}
