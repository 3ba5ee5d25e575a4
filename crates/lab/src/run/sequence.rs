//! Draws a message sequence chart of a run, with one line for each packet that the client sends or receives.

use super::one::Captured;
use anabranch_base::Instant;
use anabranch_wire::ip;
use anabranch_wire::ladder::{Ladder, Side, Transport};
use anabranch_wire::pcap::{CaptureError, CaptureReader, Direction};
use std::collections::HashSet;

/// Returns the message sequence chart for a capture of the client, up to `most` lines. Packets of protocols other than
/// TCP and SCTP are left out.
///
/// # Errors
/// [`CaptureError`] if the capture is damaged.
pub fn of_client(captured: &Captured, most: usize) -> Result<String, CaptureError> {
    let mut reader = CaptureReader::new(captured.pcapng.as_slice())?;
    let mut ladder: Option<(u8, Ladder)> = None;
    let (mut known, mut lines, mut left) = (HashSet::new(), 0, 0);
    while let Some(record) = reader.next_packet()? {
        let Ok(packet) = ip::Packet::parse_quoted(record.packet) else { continue };
        let Some(transport) = Transport::of_protocol(packet.protocol) else { continue };
        let (drawn, ladder) =
            ladder.get_or_insert_with(|| (packet.protocol, Ladder::new(transport, "client", "server")));
        if *drawn != packet.protocol {
            continue;
        }
        if lines == most {
            left += 1;
            continue;
        }
        let is_own = record.direction == Some(Direction::Outbound);
        let [client, server] =
            if is_own { [packet.source, packet.target] } else { [packet.target, packet.source] };
        for (address, side, name) in [(client, Side::Left, "client"), (server, Side::Right, "server")] {
            if known.insert(address) {
                ladder.set_side(address, side, name);
            }
        }
        ladder.packet(Instant::from_nanos(record.at_nanos), packet.source, packet.target, packet.payload, "");
        lines += 1;
    }
    let mut text = ladder.map_or(String::new(), |(_, mut ladder)| ladder.take());
    if left > 0 {
        text += &format!("… {left} packets more\n");
    }
    Ok(text)
}
