#!/usr/bin/env bash
# Builds the usrsctp peers into the given directory, with Debian's library: without encryption, over OpenSSL's DTLS
# 1.2, and over wolfSSL's DTLS 1.3. Debian's wolfSSL has no DTLS 1.3, so wolfSSL is compiled from the source in the
# crate wolfssl-sys.
set -euo pipefail
into=$1
cd "$(dirname "$0")"
need() {
  dpkg -s "$@" >/dev/null 2>&1 && return
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@" >&2 ||
    { apt-get update -q >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$@" >&2; } ||
    { echo "usrsctp: cannot install $*: needs apt-get, its mirrors and root" >&2; exit 1; }
}
need gcc libc6-dev libusrsctp-dev libssl-dev openssl
pem=$into/dtls.pem
if [ ! -s "$pem" ]; then
  openssl req -x509 -nodes -days 3650 -subj /CN=interop -newkey ec -pkeyopt ec_paramgen_curve:P-256 \
    -keyout "$into/dtls.key" -out "$into/dtls.crt" 2>/dev/null
  cat "$into/dtls.crt" "$into/dtls.key" > "$pem"
fi
build() { gcc -std=gnu11 -O2 -Wall -Wextra -DUSRSCTP -DPEM="\"$pem\"" "$@" -lusrsctp -lpthread; }
build socket.c -o "$into/usrsctp"
build -DOVER_DTLS socket.c -o "$into/usrsctp-dtls12" -lssl -lcrypto

cargo fetch --locked --quiet --manifest-path wolfssl/Cargo.toml ||
  { echo "usrsctp: cannot fetch wolfSSL's source: does crates.io answer?" >&2; exit 1; }
manifest=$(cargo metadata --locked --offline --format-version 1 --manifest-path wolfssl/Cargo.toml |
  tr ',' '\n' | sed -n 's|.*"manifest_path":"\(.*/wolfssl-sys-[^"]*\)/Cargo.toml".*|\1|p' | head -n 1)
source=$manifest/wolfssl-src
objects=$into/wolfssl
settings=(-DWOLFSSL_USER_SETTINGS -Iwolfssl -isystem "$source")
if [ ! "$objects/done" -nt wolfssl/user_settings.h ]; then
  mkdir -p "$objects"
  for file in src/{crl,dtls,dtls13,internal,keys,ocsp,ssl,tls,tls13,wolfio} \
    wolfcrypt/src/{aes,asn,chacha,chacha20_poly1305,coding,cpuid,curve25519,ecc,error,fe_operations,ge_operations} \
    wolfcrypt/src/{hash,hmac,kdf,logging,memory,misc,poly1305,pwdbased,random,sha,sha256,sha512,signature} \
    wolfcrypt/src/{sp_int,wc_encrypt,wc_port,wolfmath}; do
    gcc -O1 -w -c "${settings[@]}" "$source/$file.c" -o "$objects/$(basename "$file").o"
  done
  touch "$objects/done"
fi
build -DOVER_DTLS -DWITH_WOLFSSL "${settings[@]}" socket.c "$objects"/*.o -o "$into/usrsctp-dtls13" -lm
