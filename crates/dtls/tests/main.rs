//! DTLS under SCTP.

mod hellos;
mod virtual_time;
