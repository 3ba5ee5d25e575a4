#!/usr/bin/env bash
# Builds the Python wheels for aarch64 and x86-64, and checks that each is for the platform in its name.
#
#   packaging/wheels.sh DIRECTORY [MATURIN]     # default: maturin on the PATH
#
# Needs maturin, Rust's target and a linker for aarch64 (Debian: gcc-aarch64-linux-gnu), and pip.
set -euo pipefail
out=$(realpath -m "$1") maturin=${2:-maturin}
cd "$(dirname "$0")/../crates/py"
target=aarch64-unknown-linux-gnu
command -v "$maturin" >/dev/null || { echo "wheels: needs maturin: pip install maturin" >&2; exit 3; }
command -v aarch64-linux-gnu-gcc >/dev/null ||
  { echo "wheels: needs aarch64-linux-gnu-gcc (Debian: gcc-aarch64-linux-gnu)" >&2; exit 3; }
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] && ! rustup target add "$target" >/dev/null 2>&1; then
  echo "wheels: Rust's target $target is not to be had here" >&2
  exit 3
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target}
"$maturin" build --quiet --locked --profile dist --out "$out"
"$maturin" build --quiet --locked --profile dist --target "$target" --out "$out"
python3 - "$out" <<'PYTHON'
import pathlib, struct, sys, zipfile
machines = {"x86_64": 62, "aarch64": 183}
for machine, number in machines.items():
    wheels = list(pathlib.Path(sys.argv[1]).glob(f"anabranch-*_{machine}.whl"))
    if len(wheels) != 1:
        sys.exit(f"wheels: {len(wheels)} wheels for {machine}, not one")
    with zipfile.ZipFile(wheels[0]) as wheel:
        (module,) = [name for name in wheel.namelist() if name.endswith(".so")]
        (found,) = struct.unpack_from("<H", wheel.read(module), 18)
    if found != number:
        sys.exit(f"wheels: {wheels[0].name} is for machine {found}")
    print(f"{wheels[0].name}: {wheels[0].stat().st_size // 1024} kB")
PYTHON
# On other platforms there is no wheel, and pip reports it.
for platform in win_amd64 macosx_14_0_arm64; do
  if said=$(python3 -m pip download --no-index --find-links "$out" --only-binary=:all: --no-deps --platform "$platform" \
    --dest "$out/none" anabranch 2>&1); then
    echo "wheels: $platform has a wheel" >&2
    exit 1
  fi
  grep -q 'No matching distribution found for anabranch' <<< "$said" || { echo "wheels: $platform: $said" >&2; exit 1; }
done
echo "elsewhere: no matching distribution"
