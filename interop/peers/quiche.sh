#!/usr/bin/env bash
# Builds the quiche peer into the given directory. quiche comes from crates.io and BoringSSL from Debian, because quiche's
# own copy of it takes five minutes of CPU time to build.
set -euo pipefail
mkdir -p "$1"
into=$(cd "$1" && pwd)
cd "$(dirname "$0")"
need() {
  dpkg -s "$@" >/dev/null 2>&1 && return
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@" >&2 ||
    { apt-get update -q >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@" >&2; } ||
    { echo "quiche: cannot install $*: needs apt-get, its mirrors and root" >&2; exit 1; }
}
need gcc libc6-dev android-libboringssl-dev
CARGO_TARGET_DIR=$into/quiche-build cargo build --locked --quiet --manifest-path quiche/Cargo.toml >&2 ||
  { echo "quiche: cannot build: does crates.io answer?" >&2; exit 1; }
cp "$into/quiche-build/debug/quiche-end" "$into/quiche"
