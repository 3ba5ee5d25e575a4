#!/usr/bin/env bash
# Checks that `decode` and tshark find the same inside encryption. Programs of others transfer objects and messages over
# TLS, QUIC and DTLS, in a network namespace of their own, and write their keys. Compared are records, packets, frames
# and chunks by type, streams, requests and bytes, also with what the programs themselves know. Every difference must
# come from a limit of tshark, which the table names; otherwise the run fails.
#
#   interop/encrypted.sh [NAME]
#
# NAME is a part of a row's name, such as pion. The programs are curl, nginx and Chromium of the system, Caddy
# (benches/browser/README.md says how it is built; CADDY names it), and those that peers/ installs. Rows whose program is
# missing are skipped. ANABRANCH names the program, if it is already built. Needs tshark, dumpcap, openssl and root.
# ENCRYPTED_KEEP=1 keeps the captures.
set -euo pipefail
cd "$(dirname "$0")"
for need in tshark dumpcap openssl python3; do
  command -v "$need" >/dev/null || { echo "encrypted: there is no $need here; get it with: apt-get install tshark openssl python3" >&2; exit 3; }
done
unshare --net true 2>/dev/null || { echo "encrypted: network namespaces cannot be made here: needs root" >&2; exit 3; }
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/field"
into=$(cd "$target/field" && pwd)
for peer in aioquic pion usrsctp; do
  "peers/$peer.sh" "$into" >&2
done
"$into/python/bin/pip" install --quiet aiortc==1.16.0 curl_cffi==0.17.0 >&2 ||
  { echo "encrypted: cannot install aiortc and curl_cffi: does PyPI answer?" >&2; exit 1; }
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
export FIELD_PROGRAMS=$into CADDY=${CADDY:-$(cd .. && pwd)/target/caddy}
out=$(mktemp -d)
trap '[ -n "${ENCRYPTED_KEEP:-}" ] || rm -rf "$out"' EXIT
[ -z "${ENCRYPTED_KEEP:-}" ] || echo "captures: $out"
# ICE takes no address of loopback, so that the namespace has another one.
unshare --net bash -c '
  set -e
  ip link set lo up
  ip link add name ice type veth peer name nowhere
  ip address add 192.0.2.1/24 dev ice
  ip link set ice up
  ip link set nowhere up
  ip route add default via 192.0.2.2
  exec "$@"' bash "$into/python/bin/python" peers/encrypted_captures.py "$out" "$ANABRANCH" "${1:-}"
