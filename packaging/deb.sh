#!/usr/bin/env bash
# Makes a Debian package of a program that is already built, with man pages and completions.
#
#   packaging/deb.sh PROGRAM OUT.deb
#
# Needs dpkg-deb. The same program gives the same bytes, because all files get the time of the last commit, or
# SOURCE_DATE_EPOCH.
set -euo pipefail
program=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
version=$("$program" --version | awk '{print $2}')
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
install -D -m 755 "$program" "$root/usr/bin/anabranch"
strip --strip-unneeded "$root/usr/bin/anabranch"
"$program" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
install -d "$root"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
"$program" completions bash > "$root/usr/share/bash-completion/completions/anabranch"
"$program" completions zsh > "$root/usr/share/zsh/vendor-completions/_anabranch"
"$program" completions fish > "$root/usr/share/fish/vendor_completions.d/anabranch.fish"
documents=$root/usr/share/doc/anabranch
install -D -m 644 README.md "$documents/README.md"
install -D -m 644 CHANGELOG.md "$documents/changelog"
gzip -9n "$documents/changelog"
install -m 644 LICENSE-MIT LICENSE-APACHE "$documents"
printf 'anabranch is under the MIT licence or the Apache License 2.0, as you choose: LICENSE-MIT and LICENSE-APACHE here.\n' \
  > "$documents/copyright"
chmod -R u=rwX,go=rX "$root"
# The oldest version of the C library that has all symbols of the program.
libc=$(objdump -T "$root/usr/bin/anabranch" | grep -o 'GLIBC_2\.[0-9.]*' | sort -uV | tail -n 1 | cut -d_ -f2)
install -d "$root/DEBIAN"
cat > "$root/DEBIAN/control" <<CONTROL
Package: anabranch
Version: $version
Architecture: $architecture
Section: net
Priority: optional
Depends: libc6 (>= $libc), libgcc-s1
Recommends: iproute2, iptables
Maintainer: The anabranch authors <anabranch@example.org>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Description: which transport carries this traffic best, and why
 Races HTTP/1.1, HTTP/2, HTTP/3 and SCTP in a deterministic virtual network or
 on emulated links, and explains the result. Includes a server, client, load
 generator and gateway for HTTP over SCTP, in user space.
CONTROL
dpkg-deb --root-owner-group --build "$root" "$out" > /dev/null
echo "$out"
