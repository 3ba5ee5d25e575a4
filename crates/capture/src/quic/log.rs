//! Writes the log of a decrypted connection in qlog format. The log has the captured packets and their times of
//! capture. It records packets of the client as sent, as the format requires for an observer in the network.

use super::PacketType;
use crate::LogOpener;
use crate::arrival::Side;
use anabranch_wire::qlog::{self, Hex, LoggedPacket};
use std::io::Write;

pub(super) struct Log {
    /// The output; `None` once a write has failed.
    out: Option<Box<dyn Write>>,
    since: u64,
    /// The time of the last record in the log.
    last: u64,
    text: String,
}

impl Log {
    /// Creates the log of a connection that begins now. `first` is the client's first destination connection ID.
    pub fn begin(open: &mut LogOpener, at: u64, first: &[u8]) -> Option<Self> {
        let out = open(&format!("{}.network.sqlog", Hex(first)))?;
        let text = qlog::header("\"type\":\"network\",\"flow\":\"client\"", first);
        let mut log = Self { out: Some(out), since: at, last: at, text };
        log.flush();
        Some(log)
    }

    /// Writes the record of a packet. `length` is that of the whole packet.
    pub fn packet(
        &mut self,
        at: u64,
        side: Side,
        kind: PacketType,
        number: u64,
        (length, payload): (usize, &[u8]),
    ) {
        let packet_type = match kind {
            PacketType::Initial => qlog::PacketType::Initial,
            PacketType::Handshake => qlog::PacketType::Handshake,
            PacketType::ZeroRtt => qlog::PacketType::ZeroRtt,
            PacketType::OneRtt => qlog::PacketType::OneRtt,
            PacketType::Retry => return,
        };
        let packet = LoggedPacket { packet_type, number, length, payload };
        // Packets that waited for their keys are written late. They get the time of the last record, because the times
        // of a log must not decrease.
        self.last = self.last.max(at);
        qlog::packet(&mut self.text, self.last - self.since, side == 0, packet);
        self.flush();
    }

    fn flush(&mut self) {
        if let Some(out) = &mut self.out
            && writeln!(out, "\x1e{}", self.text).is_err()
        {
            self.out = None;
        }
        self.text.clear();
    }
}
