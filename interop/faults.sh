#!/usr/bin/env bash
# Recreates faults of public bug reports with programs that have them, in a network namespace of their own, and checks that
# `decode --why` names them. crates/capture/src/tests/findings/recreated.rs tests captures that this script has made.
#
#   interop/faults.sh [NAME]
#
# NAME is a part of a fault's name, such as pion. The programs are those that peers/ installs. ANABRANCH names the program,
# if it is already built. Needs dumpcap, editcap, openssl, curl, nginx and root. FAULTS_KEEP=DIR keeps the captures there.
set -euo pipefail
cd "$(dirname "$0")"
for need in dumpcap editcap openssl python3 curl nginx; do
  command -v "$need" >/dev/null || { echo "faults: there is no $need here; get it with: apt-get install tshark openssl python3 curl nginx" >&2; exit 3; }
done
unshare --net true 2>/dev/null || { echo "faults: network namespaces cannot be made here: needs root" >&2; exit 3; }
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/field"
into=$(cd "$target/field" && pwd)
for peer in aioquic pion quic-go requests usrsctp webrtc-rs; do
  "peers/$peer.sh" "$into" >&2
done
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
export FIELD_PROGRAMS=$into
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# The captures of a run that found every fault are kept.
unshare --net bash -c '
  set -e
  ip link set lo up
  exec "$@"' bash "$into/python/bin/python" peers/faults.py "$out" "$ANABRANCH" "${1:-}"
[ -z "${FAULTS_KEEP:-}" ] || cp "$out"/*.pcapng "$FAULTS_KEEP"
