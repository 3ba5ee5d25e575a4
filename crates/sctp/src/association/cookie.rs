//! The State Cookie: its contents, its signature and its expiry.
//!
//! The cookie holds all values that a responder needs to create the association. The cookie is signed with a key that
//! only this endpoint has. The key is changed at intervals, and the previous key is kept for cookies in flight.
//!
//! A cookie is short, so that an INIT with a forged source address cannot cause a much larger answer. The signature
//! covers the ports and the local tag, but the cookie does not store them, because the packet of the COOKIE ECHO
//! contains them. The signature also covers the full local address, but the cookie stores only one byte of it, the XOR
//! of its octets. The endpoint finds the address among its own addresses.
//!
//! The time at which a cookie was made is its expiry time minus its lifetime. A flag says whether the lifetime is the
//! one with which the endpoint was created. Other lifetimes are not stored, so the age of such a cookie is unknown.
//!
//! A cookie has these fields, each after its offset in bytes:
//!
//! ```text
//!  0  generation of the key
//!  1  flags
//!  2  extensions of the peer
//!  3  local address, folded to one byte
//!  4  expiry time, ms mod 2^32
//!  8  peer's tag
//! 12  our first TSN
//! 16  peer's first TSN
//! 20  peer's a_rwnd
//! 24  streams, out and in (2 bytes each)
//! 28  source of the INIT (4 or 16 bytes), optional fields, addresses that the INIT listed,
//!     16 bytes of HMAC-SHA-256
//! ```
//!
//! Implements RFC 9260 §5.1.3 and §5.1.5.

use crate::association::auth::keys::{AuthParams, RANDOM};
use crate::association::extensions::Extensions;
use crate::config::Config;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cookie {
    /// The time at which the cookie becomes stale, rounded to a millisecond.
    pub(crate) expires: Instant,
    /// The time at which the cookie was made, rounded up by less than [`RESOLUTION`]. `None` if the cookie has another
    /// lifetime than the endpoint's, for example because of a Cookie Preservative.
    pub(crate) made: Option<Instant>,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    pub(crate) local_tsn: u32,
    pub(crate) peer_tsn: u32,
    /// The peer's a_rwnd.
    pub(crate) window: u32,
    /// The number of streams in each direction that both sides support.
    pub(crate) outbound: u16,
    pub(crate) inbound: u16,
    /// RFC 9260 §5.2.2: the local Tie-Tag and the peer's Tie-Tag. Both are 0 if the INIT began a new association.
    pub(crate) tie_tags: (u32, u32),
    /// The extensions that the peer supports.
    pub(crate) extensions: Extensions,
    /// The authentication parameters of both sides, if both sides sent them.
    pub(crate) auth: Option<SealedAuth>,
    /// The peer's adaptation layer indication.
    pub(crate) adaptation: Option<u32>,
    pub(crate) init_source: IpAddr,
    /// The destination address of the INIT, which is a local address.
    pub(crate) local: IpAddr,
    /// The peer's addresses that the INIT listed.
    pub(crate) addresses: Vec<IpAddr>,
}

/// The values that a COOKIE ECHO's packet contains outside the cookie, and the local addresses to which the INIT may
/// have been sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieEchoContext<'a> {
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) local_tag: u32,
    /// The local addresses. The first is the destination of the COOKIE ECHO. It is tried first, because the INIT was
    /// most likely sent to the same address.
    pub(crate) local_addresses: &'a [IpAddr],
}

/// RFC 4895 §6.3: the values that a stateless responder needs to verify an AUTH. They contain no endpoint pair shared
/// key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SealedAuth {
    /// The random number that this side sent (RANDOM parameter). The other AUTH parameters of this side are the same in
    /// all associations, so they are not stored.
    pub(crate) random: [u8; RANDOM],
    pub(crate) peer: AuthParams,
}

impl SealedAuth {
    /// Returns the authentication parameters that this side sent.
    pub(crate) fn ours(&self, config: &Config) -> AuthParams {
        AuthParams::ours(config, self.random)
    }
}

/// A cookie with a valid signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum VerifiedCookie {
    /// The signature is valid and the cookie has not expired.
    Good(Cookie),
    /// The signature is valid, but the cookie expired this long ago.
    Stale(Cookie, Duration),
}

/// Signs and verifies cookies, with secret keys that only the endpoint has.
pub(crate) struct CookieSigner {
    rng: Rng,
    generation: u8,
    current: [u8; 32],
    previous: Option<[u8; 32]>,
    changed: Instant,
    period: Duration,
    /// The lifetime of most cookies, with which the endpoint was created.
    life: Duration,
}

impl fmt::Debug for CookieSigner {
    /// Formats the signer without its keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieSigner").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// The size of a cookie's signature in bytes. RFC 2104 §5: half of the hash is enough.
const MAC: usize = 16;

/// The longest lifetime of a cookie. It is shorter than 2^31 ms (24.8 days), so the low 32 bits of the expiry time in
/// milliseconds are unambiguous.
const MAX_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The resolution of the times in a cookie.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Flags of the optional fields of a cookie, and of its lifetime.
mod flag {
    pub(super) const V6: u8 = 1;
    pub(super) const TIED: u8 = 2;
    pub(super) const AUTH: u8 = 4;
    /// Set if the cookie stores RANDOM, because this RANDOM cannot be derived from the tags.
    pub(super) const RANDOM: u8 = 8;
    pub(super) const ADAPTATION: u8 = 16;
    pub(super) const ADDRESSES: u8 = 32;
    /// Set if the cookie has the signer's lifetime, so that the time at which it was made is known.
    pub(super) const TIMED: u8 = 64;
}

impl CookieSigner {
    pub(crate) fn new(mut rng: Rng, cookie_life: Duration) -> Self {
        let mut current = [0; 32];
        rng.fill(&mut current);
        // A key signs cookies for one period, and verifies them for one more period. A period is at least twice the
        // configured lifetime of a cookie.
        let life = cookie_life.min(MAX_LIFE);
        let period = life.saturating_mul(2).max(Duration::from_secs(60));
        Self { rng, generation: 0, current, previous: None, changed: Instant::ZERO, period, life }
    }

    fn rotate(&mut self, now: Instant) {
        if now - self.changed < self.period {
            return;
        }
        // If no cookie was needed for a long time, the current key is too old and is not kept as the previous key.
        self.previous = (now - self.changed < self.period.saturating_mul(2)).then_some(self.current);
        self.rng.fill(&mut self.current);
        self.generation = self.generation.wrapping_add(1);
        self.changed = now;
    }

    /// Returns when a cookie made now becomes stale.
    pub(crate) fn expiry(now: Instant, life: Duration) -> Instant {
        Instant::from_millis((now + life.min(MAX_LIFE)).as_nanos().div_ceil(1_000_000))
    }

    /// Returns the time at which a cookie with this expiry time is made, if it is made now and has the signer's
    /// lifetime. The result is `now`, rounded up by less than [`RESOLUTION`].
    pub(crate) fn time_made(&self, now: Instant, expires: Instant) -> Option<Instant> {
        (expires == Self::expiry(now, self.life)).then(|| expires - self.life)
    }

    /// RFC 4895 §6.1: returns the random number derived from the tags. The cookie does not store this number, because
    /// it can be derived again.
    pub(crate) fn random(&mut self, now: Instant, local_tag: u32, peer_tag: u32) -> [u8; RANDOM] {
        self.rotate(now);
        random_of(&self.current, local_tag, peer_tag)
    }

    /// RFC 9260 §5.1.3: returns the cookie with its signature.
    pub(crate) fn seal(&mut self, now: Instant, cookie: &Cookie) -> Vec<u8> {
        self.rotate(now);
        let mut bytes = vec![self.generation];
        cookie.write(&random_of(&self.current, cookie.local_tag, cookie.peer_tag), &mut bytes);
        let mac = signature(&self.current, &bytes, cookie.implied(), cookie.local);
        bytes.extend_from_slice(&mac.finalize().into_bytes()[..MAC]);
        bytes
    }

    /// RFC 9260 §5.1.5: verifies and reads a cookie. Returns `None` if the cookie has to be discarded silently.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        bytes: &[u8],
        context: CookieEchoContext<'_>,
    ) -> Option<VerifiedCookie> {
        self.rotate(now);
        let (body, signed) = bytes.split_at_checked(bytes.len().checked_sub(MAC)?)?;
        let [generation, flags, _, fold, ..] = *body else { return None };
        let key = match self.generation.wrapping_sub(generation) {
            0 => &self.current,
            1 => self.previous.as_ref()?,
            _ => return None,
        };
        let implied = [context.local_port.into(), context.peer_port.into(), context.local_tag];
        // The comparison of a signature takes constant time, so an attacker learns nothing about it from the timing.
        let is_signed = |local: &&IpAddr| {
            folded(**local) == fold
                && signature(key, body, implied, **local).verify_truncated_left(signed).is_ok()
        };
        let local = *context.local_addresses.iter().find(is_signed)?;
        let mut cookie = Cookie::read(&mut Reader(&body[1..]), now, context, local, key)?;
        cookie.made = (flags & flag::TIMED != 0).then(|| cookie.expires - self.life);
        let over = now - cookie.expires;
        Some(if over.is_zero() { VerifiedCookie::Good(cookie) } else { VerifiedCookie::Stale(cookie, over) })
    }
}

/// Returns the keyed hash over the cookie (`body`), the values that it does not store (`implied`), and the local
/// address. The packet of the COOKIE ECHO contains the values in `implied`.
fn signature(key: &[u8; 32], body: &[u8], implied: [u32; 3], local: IpAddr) -> Hmac<Sha256> {
    let mut mac = keyed(key);
    mac.update(body);
    implied.iter().for_each(|word| mac.update(&word.to_be_bytes()));
    match local {
        IpAddr::V4(v4) => mac.update(&v4.octets()),
        IpAddr::V6(v6) => mac.update(&v6.octets()),
    }
    mac
}

/// Derives a random number from two tags. The hash input is shorter than that of any cookie, so the random number never
/// equals the signature of a cookie.
fn random_of(key: &[u8; 32], local_tag: u32, peer_tag: u32) -> [u8; RANDOM] {
    let mut mac = keyed(key);
    mac.update(&local_tag.to_be_bytes());
    mac.update(&peer_tag.to_be_bytes());
    mac.finalize().into_bytes().into()
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // The block size of SHA-256 is 64 bytes. RFC 2104 §2: a shorter key is padded with zeros to a block. `new` takes a
    // whole block and, unlike `new_from_slice`, does not check its length.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    <Hmac<Sha256> as hmac::digest::KeyInit>::new(&block.into())
}

/// Folds an address into one byte, which usually identifies the local address. The cookie stores only this byte, but
/// its signature covers the full address.
fn folded(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(v4) => v4.octets().iter().fold(0, |fold, byte| fold ^ byte),
        IpAddr::V6(v6) => v6.octets().iter().fold(0, |fold, byte| fold ^ byte),
    }
}

impl Cookie {
    /// Returns the time from the INIT ACK to the COOKIE ECHO that arrived at `now`, for a round-trip time sample. The
    /// time is rounded up to at least [`RESOLUTION`]. It is too long if the peer has retransmitted the COOKIE ECHO.
    ///
    /// Returns `None` if the age of the cookie is unknown or negative, or if the addresses of the COOKIE ECHO are not
    /// those of the INIT. In the latter case the peer has probably retransmitted the COOKIE ECHO to another address.
    pub(crate) fn round_trip(&self, now: Instant, source: IpAddr, target: IpAddr) -> Option<Duration> {
        let made = self.made?;
        let is_past = made < now + RESOLUTION;
        let is_same_path = (source, target) == (self.init_source, self.local);
        (is_past && is_same_path).then(|| (now - made) + RESOLUTION)
    }

    /// Returns the ports and the local tag. The packet of a COOKIE ECHO repeats them, so the cookie does not store
    /// them.
    fn implied(&self) -> [u32; 3] {
        [self.local_port.into(), self.peer_port.into(), self.local_tag]
    }

    /// Appends all fields of the cookie except the generation. `random` is derived from the tags. The cookie stores
    /// this side's RANDOM only if it differs from `random`.
    fn write(&self, random: &[u8; RANDOM], out: &mut Vec<u8>) {
        let own_random = self.auth.as_ref().is_some_and(|auth| auth.random != *random);
        let flags = [
            (self.init_source.is_ipv6(), flag::V6),
            (self.tie_tags != (0, 0), flag::TIED),
            (self.auth.is_some(), flag::AUTH),
            (own_random, flag::RANDOM),
            (self.adaptation.is_some(), flag::ADAPTATION),
            (!self.addresses.is_empty(), flag::ADDRESSES),
            (self.made.is_some(), flag::TIMED),
        ];
        let flags = flags.into_iter().filter(|(on, _)| *on).fold(0, |all, (_, flag)| all | flag);
        out.extend_from_slice(&[flags, self.extensions.bits(), folded(self.local)]);
        let expires = self.expires.as_nanos() / 1_000_000;
        for word in [expires as u32, self.peer_tag, self.local_tsn, self.peer_tsn, self.window] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for half in [self.outbound, self.inbound] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        write_octets(out, self.init_source);
        if self.tie_tags != (0, 0) {
            out.extend_from_slice(&self.tie_tags.0.to_be_bytes());
            out.extend_from_slice(&self.tie_tags.1.to_be_bytes());
        }
        if let Some(SealedAuth { random, peer }) = &self.auth {
            if own_random {
                out.extend_from_slice(random);
            }
            out.extend_from_slice(&peer.random);
            let chunks = peer.chunks.as_deref();
            out.extend_from_slice(&chunks.map_or(u16::MAX, |kinds| kinds.len() as u16).to_be_bytes());
            out.extend_from_slice(chunks.unwrap_or_default());
            out.extend_from_slice(&(peer.hmacs.len() as u16).to_be_bytes());
            out.extend_from_slice(&peer.hmacs);
        }
        if let Some(code) = self.adaptation {
            out.extend_from_slice(&code.to_be_bytes());
        }
        if !self.addresses.is_empty() {
            out.push(self.addresses.len() as u8);
        }
        for &address in &self.addresses {
            out.push(if address.is_ipv6() { 6 } else { 4 });
            write_octets(out, address);
        }
    }

    fn read(
        from: &mut Reader<'_>,
        now: Instant,
        context: CookieEchoContext<'_>,
        local: IpAddr,
        key: &[u8; 32],
    ) -> Option<Self> {
        let [flags, extensions, _] = from.take()?;
        let expires = from.word()?;
        let (peer_tag, local_tsn, peer_tsn, window) =
            (from.word()?, from.word()?, from.word()?, from.word()?);
        let (outbound, inbound) = (from.half()?, from.half()?);
        let init_source = from.octets(flags & flag::V6 != 0)?;
        let tied = flags & flag::TIED != 0;
        let tie_tags = if tied { (from.word()?, from.word()?) } else { (0, 0) };
        let CookieEchoContext { local_port, peer_port, local_tag, .. } = context;
        let mut auth = None;
        if flags & flag::AUTH != 0 {
            let own = flags & flag::RANDOM != 0;
            let random = if own { from.take()? } else { random_of(key, local_tag, peer_tag) };
            let theirs = from.take()?;
            let chunks = match from.half()? {
                u16::MAX => None,
                length => Some(from.bytes(length)?.to_vec()),
            };
            let length = from.half()?;
            let hmacs = from.bytes(length)?.to_vec();
            auth = Some(SealedAuth { random, peer: AuthParams { random: theirs, chunks, hmacs } });
        }
        let adaptation = if flags & flag::ADAPTATION != 0 { Some(from.word()?) } else { None };
        let count = if flags & flag::ADDRESSES != 0 { from.take::<1>()?[0] } else { 0 };
        let addresses = (0..count).map(|_| from.address()).collect::<Option<Vec<_>>>()?;
        // The cookie stores the low 32 bits of its expiry time in milliseconds. Its key is recent, so the cookie is
        // recent too. The expiry time is therefore the instant nearest to now that has these low bits.
        let now = now.as_nanos() / 1_000_000;
        let ahead = expires.wrapping_sub(now as u32) as i32;
        let expires = Instant::from_millis(now.checked_add_signed(ahead.into())?);
        Some(Self {
            expires,
            made: None,
            local_port,
            peer_port,
            local_tag,
            peer_tag,
            local_tsn,
            peer_tsn,
            window,
            outbound,
            inbound,
            tie_tags,
            extensions: Extensions::from_bits(extensions),
            auth,
            adaptation,
            init_source,
            local,
            addresses,
        })
    }
}

fn write_octets(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(v4) => out.extend_from_slice(&v4.octets()),
        IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn bytes(&mut self, length: u16) -> Option<&[u8]> {
        let (head, rest) = self.0.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(head)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn octets(&mut self, v6: bool) -> Option<IpAddr> {
        match v6 {
            false => self.take::<4>().map(|octets| Ipv4Addr::from(octets).into()),
            true => self.take::<16>().map(|octets| Ipv6Addr::from(octets).into()),
        }
    }

    fn address(&mut self) -> Option<IpAddr> {
        let [version] = self.take()?;
        self.octets(version == 6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(now: Instant) -> Cookie {
        Cookie {
            expires: CookieSigner::expiry(now, LIFE),
            made: Some(now),
            local_port: 80,
            peer_port: 5000,
            local_tag: 1,
            peer_tag: 2,
            local_tsn: 3,
            peer_tsn: 4,
            window: 5,
            outbound: 6,
            inbound: 7,
            tie_tags: (10, 11),
            extensions: Extensions::from_bits(1),
            auth: Some(SealedAuth {
                random: [7; 32],
                peer: AuthParams { random: [8; 32], chunks: Some(vec![0xc1]), hmacs: vec![0, 1] },
            }),
            adaptation: Some(9),
            init_source: [10, 0, 0, 1].into(),
            local: [10, 0, 0, 2].into(),
            addresses: vec![[10, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into()],
        }
    }

    /// Returns the smallest cookie, that is, the cookie for an INIT without optional parameters.
    fn least(now: Instant, v6: bool) -> Cookie {
        let init_source = if v6 { Ipv6Addr::LOCALHOST.into() } else { [10, 0, 0, 1].into() };
        let all = cookie(now);
        Cookie { tie_tags: (0, 0), auth: None, adaptation: None, addresses: Vec::new(), init_source, ..all }
    }

    /// The length in bytes of the fields that precede the INIT's source address in every cookie.
    const FIXED: usize = 28;
    const LIFE: Duration = Duration::from_secs(60);
    const LOCALS: [IpAddr; 3] = [
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)),
        // `folded` maps this address and the next address to the same byte.
        IpAddr::V4(Ipv4Addr::new(10, 0, 2, 0)),
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    ];
    const CONTEXT: CookieEchoContext<'static> =
        CookieEchoContext { local_port: 80, peer_port: 5000, local_tag: 1, local_addresses: &LOCALS };

    fn at(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }

    /// RFC 9260 §5.1.5, steps 1, 2 and 4: a cookie is good until it expires and stale afterwards. A cookie is rejected
    /// if it is forged, shortened, or signed with a discarded key.
    #[test]
    fn good_stale_forged_and_forgotten() {
        let mut sealer = CookieSigner::new(Rng::new(1), Duration::from_secs(60));
        for made in [cookie(at(1)), least(at(1), false), least(at(1), true)] {
            let mut sealer = CookieSigner::new(Rng::new(1), Duration::from_secs(60));
            let sealed = sealer.seal(at(1), &made);
            assert_eq!(sealer.open(at(61), &sealed, CONTEXT), Some(VerifiedCookie::Good(made.clone())));
            let stale = Some(VerifiedCookie::Stale(made.clone(), Duration::from_secs(1)));
            assert_eq!(sealer.open(at(62), &sealed, CONTEXT), stale);
            for i in 0..sealed.len() {
                for bit in 0..8 {
                    let mut forged = sealed.clone();
                    forged[i] ^= 1 << bit;
                    assert_eq!(sealer.open(at(2), &forged, CONTEXT), None, "byte {i}");
                }
                assert_eq!(sealer.open(at(2), &sealed[..i], CONTEXT), None);
            }
        }
        // A cookie can be opened after one change of keys, but not after two changes.
        let sealed = sealer.seal(at(1), &cookie(at(1)));
        assert!(matches!(sealer.open(at(130), &sealed, CONTEXT), Some(VerifiedCookie::Stale(..))));
        assert_eq!(sealer.open(at(260), &sealed, CONTEXT), None);
        let mut other = CookieSigner::new(Rng::new(2), Duration::from_secs(60));
        assert_eq!(other.open(at(1), &sealed, CONTEXT), None);
    }

    /// A cookie is valid only with its ports and its tag, and only while the endpoint has the local address to which
    /// the INIT was sent.
    #[test]
    fn the_signature_covers_ports_tag_and_local_address() {
        let mut sealer = CookieSigner::new(Rng::new(1), Duration::from_secs(60));
        let sealed = sealer.seal(at(1), &cookie(at(1)));
        for context in [
            CookieEchoContext { local_port: 81, ..CONTEXT },
            CookieEchoContext { peer_port: 5001, ..CONTEXT },
            CookieEchoContext { local_port: 5000, peer_port: 80, ..CONTEXT },
            CookieEchoContext { local_tag: 2, ..CONTEXT },
            CookieEchoContext { local_addresses: &LOCALS[..2], ..CONTEXT },
            CookieEchoContext { local_addresses: &[], ..CONTEXT },
        ] {
            assert_eq!(sealer.open(at(1), &sealed, context), None, "{context:?}");
        }
        assert!(sealer.open(at(1), &sealed, CONTEXT).is_some());
    }

    /// RFC 4895 §6.1: the random number is derived from the tags when the cookie is opened, so it takes no space in the
    /// cookie.
    #[test]
    fn a_random_number_is_found_again() {
        let mut sealer = CookieSigner::new(Rng::new(1), Duration::from_secs(60));
        let other = sealer.seal(at(1), &cookie(at(1))).len();
        let mut made = cookie(at(1));
        let random = sealer.random(at(1), made.local_tag, made.peer_tag);
        assert_ne!(random, sealer.random(at(1), made.local_tag, made.peer_tag + 1));
        made.auth.as_mut().expect("it has").random = random;
        let sealed = sealer.seal(at(1), &made);
        assert_eq!(sealed.len(), other - RANDOM);
        assert_eq!(sealer.open(at(1), &sealed, CONTEXT), Some(VerifiedCookie::Good(made)));
    }

    /// The smallest cookie is short enough that the INIT ACK is at most three times as long as the smallest INIT. The
    /// INIT ACK consists of 32 bytes, a parameter header and the cookie.
    #[test]
    fn the_least_cookie() {
        let mut sealer = CookieSigner::new(Rng::new(1), Duration::from_secs(60));
        for (v6, bytes) in [(false, FIXED + 4 + MAC), (true, FIXED + 16 + MAC)] {
            let sealed = sealer.seal(at(1), &least(at(1), v6));
            assert_eq!(sealed.len(), bytes);
            assert!(32 + 4 + sealed.len().next_multiple_of(4) <= 3 * 32);
        }
    }

    /// The expiry time is decoded correctly even when the 32-bit counter of milliseconds wraps, which happens every 50
    /// days.
    #[test]
    fn milliseconds_wrap() {
        let mut sealer = CookieSigner::new(Rng::new(1), Duration::from_secs(60));
        let now = Instant::from_millis((1 << 32) - 30_000);
        let made = cookie(now);
        let sealed = sealer.seal(now, &made);
        let later = now + Duration::from_secs(50);
        assert_eq!(sealer.open(later, &sealed, CONTEXT), Some(VerifiedCookie::Good(made.clone())));
        let late = now + Duration::from_secs(70);
        assert_eq!(
            sealer.open(late, &sealed, CONTEXT),
            Some(VerifiedCookie::Stale(made, Duration::from_secs(10)))
        );
        // A lifetime above `MAX_LIFE` is reduced to `MAX_LIFE`.
        let life = Duration::from_secs(1 << 40);
        let mut sealer = CookieSigner::new(Rng::new(1), life);
        let expires = CookieSigner::expiry(at(1), life);
        let made = Cookie { expires, made: sealer.time_made(at(1), expires), ..cookie(at(1)) };
        assert_eq!(made.made, Some(at(1)));
        let sealed = sealer.seal(at(1), &made);
        assert_eq!(sealer.open(at(1), &sealed, CONTEXT), Some(VerifiedCookie::Good(made.clone())));
        let days = |days: u64| at(1 + days * 24 * 3600);
        assert_eq!(sealer.open(days(7), &sealed, CONTEXT), Some(VerifiedCookie::Good(made)));
        assert!(matches!(sealer.open(days(27), &sealed, CONTEXT), Some(VerifiedCookie::Stale(..))));
        assert_eq!(sealer.open(days(57), &sealed, CONTEXT), None, "two keys later");
    }

    /// RFC 9260 §6.3.1 C2: a cookie of the signer's lifetime shows its age, which is rounded up. A cookie of another
    /// lifetime, a cookie from the future and a COOKIE ECHO on another path show none.
    #[test]
    fn the_age_of_a_cookie_is_a_round_trip() {
        let mut sealer = CookieSigner::new(Rng::new(1), LIFE);
        let (us, ms) = (Duration::from_micros, Duration::from_millis);
        let [source, other, local] = [[10, 0, 0, 1], [10, 0, 0, 9], [10, 0, 0, 2]].map(IpAddr::from);
        let mut sample = |sent: Instant, life: Duration, arrived: Instant, source, target| {
            let expires = CookieSigner::expiry(sent, life);
            let made = Cookie { expires, made: sealer.time_made(sent, expires), ..cookie(sent) };
            let sealed = sealer.seal(sent, &made);
            let Some(VerifiedCookie::Good(opened)) = sealer.open(arrived, &sealed, CONTEXT) else {
                panic!("a valid cookie")
            };
            assert_eq!(opened, made);
            opened.round_trip(arrived, source, target)
        };
        for sent in [at(1), at(1) + us(1), at(1) + us(999)] {
            for rtt in [us(1), us(50), us(900), ms(1), us(80_123), ms(59_998)] {
                let found = sample(sent, LIFE, sent + rtt, source, local).expect("a sample");
                assert!(found >= ms(1) && found > rtt && found <= rtt + ms(1), "{sent:?} {rtt:?} {found:?}");
            }
            assert_eq!(sample(sent, LIFE + ms(1), sent + ms(20), source, local), None, "a preserved cookie");
            assert_eq!(sample(sent, LIFE, sent + ms(20), other, local), None, "from another address");
            assert_eq!(sample(sent, LIFE, sent + ms(20), source, other), None, "to another address");
        }
        // The clock has been set back, or the cookie was made by another clock.
        assert_eq!(sample(at(9), LIFE, at(8), source, local), None);
        assert_eq!(sample(at(9), LIFE, at(9) - us(1_500), source, local), None);
    }

    #[test]
    fn keys_do_not_show() {
        let sealer = CookieSigner::new(Rng::new(1), Duration::from_secs(60));
        let shown = format!("{sealer:?}");
        assert!(!shown.contains(&format!("{:?}", sealer.current)) && shown.len() < 60, "{shown}");
    }
}
