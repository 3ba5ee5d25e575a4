//! Tests of the TCP engine, with a module for each topic.

mod acks;
mod bbr;
mod closing;
mod common;
mod handshake;
mod icmp;
mod linux;
mod linux_2_6;
mod local_drop;
mod marks;
mod ns2_ladders;
mod period;
mod physics;
mod rack;
mod recovery;
mod resets;
mod robust;
mod sack;
mod simultaneous;
mod syncookies;
mod timeouts;
mod windows;
