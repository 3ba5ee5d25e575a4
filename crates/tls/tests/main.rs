//! Tests of TLS over this project's TCP in virtual time.

mod virtual_time;
