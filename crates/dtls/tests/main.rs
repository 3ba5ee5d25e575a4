//! Tests of SCTP over DTLS.

mod hellos;
mod small_buffers;
mod virtual_time;
