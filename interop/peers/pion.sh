#!/usr/bin/env bash
# Builds the pion peer into the given directory. Needs Go, and its module proxy to download the modules in go.sum.
set -euo pipefail
into=$1
cd "$(dirname "$0")/pion"
go=$(command -v go || echo /usr/local/go/bin/go)
"$go" version >&2 || { echo "pion: there is no Go: https://go.dev/doc/install, or apt-get install golang" >&2; exit 1; }
"$go" build -mod=readonly -o "$into/pion" . || { echo "pion: cannot build: does the Go module proxy answer?" >&2; exit 1; }
