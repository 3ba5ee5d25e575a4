//! Link impairments as sans-IO elements: queue, rate, loss, delay, reordering and more.
//!
//! One direction of a link is a [`Chain`]: packets go in at an instant and come
//! out at later ones. The chain never reads a clock and never waits; it answers
//! [`Chain::next`] with the instant at which it wants to be asked again. The
//! simulator and the live emulator run the same objects.
//!
//! Most elements know the fate of a packet the moment it enters ([`Passing`]):
//! a drop-tail queue knows from the departures it has promised when the new
//! packet will have been serialized. So a whole chain costs its caller one event
//! a packet. Elements that decide when a packet is *taken out* (CoDel, FQ-CoDel,
//! loss counted across both directions) hold it ([`Holding`]) and name a deadline.
//!
//! [`LinkSpec`] reads the text forms of the command line and of plans and builds
//! both directions:
//!
//! ```
//! use anabranch_base::{Instant, Rng};
//! use anabranch_link::{Blank, LinkSpec};
//!
//! let link = LinkSpec::parse("rate=10mbit,rtt=80ms,queue=50p")?;
//! let (_up, mut down) = link.build::<Blank>(1, &Rng::new(1))?;
//! down.push(Instant::ZERO, Blank::new(1500));
//! // 1.2 ms of serialization, 40 ms of propagation.
//! assert_eq!(down.next(), Some(Instant::from_nanos(41_200_000)));
//! assert!(down.pop(Instant::from_nanos(41_200_000)).is_some());
//! # Ok::<(), anabranch_link::SpecError>(())
//! ```

pub mod chain;
pub mod corrupt;
pub mod delay;
pub mod duplicate;
pub mod element;
pub mod half_duplex;
pub mod jitter;
pub mod loss;
pub mod meter;
pub mod mtu;
pub mod outage;
pub mod preset;
pub mod queue;
pub mod rate;
pub mod reorder;
pub mod spec;
pub mod trace;

pub use chain::{Chain, Dropped, Stage};
pub use element::{Blank, Carried, Cause, Fate, Holding, Passing};
pub use meter::{Meter, Tally};
pub use spec::{DirectionSpec, Fail, LinkSpec, SpecError};
