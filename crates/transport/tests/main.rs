//! Tests of engines bound to worlds.

mod drive;
mod engines;
mod kernel;
mod mtu;
mod order;
mod roam;
mod sessions;
