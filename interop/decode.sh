#!/usr/bin/env bash
# Checks that `decode` and tshark count the same in captures: packets, associations, connections, chunks by type, and
# bytes of user data. The captures come from races. They are put into tunnels and onto other links, captured twice,
# truncated, stripped of their beginning, and given checksums that are left to the network card. Public captures are
# included. Every difference must have a reason, which the table names; otherwise the run fails.
#
#   interop/decode.sh [NAME]
#
# NAME is a part of a capture's name. Needs tshark and python3. DECODE_KEEP=1 keeps the captures.
set -euo pipefail
cd "$(dirname "$0")"
for need in tshark editcap python3; do
  command -v "$need" >/dev/null || { echo "decode: there is no $need here; get it with: apt-get install tshark python3" >&2; exit 3; }
done
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
out=$(mktemp -d)
trap '[ -n "${DECODE_KEEP:-}" ] || rm -rf "$out"' EXIT
[ -z "${DECODE_KEEP:-}" ] || echo "captures: $out"

# race NAME FLAG.. keeps the captures of a race as NAME-TRANSPORT.pcap.
race() {
  local name=$1 file
  shift
  "$ANABRANCH" race -q --runs 1 --seed 5 --out "$out/$name" --pcap ends "$@" >/dev/null
  for file in "$out/$name"/*.client.pcapng.gz; do
    editcap -F nsecpcap "$file" "$out/$name-$(basename "$file" | sed 's/[.-].*//').pcap"
  done
}
race loss --objects 6x20kB --loss 2% --transport tcp --transport sctp:num_ostreams=3
race reorder --loss 0 --objects 6x20kB --reorder 5% --duplicate 1% --transport tcp --transport sctp:num_ostreams=3
race paths --path rate=10mbit,rtt=80ms,loss=1% --path rate=5mbit,rtt=40ms --fail path=1,at=400ms,for=2s \
  --objects 6x40kB --transport sctp:num_ostreams=3
race corrupt --loss 0 --objects 6x20kB --corrupt 2% --transport tcp --transport sctp:num_ostreams=3
python3 peers/decode_captures.py "$out" "$ANABRANCH" "${1:-}"
