#!/usr/bin/env bash
# Makes an OCI image of a program that is already built; no daemon is needed. The image only contains the program and
# the libraries that it loads.
#
#   packaging/image.sh PROGRAM OUT.tar        # then: podman load < OUT.tar, or skopeo copy oci-archive:OUT.tar ..
#
# The same program gives the same bytes.
set -euo pipefail
program=$(realpath "$1") out=$(realpath -m "$2")
version=$("$program" --version | awk '{print $2}')
case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "image: no image is made for $(uname -m)" >&2; exit 3 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layer=$work/layer image=$work/image
mkdir -p "$layer"/{usr/bin,tmp,results} "$image/blobs/sha256"
chmod 1777 "$layer/tmp"
install -m 755 "$program" "$layer/usr/bin/anabranch"
strip --strip-unneeded "$layer/usr/bin/anabranch"
# Copy each library to the path that ldd prints, where the program will look for it.
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
  install -D -m 755 "$(realpath "$library")" "$layer$library"
done
packed() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$1" -cf "$2" .; }
# Moves a file to the path named by its digest, and prints the values for a manifest.
blob() {
  local digest size
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  mv "$1" "$image/blobs/sha256/$digest"
  printf '"mediaType":"%s","digest":"sha256:%s","size":%s' "$2" "$digest" "$size"
}
packed "$layer" "$work/layer.tar"
difference=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
gzip -9n "$work/layer.tar"
of_layer=$(blob "$work/layer.tar.gz" application/vnd.oci.image.layer.v1.tar+gzip)
cat > "$work/config" <<CONFIG
{"architecture":"$architecture","os":"linux","config":{"Entrypoint":["/usr/bin/anabranch"],"Cmd":["race"],"WorkingDir":"/results","Labels":{"org.opencontainers.image.title":"anabranch","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$difference"]}}
CONFIG
of_config=$(blob "$work/config" application/vnd.oci.image.config.v1+json)
cat > "$work/manifest" <<MANIFEST
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{$of_config},"layers":[{$of_layer}]}
MANIFEST
of_manifest=$(blob "$work/manifest" application/vnd.oci.image.manifest.v1+json)
cat > "$image/index.json" <<INDEX
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{$of_manifest,"platform":{"architecture":"$architecture","os":"linux"},"annotations":{"org.opencontainers.image.ref.name":"anabranch:$version"}}]}
INDEX
printf '{"imageLayoutVersion":"1.0.0"}' > "$image/oci-layout"
packed "$image" "$out"
echo "$out"
