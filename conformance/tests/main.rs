//! The runner of scripts, its language, and the scripts that are here.

mod deviations;
mod etsi;
mod language;
mod packets;
mod rules;
mod sockets;
mod stages;
mod strange;
