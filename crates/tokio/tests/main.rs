//! Tests that use this crate as a tokio program would use it.

mod calls;
mod cancel;
mod chat;
mod control;
mod dtls;
mod ends;
mod examples;
mod facade;
mod faults;
#[cfg(target_os = "linux")]
mod swarm;
mod wait;
