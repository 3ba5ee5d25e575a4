#!/usr/bin/env bash
# Builds the laboratory as one page, lab-page/dist/lab.html, and checks its size.
#
#   lab-page/build.sh
#
# Needs node, npm, clang, llvm-ar and the Rust target wasm32-wasip1. A program that has the page inside is built afterwards with `cargo build --release --features lab-page`.
set -euo pipefail
cd "$(dirname "$0")"
lacks() { echo "lab-page: $1" >&2; exit 3; }
for program in node npm clang llvm-ar cargo; do
  command -v "$program" >/dev/null || lacks "$program is not installed"
done
target=wasm32-wasip1
rustc --print target-libdir --target "$target" | xargs test -d || lacks "the Rust target is missing: rustup target add $target"

npm ci --no-audit --no-fund --silent
(cd .. && cargo build --locked -p anabranch-web --lib --target "$target" --release)
program=$(cd .. && cargo metadata --no-deps --format-version 1 | node -p 'JSON.parse(require("fs").readFileSync(0)).target_directory')/$target/release/anabranch_web.wasm
npx --no-install tsc --noEmit
node build.mjs "$program"
