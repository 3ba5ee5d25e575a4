#!/usr/bin/env bash
# Runs our SCTP against real programs on a real network: builds the named ends, installing what they need, and prints
# the matrix peer x case.
#
#   interop/field.sh [PEER[,PEER..] [CASE]]
#
# PEER: usrsctp, pion, linux, aiortc; default: all. CASE: a part of a row's name. Without arguments our TCP is also
# run against this kernel's, and the guest's kernel takes part in an emulated race (race.sh). Failed cases are
# repeated one at a time, at most twice. Needs root: each peer gets its own network namespaces, which are removed with
# it. FIELD_CAPTURES names a directory for the captures of failures, FIELD_KEEP=1 keeps the other captures too,
# FIELD_TALK=1 shows the output of the programs.
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
# The profile of the tests, for which most of it is already built.
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
