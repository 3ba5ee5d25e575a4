//! Empty, because cargo requires a source file (see `Cargo.toml`).
