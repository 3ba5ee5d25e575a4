//! X25519MLKEM768, the key exchange that browsers and large servers use by default
//! (draft-ietf-tls-ecdhe-mlkem): ML-KEM-768 (FIPS 203) beside X25519.
//!
//! Its key shares are large: with them a ClientHello has more than a packet. A QUIC client then sends two datagrams at
//! once, and RFC 9000 §8.1 allows the server three times their size before it has validated the client's address. A
//! certificate chain that costs a round trip with X25519 alone may cost none.
//!
//! The source of the random numbers is an argument, so a simulation draws them from its seed.

use ml_kem::{Decapsulate as _, DecapsulationKey, EncapsulationKey, KeyExport as _, MlKem768};
use rustls::crypto::{
    ActiveKeyExchange, CompletedKeyExchange, GetRandomFailed, SharedSecret, SupportedKxGroup,
};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved};
use sha2::{Digest as _, Sha256};

/// FIPS 203 §8: the sizes of ML-KEM-768's encapsulation key and ciphertext in bytes.
const ENCAPSULATION_KEY: usize = 1_184;
const CIPHERTEXT: usize = 1_088;
/// FIPS 203 §7.1, §7.2: the random bytes for a key pair (d and z), and for a shared secret (m).
const KEY_SEED: usize = 64;
const SECRET_SEED: usize = 32;

/// The key exchange of [`crate::KeyExchange::X25519MlKem768`].
pub(crate) struct Hybrid {
    /// The X25519 part.
    pub x25519: &'static dyn SupportedKxGroup,
    /// Fills a buffer with random bytes.
    pub random: fn(&mut [u8]) -> Result<(), GetRandomFailed>,
    /// Whether ML-KEM is computed. Otherwise, a hash takes its place: it draws as many random bytes, and its values have
    /// the same sizes.
    pub computes: bool,
}

impl std::fmt::Debug for Hybrid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hybrid").field("computes", &self.computes).finish_non_exhaustive()
    }
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let x25519 = self.x25519.start()?;
        let mut seed = [0; KEY_SEED];
        (self.random)(&mut seed)?;
        let (key, share) = match self.computes {
            true => {
                let key = DecapsulationKey::<MlKem768>::from_seed(seed.into());
                let share = key.encapsulation_key().to_bytes().to_vec();
                (Some(Box::new(key)), share)
            }
            false => (None, placeholder(&seed, ENCAPSULATION_KEY)),
        };
        // draft-ietf-tls-ecdhe-mlkem, on X25519MLKEM768: ML-KEM's part precedes that of X25519, in shares and in the secret.
        let share = [&share, x25519.pub_key()].concat();
        Ok(Box::new(Exchange { x25519, key, share }))
    }

    fn start_and_complete(&self, peer: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (encapsulation_key, x25519) = split::<ENCAPSULATION_KEY>(peer)?;
        let x25519 = self.x25519.start_and_complete(x25519)?;
        let mut seed = [0; SECRET_SEED];
        (self.random)(&mut seed)?;
        let (ciphertext, secret) = match self.computes {
            true => {
                // FIPS 203 §7.2: a key whose coefficients are not reduced is refused.
                let key = EncapsulationKey::<MlKem768>::new(&(*encapsulation_key).into());
                let (ciphertext, secret) =
                    key.map_err(|_| invalid())?.encapsulate_deterministic(&seed.into());
                (ciphertext.to_vec(), secret.to_vec())
            }
            false => {
                let ciphertext = placeholder(&seed, CIPHERTEXT);
                let secret = placeholder_secret(&ciphertext);
                (ciphertext, secret)
            }
        };
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&ciphertext[..], &x25519.pub_key].concat(),
            secret: SharedSecret::from(&[&secret, x25519.secret.secret_bytes()].concat()[..]),
        })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// A client's key exchange that waits for the server's share.
struct Exchange {
    x25519: Box<dyn ActiveKeyExchange>,
    /// `None` if a placeholder takes the place of ML-KEM.
    key: Option<Box<DecapsulationKey<MlKem768>>>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, x25519) = split::<CIPHERTEXT>(peer)?;
        let x25519 = self.x25519.complete(x25519)?;
        let secret = match self.key {
            Some(key) => key.decapsulate(&(*ciphertext).into()).to_vec(),
            None => placeholder_secret(ciphertext),
        };
        Ok(SharedSecret::from(&[&secret, x25519.secret_bytes()].concat()[..]))
    }

    // The client also offers X25519 alone, for servers that do not support this group, as browsers do.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.x25519.group(), self.x25519.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        self.x25519.complete(peer)
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }
}

/// Splits a share into the part of ML-KEM, which has `N` bytes, and that of X25519.
fn split<const N: usize>(share: &[u8]) -> Result<(&[u8; N], &[u8]), Error> {
    share.split_first_chunk().ok_or_else(invalid)
}

fn invalid() -> Error {
    PeerMisbehaved::InvalidKeyShare.into()
}

/// Returns a placeholder for a value of ML-KEM with `size` bytes.
fn placeholder(seed: &[u8], size: usize) -> Vec<u8> {
    let mut value = Sha256::digest(seed).to_vec();
    value.resize(size, 0);
    value
}

/// Returns the placeholder of the shared secret. It is no secret.
fn placeholder_secret(ciphertext: &[u8]) -> Vec<u8> {
    Sha256::digest(ciphertext).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(out: &mut [u8]) -> Result<(), GetRandomFailed> {
        out.iter_mut().zip(0..).for_each(|(byte, at)| *byte = at);
        Ok(())
    }

    fn hybrid(computes: bool) -> Hybrid {
        Hybrid { x25519: rustls::crypto::ring::kx_group::X25519, random: counted, computes }
    }

    #[test]
    fn both_ends_agree_and_shares_have_the_sizes_of_the_draft() {
        for computes in [true, false] {
            let client = hybrid(computes).start().expect("a key");
            assert_eq!(client.pub_key().len(), 1_216);
            let server = hybrid(computes).start_and_complete(client.pub_key()).expect("agreed");
            assert_eq!(server.pub_key.len(), 1_120);
            let secret = client.complete(&server.pub_key).expect("agreed");
            assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
            assert_eq!(secret.secret_bytes().len(), 64);
        }
    }

    #[test]
    fn a_server_with_x25519_alone_takes_the_other_share() {
        let client = hybrid(true).start().expect("a key");
        let (group, share) = client.hybrid_component().expect("two shares");
        assert_eq!(group, NamedGroup::X25519);
        let server = rustls::crypto::ring::kx_group::X25519.start_and_complete(share).expect("agreed");
        let secret = client.complete_hybrid_component(&server.pub_key).expect("agreed");
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
    }

    #[test]
    fn broken_shares_are_refused() {
        let client = || hybrid(true).start().expect("a key");
        let share = client().pub_key().to_vec();
        assert!(hybrid(true).start_and_complete(&share[..1_000]).is_err());
        assert!(hybrid(true).start_and_complete(&share[..1_200]).is_err(), "X25519's part is short");
        // FIPS 203 §7.2: three bytes hold two coefficients; 4095 exceeds the modulus 3329.
        let unreduced = [&[0xFF; 3], &share[3..]].concat();
        assert!(hybrid(true).start_and_complete(&unreduced).is_err());
        assert!(client().complete(&share[..1_087]).is_err());
        assert!(client().complete(&[]).is_err());
    }
}
