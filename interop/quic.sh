#!/usr/bin/env bash
# Our HTTP/3 over QUIC meets that of others, by the cases of the QUIC interop
# runner: builds the ends that are named, installing what they need, and prints
# the matrix case x pair.
#
#   interop/quic.sh [PEER[,PEER..] [CASE]]
#
# PEER: aioquic, quiche; both when none is named, and then they meet each other,
# too. CASE: a part of a row's name. Everything stays on loopback, behind a relay that is
# slow, loses and changes datagrams. What fails is tried again alone, twice at
# most; its packets, secrets and words stay in the folder that is named with it. QUIC_KEEP=1 keeps the rest.
# Needs tshark and openssl.
set -euo pipefail
cd "$(dirname "$0")"
peers=${1:-aioquic,quiche}
for need in tshark openssl; do
  command -v "$need" >/dev/null || { echo "quic: there is no $need here; get it with: apt-get install $need" >&2; exit 3; }
done
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/quic"
target=$(cd "$target" && pwd)
into=$target/quic
for peer in ${peers//,/ }; do
  case $peer in
    aioquic | quiche) "peers/$peer.sh" "$into" ;;
    *) echo "quic: there is no peer '$peer'" >&2; exit 2 ;;
  esac
done
# An authority, and a server that it has signed.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=authority \
  -keyout "$into/authority.key" -out "$into/authority.pem" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
  -keyout "$into/server.key" -out "$into/server.csr" 2>/dev/null
openssl x509 -req -in "$into/server.csr" -CA "$into/authority.pem" -CAkey "$into/authority.key" -days 30 \
  -extfile <(echo subjectAltName=DNS:localhost,IP:127.0.0.1) -out "$into/server.pem" 2>/dev/null
# The profile of the tests, which have built most of it.
cargo build --locked --quiet --profile test --bin quic
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
export ANABRANCH QUIC_PROGRAMS="$into" QUIC_CAPTURES="${QUIC_CAPTURES:-$into/runs}"
"$target/debug/quic" "ours,$peers" "${2:-}"
