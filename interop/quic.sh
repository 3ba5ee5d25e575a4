#!/usr/bin/env bash
# Runs our HTTP/3 over QUIC against other implementations, with the cases of the QUIC interop runner: builds the named
# ends, installing what they need, and prints the matrix case x pair.
#
#   interop/quic.sh [PEER[,PEER..] [CASE]]
#
# PEER: aioquic, quiche; default: both, and then they are also run against each other. CASE: a part of a row's name.
# Everything stays on loopback, behind a relay with a limited rate that loses and changes datagrams. Failed cases are
# repeated one at a time, at most twice; their packets, secrets and outputs stay in the folder that is printed with
# them. QUIC_KEEP=1 keeps those of the other cases too. Needs tshark and openssl.
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
# A certificate authority, and a server certificate that it has signed.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=authority \
  -keyout "$into/authority.key" -out "$into/authority.pem" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
  -keyout "$into/server.key" -out "$into/server.csr" 2>/dev/null
openssl x509 -req -in "$into/server.csr" -CA "$into/authority.pem" -CAkey "$into/authority.key" -days 30 \
  -extfile <(echo subjectAltName=DNS:localhost,IP:127.0.0.1) -out "$into/server.pem" 2>/dev/null
# The profile of the tests, for which most of it is already built.
cargo build --locked --quiet --profile test --bin quic
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
export ANABRANCH QUIC_PROGRAMS="$into" QUIC_CAPTURES="${QUIC_CAPTURES:-$into/runs}"
"$target/debug/quic" "ours,$peers" "${2:-}"
