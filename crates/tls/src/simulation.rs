//! The source of TLS secrets and of the time of day in a simulation: the seed and the virtual clock.
//!
//! TLS draws randomness and reads the clock inside calls that have no parameters for them. Therefore each call of a
//! session in a simulation runs within a scope that holds a source of randomness and a clock
//! ([`Surroundings::within`]). The cryptographic provider of simulations takes both from the scope. Outside a scope the
//! provider returns an error, so every handshake fails. A session on a real network therefore cannot use this provider
//! by mistake.
//!
//! Signatures are Ed25519, so the key and the message determine their bytes. The secrets of the key exchange (X25519,
//! RFC 7748) are drawn from the seed. A simulation whose ciphertext nobody reads can use placeholders for the cipher,
//! the key exchange and the signatures of handshakes ([`Encryption`]). Everything else is the same as in the provider
//! for real networks.

use crate::hybrid::Hybrid;
use crate::scope::{self, Encryption, Simulation, draw};
use crate::{placeholder, signatures};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{Error, NamedGroup, PeerMisbehaved};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use x25519_dalek::{PublicKey, StaticSecret};

/// The time of day at the start of a simulation: 1 January 2026, 0:00 UTC, in seconds since 1970.
const BEGINS: u64 = 1_767_225_600;

/// The source from which a TLS session takes its random numbers and the time of day.
#[derive(Clone, Default)]
pub enum Surroundings {
    /// The operating system's randomness and clock.
    #[default]
    Real,
    /// The seed and the virtual clock of a simulation.
    Simulated(Simulation),
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Real => f.write_str("Real"),
            Self::Simulated(simulation) => simulation.fmt(f),
        }
    }
}

impl Surroundings {
    /// Returns the cryptographic provider that uses this source.
    pub(crate) fn provider(&self) -> CryptoProvider {
        match self {
            Self::Real => rustls::crypto::ring::default_provider(),
            Self::Simulated(simulation) => provider(simulation.encryption),
        }
    }

    /// Returns the group X25519MLKEM768 with random numbers of this source.
    pub(crate) fn hybrid(&self) -> &'static dyn SupportedKxGroup {
        static REAL: Hybrid =
            Hybrid { x25519: rustls::crypto::ring::kx_group::X25519, random: fill, computes: true };
        static SEEDED: Hybrid = Hybrid { x25519: &SeededX25519, random: draw, computes: true };
        static PLACEHOLDER: Hybrid = Hybrid { x25519: &PlaceholderX25519, random: draw, computes: false };
        match self {
            Self::Real => &REAL,
            Self::Simulated(simulation) if simulation.encryption == Encryption::Real => &SEEDED,
            Self::Simulated(_) => &PLACEHOLDER,
        }
    }

    /// Returns whether records are encrypted with the placeholder cipher.
    #[must_use]
    pub fn uses_placeholder(&self) -> bool {
        matches!(self, Self::Simulated(simulation) if simulation.encryption == Encryption::Placeholder)
    }

    /// Returns the clock from which TLS reads the time of day: the operating system's clock or the clock of the
    /// simulation.
    pub(crate) fn clock(&self) -> Arc<dyn TimeProvider> {
        match self {
            Self::Real => Arc::new(rustls::time_provider::DefaultTimeProvider),
            Self::Simulated(_) => Arc::new(VirtualClock),
        }
    }

    /// Runs `work`. The random numbers that `work` draws and the time that it reads come from this source.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Real => work(),
            Self::Simulated(simulation) => scope::within(simulation, work),
        }
    }
}

/// Returns the provider of simulations. It differs from ring's provider in the source of randomness, the key exchange, and
/// the verification of signatures. If `encryption` says so, the cipher and the signatures of servers differ too.
fn provider(encryption: Encryption) -> CryptoProvider {
    let (suite, group): (_, &dyn SupportedKxGroup) = match encryption {
        Encryption::Real => (TLS13_AES_128_GCM_SHA256, &SeededX25519),
        Encryption::Placeholder => (placeholder::suite(), &PlaceholderX25519),
    };
    CryptoProvider {
        cipher_suites: vec![suite],
        kx_groups: vec![group],
        signature_verification_algorithms: signatures::algorithms(encryption),
        secure_random: &SeededRandom,
        key_provider: signatures::keys(encryption),
    }
}

/// Fills a buffer with random numbers of the operating system.
fn fill(out: &mut [u8]) -> Result<(), GetRandomFailed> {
    rustls::crypto::ring::default_provider().secure_random.fill(out)
}

#[derive(Debug)]
struct SeededRandom;

impl SecureRandom for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<(), GetRandomFailed> {
        draw(out)
    }
}

#[derive(Debug)]
struct VirtualClock;

impl TimeProvider for VirtualClock {
    fn current_time(&self) -> Option<UnixTime> {
        let now = scope::now()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(BEGINS) + Duration::from_nanos(now.as_nanos())))
    }
}

/// The X25519 key exchange. Its private keys are drawn from the randomness of the simulation.
#[derive(Debug)]
struct SeededX25519;

impl SupportedKxGroup for SeededX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = [0; 32];
        draw(&mut secret)?;
        let secret = StaticSecret::from(secret);
        Ok(Box::new(Exchange { public: PublicKey::from(&secret), secret }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Exchange {
    secret: StaticSecret,
    public: PublicKey,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| Error::from(PeerMisbehaved::InvalidKeyShare))?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        // RFC 7748 §6.1: a peer's key of small order gives an all-zero shared secret, and is refused.
        if !shared.was_contributory() {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(SharedSecret::from(&shared.as_bytes()[..]))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }
}

/// The placeholder for X25519. It draws as many random bytes and its public keys have the same size, but it hashes where
/// X25519 multiplies. The shared secret is no secret: it depends only on the public keys.
#[derive(Debug)]
struct PlaceholderX25519;

impl SupportedKxGroup for PlaceholderX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = [0; 32];
        draw(&mut secret)?;
        Ok(Box::new(PlaceholderExchange(Sha256::digest(secret).into())))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// A placeholder for a key exchange, with its public key.
struct PlaceholderExchange([u8; 32]);

impl ActiveKeyExchange for PlaceholderExchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| Error::from(PeerMisbehaved::InvalidKeyShare))?;
        let both = [self.0.min(peer), self.0.max(peer)];
        Ok(SharedSecret::from(&Sha256::digest(both.concat())[..]))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }

    fn pub_key(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::{Instant, Rng};

    fn simulated(seed: u64) -> Surroundings {
        Surroundings::Simulated(Simulation::new(Rng::new(seed), || Instant::from_millis(1_500)))
    }

    #[test]
    fn outside_of_virtual_time_there_is_no_randomness_and_no_time() {
        let provider = provider(Encryption::Real);
        assert!(provider.secure_random.fill(&mut [0; 4]).is_err());
        assert!(provider.kx_groups[0].start().is_err());
        assert_eq!(VirtualClock.current_time(), None);
        // `Surroundings::Real` is not a simulation, so the provider for simulations has no random numbers within it
        // either.
        Surroundings::Real.within(|| assert!(provider.secure_random.fill(&mut [0; 4]).is_err()));
    }

    #[test]
    fn inside_the_seed_decides() {
        let drawn = |seed| {
            let mut out = [0; 16];
            simulated(seed).within(|| SeededRandom.fill(&mut out)).expect("randomness");
            out
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let now = simulated(1).within(|| VirtualClock.current_time()).expect("a time");
        assert_eq!(now.as_secs(), BEGINS + 1);
        // When the inner `within` returns, the scope of the outer `within` is current again.
        let inner = simulated(2);
        simulated(1).within(|| {
            inner.within(|| ());
            assert!(SeededRandom.fill(&mut [0; 4]).is_ok());
        });
        assert!(SeededRandom.fill(&mut [0; 4]).is_err());
    }

    #[test]
    fn two_ends_agree_and_a_key_of_small_order_is_refused() {
        let (near, far) = simulated(3).within(|| (SeededX25519.start(), SeededX25519.start()));
        let (near, far) = (near.expect("a key"), far.expect("a key"));
        let (to_far, to_near) = (near.pub_key().to_vec(), far.pub_key().to_vec());
        let (here, there) =
            (near.complete(&to_near).expect("agreed"), far.complete(&to_far).expect("agreed"));
        assert_eq!(here.secret_bytes(), there.secret_bytes());
        let lone = simulated(3).within(|| SeededX25519.start()).expect("a key");
        assert!(lone.complete(&[0; 32]).is_err());
    }
}
