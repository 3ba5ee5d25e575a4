#!/usr/bin/env bash
# Builds the program without shared libraries. It runs on any Linux with this processor, even in an empty root directory.
#
#   packaging/static.sh [TARGET]       # default: the musl target of this machine
#
# Prints the path of the program. Needs the target (rustup adds it) and a C compiler for musl (Debian: musl-tools),
# for ring.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-$(uname -m)-unknown-linux-musl}
place=${CARGO_TARGET_DIR:-target}/$target/dist/anabranch
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] && ! rustup target add "$target" >/dev/null 2>&1; then
  echo "static: Rust's target $target is not to be had here" >&2
  exit 3
fi
case $target in
  "$(uname -m)"-*) compiler=musl-gcc ;;
  *) compiler=${target%%-*}-linux-musl-gcc ;;
esac
command -v "$compiler" >/dev/null || { echo "static: needs $compiler (Debian: musl-tools)" >&2; exit 3; }
export "CC_${target//-/_}=$compiler"
# The musl C library comes with Rust's target.
cargo build --profile dist --locked --quiet -p anabranch-cli --target "$target" >&2
if readelf --program-headers "$place" | grep -q INTERP; then
  echo "static: $place asks for a loader" >&2
  exit 1
fi
echo "$place"
