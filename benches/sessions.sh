#!/usr/bin/env bash
# Measures the resident memory of `serve` per idle encrypted session, with HTTP/2 over TLS and with HTTP/3 over QUIC.
# `load` keeps N sessions open and requests a small file on each in turn. The result is the growth of the server's RSS
# divided by the number of sessions.
#
#     benches/sessions.sh [ANABRANCH [N..]]       (default: target/dist/anabranch, 1000 10000)
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
anabranch=$(realpath "${1:-target/dist/anabranch}")
shift || true
[ $# -gt 0 ] || set -- 1000 10000
place=$(mktemp -d)
running=()
trap 'for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$place"' EXIT
mkdir "$place/site"
head -c 1000 /dev/urandom >"$place/site/1k"
# The time in which a thousand sessions start and each makes one request, in seconds.
STEP=12
export XDG_STATE_HOME="$place"

resident() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status"; }

# row SCHEME SESSIONS FLAG..: prints a row; FLAGs are those of `load`.
row() {
  local scheme=$1 sessions=$2 said serve load before during url parts part loads
  shift 2
  said="$place/said"
  # Each row starts a new server, because sessions could otherwise reuse memory that earlier ones have freed.
  "$anabranch" serve "$place/site" --quiet --connections 20000 --memory 1GiB --idle 10min --listen "$scheme://127.0.0.1:0" 2>"$said" &
  serve=$!
  running+=("$serve")
  for _ in $(seq 100); do grep -q 127.0.0.1 "$said" && break; sleep 0.1; done
  url=$(grep -o "$scheme://127.0.0.1:[0-9]*/" "$said" | head -1)1k
  "$anabranch" load "$url" --insecure --quiet -c 1 --requests 20 "$@" >/dev/null 2>&1
  before=$(resident "$serve")
  # The sessions start in steps of a thousand, because a QUIC server limits the number of concurrent handshakes.
  parts=$(((sessions + 999) / 1000))
  loads=()
  for part in $(seq "$parts"); do
    "$anabranch" load "$url" --insecure --quiet -c $((sessions / parts)) --rate 100/s --timeout 60s \
      --duration $(((parts - part + 1) * STEP + 15))s --json "$place/json.$part" "$@" >/dev/null 2>"$place/load.$part" &
    loads+=($!)
    running+=($!)
    sleep $STEP
  done
  sleep 10
  during=$(resident "$serve")
  for load in "${loads[@]}"; do wait "$load" || { cat "$place"/load.*; exit 1; }; done
  awk -v scheme="$scheme" -v a="$before" -v b="$during" \
    -v of="$(cat "$place"/json.* | grep -o '"established": *[0-9]*' | grep -o '[0-9]*$' | awk '{ n += $1 } END { print n }')" \
    'BEGIN { printf "%-8s %8d %12d %16.1f\n", scheme, of, b - a, (b - a) * 1024 / of / 1000 }'
  rm -f "$place"/json.* "$place"/load.*
  kill "$serve"
  wait "$serve" 2>/dev/null || true
}
printf '%-8s %8s %12s %16s\n' "" sessions "more (KiB)" "each (kB)"
for sessions in "$@"; do
  row https "$sessions" --http 2
  row h3 "$sessions"
done
