#!/usr/bin/env bash
# Installs requests from PyPI beside aioquic, in the virtual environment that aioquic.sh makes in the given directory.
set -euo pipefail
into=$1
version=2.34.2
[ "$(cat "$into/python/requests" 2>/dev/null)" = "$version" ] && exit
"$into/python/bin/python" -m pip install -q "requests==$version" >&2 ||
  { echo "requests: cannot install it: does PyPI answer?" >&2; exit 1; }
echo "$version" >"$into/python/requests"
