//! Conversion of chunks, parameters and causes between script text and bytes.
//!
//! This module does not use the engine's decoder. With that decoder, a test could not detect the decoder's own
//! mistakes.

mod check;
mod codec;
mod compare;
mod layout;

pub(crate) use check::check_names;
pub(crate) use codec::{RepeatedValues, ValueMap, decode_packet, encode_body, leading};
pub(crate) use compare::compare_packet;
