#!/usr/bin/env bash
# Builds a guest into the given directory: a Linux kernel with SCTP that runs as a process of this machine. The kernel is
# Debian's user-mode-linux, its programs are busybox and the peer on the kernel's SCTP sockets (socket.c).
set -euo pipefail
into=$1/guest
cd "$(dirname "$0")"
[ -c /dev/net/tun ] || { echo "linux: there is no /dev/net/tun, by which the guest is reached" >&2; exit 1; }
[ -e "$into/initrd" ] && [ "$into/initrd" -nt socket.c ] && [ "$into/initrd" -nt guest/init ] && [ "$into/initrd" -nt guest/race ] && [ "$into/initrd" -nt guest/xstate.c ] && [ "$into/initrd" -nt linux.sh ] && exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$into" "$work/debs" "$work/kernel" "$work/busybox" "$work/root"
fetch() { (cd "$work/debs" && apt-get download -q user-mode-linux busybox-static >&2); }
fetch || { apt-get update -q >&2 && fetch; } ||
  { echo "linux: cannot download user-mode-linux and busybox-static: needs Debian's apt-get and its mirrors" >&2; exit 1; }
dpkg -x "$work"/debs/user-mode-linux_*.deb "$work/kernel"
dpkg -x "$work"/debs/busybox-static_*.deb "$work/busybox"
modules=$(echo "$work"/kernel/usr/lib/uml/modules/*)

root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,modules}
cp "$work/busybox/bin/busybox" "$root/bin/"
cp guest/init guest/race "$root/"
chmod 755 "$root/init" "$root/race"
gcc -std=gnu11 -O2 -Wall -Wextra -static socket.c -o "$root/peer" -lpthread
# Copies a kernel module after the modules that it depends on, and adds them to the load order.
declare -A known=()
take() {
  local module=$1 needed
  [ -z "${known[$module]:-}" ] || return 0
  known[$module]=yes
  for needed in $(sed -n "s|^$module:||p" "$modules/modules.dep"); do take "$needed"; done
  cp "$modules/$module" "$root/modules/"
  basename "$module" >>"$root/modules/order"
}
for name in hmac sha1_generic sha256_generic crc32c_generic sctp tun; do
  module=$(sed -n "s|^\([^:]*/$name\.ko\):.*|\1|p" "$modules/modules.dep")
  [ -z "$module" ] || take "$module"
done
for needed in sctp tun; do
  grep -q "^$needed.ko\$" "$root/modules/order" || { echo "linux: this user-mode-linux has no $needed" >&2; exit 1; }
done
cp "$work/kernel/usr/bin/linux.uml" "$into/linux.uml.new"
mv "$into/linux.uml.new" "$into/linux.uml"
# The kernel needs a preloaded library on current processors (see guest/xstate.c).
gcc -std=gnu11 -O2 -Wall -Wextra -shared -fPIC -o "$into/xstate.so" guest/xstate.c -ldl
cat > "$into/linux.new" <<'END'
#!/bin/sh
place=$(dirname "$0")
LD_PRELOAD=$place/xstate.so exec "$place/linux.uml" "$@"
END
chmod 755 "$into/linux.new"
mv "$into/linux.new" "$into/linux"
python3 - "$root" "$into/initrd" <<'END'
# Writes the guest's root file system as an archive in cpio's "newc" format.
import gzip, os, sys
root, out = sys.argv[1:]
def entry(number, name, mode, content=b"", device=(0, 0)):
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)
with gzip.open(out + ".new", "wb", 1) as archive:
    number = 1
    archive.write(entry(number, "dev/console", 0o020600, device=(5, 1)))
    for folder, folders, files in os.walk(root):
        for name in sorted(folders) + sorted(files):
            path = os.path.join(folder, name)
            content = b"" if os.path.isdir(path) else open(path, "rb").read()
            number += 1
            archive.write(entry(number, os.path.relpath(path, root), os.stat(path).st_mode, content))
    archive.write(entry(0, "TRAILER!!!", 0))
os.rename(out + ".new", out)
END
