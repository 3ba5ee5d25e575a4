//! Integration tests of the laboratory, from plans to reports.

mod causes;
mod changes;
mod clean;
mod decrypted;
mod grid;
mod handover;
mod har;
mod http2;
mod in_force;
mod loopback;
mod messages;
mod ns_trace;
mod order;
mod pages;
mod parts;
mod people;
mod plan;
mod quic;
mod race;
mod schema;
mod secured;
mod sentence;
mod why;
