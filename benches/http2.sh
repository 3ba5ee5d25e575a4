#!/usr/bin/env bash
# Compares HTTP/2 requests and TLS handshakes per second of the server's CPU time, between `serve` and nginx with one
# worker. h2load sends requests to both over the loopback interface, in alternating rounds. Each row has the medians and
# their ratio, then ok or FAIL: `serve` must reach 0.8 of nginx. There is no limit for handshakes.
#
#     benches/http2.sh [ANABRANCH [ROUNDS]]       (default: target/dist/anabranch, 5)
#
# Debian: apt-get install nghttp2-client nginx-light openssl
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin"
cd "$(dirname "$0")/.."
anabranch=$(realpath "${1:-target/dist/anabranch}")
rounds=${2:-5}
for need in h2load:nghttp2-client nginx:nginx-light openssl:openssl; do
  command -v "${need%%:*}" >/dev/null || { echo "${need%%:*} is missing: apt-get install ${need#*:}"; exit 3; }
done
place=$(mktemp -d)
servers=()
trap 'for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done; wait; rm -rf "$place"' EXIT

mkdir "$place/site"
head -c 1000 /dev/urandom >"$place/site/1k"
head -c 100000 /dev/urandom >"$place/site/100k"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost -keyout "$place/key.pem" -out "$place/cert.pem" 2>/dev/null
# nginx does not resume TLS sessions, so each handshake is complete.
cat >"$place/nginx.conf" <<CONF
daemon off; master_process off; worker_processes 1; pid $place/pid; error_log $place/errors;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000000; sendfile on; open_file_cache max=100;
  client_body_temp_path $place/a; proxy_temp_path $place/b; fastcgi_temp_path $place/c;
  uwsgi_temp_path $place/d; scgi_temp_path $place/e;
  ssl_certificate $place/cert.pem; ssl_certificate_key $place/key.pem; ssl_session_cache off; ssl_session_tickets off;
  server { listen 127.0.0.1:18543 ssl http2 backlog=4096; listen 127.0.0.1:18580 http2 backlog=4096; root $place/site; } }
CONF
nginx -p "$place" -c "$place/nginx.conf" 2>/dev/null &
servers+=($!)
nginx=$!
"$anabranch" serve "$place/site" --quiet --connections 4096 --cert "$place/cert.pem" --key "$place/key.pem" \
  --listen https://127.0.0.1:18443 --listen tcp://127.0.0.1:18480 2>"$place/said" &
servers+=($!)
serve=$!
for port in 18543 18580 18443 18480; do
  for _ in $(seq 100); do
    (: </dev/tcp/127.0.0.1/$port) 2>/dev/null && continue 2
    sleep 0.1
  done
  echo "nobody listens on port $port: $(cat "$place/said" "$place/errors" 2>/dev/null)"
  exit 1
done

# Prints the user and system CPU time of a process, in hundredths of a second.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# measure PID URL FLAG..: loads URL with h2load, and prints the replies per second of CPU time of the server PID.
measure() {
  local pid=$1 url=$2 before after said good
  shift 2
  before=$(ticks "$pid")
  said=$(timeout 120 h2load "$@" "$url")
  after=$(ticks "$pid")
  good=$(sed -n 's/^requests: .* \([0-9]*\) succeeded, 0 failed.*/\1/p' <<<"$said")
  [ -n "$good" ] || { echo "requests failed: $said" >&2; return 1; }
  awk -v n="$good" -v t=$((after - before)) 'BEGIN { printf "%.0f\n", n * 100 / (t > 0 ? t : 1) }'
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

verdict=0
# row NAME PATH SCHEME JUDGED FLAG..: prints a row; JUDGED=yes compares the ratio with 0.8, FLAGs are those of h2load.
row() {
  local name=$1 path=$2 scheme=$3 judged=$4 own peer ours=() theirs=()
  shift 4
  if [ "$scheme" = https ]; then own=18443 peer=18543; else own=18480 peer=18580; fi
  for _ in $(seq "$rounds"); do
    ours+=("$(measure "$serve" "$scheme://127.0.0.1:$own/$path" "$@")")
    theirs+=("$(measure "$nginx" "$scheme://127.0.0.1:$peer/$path" "$@")")
  done
  own=$(printf '%s\n' "${ours[@]}" | median)
  peer=$(printf '%s\n' "${theirs[@]}" | median)
  awk -v name="$name" -v a="$own" -v b="$peer" -v judged="$judged" 'BEGIN {
    ok = a >= 0.8 * b
    printf "%-44s %9d %9d %6.2f%s\n", name, a, b, a / b, judged == "yes" ? (ok ? "  ok" : "  FAIL") : ""
    exit judged == "yes" && !ok }' || verdict=1
}
printf '%-44s %9s %9s %6s\n' "a second of the server's processor" serve nginx ratio
row "requests of 1 kB, TLS, 10 at a time" 1k https yes -n 40000 -c 10 -m 10
row "requests of 1 kB, clear, 10 at a time" 1k http yes -n 40000 -c 10 -m 10
row "requests of 100 kB, TLS, 10 at a time" 100k https yes -n 4000 -c 10 -m 10
row "requests of 1 kB, TLS, 1 at a time" 1k https yes -n 20000 -c 10 -m 1
row "handshakes of TLS (ECDSA P-256), whole" 1k https no -n 1000 -c 1000 -r 400
exit "$verdict"
