//! Parses and writes SCTP, TCP, UDP, IP and ICMP packets, their checksums, and packet captures. Parses QUIC frames and
//! HTTP/3 field sections. Also converts a packet to one line of text, as ladder diagrams and tools print it.
//!
//! Parsing never panics. A length field from a packet causes an allocation only if at least as many bytes are present.

pub mod checksum;
pub mod icmp;
pub mod ip;
pub mod ladder;
pub mod pcap;
pub mod qlog;
pub mod qpack;
pub mod quic;
pub mod sctp;
pub mod tcp;
pub mod udp;
