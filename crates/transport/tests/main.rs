//! Engines bound to worlds.

mod drive;
mod mtu;
mod order;
mod roam;
