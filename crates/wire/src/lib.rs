//! Parses and writes SCTP, TCP, UDP, IP, ICMP, checksums and captures. Parses QUIC frames and the heads of HTTP/3. Also converts a packet to one line of text, as
//! ladder diagrams and tools print it.
//!
//! Parsing never panics. Before memory is allocated in proportion to a length field, the field is checked against the
//! available bytes.

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
