#!/usr/bin/env bash
# Builds h2spec into the given directory. Needs Go, and its module proxy to download the modules in go.sum.
set -euo pipefail
into=$1
cd "$(dirname "$0")/h2spec"
go=$(command -v go || echo /usr/local/go/bin/go)
"$go" version >&2 || { echo "h2spec: there is no Go: https://go.dev/doc/install, or apt-get install golang" >&2; exit 1; }
"$go" build -mod=readonly -o "$into/h2spec" github.com/summerwind/h2spec/cmd/h2spec ||
  { echo "h2spec: cannot build: does the Go module proxy answer?" >&2; exit 1; }
