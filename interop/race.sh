#!/usr/bin/env bash
# Runs an emulated race on a kernel with SCTP. It boots the guest of peers/linux.sh with read access to the files of
# this machine. There it races the kernel's TCP, our SCTP over IP (beside the kernel's) and over UDP, and the kernel's
# SCTP. Then it runs the same plan in virtual time, with Linux's parameters instead of its SCTP. Every run has to
# finish, and the medians must have the same order of magnitude: a guest has one processor, and its clock is very late
# on a busy machine.
#
#   interop/race.sh
#
# Needs the same tools as peers/linux.sh, iproute2 and python3. Ends within three minutes in any case.
set -euo pipefail
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/field"
target=$(cd "$target" && pwd)
peers/linux.sh "$target/field" >&2
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
out=$(mktemp -d "$target/field/race.XXXXXX")
trap 'rm -rf "$out"' EXIT
cp "$ANABRANCH" "$out/anabranch"
plan=(--objects 20x10kB --rate 10mbit --rtt 40ms --runs 5 --quiet)
cat >"$out/task" <<END
export PATH=/usr/sbin:/sbin:/usr/bin:/bin TMPDIR=/tmp
exec ./anabranch race --world emulated ${plan[*]} --deadline 20s --json result.json \
  --transport tcp:cc=reno --transport sctp --transport sctp:encap=udp --transport sctp-kernel
END
guest=$target/field/guest
status=0
timeout -k 5 150 "$guest/linux" mem=384M con=null con0=null,fd:1 con1=null ssl=null panic=-1 quiet loglevel=1 \
  "initrd=$guest/initrd" rdinit=/race "out=$out" </dev/null >"$out/console" 2>&1 || status=$?
if [ ! -e "$out/status" ]; then
  echo "race: the guest did not finish within 150 s (status $status); what it said:" >&2
  tail -c 2000 "$out/console" "$out"/said >&2 || true
  exit 1
fi
cat "$out/said"
[ "$(cat "$out/status")" = 0 ] || { echo "race: status $(cat "$out/status") in the guest" >&2; exit 1; }
"$ANABRANCH" race "${plan[@]}" --json "$out/virtual.json" --transport tcp:cc=reno --transport sctp \
  --transport sctp:encap=udp --transport sctp:profile=lksctp-2.6,num_ostreams=1,when-full=rr,nagle=no >"$out/table"
echo
cat "$out/table"
echo
python3 - "$out/result.json" "$out/virtual.json" <<'END'
# Compares the two results, contestant by contestant.
import json, sys
def pages(path):
    found = json.load(open(path))["points"][0]["contestants"]
    return {one["name"]: sorted(run["page_ns"] / 1e6 for run in one["runs"] if run["outcome"] == "done") for one in found}
guest, virtual = map(pages, sys.argv[1:])
good = True
for (name, real), (like, computed) in zip(guest.items(), virtual.items()):
    if len(real) < 5 or len(computed) < 5:
        print(f"{name}: {len(real)} of 5 runs finished in the guest: FAILS")
        good = False
        continue
    ratio = real[2] / computed[2]
    holds = 0.5 < ratio < 6
    good &= holds
    print(f"{name}: median {real[2]:.0f} ms in the guest, {computed[2]:.0f} ms in virtual time ({like}): {ratio:.2f}"
          + ("" if holds else " FAILS"))
sys.exit(not good)
END
