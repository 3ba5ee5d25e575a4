#!/usr/bin/env bash
# Our SCTP meets real programs on a real network: builds the ends that are
# named, installing what they need, and prints the matrix peer x case.
#
#   interop/field.sh [PEER[,PEER..] [CASE]]
#
# PEER: usrsctp, pion, linux, aiortc; all when none is named. CASE: a part of a row's
# name. Without arguments our TCP meets this kernel's, too, and the guest's kernel
# takes part in an emulated race (race.sh). What fails is tried again
# alone, twice at most. Needs root: each peer gets network namespaces of its own, which go with
# it. FIELD_CAPTURES names a directory for the packets of what fails, FIELD_KEEP=1
# keeps those of the rest, FIELD_TALK=1 shows what the programs say.
set -euo pipefail
cd "$(dirname "$0")"
peers=${1:-usrsctp,pion,linux,aiortc}
unshare --net --pid --fork --kill-child --mount-proc true 2>/dev/null ||
  { echo "field: network namespaces cannot be made here: needs root" >&2; exit 3; }
command -v iptables >/dev/null ||
  { echo "field: there is no iptables, which loses packets of our commands: apt-get install iptables" >&2; exit 3; }
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/field"
target=$(cd "$target" && pwd)
for peer in ${peers//,/ }; do
  [ -x "peers/$peer.sh" ] || { echo "field: there is no peer '$peer'" >&2; exit 2; }
  "peers/$peer.sh" "$target/field" >&2
done
# The profile of the tests, which have built most of it.
cargo build --locked --quiet --profile test --bin field
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
export ANABRANCH FIELD_PROGRAMS="$target/field" FIELD_CAPTURES="${FIELD_CAPTURES:-$target/field}"
status=0
"$target/debug/field" matrix "$peers" "${2:-}" || status=1
if [ $# -eq 0 ]; then
  echo
  unshare --net --pid --fork --kill-child --mount-proc "$target/debug/field" tcp || status=1
  echo
  ./race.sh || status=1
fi
exit $status
