//! HTTP on streams: mapping, client, server, pages, HAR.

pub mod har;
pub mod page;
