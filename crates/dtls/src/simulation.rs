//! The cryptography of virtual time: the library's, with randomness and key exchange from the seed.
//!
//! Signatures are ECDSA with nonces that follow from key and message (RFC 6979, which is what the library has); secrets of
//! the key exchange (X25519, RFC 7748) are drawn. Both sources give nothing outside of a call in virtual time, so that every
//! handshake fails: a real connection cannot come to use them.

use crate::provider;
use anabranch_base::time::Duration;
use anabranch_tls::draw_seeded;
use dimpl::crypto::{ActiveKeyExchange, Buf, CryptoProvider, NamedGroup, SecureRandom, SupportedKxGroup};
use dimpl::{CryptoError, CryptoOperation};
use std::sync::LazyLock;
use std::time::{Instant, SystemTime};
use x25519_dalek::{PublicKey, StaticSecret};

/// The library's, with the source of randomness and the key exchange replaced.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider { kx_groups: &[&SeededX25519], secure_random: &SeededRandom, ..provider::common() }
}

/// What the library is told is the instant at which virtual time begins.
///
/// It asks the clock of the system one thing: DTLS 1.2 puts the time of day, in seconds, into its hellos (RFC 5246 §7.4.1.2).
/// So the beginning is the instant whose time of day, counted in 32 bits, is 1 January 2026. Half a second keeps it clear of
/// the next one.
#[expect(clippy::disallowed_methods, reason = "what comes of it is the same whenever it is asked")]
pub(crate) static BEGINNING: LazyLock<Instant> = LazyLock::new(|| {
    let then = Duration::from_secs(1_767_225_600 + (1 << 32)) + Duration::from_millis(500);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Instant::now() + then.saturating_sub(now)
});

#[derive(Debug)]
struct SeededRandom;

impl SecureRandom for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<(), CryptoError> {
        draw(out, CryptoOperation::FillRandom)
    }
}

fn draw(out: &mut [u8], operation: CryptoOperation) -> Result<(), CryptoError> {
    if draw_seeded(out) { Ok(()) } else { Err(CryptoError::OperationFailed(operation)) }
}

/// X25519 with drawn secrets.
#[derive(Debug)]
struct SeededX25519;

impl SupportedKxGroup for SeededX25519 {
    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }

    fn start_exchange(&self, _: Buf) -> Result<Box<dyn ActiveKeyExchange>, CryptoError> {
        let mut secret = [0; 32];
        draw(&mut secret, CryptoOperation::GenerateEphemeralKey)?;
        let secret = StaticSecret::from(secret);
        Ok(Box::new(Exchange { public: PublicKey::from(&secret), secret }))
    }
}

struct Exchange {
    secret: StaticSecret,
    public: PublicKey,
}

impl std::fmt::Debug for Exchange {
    /// Never the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

impl ActiveKeyExchange for Exchange {
    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn complete(self: Box<Self>, peer: &[u8], out: &mut Buf) -> Result<(), CryptoError> {
        let wrong = CryptoError::InvalidPublicKey(NamedGroup::X25519);
        let Ok(peer) = <[u8; 32]>::try_from(peer) else { return Err(wrong) };
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        // RFC 7748 §6.1: a peer's key of small order gives zeros, and is refused.
        if !shared.was_contributory() {
            return Err(wrong);
        }
        out.clear();
        out.extend_from_slice(shared.as_bytes());
        Ok(())
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::{Instant, Rng};
    use anabranch_tls::{Simulation, Surroundings};

    #[test]
    fn outside_of_virtual_time_there_is_no_randomness() {
        let provider = provider();
        assert!(provider.secure_random.fill(&mut [0; 4]).is_err());
        assert!(provider.kx_groups.iter().all(|group| group.start_exchange(Buf::new()).is_err()));
        // The scope of a real connection gives none, either.
        Surroundings::Real.within(|| assert!(provider.secure_random.fill(&mut [0; 4]).is_err()));
        let simulation = Simulation::new(Rng::new(1), || Instant::ZERO);
        let simulated = Surroundings::Simulated(simulation);
        simulated.within(|| assert!(provider.secure_random.fill(&mut [0; 4]).is_ok()));
    }

    #[test]
    fn a_key_of_small_order_is_refused() {
        let simulated = Surroundings::Simulated(Simulation::new(Rng::new(1), || Instant::ZERO));
        let lone = simulated.within(|| SeededX25519.start_exchange(Buf::new())).expect("a key");
        assert!(lone.complete(&[0; 32], &mut Buf::new()).is_err());
    }
}
