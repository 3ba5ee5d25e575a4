//! Adapts `dcsctp`, the Rust version of WebRTC's SCTP, to the interoperability tests.

use super::{EndOptions, MESSAGE, PACKET, PORT};
use crate::peer::{DeliveryOptions, Peer, PeerEvent};
use ::dcsctp::api::{
    DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketTime, StreamId,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS as OVER_DTLS,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE as NONE,
};
use anabranch_base::Instant;
use anabranch_sctp::Reliability;
use std::collections::VecDeque;
use std::time::Duration;

/// A socket of `dcsctp`, which has one association.
pub(super) struct DcSctpPeer {
    socket: Box<dyn DcSctpSocket>,
    packets: VecDeque<Vec<u8>>,
    events: VecDeque<PeerEvent>,
}

impl DcSctpPeer {
    pub(super) fn new(options: EndOptions) -> Self {
        let options = Options {
            local_port: PORT,
            remote_port: PORT,
            mtu: PACKET,
            max_message_size: MESSAGE,
            max_send_buffer_size: 8 << 20,
            per_stream_send_queue_limit: 8 << 20,
            enable_message_interleaving: options.interleaving,
            zero_checksum_alternate_error_detection_method: if options.zero_checksum {
                OVER_DTLS
            } else {
                NONE
            },
            max_retransmissions: None,
            ..Options::default()
        };
        let socket = ::dcsctp::new_socket("theirs", &options);
        Self { socket, packets: VecDeque::new(), events: VecDeque::new() }
    }

    fn settle(&mut self) {
        let numbers = |streams: Vec<StreamId>| streams.into_iter().map(|stream| stream.0).collect();
        while let Some(event) = self.socket.poll_event() {
            let event = match event {
                SocketEvent::SendPacket(packet) => {
                    self.packets.push_back(packet);
                    continue;
                }
                SocketEvent::OnConnected() => PeerEvent::Up,
                SocketEvent::OnClosed() => PeerEvent::Down("closed".to_owned()),
                SocketEvent::OnAborted(kind, text) => PeerEvent::Down(format!("{kind:?}: {text}")),
                SocketEvent::OnIncomingStreamReset(streams) => PeerEvent::TheirsReset(numbers(streams)),
                SocketEvent::OnStreamsResetPerformed(streams) => PeerEvent::OursReset(numbers(streams)),
                SocketEvent::OnStreamsResetFailed(streams) => PeerEvent::ResetRefused(numbers(streams)),
                _ => continue,
            };
            self.read();
            self.events.push_back(event);
        }
        self.read();
    }

    fn read(&mut self) {
        while let Some(message) = self.socket.get_next_message() {
            self.events
                .push_back(PeerEvent::Message { stream: message.stream_id.0, payload: message.payload });
        }
    }

    fn advance_to(&mut self, now: Instant) {
        self.socket.advance_time(SocketTime::zero() + Duration::from_nanos(now.as_nanos()));
    }
}

impl Peer for DcSctpPeer {
    fn connect(&mut self, now: Instant) {
        self.advance_to(now);
        self.socket.connect();
        self.settle();
    }

    fn handle_packet(&mut self, now: Instant, bytes: &[u8]) {
        self.advance_to(now);
        self.socket.handle_input(bytes);
        self.settle();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance_to(now);
        self.settle();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let at = self.socket.poll_timeout();
        (at != SocketTime::infinite_future()).then(|| Instant::ZERO + (at - SocketTime::zero()))
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }

    fn poll_event(&mut self) -> Option<PeerEvent> {
        self.events.pop_front()
    }

    fn send(&mut self, now: Instant, options: DeliveryOptions, payload: &[u8]) -> Result<(), String> {
        self.advance_to(now);
        let mut send_options = SendOptions { unordered: options.unordered, ..SendOptions::default() };
        match options.reliability {
            Reliability::Lifetime(span) => send_options.lifetime = Some(span),
            Reliability::Retransmissions(most) => send_options.max_retransmissions = Some(most as u16),
            _ => {}
        }
        let message = Message::new(StreamId(options.stream), PpId(53), payload.to_vec());
        let sent = self.socket.send(message, &send_options).map_err(|error| format!("{error:?}"));
        self.settle();
        sent
    }

    fn reset(&mut self, now: Instant, streams: &[u16]) -> Result<(), String> {
        self.advance_to(now);
        let streams: Vec<_> = streams.iter().map(|&stream| StreamId(stream)).collect();
        let result = self.socket.reset_streams(&streams).map_err(|error| error.to_string());
        self.settle();
        result
    }

    fn shutdown(&mut self, now: Instant) -> Result<(), String> {
        self.advance_to(now);
        self.socket.shutdown();
        self.settle();
        Ok(())
    }

    fn abort(&mut self, now: Instant) -> Result<(), String> {
        self.advance_to(now);
        self.socket.close();
        self.settle();
        Ok(())
    }
}
