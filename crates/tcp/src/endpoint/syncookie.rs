//! SYN cookies: a listener answers SYNs without keeping state for the handshakes.
//!
//! When the backlog is full (or always, if so configured), the listener answers a SYN with a cookie instead of keeping
//! state. The cookie is the sequence number of the SYN-ACK, and the peer's ACK returns it. It consists of 5 bits of a
//! clock, 3 bits for the peer's MSS, and 24 bits of a hash. The hash is keyed, and covers the four-tuple and the peer's
//! initial sequence number. The low bits of our timestamp encode window scale, SACK and ECN; without timestamps, the
//! connection uses none of these three options.
//!
//! Implements RFC 4987 §3.6 and Appendix A.

use super::demux::FourTuple;
use super::{ConnectionId, Endpoint};
use crate::config::SynCookies;
use crate::conn::{Connection, Reply, TcbInit};
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Packet};
use anabranch_wire::tcp::{Flags, Header, Options, Segment, Seq, Timestamps};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::net::IpAddr;
use std::sync::Arc;

/// RFC 4987 Appendix A: the MSS values that a cookie can encode. The MSS that the peer announced is rounded down to one
/// of them.
const MSS_TABLE: [u16; 8] = [88, 536, 1024, 1220, 1300, 1440, 1460, 8960];
/// The tick of the clock that cookies contain.
const TICK: Duration = Duration::from_secs(64);
/// The number of ticks in which a cookie is valid: the tick in which it was made, and the next tick.
const TICKS: u32 = 2;
/// The number of low bits of our timestamp that encode options.
const CARRIED: u32 = 6;
/// The value of the window scale bits if the peer sent no window scale option.
const NO_SCALE: u32 = 15;
const SACK: u32 = 1 << 4;
const ECN: u32 = 1 << 5;

/// The secret key with which an endpoint makes SYN cookies, and the time when it last sent one.
#[derive(Debug)]
pub(super) struct Cookies {
    key: [u8; 16],
    /// The time when the last cookie was sent. More than `TICKS` + 1 clock ticks later, all cookies have expired.
    last_sent: Option<Instant>,
}

impl Cookies {
    pub(super) fn new(key: [u64; 2]) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&key[0].to_be_bytes());
        bytes[8..].copy_from_slice(&key[1].to_be_bytes());
        Self { key: bytes, last_sent: None }
    }

    /// Returns a keyed hash of the four-tuple and the numbers `more`. `purpose` separates hashes for different
    /// purposes.
    fn hash(&self, purpose: u8, ends: &FourTuple, more: &[u32]) -> u32 {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return 0 };
        mac.update(&[purpose]);
        for end in [ends.local, ends.remote] {
            match end.ip() {
                IpAddr::V4(ip) => mac.update(&ip.octets()),
                IpAddr::V6(ip) => mac.update(&ip.octets()),
            }
            mac.update(&end.port().to_be_bytes());
        }
        for word in more {
            mac.update(&word.to_be_bytes());
        }
        let digest = mac.finalize().into_bytes();
        u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
    }

    fn cookie(&self, ends: &FourTuple, irs: Seq, tick: u32, mss_index: u32) -> Seq {
        let hash = self.hash(1, ends, &[irs.0, tick, mss_index]) & 0xff_ffff;
        Seq((tick & 31) << 27 | mss_index << 24 | hash)
    }

    /// Returns the peer's MSS, if we made `cookie` for this four-tuple and it has not expired.
    fn check(&self, now: Instant, ends: &FourTuple, irs: Seq, cookie: Seq) -> Option<u16> {
        let last = self.last_sent?;
        if now.since(last) > TICK * (TICKS + 1) {
            return None;
        }
        let mss_index = cookie.0 >> 24 & 7;
        let present = tick(now);
        let valid_ticks = (0..TICKS).filter_map(|age| present.checked_sub(age));
        valid_ticks
            .into_iter()
            .any(|tick| self.cookie(ends, irs, tick, mss_index) == cookie)
            .then(|| MSS_TABLE[mss_index as usize])
    }
}

fn tick(now: Instant) -> u32 {
    (now.as_nanos() / TICK.as_nanos() as u64) as u32
}

/// Restores a full timestamp from its low bits `carried`. Returns the largest timestamp with these bits that is not
/// after `clock`.
fn stamp(clock: u32, carried: u32) -> u32 {
    let mask = (1 << CARRIED) - 1;
    let value = clock & !mask | carried;
    if value.wrapping_sub(clock) as i32 > 0 { value.wrapping_sub(1 << CARRIED) } else { value }
}

impl Endpoint {
    /// Answers a SYN with a SYN cookie, if the settings require a cookie. Returns whether a cookie was sent.
    #[cold]
    pub(super) fn answer_by_cookie(
        &mut self,
        now: Instant,
        ends: FourTuple,
        syn: &Header,
        full: bool,
    ) -> bool {
        let wanted = match self.config.syncookies {
            SynCookies::No => false,
            SynCookies::Auto => full,
            SynCookies::Yes => true,
        };
        // If open connections that wait for the application already fill the backlog, no cookie is sent. The backlog
        // would have no room for the connection that the cookie opens.
        if !wanted || !self.listeners.can_accept_open(ends.local.port()) {
            return false;
        }
        let mss = syn.options.mss.unwrap_or(if ends.remote.is_ipv4() { 536 } else { 1220 });
        let mss_index = MSS_TABLE.iter().rposition(|&value| value <= mss).unwrap_or(0) as u32;
        let iss = self.cookies.cookie(&ends, syn.seq, tick(now), mss_index);
        let mut answer = *syn;
        if syn.options.timestamps.is_none() {
            // If the SYN has no timestamp, the final ACK cannot return the options of the cookie. So the SYN-ACK
            // accepts neither SACK nor window scale nor ECN.
            (answer.options.window_scale, answer.options.sack_permitted) = (None, false);
            answer.flags = Flags::SYN;
        }
        // A temporary connection builds the SYN-ACK, so that its options are chosen as for a connection with state.
        let init = self.cookie_tcb_init(ends, iss, NOBODY);
        let (mut header, _) = Connection::accept(now, init, &answer).syn_header(now);
        if let Some(stamps) = &mut header.options.timestamps {
            let scale = syn.options.window_scale.map_or(NO_SCALE, |scale| u32::from(scale.min(14)));
            let sack = if header.options.sack_permitted { SACK } else { 0 };
            let ecn = if header.flags.has(Flags::ECE) { ECN } else { 0 };
            stamps.value = stamp(stamps.value, scale | sack | ecn);
        }
        self.cookies.last_sent = Some(now);
        self.out.reply(Reply { local: ends.local, remote: ends.remote, header });
        true
    }

    /// If the segment completes a handshake that was answered with a cookie, opens the connection. Returns true if the
    /// segment needs no further handling.
    #[cold]
    pub(super) fn open_by_cookie(
        &mut self,
        now: Instant,
        ends: FourTuple,
        segment: &Segment<'_>,
        packet: &Packet<'_>,
    ) -> bool {
        let header = &segment.header;
        let port = ends.local.port();
        let ends_handshake =
            header.flags.has(Flags::ACK) && !header.flags.has_any(Flags::SYN.with(Flags::RST));
        if self.config.syncookies == SynCookies::No || !ends_handshake {
            return false;
        }
        let (iss, irs) = (Seq(header.ack.0.wrapping_sub(1)), Seq(header.seq.0.wrapping_sub(1)));
        let Some(mss) = self.cookies.check(now, &ends, irs, iss) else { return false };
        if !self.listeners.can_accept_open(port) {
            // The ACK is dropped, although the peer considers the connection open. The peer's next segments acknowledge
            // the cookie again. By then, the backlog may have room for the connection.
            self.dropped.backlog += 1;
            return true;
        }
        // Reconstructs the peer's SYN from the values that the cookie preserved.
        let mut options = Options { mss: Some(mss), ..Options::default() };
        let mut flags = Flags::SYN;
        if let Some(stamps) = header.options.timestamps {
            let carried = stamps.echo & ((1 << CARRIED) - 1);
            options.timestamps = Some(Timestamps { value: stamps.value, echo: 0 });
            options.sack_permitted = carried & SACK != 0;
            options.window_scale = Some((carried & 15) as u8).filter(|&scale| u32::from(scale) != NO_SCALE);
            if carried & ECN != 0 {
                flags = flags.with(Flags::ECE).with(Flags::CWR);
            }
        }
        let syn = Header { seq: irs, flags, options, window: header.window, ..Header::default() };
        let id = self.tcb_init(now, ends).id;
        let init = self.cookie_tcb_init(ends, iss, id);
        self.listeners.on_half_open(port);
        self.insert(id.slot, ends, Connection::accept_cookie(now, init, &syn, header));
        self.on_segment_for(now, id.slot, segment, packet);
        true
    }

    /// Returns the parameters of a connection with the initial sequence number `iss`. Its timestamp clock has the same
    /// offset as the timestamps sent with cookies.
    fn cookie_tcb_init(&self, ends: FourTuple, iss: Seq, id: ConnectionId) -> TcbInit {
        let index = self.addresses.iter().position(|ip| *ip == ends.local.ip());
        TcbInit {
            id,
            local: ends.local,
            remote: ends.remote,
            config: Arc::clone(&self.config),
            iss,
            clock_offset: self.cookies.hash(2, &ends, &[]),
            mtu: index.map_or(super::DEFAULT_MTU, |index| self.mtus[index]),
        }
    }
}

/// An id that belongs to no connection, for the temporary connection that builds a cookie's SYN-ACK.
const NOBODY: ConnectionId = ConnectionId { slot: u32::MAX, generation: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn ends(port: u16) -> FourTuple {
        FourTuple {
            local: SocketAddr::from(([10, 0, 0, 2], 80)),
            remote: SocketAddr::from(([10, 0, 0, 1], port)),
        }
    }

    /// RFC 4987 Appendix A: a cookie is valid only for the peer for which it was made, and only for about two minutes.
    #[test]
    fn a_cookie_is_good_for_one_peer_and_a_while() {
        let mut cookies = Cookies::new([1, 2]);
        let begun = Instant::from_millis(640_000);
        cookies.last_sent = Some(begun);
        let cookie = cookies.cookie(&ends(5), Seq(77), tick(begun), 6);
        assert_eq!(cookies.check(begun, &ends(5), Seq(77), cookie), Some(1460));
        assert_eq!(cookies.check(begun + TICK, &ends(5), Seq(77), cookie), Some(1460));
        assert_eq!(cookies.check(begun + TICK * 2, &ends(5), Seq(77), cookie), None, "too old");
        assert_eq!(cookies.check(begun, &ends(6), Seq(77), cookie), None, "another peer");
        assert_eq!(cookies.check(begun, &ends(5), Seq(78), cookie), None, "another SYN");
        assert_eq!(Cookies::new([1, 3]).check(begun, &ends(5), Seq(77), cookie), None, "another key");
        for bit in 0..32 {
            assert_eq!(cookies.check(begun, &ends(5), Seq(77), Seq(cookie.0 ^ 1 << bit)), None, "bit {bit}");
        }
        let forged = (0..200_000).filter(|&n: &u32| {
            cookies.check(begun, &ends(5), Seq(77), Seq(n.wrapping_mul(0x9e37_79b9))).is_some()
        });
        assert!(forged.count() <= 1, "a guess is good once in millions");
        cookies.last_sent = None;
        assert_eq!(cookies.check(begun, &ends(5), Seq(77), cookie), None, "none was sent");
    }

    #[test]
    fn stamps_never_run_ahead() {
        for clock in (0..500).chain([u32::MAX - 3, u32::MAX]) {
            for carried in 0..64 {
                let value = stamp(clock, carried);
                assert_eq!(value & 63, carried);
                assert!((0..64).contains(&clock.wrapping_sub(value)), "{clock} {value}");
            }
        }
    }
}
