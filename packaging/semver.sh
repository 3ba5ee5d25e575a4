#!/usr/bin/env bash
# Checks that the public crates keep the API of an earlier commit, as far as a tool can detect it.
#
#   packaging/semver.sh [REV]      # default: the last tag
#
# Needs cargo-semver-checks: cargo install cargo-semver-checks --locked --version 0.51.0, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo semver-checks --version >/dev/null 2>&1 ||
  { echo "semver: needs cargo-semver-checks: cargo install cargo-semver-checks --locked --version 0.51.0" >&2; exit 3; }
before=${1:-$(git describe --tags --abbrev=0 2>/dev/null)} ||
  { echo "semver: no tag to compare with; name a commit" >&2; exit 2; }
selected=()
for crate in $(cargo metadata --locked --no-deps --format-version 1 |
  python3 -c 'import json, sys; print(*(p["name"] for p in json.load(sys.stdin)["packages"] if p["publish"] is None))'); do
  selected+=(-p "$crate")
done
cargo semver-checks --baseline-rev "$before" "${selected[@]}"
