#!/usr/bin/env bash
# Installs aioquic from PyPI into the given directory, and the peer program that uses it.
set -euo pipefail
mkdir -p "$1"
into=$(cd "$1" && pwd)
cd "$(dirname "$0")"
version=1.7.2
if ! [ "$(cat "$into/python/installed" 2>/dev/null)" = "$version" ]; then
  rm -rf "$into/python"
  # On Debian the module venv is in a package of its own.
  python3 -m venv "$into/python" >&2 || {
    DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends python3-venv >&2 &&
      python3 -m venv --clear "$into/python" >&2
  } || { echo "aioquic: there is no python3 with venv; get it with: apt-get install python3-venv" >&2; exit 1; }
  "$into/python/bin/pip" install -q "aioquic==$version" >&2 ||
    { echo "aioquic: cannot install it: does PyPI answer?" >&2; exit 1; }
  echo "$version" >"$into/python/installed"
fi
cp aioquic_end.py "$into/aioquic_end.py"
cat >"$into/aioquic" <<END
#!/bin/sh
exec "$into/python/bin/python" "$into/aioquic_end.py" "\$@"
END
chmod 755 "$into/aioquic"
