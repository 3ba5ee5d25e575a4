#!/usr/bin/env bash
# Makes every package from a program that is already built, and runs the default race from each in an otherwise empty
# root directory.
#
#   packaging/check.sh [PROGRAM [STATIC]]    # default: target/dist/anabranch
#
# STATIC is the program built by packaging/static.sh, if available. Needs root (for chroot), dpkg-deb, binutils and
# python3.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/dist/anabranch}")
[ -x "$program" ] || { echo "check: no program '$program'; build it: cargo build --profile dist --locked" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" race --quiet > "$work/expected"
compared() {
  chroot "$2" /usr/bin/anabranch race --quiet > "$work/found"
  cmp "$work/expected" "$work/found" || { echo "check: $1 prints another race" >&2; exit 1; }
  echo "$1: the bare race is the same"
}
# Building a package twice must give the same bytes.
for name in deb image; do
  for turn in 1 2; do packaging/$name.sh "$program" "$work/$name$turn" > /dev/null; done
  cmp "$work/${name}1" "$work/${name}2" || { echo "check: two packages by $name.sh differ" >&2; exit 1; }
done
mkdir "$work/deb"
dpkg-deb --extract "$work/deb1" "$work/deb"
[ -s "$work/deb/usr/share/man/man1/anabranch-race.1.gz" ] && [ -s "$work/deb/usr/share/bash-completion/completions/anabranch" ]
# The root only gets the libraries that the package depends on.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do install -D "$(realpath "$library")" "$work/deb$library"; done
compared deb "$work/deb"
mkdir "$work/image" "$work/layer"
tar -C "$work/image" -xf "$work/image1"
python3 - "$work/image" > "$work/layer.name" <<'PYTHON'
import hashlib, json, pathlib, sys
root = pathlib.Path(sys.argv[1])
def blob(of):
    data = (root / "blobs" / of["digest"].replace(":", "/")).read_bytes()
    assert len(data) == of["size"] and hashlib.sha256(data).hexdigest() == of["digest"].split(":")[1], of
    return data
manifest = json.loads(blob(json.loads((root / "index.json").read_text())["manifests"][0]))
json.loads(blob(manifest["config"]))
blob(manifest["layers"][0])
print(manifest["layers"][0]["digest"].replace(":", "/"))
PYTHON
tar -C "$work/layer" -xzf "$work/image/blobs/$(cat "$work/layer.name")"
compared image "$work/layer"
if [ -n "${2:-}" ]; then
  # The root contains only the program, because it needs no libraries.
  install -D "$2" "$work/static/usr/bin/anabranch"
  compared static "$work/static"
fi
python3 packaging/sbom.py | python3 -c 'import json, sys; print("sbom:", len(json.load(sys.stdin)["components"]), "crates")'
# Run the action's script with a plan whose expectation is met, and with one whose expectation is missed.
for want in 0 1; do
  least=$([ $want = 0 ] && echo 0 || echo 100000)
  printf 'objects = "2x10kB"\nrtt = "20ms"\nruns = 2\ntransport = ["tcp", "sctp"]\n[[expect]]\nof = "tcp"\nmin = %s\n' "$least" > "$work/plan$want.toml"
  status=0
  GITHUB_STEP_SUMMARY=$work/summary packaging/action/race.sh "$program" "$work/plan$want.toml" || status=$?
  [ $status = $want ] || { cat "$work/summary" >&2; echo "check: the action's script ended with $status, not $want" >&2; exit 1; }
done
echo "action: one plan met, one missed"
