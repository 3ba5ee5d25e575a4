//! Bytes to values and back: SCTP, TCP, UDP, IP, ICMP, checksums, captures,
//! and the one-line form of a packet that ladders and tools print.
//!
//! Parsing never panics and never allocates in proportion to a length field it
//! has not checked against the bytes at hand.

pub mod checksum;
pub mod icmp;
pub mod ip;
pub mod ladder;
pub mod pcap;
pub mod sctp;
pub mod tcp;
pub mod udp;
