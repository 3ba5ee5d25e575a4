#!/usr/bin/env bash
# h2spec asks our server everything that RFC 9113 and RFC 7541 say of it: builds
# h2spec, starts `serve` over TLS, and wants all cases to pass.
#
#   interop/h2spec.sh [SECTION..]
#
# SECTION: one of h2spec's, such as http2/6.9. Everything stays on loopback.
# ANABRANCH names the program; else it is built.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/h2spec"
into=$(cd "$target/h2spec" && pwd)
peers/h2spec.sh "$into"
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
# A body that fills the windows which cases of flow control set.
mkdir -p "$into/site"
head -c 100000 /dev/zero >"$into/site/index.html"
XDG_STATE_HOME=$into "$ANABRANCH" serve "$into/site" --quiet --listen https://127.0.0.1:0 2>"$into/told" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true' EXIT
# It says where it listens when it does.
for _ in $(seq 600); do
  port=$(sed -n 's|.*https://127\.0\.0\.1:\([0-9]*\)/.*|\1|p' "$into/told" | head -n 1)
  [ -n "$port" ] && break
  kill -0 "$server" || { cat "$into/told" >&2; exit 3; }
  sleep 0.1
done
[ -n "$port" ] || { echo "h2spec: the server says nothing" >&2; exit 3; }
# Each case waits at most so many seconds for the server: a machine may be busy.
"$into/h2spec" --tls --insecure --host 127.0.0.1 --port "$port" --timeout 5 "$@" | tee "$into/table"
# h2spec's exit code is not all: cases that were skipped were not passed.
grep -q ' 0 skipped, 0 failed$' "$into/table"
