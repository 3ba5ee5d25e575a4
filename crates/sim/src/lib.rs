//! The virtual world: executor, hosts, links, taps, deterministic to the byte.
