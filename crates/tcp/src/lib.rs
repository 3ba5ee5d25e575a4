//! A sans-IO TCP endpoint (RFC 9293) fit for research.
