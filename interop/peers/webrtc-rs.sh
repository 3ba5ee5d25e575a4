#!/usr/bin/env bash
# Builds the peer with webrtc-sctp of webrtc-rs, from crates.io, into the given directory.
set -euo pipefail
mkdir -p "$1"
into=$(cd "$1" && pwd)
cd "$(dirname "$0")"
CARGO_TARGET_DIR=$into/webrtc-rs-build cargo build --locked --quiet --manifest-path webrtc-rs/Cargo.toml >&2 ||
  { echo "webrtc-rs: cannot build: does crates.io answer?" >&2; exit 1; }
cp "$into/webrtc-rs-build/debug/anabranch-interop-webrtc-rs" "$into/webrtc-rs"
