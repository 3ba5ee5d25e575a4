//! The command as its users meet it: programs as they were built, each a process of its own.

#![expect(clippy::disallowed_methods, reason = "programs run in the user's own time")]

mod amplification;
mod bad_input;
mod beneath;
mod bulk;
mod clusters;
mod commands;
mod decode;
mod descriptors;
mod dry_run;
mod dtls;
mod emulated;
mod emulated_results;
#[path = "running/peer.rs"]
mod engine_peer;
mod faults;
mod fields;
mod gateway;
mod gateway_answers;
mod gateway_faults;
mod gateway_limits;
mod gateway_tls;
mod gateway_trust;
mod get_json;
mod get_page;
mod heads;
mod hostile;
mod http2;
mod http2_attacks;
mod http3;
mod key_file;
mod link;
mod load;
mod memory;
mod names;
mod network;
mod old_servers;
mod outputs;
mod packages;
mod peer;
mod qlog;
mod quoted;
mod raw_ports;
mod raw_sctp;
mod running;
mod secure;
mod session_slots;
mod smuggling;
mod stalled;
mod study;
mod sweeps;
mod threads;
mod threads_ip;
mod tls_attacks;
mod tls_settings;
