//! When to acknowledge.
//!
//! Owns the count of packets not yet acknowledged and the reasons not to wait,
//! and how large a SACK may be. The delay itself is a deadline in the
//! association's timer table.
//!
//! Home of RFC 9260 §6.2 (delayed acknowledgements) and RFC 7053 §5.2.

/// What a packet with DATA asks of the acknowledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// A SACK goes out with the next poll.
    Now,
    /// A SACK may wait for the delay.
    Later,
}

/// Largest SACK in bytes, whatever the path MTU: what fits IP protocol 132 in 1,500 bytes. It tells of some 360 gaps.
pub(crate) const MAX_SACK: usize = 1_468;

/// The acknowledger's state.
#[derive(Debug)]
pub(crate) struct Ack {
    every: u32,
    delayed: bool,
    packets: u32,
    acknowledged_once: bool,
    /// Something was missing after the last packet.
    gaps: bool,
    /// Data has been refused since the last SACK.
    refused: bool,
    /// Something new has arrived since the last SACK, and a packet in which nothing was new.
    news: bool,
    repeats: bool,
    /// Bytes that SACKs may still take up which only packets without news have drawn.
    allowance: usize,
    /// Seen in the packet that is being read.
    in_packet: InPacket,
    due: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct InPacket {
    data: bool,
    new: bool,
    duplicate: bool,
    immediate: bool,
    refused: bool,
}

impl Ack {
    pub(crate) fn new(every: u32, delayed: bool) -> Self {
        Self {
            every,
            delayed,
            packets: 0,
            acknowledged_once: false,
            gaps: false,
            refused: false,
            news: false,
            repeats: false,
            allowance: MAX_SACK,
            in_packet: InPacket::default(),
            due: false,
        }
    }

    /// A packet of `bytes` with DATA has been read.
    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.allowance = (self.allowance + bytes).min(MAX_SACK);
    }

    /// Most bytes of the SACK that goes out now, without the packet's header of `header` bytes.
    pub(crate) fn most_bytes(&self, header: usize) -> usize {
        // RFC 9260 §6.2: a packet of duplicates is answered by a SACK at once. Where there are gaps that SACK may be
        // forty times as large as the packet. So such SACKs take no more bytes than packets with DATA have brought.
        if self.is_only_repeated() { self.allowance.saturating_sub(header).min(MAX_SACK) } else { MAX_SACK }
    }

    /// Nothing new has arrived since the last SACK, but something again, or something that was refused.
    fn is_only_repeated(&self) -> bool {
        self.repeats && !self.news
    }

    /// Other settings from now on.
    pub(crate) fn tune(&mut self, every: u32, delayed: bool) {
        self.every = every;
        self.delayed = delayed;
    }

    #[inline]
    pub(crate) fn on_new(&mut self, immediate: bool) {
        self.in_packet.data = true;
        self.in_packet.new = true;
        self.in_packet.immediate |= immediate;
    }

    pub(crate) fn on_duplicate(&mut self) {
        self.in_packet.data = true;
        self.in_packet.duplicate = true;
    }

    pub(crate) fn on_refused(&mut self) {
        self.in_packet.data = true;
        self.in_packet.refused = true;
    }

    /// Something in the packet is to be acknowledged.
    #[inline]
    pub(crate) fn packet_counts(&self) -> bool {
        self.in_packet.data
    }

    /// The packet is read: is a SACK due? `None` when it held no DATA.
    #[inline]
    pub(crate) fn packet_done(&mut self, gaps: bool) -> Option<Due> {
        let seen = std::mem::take(&mut self.in_packet);
        if !seen.data {
            return None;
        }
        self.packets += 1;
        let filled = std::mem::replace(&mut self.gaps, gaps) && !gaps;
        self.refused |= seen.refused;
        self.news |= seen.new;
        self.repeats |= !seen.new;
        // RFC 9260 §6.2: at least every second packet; duplicates and refused data at once;
        // §7.2.4: every packet while there is a hole; §5.1: the very first DATA at once;
        // RFC 5681 §4.2, whose guidelines §6.2 takes over: what fills the hole at once;
        // RFC 7053 §5.2: at once where the sender asks for it.
        let now = !self.delayed
            || self.packets >= self.every
            || gaps
            || filled
            || seen.duplicate
            || seen.refused
            || seen.immediate
            || !self.acknowledged_once;
        if now {
            self.due = true;
            return Some(Due::Now);
        }
        Some(Due::Later)
    }

    /// The delay has run out, or the window has opened.
    pub(crate) fn make_due(&mut self) {
        self.due = true;
    }

    /// Data has been refused, which only a SACK can say.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// A SACK must go out.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// A SACK may ride along: something has not been acknowledged.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.due || self.packets > 0
    }

    /// A SACK of `bytes` has been sent, or will not be; the packet's header counts.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        if self.is_only_repeated() {
            self.allowance = self.allowance.saturating_sub(bytes);
        }
        self.news = false;
        self.repeats = false;
        self.due = false;
        self.refused = false;
        self.packets = 0;
        self.acknowledged_once = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §5.1 and §6.2: the first DATA at once, then every second packet.
    #[test]
    fn every_second_packet_after_the_first() {
        let mut ack = Ack::new(2, true);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(Due::Now));
        ack.sent(28);
        ack.on_new(false);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(Due::Later));
        assert_eq!(ack.packet_done(false), None, "a packet without DATA");
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(Due::Now));
        ack.sent(28);
        for event in [Ack::on_duplicate, Ack::on_refused, |ack: &mut Ack| ack.on_new(true)] {
            event(&mut ack);
            assert_eq!(ack.packet_done(false), Some(Due::Now));
            ack.sent(28);
        }
        ack.on_new(false);
        assert_eq!(ack.packet_done(true), Some(Due::Now), "a gap");
        ack.sent(28);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(Due::Now), "the gap is filled");
        ack.sent(28);
        ack.on_new(false);
        assert_eq!(ack.packet_done(false), Some(Due::Later), "no gap any more");
    }
}
