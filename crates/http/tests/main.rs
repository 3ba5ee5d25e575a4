//! Tests the client and the server, over pipes in memory, and over SCTP, TCP and QUIC in virtual networks.

mod cancel;
mod fetch;
mod har_mutations;
mod http2;
mod http3;
mod rig;
mod serving;
mod slow_clients;
mod transports;
mod wall_clock;
