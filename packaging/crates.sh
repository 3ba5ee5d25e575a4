#!/usr/bin/env bash
# Packages every published crate, as `cargo publish` would, and builds each from its package. Its dependencies are the
# packages of the other crates.
#
#   packaging/crates.sh [--no-verify]     # --no-verify does not build
#
# The published crates are those of the workspace without `publish = false`.
set -euo pipefail
cd "$(dirname "$0")/.."
names=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
packages = json.load(sys.stdin)["packages"]
published = [package for package in packages if package["publish"] is None]
for package in published:
    for key in ("description", "license", "documentation", "readme", "keywords", "categories", "rust_version"):
        if not package[key]:
            sys.exit("crates: %s has no %s" % (package["name"], key))
print(" ".join(package["name"] for package in published))')
cargo package --locked --allow-dirty --quiet "$@" $(printf -- '-p %s ' $names)
target=$(cargo metadata --locked --no-deps --format-version 1 | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
for name in $names; do
  package=$(ls -t "$target/package/$name"-[0-9]*.crate | head -n 1)
  held=$(tar -tzf "$package")
  for file in README.md LICENSE-MIT LICENSE-APACHE src/lib.rs; do
    grep -q "/$file\$" <<< "$held" || { echo "crates: $package has no $file" >&2; exit 1; }
  done
  # A link would point outside the package.
  ! tar -tvzf "$package" | grep -q '^l' || { echo "crates: $package has a link" >&2; exit 1; }
  echo "$name: $(du -h "$package" | cut -f1)"
done
