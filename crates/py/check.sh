#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh virtual environment, runs its tests there, and every cell of the notebook.
#
#   crates/py/check.sh [WHEEL]     # a wheel that is there already is not built
set -euo pipefail
cd "$(dirname "$0")"
# Shared with the program, whose libraries are the wheel's, too.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$(realpath ../..)/target}
command -v python3 >/dev/null || { echo "check: needs python3 with venv (Debian: python3-venv)" >&2; exit 3; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --requirement tests/requirements.txt
wheel=${1:-}
if [ -z "$wheel" ]; then
  "$place/venv/bin/maturin" build --locked --profile dist --out "$place/wheels" 2>&1 | tail -n 3
  wheel=$(echo "$place"/wheels/*.whl)
fi
"$place/venv/bin/pip" install --quiet "$wheel"
cp -r tests examples "$place"
cp ../../examples/sweep.py "$place/examples"
# In another folder, so that what is imported is what is installed.
cd "$place"
venv/bin/python -m pytest -q -p no:cacheprovider tests
# The bare race is that of the command: the package has nothing else of ours beside it.
(cd / && env -i PATH=/usr/bin:/bin "$place/venv/bin/anabranch" race --quiet) > bare.txt
"$place/venv/bin/python" -c 'import anabranch; print(anabranch.race(), end="")' > race.txt
grep -q . bare.txt && cmp bare.txt race.txt
venv/bin/jupyter execute examples/races.ipynb
