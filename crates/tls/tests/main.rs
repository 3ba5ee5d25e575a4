//! TLS over our TCP in virtual time, in one program.

mod virtual_time;
