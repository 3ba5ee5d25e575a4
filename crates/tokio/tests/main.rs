//! What a program on tokio sees of an association.

mod cancel;
mod examples;
mod facade;
