//! Conversion of chunks, parameters and causes between script text and bytes.
//!
//! Does not use the engine's decoder, because a test of the engine must not share its mistakes.

mod check;
mod codec;
mod compare;
mod layout;

pub(crate) use check::check_names;
pub(crate) use codec::{RepeatedValues, ValueMap, decode_packet, encode_body, leading};
pub(crate) use compare::compare_packet;
