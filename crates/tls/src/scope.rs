//! The scope of a call in a simulation. It holds the random numbers and the clock of a host while a call of a session
//! runs.

use anabranch_base::{Instant, Rng};
use rustls::crypto::GetRandomFailed;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// How a simulation encrypts records and QUIC packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encryption {
    /// AES-128-GCM, so that the captured packets can be decrypted and corruption of packets is detected.
    #[default]
    Real,
    /// A cipher with the sizes of AES-128-GCM that leaves the content in the clear, and costs almost no time. It is for
    /// simulations in which no packet is captured or corrupted.
    Placeholder,
}

/// The randomness and the clock of one host in a simulation.
#[derive(Clone)]
pub struct Simulation {
    pub(crate) encryption: Encryption,
    rng: Rc<RefCell<Rng>>,
    now: Rc<dyn Fn() -> Instant>,
}

impl Simulation {
    /// Creates a host's sources of randomness and time from a random number generator and a clock.
    pub fn new(rng: Rng, now: impl Fn() -> Instant + 'static) -> Self {
        Self { encryption: Encryption::Real, rng: Rc::new(RefCell::new(rng)), now: Rc::new(now) }
    }

    /// Encrypts by `encryption` instead of [`Encryption::Real`].
    #[must_use]
    pub fn with_encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = encryption;
        self
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("now", &(self.now)()).finish_non_exhaustive()
    }
}

thread_local! {
    /// The simulation whose session is running a call in this thread; `None` outside such a call.
    static SCOPE: RefCell<Option<Simulation>> = const { RefCell::new(None) };
}

/// When a call of [`within`] returns or panics, restores the value that `SCOPE` had before the call.
struct ScopeGuard(Option<Simulation>);

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        SCOPE.replace(self.0.take());
    }
}

/// Fills `out` with random bytes from the seed of the simulation. Protocols other than TLS use this function if their
/// cryptography is pluggable. Returns false and leaves `out` unchanged, except during a call of
/// [`Surroundings::within`](crate::Surroundings::within) of a simulation.
#[must_use]
pub fn draw_seeded(out: &mut [u8]) -> bool {
    draw(out).is_ok()
}

/// Returns whether a call of [`within`] is running in this thread.
pub fn is_inside() -> bool {
    SCOPE.with_borrow(Option::is_some)
}

/// Runs `work` within the scope of `simulation`.
pub fn within<T>(simulation: &Simulation, work: impl FnOnce() -> T) -> T {
    let _inside = ScopeGuard(SCOPE.replace(Some(simulation.clone())));
    work()
}

/// Returns the time of the current scope.
pub fn now() -> Option<Instant> {
    SCOPE.with_borrow(|scope| scope.as_ref().map(|simulation| (simulation.now)()))
}

/// Fills `out` with random bytes of the current scope.
pub fn draw(out: &mut [u8]) -> Result<(), GetRandomFailed> {
    SCOPE.with_borrow(|scope| match scope {
        Some(simulation) => {
            simulation.rng.borrow_mut().fill(out);
            Ok(())
        }
        None => Err(GetRandomFailed),
    })
}
