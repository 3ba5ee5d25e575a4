//! Generates unpredictable values: connection IDs, and the keys of stateless resets and tokens. Also holds the clock
//! for tokens and traces.
//!
//! This module only uses the random number generator that it is given. On a real network, the generator is seeded by
//! the operating system; in a simulation, by the seed of the run.

use crate::shards::Shard;
use anabranch_base::Rng;
use quinn_proto::{ConnectionId, ConnectionIdGenerator, TimeSource};
use ring::{hkdf, hmac};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// RFC 9000 §5.1: the length of our connection IDs in bytes. IDs of this length cannot be guessed.
const LENGTH: usize = 8;

/// Generates connection IDs from a random number generator.
#[derive(Clone, Debug)]
pub(crate) struct Identifiers(Arc<Mutex<Rng>>, Option<Shard>);

impl Identifiers {
    /// Creates the generator. If several endpoints share a port, `shard` identifies the endpoint that uses this
    /// generator. Each ID contains the shard, so that packets with this ID reach the endpoint.
    pub(crate) fn new(rng: Rng, shard: Option<Shard>) -> Self {
        Self(Arc::new(Mutex::new(rng)), shard)
    }

    pub(crate) fn next(&self) -> ConnectionId {
        let mut bytes = [0; LENGTH];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        if let Some(shard) = self.1 {
            shard.mark(&mut bytes);
        }
        ConnectionId::new(&bytes)
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        self.next()
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Returns the key for stateless resets (RFC 9000 §10.3.2). If `secret` is given, the key is derived from it, so every
/// endpoint with the same secret has the same key. A new endpoint can therefore tell the peers of an earlier endpoint
/// that their connections are gone.
pub(crate) fn reset_key(rng: &mut Rng, secret: Option<[u8; 32]>) -> Arc<hmac::Key> {
    let mut key = [0; 64];
    rng.fill(&mut key);
    let drawn = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let derived = secret.map(|secret| {
        let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), b"quic stateless reset");
        hmac::Key::new(hmac::HMAC_SHA256, signed.as_ref())
    });
    Arc::new(derived.unwrap_or(drawn))
}

/// Returns the key that encrypts tokens (RFC 9000 §8.1.1).
pub(crate) fn token_key(rng: &mut Rng) -> Arc<hkdf::Prk> {
    let mut key = [0; 64];
    rng.fill(&mut key);
    Arc::new(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&key))
}

/// The clock by which quinn dates its address validation tokens, in nanoseconds since the endpoint was created.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn set(&self, nanos: u64) {
        self.0.store(nanos, Ordering::Relaxed);
    }
}

impl Clock {
    pub(crate) fn instant(&self) -> anabranch_base::Instant {
        anabranch_base::Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl TimeSource for Clock {
    fn now(&self) -> SystemTime {
        // The origin, 1 January 2026, is arbitrary: the time in a token is compared only with other times of the same
        // clock.
        SystemTime::UNIX_EPOCH
            + Duration::from_secs(1_767_225_600)
            + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}
