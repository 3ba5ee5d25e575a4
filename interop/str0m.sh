#!/usr/bin/env bash
# Runs str0m, a WebRTC library, on anabranch's engine: `str0m/sctp-proto` has the interface of the crate that str0m
# uses for SCTP, and cargo's [patch] replaces that crate. str0m itself is the unchanged release of crates.io.
#
#   interop/str0m.sh          str0m's tests, then its data channels compared with those on its own engine
#   interop/str0m.sh quick    only the tests that use SCTP
#   interop/str0m.sh bench    only the data channels
#
# The comparison is one transfer through a link of 100 Mbit/s in virtual time, with str0m's send buffer raised to 8 MiB.
# Program, losses and messages are the same for both engines. `rtc` is all of str0m (ICE, DTLS, SCTP), `sctp` the
# engine alone. anabranch's engine runs with CUBIC, as in the tests, and with BBR, which does not treat random losses as
# congestion. Virtual time does not depend on the machine. CPU time is the minimum of RUNS runs (default 3).
#
# Fails if a test fails, if BBR at 1 % loss is less than twice as fast as str0m's own engine, or if without loss
# anabranch takes more than half of the CPU time of str0m's own engine.
set -euo pipefail
cd "$(dirname "$0")"
what=${1:-all}
version=$(sed -n 's/^str0m = .*"=\([0-9.]*\)".*/\1/p' str0m/bench/Cargo.toml)
mkdir -p "${CARGO_TARGET_DIR:-target}/str0m"
target=$(cd "${CARGO_TARGET_DIR:-target}/str0m" && pwd)
shim=$PWD/str0m/sctp-proto
export CARGO_TARGET_DIR=$target CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0

if [ "$what" != bench ]; then
  # `cargo metadata` downloads the crate. The published crate includes its tests.
  manifest=$(cargo metadata --locked --format-version 1 --manifest-path str0m/Cargo.toml |
    grep -o "\"manifest_path\":\"[^\"]*/str0m-$version/Cargo.toml\"" | head -n 1 | cut -d'"' -f4)
  rm -rf "$target/source"
  cp -r "$(dirname "$manifest")" "$target/source"
  cp str0m/tests.lock "$target/source/Cargo.lock"
  # Without this, cargo would take it for a member of the workspace in whose target directory it lies.
  printf '\n[workspace]\n' >>"$target/source/Cargo.toml"
  selected=()
  if [ "$what" = quick ]; then
    selected=(--lib --test data-channel --test data-channel-direct --test dtls-close --test mtu-compliance)
  fi
  log=$target/tests.log
  # The dependencies are optimised, because some tests move gigabytes through DTLS.
  (cd "$target/source" && cargo test --locked --no-fail-fast --no-default-features \
    --features rust-crypto,_internal_test_exports "${selected[@]}" \
    --config "patch.crates-io.sctp-proto.path=\"$shim\"" --config 'profile.dev.package."*".opt-level=2') \
    >"$log" 2>&1 || true
  grep -q 'patch.*was not used' "$log" && { echo "str0m: the engine was not replaced" >&2; exit 1; }
  awk -v version="$version" '
    /^test result:/ { passed += $4; failed += $6; ignored += $8; programs++ }
    /^test .* FAILED$/ { names = names "\n  " $2 }
    /^error(\[|:)/ && !/test failed/ && !/target failed/ && !/targets failed/ && !/doctest failed/ { broken = broken "\n  " $0 }
    END {
      printf "str0m %s on anabranch: %d passed, %d failed, %d ignored, in %d programs%s%s\n", version, passed, failed,
        ignored, programs, names, broken
      exit !(passed > 0 && failed == 0 && broken == "")
    }' "$log" || { echo "str0m: see $log" >&2; exit 1; }
fi
[ "$what" != quick ] || exit 0

cargo build --release --locked --quiet --manifest-path str0m/Cargo.toml -p str0m-bench
cp "$target/release/str0m-bench" "$target/ours"
rm -rf "$target/theirs-source"
cp -r str0m/bench "$target/theirs-source"
cp str0m/theirs.lock "$target/theirs-source/Cargo.lock"
echo '[workspace]' >>"$target/theirs-source/Cargo.toml"
cargo build --release --locked --quiet --manifest-path "$target/theirs-source/Cargo.toml"
cp "$target/release/str0m-bench" "$target/theirs"

runs=${RUNS:-3} seeds=${SEEDS:-3} fail=0
# Prints the mean rate (Mbit/s) over the seeds and the minimum CPU time (s) of all runs. A case without loss needs one
# seed, and a case with loss needs one run of each seed.
measure() { # program engine loss rtt megabytes
  local seed run
  for seed in $(seq "$seeds"); do
    [ "$3" -gt 0 ] || [ "$seed" -eq 1 ] || continue
    for run in $(seq "$([ "$3" -gt 0 ] && echo 1 || echo "$runs")"); do
      timeout 300 "$target/$1" "$2" "$3" "$4" "$5" "$seed"
    done
  done | awk '{ rate += $2; n++; if (!least || $3 < least) least = $3 } END { printf "%.2f %.3f", rate / n, least }'
}
printf '%-4s %4s %6s   %s\n' '' loss RTT "Mbit/s: its own engine, ours with cc=cubic, cc=bbr      processor time, s: its own, ours, ours"
for engine in rtc sctp; do
  for loss in 0 100; do
    for rtt in 20 100; do
      megabytes=$([ "$loss" -gt 0 ] && echo 6 || echo 20)
      read -r their_rate their_time <<<"$(measure theirs "$engine" "$loss" "$rtt" "$megabytes")"
      read -r cubic_rate cubic_time <<<"$(ANABRANCH_SCTP=cc=cubic measure ours "$engine" "$loss" "$rtt" "$megabytes")"
      read -r bbr_rate bbr_time <<<"$(ANABRANCH_SCTP=cc=bbr measure ours "$engine" "$loss" "$rtt" "$megabytes")"
      awk -v engine="$engine" -v loss="$loss" -v rtt="$rtt" -v tr="$their_rate" -v cr="$cubic_rate" -v br="$bbr_rate" \
        -v tt="$their_time" -v ct="$cubic_time" -v bt="$bbr_time" 'BEGIN {
          printf "%-4s %2d %% %3d ms   %6.2f  %6.2f (x%.1f)  %6.2f (x%.1f)      %6.3f  %6.3f (x%.2f)  %6.3f (x%.2f)\n", engine,
            loss / 100, rtt, tr, cr, cr / tr, br, br / tr, tt, ct, ct / tt, bt, bt / tt
          exit (loss > 0 && br < 2 * tr) || (loss == 0 && (ct > tt / 2 || bt > tt / 2))
        }' || fail=1
    done
  done
done
[ "$fail" -eq 0 ] || { echo "str0m: less than twice as much at 1 % loss, or more than half the processor time" >&2; exit 1; }
