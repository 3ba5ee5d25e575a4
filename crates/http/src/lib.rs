//! HTTP on streams: mapping, client, server, pages, HAR.
