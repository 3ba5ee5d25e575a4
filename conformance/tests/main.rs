//! Tests the interpreter of scripts, and runs the scripts of this folder.

mod deviations;
mod etsi;
mod language;
mod mutate;
mod packets;
mod rules;
mod sockets;
mod stages;
