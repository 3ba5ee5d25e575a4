#!/usr/bin/env bash
# Checks that HTTP/1.1 on six connections, HTTP/2 and HTTP/3 finish in the same order in the lab and with other
# programs. The lab races our implementations in virtual time. Over an emulated link with the same parameters curl
# gets the same objects from nginx over TLS, aioquic's client from quiche's server, and quiche's client from
# aioquic's. No packets are lost, so only a slow machine can disturb the order.
#
#   interop/order.sh
#
# Needs root (network namespaces), iproute2, curl, nginx, openssl, python3, and the programs built by quic.sh. RUNS=N
# runs each N times, in turn (5).
set -euo pipefail
cd "$(dirname "$0")"
PATH=$PATH:/usr/sbin:/sbin
for need in curl nginx openssl python3 ip; do
  command -v "$need" >/dev/null || { echo "order: there is no $need here" >&2; exit 3; }
done
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/quic"
programs=$(cd "$target/quic" && pwd)
for peer in aioquic quiche; do peers/$peer.sh "$programs"; done
[ -e "$programs/server.pem" ] || { echo "order: run quic.sh first, which makes certificates" >&2; exit 3; }
if [ -z "${ANABRANCH:-}" ]; then
  # shellcheck disable=SC2097,SC2098
  (cd .. && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target} cargo build --release --locked --quiet -p anabranch-cli)
  ANABRANCH=$(cd "${CARGO_TARGET_DIR:-../target}" && pwd)/release/anabranch
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
link=(--rate 10mbit --rtt 160ms)
count=60
mkdir "$out/site" "$out/got"
for number in $(seq $count); do head -c 2000 /dev/urandom >"$out/site/$number"; done
cat >"$out/nginx.conf" <<END
daemon off; master_process off; pid $out/pid; error_log $out/errors; events {}
http { access_log off; client_body_temp_path $out/a; proxy_temp_path $out/b; fastcgi_temp_path $out/c;
uwsgi_temp_path $out/d; scgi_temp_path $out/e;
server { listen 8443 ssl http2; ssl_protocols TLSv1.3; ssl_certificate $programs/server.pem;
ssl_certificate_key $programs/server.key; root $out/site; } }
END
cat >"$out/far" <<END
"$programs/quiche" server order 0.0.0.0 4431 "$programs/server.pem" "$programs/server.key" "$out/site" >"$out/quiche" 2>&1 &
"$programs/aioquic" server order 0.0.0.0 4432 "$programs/server.pem" "$programs/server.key" "$out/site" >"$out/aioquic" 2>&1 &
nginx -p "$out" -c "$out/nginx.conf" >"$out/nginx" 2>&1
END
cat >"$out/near" <<END
set -eu
far=\${ANABRANCH_FAR%%,*}
for _ in \$(seq 100); do
  grep -q listening "$out/quiche" && grep -q listening "$out/aioquic" &&
    curl -sk --max-time 5 -o /dev/null "https://\$far:8443/1" && break
  sleep 0.2
done
took() { sed -n 's/.*took=\([0-9]*\)ms.*/\1/p'; }
paths=\$(seq -f /%g $count | tr '\n' ' ')
for run in \$(seq ${RUNS:-5}); do
  for version in http1.1 http2; do
    most=6
    [ \$version = http1.1 ] || most=100
    begun=\$(date +%s%N)
    curl -skZ --max-time 60 --\$version --parallel-max \$most --fail "https://\$far:8443/[1-$count]" -o "$out/got/#1"
    echo "\$version \$(((\$(date +%s%N) - begun) / 1000000))"
  done
  echo "aioquic \$("$programs/aioquic" client order \$far 4431 "$programs/authority.pem" "$out/got" \$paths | took)"
  echo "quiche \$("$programs/quiche" client order \$far 4432 "$programs/authority.pem" "$out/got" \$paths | took)"
done >"$out/times"
END
timeout -k 5 180 "$ANABRANCH" link "${link[@]}" --quiet --far "exec sh $out/far" -- sh "$out/near" || {
  echo "order: a client failed; what servers said:" >&2
  tail -n 3 "$out/quiche" "$out/aioquic" "$out/nginx" "$out/errors" >&2 || true
  exit 1
}
"$ANABRANCH" race "${link[@]}" --objects ${count}x2kB --runs 3 --quiet --causes off --json "$out/lab.json" \
  --transport tcp:connections=6,tls=yes --transport tcp:http=2,tls=yes --transport quic >/dev/null
python3 - "$out/lab.json" "$out/times" <<'END'
# Compares the two orders.
import json, statistics, sys
contestants = json.load(open(sys.argv[1]))["points"][0]["contestants"]
lab = [statistics.median(run["page_ns"] / 1e6 for run in one["runs"]) for one in contestants]
times = {}
for line in open(sys.argv[2]):
    name, ms = line.split()
    times.setdefault(name, []).append(float(ms))
link = {name: statistics.median(values) for name, values in times.items()}
print(f"{'60 x 2 kB, ms':<24}{'in the lab':>12}{'over the link':>16}")
for name, ours, theirs in [
    ("HTTP/1.1 on six", lab[0], {"curl": link["http1.1"]}),
    ("HTTP/2", lab[1], {"curl": link["http2"]}),
    ("HTTP/3", lab[2], {"aioquic": link["aioquic"], "quiche": link["quiche"]}),
]:
    print(f"{name:<24}{ours:>12.0f}   " + ", ".join(f"{who} {ms:.0f}" for who, ms in theirs.items()))
good = True
for client in ("aioquic", "quiche"):
    real = [link["http1.1"], link["http2"], link[client]]
    same = sorted(range(3), key=lambda n: lab[n]) == sorted(range(3), key=lambda n: real[n])
    good &= same
    print(f"with {client}: " + ("the same order" if same else "another order: FAILS"))
sys.exit(not good)
END
