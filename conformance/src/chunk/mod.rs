//! Conversion of chunks, parameters and causes between script text and bytes.
//!
//! This module does not use the engine's decoder. If it did, a test could not detect the mistakes of that decoder.

mod check;
mod codec;
mod compare;
mod layout;

pub(crate) use check::check_names;
pub(crate) use codec::{RepeatedValues, ValueMap, decode_packet, encode_body, leading};
pub(crate) use compare::compare_packet;
