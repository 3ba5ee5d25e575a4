//! Tests of engines bound to worlds.

mod black_hole;
mod checksum_offload;
mod drive;
mod engines;
mod kernel;
mod mtu;
mod order;
mod roam;
mod sessions;
