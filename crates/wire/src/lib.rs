//! Parsing and writing of SCTP, TCP, UDP, IP, ICMP, checksums and captures, and the one-line form of a packet that
//! ladders and tools print.
//!
//! Parsing never panics. It never allocates memory in proportion to a length field that was not checked against the
//! available bytes.

pub mod checksum;
pub mod icmp;
pub mod ip;
pub mod ladder;
pub mod pcap;
pub mod sctp;
pub mod tcp;
pub mod udp;
