//! Adapts `dcsctp`, the Rust port of WebRTC's SCTP, to the benchmarks.

use super::{BUFFER, PACKET, StackPair};
use ::dcsctp::api::{
    DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime, StreamId,
};
use std::time::Duration;

/// Two sockets of `dcsctp` that are joined by one association.
pub struct DcSctp {
    ends: [Box<dyn DcSctpSocket>; 2],
    now: SocketTime,
    limit: usize,
    packets: u64,
}

impl DcSctp {
    /// Creates two sockets with one association. Unsent data is limited to `limit` bytes.
    #[must_use]
    pub fn connected(limit: usize) -> Self {
        let options = Options {
            mtu: PACKET,
            max_receiver_window_buffer_size: BUFFER,
            max_send_buffer_size: limit * 2,
            per_stream_send_queue_limit: limit * 2,
            // There is no burst limit, because the other stacks have none. Only the congestion window limits how many
            // packets are sent at once.
            max_burst: i32::MAX / PACKET as i32,
            ..Options::default()
        };
        let ends = ["a", "b"].map(|name| ::dcsctp::new_socket(name, &options));
        let mut pair = Self { ends, now: SocketTime::zero(), limit, packets: 0 };
        pair.ends[0].connect();
        for _ in 0..4 {
            pair.turn(&mut |_, _| {});
        }
        assert!(pair.ends[0].state() == SocketState::Connected, "no association");
        pair
    }

    fn carry(&mut self, from: usize) -> u64 {
        let mut packets = 0;
        while let Some(event) = self.ends[from].poll_event() {
            if let SocketEvent::SendPacket(packet) = event {
                packets += 1;
                self.ends[1 - from].handle_input(&packet);
            }
        }
        packets
    }
}

impl StackPair for DcSctp {
    fn send(&mut self, message: &[u8]) -> bool {
        if self.ends[0].buffered_amount(StreamId(0)) + message.len() > self.limit {
            return false;
        }
        let message = Message::new(StreamId(0), PpId(53), message.to_vec());
        self.ends[0].send(message, &SendOptions::default()).expect("connected");
        true
    }

    fn turn(&mut self, on_message: &mut dyn FnMut(&[u8], bool)) {
        self.now = self.now + Duration::from_micros(100);
        for end in &mut self.ends {
            end.advance_time(self.now);
        }
        self.packets += self.carry(0);
        while let Some(message) = self.ends[1].get_next_message() {
            on_message(&message.payload, true);
        }
        self.carry(1);
    }

    fn packets(&self) -> u64 {
        self.packets
    }
}
