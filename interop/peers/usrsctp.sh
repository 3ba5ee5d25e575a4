#!/usr/bin/env bash
# Builds the usrsctp end into the directory that is given; Debian's library.
set -euo pipefail
into=$1
cd "$(dirname "$0")"
need() {
  dpkg -s "$@" >/dev/null 2>&1 && return
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@" >&2 ||
    { apt-get update -q >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@" >&2; } ||
    { echo "usrsctp: cannot install $*: needs apt-get, its mirrors and root" >&2; exit 1; }
}
need gcc libc6-dev libusrsctp-dev
gcc -std=gnu11 -O2 -Wall -Wextra -DUSRSCTP socket.c -o "$into/usrsctp" -lusrsctp -lpthread
