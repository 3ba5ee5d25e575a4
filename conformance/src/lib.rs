//! Runs packetdrill's SCTP scripts against the engine, in virtual time.
//!
//! A script lists, step by step, the calls of an application, the packets of its peer, and the packets that must be
//! seen on the wire. Here the host under test is [`anabranch_sctp::socket::Sockets`] over an endpoint, and the peer
//! is the script. Time is a number: nothing sleeps, and no packet leaves the process.
//!
//! ```
//! let script = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
//! +0 bind(3, ..., ...) = 0
//! +0 listen(3, 1) = 0
//! +0 < sctp: INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1]
//! +0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=1, is=..., tsn=1, ...]";
//! assert!(anabranch_conformance::check("script", script).is_pass());
//! let altered = script.replace("> sctp: INIT_ACK", "> sctp: INIT");
//! assert!(!anabranch_conformance::check("script", &altered).is_pass());
//! ```

mod calls;
mod chunk;
mod constants;
mod deviations;
mod icmp;
mod lex;
mod members;
mod notices;
mod options;
mod parse;
mod report;
pub mod rules;
mod run;
mod script;
mod shell;
mod stage;
pub mod suite;
mod toml_text;

pub use deviations::{Deviation, Deviations};
pub use report::{Outcome, Summary, check, check_file, check_on, check_suite, check_to_the_end, scripts_in};
pub use rules::Rules;
pub use stage::{Stage, Stages};
