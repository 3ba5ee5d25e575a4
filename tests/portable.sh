#!/usr/bin/env bash
# Checks that anabranch-sctp builds with its minimum Rust version and for other systems, and that its tests pass on
# i686 and, under node, on WebAssembly. A check is skipped, with a message, if this machine cannot install its toolchain
# or target or has no node; with ANABRANCH_REQUIRE_PEERS=1 it fails.
#
#   tests/portable.sh
#
# Needs rustup; node for WebAssembly. Takes two minutes on two cores the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/portable CARGO_PROFILE_TEST_DEBUG=0
missing=0 checked=() ran=()
lacks() { echo "portable: $1 is not to be had here" >&2; missing=$((missing + 1)); }

# `cargo check` needs no linker for the other systems.
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml).0
if rustup toolchain install "$oldest" --profile minimal >/dev/null 2>&1; then
  cargo "+$oldest" check --quiet --locked -p anabranch-sctp
  checked+=("rust-$oldest")
else
  lacks "Rust $oldest"
fi
for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc \
  aarch64-linux-android x86_64-unknown-freebsd wasm32-unknown-unknown; do
  if rustup target add "$target" >/dev/null 2>&1; then
    cargo check --quiet --locked -p anabranch-sctp --target "$target"
    checked+=("$target")
  else
    lacks "the target $target"
  fi
done

# Prints the test programs of a crate for a target.
programs() {
  cargo test --locked -p anabranch-sctp --target "$1" --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/deps\/[^"]*\)".*/\1/p'
}
run_all() {
  local target=$1 total=0 program count
  shift
  for program in $(programs "$target"); do
    # Only the result line counts: node 20 may crash at exit, after the program has succeeded.
    (cd crates/sctp && CARGO_MANIFEST_DIR=$PWD "$@" "$program") >"$CARGO_TARGET_DIR/log" 2>&1 || true
    grep -q '^test result: ok' "$CARGO_TARGET_DIR/log" ||
      { tail -n 40 "$CARGO_TARGET_DIR/log" >&2; echo "portable: $program failed on $target" >&2; exit 1; }
    count=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$CARGO_TARGET_DIR/log" | tail -n 1)
    total=$((total + ${count:-0}))
  done
  [ "$total" -gt 100 ] || { echo "portable: only $total tests ran on $target" >&2; exit 1; }
  ran+=("$target: $total tests")
}
# musl comes with everything needed to link a 32-bit program.
if rustup target add i686-unknown-linux-musl >/dev/null 2>&1; then
  export CARGO_TARGET_I686_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
  run_all i686-unknown-linux-musl env
else
  lacks "the target i686-unknown-linux-musl"
fi
if command -v node >/dev/null && rustup target add wasm32-wasip1 >/dev/null 2>&1; then
  run_all wasm32-wasip1 node --no-warnings ../../tests/wasi.mjs
else
  lacks "node, or the target wasm32-wasip1,"
fi

printf 'portable: %s\n' "builds: ${checked[*]}" "${ran[@]}"
[ "$missing" -eq 0 ] || [ -z "${ANABRANCH_REQUIRE_PEERS:-}" ] || exit 3
