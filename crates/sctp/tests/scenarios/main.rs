//! Golden tests with ladder diagrams, which show the packets that two endpoints exchange. Each topic has a module of
//! its own.
//!
//! Each test runs one scenario, and compares its ladder diagram with the expected diagram. Random numbers do not appear
//! in the diagram, so it does not depend on the seed or on the order in which numbers are drawn. `UPDATE_EXPECT=1`
//! rewrites the expected diagrams.

#[path = "../net/mod.rs"]
mod net;
mod script;

mod acks;
mod asconf;
mod asconf_keys;
mod asconf_refused;
mod asconf_wildcard;
mod auth;
mod bbr;
mod bundled;
mod burst;
mod cancel;
mod encapsulated;
mod forgeries;
mod given_up;
mod handshake;
mod interleaving;
mod linux_2_6_11;
mod loss;
mod messages;
mod mtu;
mod nr_sack;
mod out_of_the_blue;
mod partial;
mod paths;
mod peers;
mod plpmtud;
mod potentially_failed;
mod profiles;
mod rack;
mod reconfig;
mod reconfig_again;
mod reconfig_under_way;
mod restart;
mod rtt_from_cookie;
mod rules_of_addresses;
mod rules_of_faults;
mod rules_of_reconfig;
mod rules_of_setup;
mod rules_of_skipping;
mod rules_of_the_end;
mod rules_of_transfer;
mod scope;
mod send_buffer;
mod send_failure;
mod shared_address;
mod shutdown;
mod silence;
mod slow_start;
mod undelivered;
mod unknown;
mod unreachable;
mod unusual_peers;
mod vanishing;
mod window;
mod zero_checksum;
