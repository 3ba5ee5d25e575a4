#!/usr/bin/env bash
# Builds all files of a release for this processor, and the list of checksums.
#
#   packaging/release.sh DIRECTORY
#
# DIRECTORY then contains anabranch-VERSION-TARGET.tar.gz (the static program, man pages, completions and licences,
# for `cargo binstall`), anabranch_VERSION_ARCH.deb, the Python wheel, anabranch-VERSION.cdx.json (the list of
# components) and SHA256SUMS. Needs the same tools as packaging/static.sh and packaging/deb.sh, and python3 with venv.
# The release workflow runs this script; the script itself publishes nothing.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
mkdir -p "$out"
[ -z "$(ls -A "$out")" ] || { echo "release: $out is not empty; name a new directory" >&2; exit 2; }
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

target=$(uname -m)-unknown-linux-musl
static=$(packaging/static.sh "$target")
version=$("$static" --version | awk '{print $2}')
root=$work/anabranch-$version-$target
install -D -m 755 "$static" "$root/anabranch"
strip --strip-unneeded "$root/anabranch"
"$static" man "$root/man"
for shell in bash zsh fish; do
  mkdir -p "$root/completions"
  "$static" completions "$shell" > "$root/completions/anabranch.$shell"
done
install -m 644 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$root"
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$(basename "$root")" |
  gzip -9n > "$out/$(basename "$root").tar.gz"

cargo build --profile dist --locked --quiet -p anabranch-cli
packaging/deb.sh "$CARGO_TARGET_DIR/dist/anabranch" "$out/anabranch_${version}_$(dpkg --print-architecture).deb" > /dev/null

python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet 'maturin>=1.9,<2'
(cd crates/py && "$work/venv/bin/maturin" build --quiet --locked --profile dist --out "$out")

python3 packaging/sbom.py > "$out/anabranch-$version.cdx.json"
(cd "$out" && sha256sum -- * > "$work/sums" && mv "$work/sums" SHA256SUMS && ls -l)
