#!/usr/bin/env bash
# Loads our server over TCP with httperf, and with `load` and the same plan, and compares the reports block by block.
# Counts, sizes and errors must be equal. Rates of an open loop must agree within a quarter of httperf's own spread
# between runs. Rates of a closed loop and times depend on the speed of the programs; they are shown side by side.
#
#   interop/httperf.sh
#
# Needs httperf (apt-get install httperf) and python3. RUNS=N runs each plan and program N times, in turn (2). A run
# that does not end within a minute fails.
set -euo pipefail
cd "$(dirname "$0")"
for need in httperf python3; do
  command -v "$need" >/dev/null ||
    { echo "httperf: there is no $need here; get it with: apt-get install $need" >&2; exit 3; }
done
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
out=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$out"' EXIT
mkdir "$out/site"
head -c 4000 /dev/zero >"$out/site/page"
"$ANABRANCH" serve "$out/site" -q --listen tcp://127.0.0.1:0 2>"$out/told" &
server=$!
for _ in $(seq 100); do
  grep -q '^anabranch: serving' "$out/told" && break
  sleep 0.1
done
url=$(grep -o 'http://[^ ]*' "$out/told" | head -n 1) ||
  { echo "httperf: the server does not listen; it said:" >&2; cat "$out/told" >&2; exit 1; }
port=${url%/}
port=${port##*:}
status=0

# compare NAME open|closed TARGET "HTTPERF FLAGS" "LOAD FLAGS"
compare() {
  local name=$1 loop=$2 target=$3 run flags
  for run in $(seq "${RUNS:-2}"); do
    read -ra flags <<<"$4"
    # httperf warns that the host has more descriptors than it can use.
    timeout -k 5 60 httperf --server 127.0.0.1 --port "$port" --uri "/$target" --timeout 5 "${flags[@]}" \
      >"$out/httperf.$run" 2>"$out/warned" || { echo "$name: httperf failed:" >&2; cat "$out/warned" >&2; status=1; }
    read -ra flags <<<"$5"
    # 1: a response was 4xx, which may be part of the plan.
    timeout -k 5 60 "$ANABRANCH" load "$url$target" -q "${flags[@]}" \
      >"$out/load.$run" 2>"$out/warned" || [ $? = 1 ] || { echo "$name: load failed:" >&2; cat "$out/warned" >&2; status=1; }
  done
  python3 - "$name" "$loop" "$out" "${RUNS:-2}" <<'END' || status=1
import re, sys

name, loop, out, runs = sys.argv[1:]
NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
# Block, value, kind of comparison, pattern in the report.
VALUES = [
    ("Total", "connections", "same", rf"Total: connections {NUMBER} "),
    ("Total", "requests", "same", rf"Total: .* requests {NUMBER} "),
    ("Total", "replies", "same", rf"Total: .* replies {NUMBER} "),
    ("Total", "test-duration s", "rate", rf"Total: .* test-duration {NUMBER} s"),
    ("Connection", "rate conn/s", "rate", rf"Connection rate: {NUMBER} conn/s"),
    ("Connection", "time avg ms", "shown", rf"Connection time \[ms\]: min .* avg {NUMBER} "),
    ("Connection", "time median ms", "shown", rf"Connection time \[ms\]: min .* median {NUMBER} "),
    ("Connection", "connect ms", "shown", rf"Connection time \[ms\]: connect {NUMBER}"),
    ("Connection", "length replies/conn", "same", rf"Connection length \[replies/conn\]: {NUMBER}"),
    ("Request", "rate req/s", "rate", rf"Request rate: {NUMBER} req/s"),
    # Each program sends its own name in the head, so the sizes differ.
    ("Request", "size B", "head", rf"Request size \[B\]: {NUMBER}"),
    ("Reply", "rate avg replies/s", "sampled", rf"Reply rate \[replies/s\]: min .* avg {NUMBER} "),
    ("Reply", "response ms", "shown", rf"Reply time \[ms\]: response {NUMBER} "),
    ("Reply", "transfer ms", "shown", rf"Reply time \[ms\]: .* transfer {NUMBER}"),
    ("Reply", "header B", "same", rf"Reply size \[B\]: header {NUMBER} "),
    ("Reply", "content B", "same", rf"Reply size \[B\]: .* content {NUMBER} "),
    ("Reply", "footer B", "same", rf"Reply size \[B\]: .* footer {NUMBER} "),
    ("Reply", "total B", "same", rf"Reply size \[B\]: .*\(total {NUMBER}\)"),
]
VALUES += [("Reply", f"status {n}xx", "same", rf"Reply status: .*{n}xx={NUMBER}") for n in range(1, 6)]
VALUES += [
    ("Miscellaneous", "CPU user s", "shown", rf"CPU time \[s\]: user {NUMBER} "),
    ("Miscellaneous", "CPU system s", "shown", rf"CPU time \[s\]: .* system {NUMBER} \("),
    ("Miscellaneous", "net I/O KB/s", "rate", rf"Net I/O: {NUMBER} KB/s"),
]
ERRORS = "total client-timo socket-timo connrefused connreset fd-unavail addrunavail ftab-full other".split()
VALUES += [("Errors", of, "same", rf"Errors: .*\b{of} {NUMBER}") for of in ERRORS]

def read(program):
    texts = [open(f"{out}/{program}.{run}").read() for run in range(1, int(runs) + 1)]
    found = {}
    for block, value, _, where in VALUES:
        hits = [re.search(where, text) for text in texts]
        if all(hits):
            found[block, value] = [float(hit.group(1)) for hit in hits]
    return found

def holds(how, theirs, ours):
    if how == "same":
        return set(theirs) == set(ours) and len(set(ours)) == 1
    if how == "head":
        return max(abs(a - b) for a in theirs for b in ours) <= 40
    if how == "rate" and loop == "open" or how == "sampled" and loop == "open" and min(theirs + ours) > 0:
        return min(theirs) * 0.75 <= min(ours) and max(ours) <= max(theirs) * 1.25
    return None

theirs, ours = read("httperf"), read("load")
print(f"\n{name}: {'block':<14}{'value':<22}{'httperf':>20}{'load':>20}")
good = True
for block, value, how, _ in VALUES:
    key = block, value
    if key not in theirs or key not in ours:
        who = " and ".join(p for p, found in (("httperf", theirs), ("load", ours)) if key not in found)
        print(f"{name}: {block:<14}{value:<22}missing in what {who} says: FAILS")
        good = False
        continue
    verdict = holds(how, theirs[key], ours[key])
    good &= verdict is not False
    shown = lambda numbers: " ".join(f"{n:g}" for n in numbers)
    said = {None: "", True: "  agree", False: "  FAILS"}[verdict]
    print(f"{name}: {block:<14}{value:<22}{shown(theirs[key]):>20}{shown(ours[key]):>20}{said}")
sys.exit(not good)
END
}

compare "a connection each" open page "--rate 200 --num-conns 1200 --num-calls 1" "--rate 200/s --sessions 1200"
compare "ten calls a connection" open page "--rate 20 --num-conns 100 --num-calls 10" \
  "--rate 20/s --sessions 100 --objects-per-session 10"
compare "closed loop" closed page "--wsess 40,25,0" "-c 1 --sessions 40 --objects-per-session 25"
compare "not found" open gone "--rate 50 --num-conns 100 --num-calls 1" "--rate 50/s --sessions 100"
echo
[ "$status" = 0 ] && echo "httperf and load agree." || echo "httperf and load do not agree." >&2
exit "$status"
