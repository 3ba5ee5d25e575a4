#!/usr/bin/env bash
# Runs h2spec, the conformance tests for RFC 9113 and RFC 7541, against our server: builds h2spec and starts `serve`
# over TLS. All cases must pass.
#
#   interop/h2spec.sh [SECTION..]
#
# SECTION is one of h2spec's, such as http2/6.9. Everything stays on loopback. ANABRANCH names the program; otherwise
# it is built.
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
# A body large enough to fill the windows of the flow control cases.
mkdir -p "$into/site"
head -c 100000 /dev/zero >"$into/site/index.html"
XDG_STATE_HOME=$into "$ANABRANCH" serve "$into/site" --quiet --listen https://127.0.0.1:0 2>"$into/told" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true' EXIT
# The server prints its address when it listens.
for _ in $(seq 600); do
  port=$(sed -n 's|.*https://127\.0\.0\.1:\([0-9]*\)/.*|\1|p' "$into/told" | head -n 1)
  [ -n "$port" ] && break
  kill -0 "$server" || { cat "$into/told" >&2; exit 3; }
  sleep 0.1
done
[ -n "$port" ] || { echo "h2spec: the server says nothing" >&2; exit 3; }
# Each case waits at most this number of seconds for the server, because a machine may be busy.
"$into/h2spec" --tls --insecure --host 127.0.0.1 --port "$port" --timeout 5 "$@" | tee "$into/table"
# The exit code of h2spec is not enough: skipped cases count as failed.
grep -q ' 0 skipped, 0 failed$' "$into/table"
