//! DTLS under SCTP.

mod virtual_time;
