//! The State Cookie: sealed, opened, and when it is too old.
//!
//! All that a responder needs to know of an association that does not exist
//! yet, signed with a key that only this endpoint has. Keys are changed from
//! time to time; the one before is kept for cookies that are on their way.
//!
//! Home of RFC 9260 §5.1.3 and §5.1.5.

use crate::association::auth::keys::{RANDOM, Said};
use crate::association::extensions::Extensions;
use crate::config::Config;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Instant, Rng};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a cookie says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Cookie {
    pub(crate) created: Instant,
    pub(crate) life: Duration,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    pub(crate) local_tsn: u32,
    pub(crate) peer_tsn: u32,
    /// The peer's a_rwnd.
    pub(crate) window: u32,
    /// Streams as the INIT ACK granted them.
    pub(crate) outbound: u16,
    pub(crate) inbound: u16,
    /// Streams as the INIT asked for them.
    pub(crate) peer_outbound: u16,
    pub(crate) peer_inbound: u16,
    /// RFC 9260 §5.2.2: local and peer's Tie-Tag, 0 for none.
    pub(crate) tie_tags: (u32, u32),
    /// What the peer supports.
    pub(crate) extensions: Extensions,
    /// What authentication needs of both sides.
    pub(crate) auth: Option<SealedAuth>,
    /// What runs above the peer.
    pub(crate) adaptation: Option<u32>,
    /// Where the INIT came from.
    pub(crate) init_source: IpAddr,
    /// The local address it came to.
    pub(crate) local: IpAddr,
    /// The addresses that the INIT listed.
    pub(crate) addresses: Vec<IpAddr>,
}

/// RFC 4895 §6.3: what a responder without memory needs to check an AUTH. No
/// endpoint pair shared key is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SealedAuth {
    /// The random number of this side; what else it says never changes.
    pub(crate) random: [u8; RANDOM],
    /// What the peer has said.
    pub(crate) peer: Said,
}

impl SealedAuth {
    /// What this side has said.
    pub(crate) fn ours(&self, config: &Config) -> Said {
        Said::ours(config, self.random)
    }
}

/// What became of a cookie that was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Opened {
    /// It is good.
    Good(Cookie),
    /// It was ours, but by so much too old.
    Stale(Cookie, Duration),
}

/// The keys.
#[derive(Debug)]
pub(crate) struct Sealer {
    rng: Rng,
    generation: u8,
    current: [u8; 32],
    previous: Option<[u8; 32]>,
    changed: Instant,
    period: Duration,
}

const MAC: usize = 32;

impl Sealer {
    pub(crate) fn new(mut rng: Rng, cookie_life: Duration) -> Self {
        let mut current = [0; 32];
        rng.fill(&mut current);
        // Long enough that no cookie outlives two keys by much.
        let period = cookie_life.saturating_mul(2).max(Duration::from_secs(60));
        Self { rng, generation: 0, current, previous: None, changed: Instant::ZERO, period }
    }

    fn rotate(&mut self, now: Instant) {
        if now - self.changed < self.period {
            return;
        }
        // After a long silence even the current key is too old to be kept.
        self.previous = (now - self.changed < self.period.saturating_mul(2)).then_some(self.current);
        self.rng.fill(&mut self.current);
        self.generation = self.generation.wrapping_add(1);
        self.changed = now;
    }

    /// RFC 9260 §5.1.3: the cookie with its signature.
    pub(crate) fn seal(&mut self, now: Instant, cookie: &Cookie) -> Vec<u8> {
        self.rotate(now);
        let mut bytes = vec![self.generation];
        cookie.write(&mut bytes);
        let mac = Self::mac(&self.current, &bytes);
        bytes.extend_from_slice(&mac.finalize().into_bytes());
        bytes
    }

    /// RFC 9260 §5.1.5: `None` is discarded in silence.
    pub(crate) fn open(&mut self, now: Instant, bytes: &[u8]) -> Option<Opened> {
        self.rotate(now);
        let (body, signature) = bytes.split_at_checked(bytes.len().checked_sub(MAC)?)?;
        let key = match self.generation.wrapping_sub(*body.first()?) {
            0 => &self.current,
            1 => self.previous.as_ref()?,
            _ => return None,
        };
        // Compared in constant time.
        Self::mac(key, body).verify_slice(signature).ok()?;
        let cookie = Cookie::read(&mut Reader(&body[1..]))?;
        let age = now - cookie.created;
        Some(match age.checked_sub(cookie.life) {
            Some(over) if !over.is_zero() => Opened::Stale(cookie, over),
            _ => Opened::Good(cookie),
        })
    }

    fn mac(key: &[u8; 32], bytes: &[u8]) -> Hmac<Sha256> {
        // The block size of SHA-256 is 64: a key of 32 bytes is padded as RFC 2104 §2 says,
        // which is what `new` does, without the length check of `new_from_slice`.
        let mut block = [0; 64];
        block[..32].copy_from_slice(key);
        let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new(&block.into());
        mac.update(bytes);
        mac
    }
}

impl Cookie {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.created.as_nanos().to_be_bytes());
        out.extend_from_slice(&nanos(self.life).to_be_bytes());
        for half in [
            self.local_port,
            self.peer_port,
            self.outbound,
            self.inbound,
            self.peer_outbound,
            self.peer_inbound,
        ] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        for word in [
            self.local_tag,
            self.peer_tag,
            self.local_tsn,
            self.peer_tsn,
            self.window,
            self.tie_tags.0,
            self.tie_tags.1,
        ] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        self.write_extensions(out);
        out.push(self.extensions.bits());
        out.push(self.addresses.len() as u8);
        for &address in [self.init_source, self.local].iter().chain(&self.addresses) {
            match address {
                IpAddr::V4(v4) => {
                    out.push(4);
                    out.extend_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    out.push(6);
                    out.extend_from_slice(&v6.octets());
                }
            }
        }
    }

    /// What only extensions need: a byte tells what follows.
    fn write_extensions(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.auth.is_some()) | u8::from(self.adaptation.is_some()) << 1);
        if let Some(SealedAuth { random, peer }) = &self.auth {
            out.extend_from_slice(random);
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
    }

    fn read_extensions(from: &mut Reader<'_>) -> Option<(Option<SealedAuth>, Option<u32>)> {
        let [present] = from.take()?;
        let mut auth = None;
        if present & 1 != 0 {
            let (random, theirs) = (from.take()?, from.take()?);
            let chunks = match from.half()? {
                u16::MAX => None,
                length => Some(from.bytes(length)?.to_vec()),
            };
            let length = from.half()?;
            let hmacs = from.bytes(length)?.to_vec();
            auth = Some(SealedAuth { random, peer: Said { random: theirs, chunks, hmacs } });
        }
        let adaptation = if present & 2 != 0 { Some(from.word()?) } else { None };
        Some((auth, adaptation))
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let created = Instant::from_nanos(u64::from_be_bytes(from.take()?));
        let life = Duration::from_nanos(u64::from_be_bytes(from.take()?));
        let (local_port, peer_port) = (from.half()?, from.half()?);
        let (outbound, inbound) = (from.half()?, from.half()?);
        let (peer_outbound, peer_inbound) = (from.half()?, from.half()?);
        let (local_tag, peer_tag) = (from.word()?, from.word()?);
        let (local_tsn, peer_tsn) = (from.word()?, from.word()?);
        let window = from.word()?;
        let tie_tags = (from.word()?, from.word()?);
        let (auth, adaptation) = Self::read_extensions(from)?;
        let [extensions, count] = from.take()?;
        let init_source = from.address()?;
        let local = from.address()?;
        let addresses = (0..count).map(|_| from.address()).collect::<Option<Vec<_>>>()?;
        Some(Self {
            created,
            life,
            local_port,
            peer_port,
            local_tag,
            peer_tag,
            local_tsn,
            peer_tsn,
            window,
            outbound,
            inbound,
            peer_outbound,
            peer_inbound,
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

    fn address(&mut self) -> Option<IpAddr> {
        match self.take::<1>()? {
            [4] => self.take::<4>().map(|octets| Ipv4Addr::from(octets).into()),
            [6] => self.take::<16>().map(|octets| Ipv6Addr::from(octets).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie(created: Instant) -> Cookie {
        Cookie {
            created,
            life: Duration::from_secs(60),
            local_port: 80,
            peer_port: 5000,
            local_tag: 1,
            peer_tag: 2,
            local_tsn: 3,
            peer_tsn: 4,
            window: 5,
            outbound: 6,
            inbound: 7,
            peer_outbound: 8,
            peer_inbound: 9,
            tie_tags: (10, 11),
            extensions: Extensions::from_bits(1),
            auth: Some(SealedAuth {
                random: [7; 32],
                peer: Said { random: [8; 32], chunks: Some(vec![0xc1]), hmacs: vec![0, 1] },
            }),
            adaptation: Some(9),
            init_source: [10, 0, 0, 1].into(),
            local: [10, 0, 0, 2].into(),
            addresses: vec![[10, 0, 0, 1].into(), Ipv6Addr::LOCALHOST.into()],
        }
    }

    /// RFC 9260 §5.1.5: steps 1, 2 and 4.
    #[test]
    fn good_stale_forged_and_forgotten() {
        let mut sealer = Sealer::new(Rng::new(1), Duration::from_secs(60));
        let at = |s: u64| Instant::from_millis(s * 1000);
        let made = cookie(at(1));
        let sealed = sealer.seal(at(1), &made);
        assert_eq!(sealer.open(at(61), &sealed), Some(Opened::Good(made.clone())));
        assert_eq!(sealer.open(at(62), &sealed), Some(Opened::Stale(made.clone(), Duration::from_secs(1))));
        for i in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[i] ^= 1;
            assert_eq!(sealer.open(at(2), &forged), None, "byte {i}");
            assert_eq!(sealer.open(at(2), &sealed[..i]), None);
        }
        // One change of keys is survived, two are not.
        assert!(matches!(sealer.open(at(130), &sealed), Some(Opened::Stale(..))));
        assert_eq!(sealer.open(at(260), &sealed), None);
        let mut other = Sealer::new(Rng::new(2), Duration::from_secs(60));
        assert_eq!(other.open(at(1), &sealed), None);
    }
}
