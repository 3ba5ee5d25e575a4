#!/usr/bin/env bash
# Checks the rules of HTTP/3 that a peer can break (RFC 9114 §4 to §7, RFC 9204 §2 to §4). aioquic breaks them one by
# one, as a client of `serve` and as a server of `get`. Prints a line for each rule with the resulting error code;
# exits with 1 if any differs from the RFC's. Everything stays on loopback.
#
#   interop/http3.sh
#
# ANABRANCH names the program, if it is already built. Needs openssl.
set -euo pipefail
cd "$(dirname "$0")"
command -v openssl >/dev/null || { echo "http3: there is no openssl here; get it with: apt-get install openssl" >&2; exit 3; }
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/http3"
into=$(cd "$target/http3" && pwd)
peers/aioquic.sh "$into"
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=localhost \
  -addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout "$into/server.key" -out "$into/server.pem" 2>/dev/null
mkdir -p "$into/site"
echo hello >"$into/site/index.html"
"$ANABRANCH" serve "$into/site" --quiet --listen h3://127.0.0.1:0 --cert "$into/server.pem" --key "$into/server.key" \
  >"$into/serve.out" 2>"$into/serve.err" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  port=$(sed -n 's|.*h3://127\.0\.0\.1:\([0-9]*\).*|\1|p' "$into/serve.out" "$into/serve.err" | head -n 1)
  [ -n "$port" ] && break
  sleep 0.1
done
[ -n "$port" ] || { echo "http3: serve does not say where it listens" >&2; cat "$into/serve.err" >&2; exit 1; }
obeyed=0
"$into/python/bin/python" peers/aioquic_rules.py client 127.0.0.1 "$port" || obeyed=1
"$into/python/bin/python" peers/aioquic_rules.py server 127.0.0.1 0 "$into/server.pem" "$into/server.key" \
  "$ANABRANCH" get --quiet --insecure || obeyed=1
exit "$obeyed"
