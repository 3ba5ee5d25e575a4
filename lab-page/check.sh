#!/usr/bin/env bash
# Builds the page of the laboratory and tests it: random plans in node against the command line, and the page in
# Debian's chromium, with a tenth as many plans. Without npm, clang, the Rust target or chromium it prints a message and exits with 3.
#
#   lab-page/check.sh ANABRANCH [PLANS]
set -euo pipefail
anabranch=$(realpath "$1") plans=${2:-20}
cd "$(dirname "$0")"
./build.sh
target=$(cd .. && cargo metadata --no-deps --format-version 1 | node -p 'JSON.parse(require("fs").readFileSync(0)).target_directory')
node test/equal.mjs "$target/wasm32-wasip1/release/anabranch_web.wasm" "$anabranch" "$plans"
[ -x "${CHROMIUM:-/usr/bin/chromium}" ] || { echo "lab-page: chromium is not installed" >&2; exit 3; }
node test/browser.mjs
node test/equal-browser.mjs "$anabranch" $(((plans + 9) / 10))
