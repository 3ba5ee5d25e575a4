//! A sans-IO SCTP endpoint (RFC 9260), multi-homed from the start.
