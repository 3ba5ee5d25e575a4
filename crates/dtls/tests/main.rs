//! DTLS under SCTP.

mod hellos;
mod small_buffers;
mod virtual_time;
