#!/usr/bin/env bash
# Builds the quic-go peer into the given directory. Needs Go, and its module proxy to download the modules in go.sum.
set -euo pipefail
into=$1
cd "$(dirname "$0")/quic-go"
go=$(command -v go || echo /usr/local/go/bin/go)
"$go" version >&2 || { echo "quic-go: there is no Go: https://go.dev/doc/install, or apt-get install golang" >&2; exit 1; }
"$go" build -mod=readonly -o "$into/quic-go" . || { echo "quic-go: cannot build: does the Go module proxy answer?" >&2; exit 1; }
