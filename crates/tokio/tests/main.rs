//! Tests of this crate as a program on tokio uses it.

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
