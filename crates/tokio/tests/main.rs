//! What a program on tokio sees of an association.

mod calls;
mod cancel;
mod chat;
mod control;
mod dtls;
mod ends;
mod examples;
mod facade;
#[cfg(target_os = "linux")]
mod swarm;
