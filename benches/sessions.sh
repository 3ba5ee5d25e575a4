#!/usr/bin/env bash
# Resident memory of `serve` for secured sessions that wait: HTTP/2 over TLS, and HTTP/3 over QUIC, each after an exchange.
# `load` holds N sessions open and asks for a small file on them in turn; what the server holds more than before, for each.
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
# Seconds in which a thousand begin, and each has asked once.
STEP=12
export XDG_STATE_HOME="$place"

resident() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status"; }

# Scheme, sessions, words of `load`.
row() {
  local scheme=$1 sessions=$2 said serve load before during url parts part loads
  shift 2
  said="$place/said"
  # What was held for a session must not be what another left behind: a server of its own.
  "$anabranch" serve "$place/site" --quiet --connections 20000 --memory 1GiB --idle 10min --listen "$scheme://127.0.0.1:0" 2>"$said" &
  serve=$!
  running+=("$serve")
  for _ in $(seq 100); do grep -q 127.0.0.1 "$said" && break; sleep 0.1; done
  url=$(grep -o "$scheme://127.0.0.1:[0-9]*/" "$said" | head -1)1k
  "$anabranch" load "$url" --insecure --quiet -c 1 --requests 20 "$@" >/dev/null 2>&1
  before=$(resident "$serve")
  # A thousand after the other: what begins at one instant is more than a server of QUIC has under way.
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
