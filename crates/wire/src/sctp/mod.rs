//! sctp
