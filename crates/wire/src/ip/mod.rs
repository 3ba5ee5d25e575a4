//! ip
