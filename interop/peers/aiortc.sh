#!/usr/bin/env bash
# Installs aiortc from PyPI into a virtual environment in the given directory, and the peer program that uses it.
set -euo pipefail
into=$1
peers=$(cd "$(dirname "$0")" && pwd)
venv=$into/aiortc-venv
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv" || { echo "aiortc: there is no venv: apt-get install python3-venv" >&2; exit 1; }
fi
"$venv/bin/pip" install --quiet aiortc==1.16.0 >&2 || { echo "aiortc: cannot install: does PyPI answer?" >&2; exit 1; }
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$venv/bin/python" "$peers/aiortc_end.py" >"$into/aiortc"
chmod +x "$into/aiortc"
