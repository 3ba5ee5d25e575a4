#!/bin/sh
# Runs the study @NAME@ again and compares every byte with what this bundle holds.
# Usage: check.sh [--full]. Exit: 0 all the same, 1 something differs, 2 wrong use, 3 it cannot be run here.
set -eu
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
export PATH
export LC_ALL=C
cd "$(dirname "$0")"
sizes=quick
case "${1-}" in
  "") ;;
  --full) sizes="@SIZES@" ;;
  *) echo "usage: check.sh [--full]" >&2; exit 2 ;;
esac
if [ "${1-}" = --full ] && [ ! -d expected/full ]; then
  echo "this bundle holds no full run; without --full the quick one is checked" >&2
  exit 2
fi
for tool in cmp dirname grep mkdir mktemp rm sha256sum; do
  command -v "$tool" >/dev/null || { echo "$tool is needed" >&2; exit 3; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

differs=0
# same EXPECTED FOUND
same() {
  if cmp -s "$1" "$2"; then
    echo "same     $1"
  else
    echo "DIFFERS  $1"
    differs=1
  fi
}

if sha256sum -c SHA256SUMS >"$work/sums" 2>&1; then
  echo "same     the files of this bundle, by SHA256SUMS"
else
  grep -v ': OK$' "$work/sums" || true
  echo "DIFFERS  the files of this bundle, by SHA256SUMS"
  differs=1
fi
for table in @TABLES@; do
  ./anabranch study plan "studies/@NAME@/$table" >"$work/plan" || exit 3
  same "plans/$table.toml" "$work/plan"
  ./anabranch study plan "studies/@NAME@/$table" --quick >"$work/plan" || exit 3
  same "plans/quick/$table.toml" "$work/plan"
done
for size in $sizes; do
  found="$work/$size"
  mkdir "$found"
  code=0
  if [ "$size" = quick ]; then
    ./anabranch study run studies/@NAME@ --quick --out "$found/out" >"$found/printed.txt" || code=$?
  else
    ./anabranch study run studies/@NAME@ --out "$found/out" >"$found/printed.txt" || code=$?
  fi
  if [ "$code" -gt 1 ]; then
    echo "the study could not be run: exit code $code" >&2
    exit 3
  fi
  echo "$code" >"$found/exit-code.txt"
  for name in printed.txt exit-code.txt; do
    same "expected/$size/$name" "$found/$name"
  done
  for file in "expected/$size/outcomes.md" "expected/$size/@NAME@"/* "expected/$size/@NAME@/tables"/*; do
    if [ -f "$file" ]; then
      same "$file" "$found/out/${file#expected/"$size"/}"
    fi
  done
done
if [ "$differs" -eq 0 ]; then
  echo "all the same"
else
  echo "not all is the same: see the lines that begin with DIFFERS"
fi
exit "$differs"
