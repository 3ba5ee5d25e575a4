"""Transfers between programs of others over TLS, QUIC and DTLS.

`ALL` has the transfers by name, with what the programs themselves know of them.
"""

import asyncio
import base64
import hashlib
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PEERS = Path(__file__).parent
sys.path.insert(0, str(PEERS.parent.parent / "benches/browser"))
# The objects of the servers, with their sizes in bytes.
SITE = {"a": 100, "b": 5_000, "c": 20_000, "d": 60_000, "e": 150_000, "f": 1}
NGINX, NGINX_1, CADDY, AIOQUIC, PAGE = 8441, 8442, 8443, 8444, 8445


class Missing(Exception):
    """A program that the transfer needs is not installed."""


def program(name, variable=None):
    found = shutil.which(os.environ.get(variable, name) if variable else name)
    if not found:
        raise Missing(f"there is no {name}" + (f"; set {variable}" if variable else ""))
    return found


def prepare(folder):
    """Makes a certificate and the objects."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    for name, size in SITE.items():
        (site / name).write_bytes(bytes((at * 7 + at // 256) & 0xFF for at in range(size)))
    fetches = "".join(f'fetch("/{name}").then(r => r.arrayBuffer()),' for name in SITE)
    (site / "page.html").write_text(f"<script>Promise.all([{fetches}]).then(() => document.title = 'done')</script>")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem",
         "-out", folder / "cert.pem"], check=True, capture_output=True)


def run(*command, keys=None, limit=60, **named):
    environment = {**os.environ, **({"SSLKEYLOGFILE": str(keys)} if keys else {})}
    done = subprocess.run([str(word) for word in command], env=environment, timeout=limit, capture_output=True, text=True,
                          check=False, **named)
    if done.returncode:
        raise RuntimeError(f"{Path(str(command[0])).name} exits with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    return done.stdout


@contextmanager
def running(*command, port=None, udp=False, keys=None, **named):
    """Runs a server, and waits until its port is open."""
    environment = {**os.environ, **({"SSLKEYLOGFILE": str(keys)} if keys else {})}
    process = subprocess.Popen([str(word) for word in command], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, **named)
    try:
        end = time.monotonic() + 20
        table = "/proc/net/udp" if udp else "/proc/net/tcp"
        while port and f":{port:04X} " not in Path(table).read_text() + Path(table + "6").read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{Path(str(command[0])).name} does not listen")
            time.sleep(0.02)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def nginx(folder):
    def server(port, words):
        return (f"server {{ listen 127.0.0.1:{port} ssl {words}; root {folder}/site; keepalive_timeout 5;"
                f" ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; }}")

    temporary = " ".join(f"{what}_temp_path {folder}/{what};" for what in
                         ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; user root; pid {folder}/nginx.pid; error_log {folder}/nginx.errors;"
        f"events {{ worker_connections 99; }} http {{ access_log off; {temporary} ssl_protocols TLSv1.2 TLSv1.3;"
        f"{server(NGINX, 'http2')} {server(NGINX_1, '')} }}")
    with running(program("nginx"), "-p", folder, "-c", folder / "nginx.conf", port=NGINX) as process:
        yield process


@contextmanager
def caddy(folder, offload=False):
    """Caddy. By default it hands each packet of QUIC alone to the kernel, so that tshark can open them."""
    if not offload:
        os.environ["QUIC_GO_DISABLE_GSO"] = "true"
    handle = [{"handler": "file_server", "root": str(folder / "site")}]
    fields = [{"handler": "headers", "response": {"set": {"Alt-Svc": [f'h3=":{CADDY}"; ma=3600']}}}]
    server = {"listen": [f"127.0.0.1:{CADDY}"], "routes": [{"handle": fields}, {"handle": handle}],
              "automatic_https": {"disable": True}, "tls_connection_policies": [{}]}
    pair = {"certificate": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
    config = {"admin": {"disabled": True, "config": {"persist": False}}, "logging": {"logs": {"default": {"level": "ERROR"}}},
              "apps": {"tls": {"certificates": {"load_files": [pair]}}, "http": {"servers": {"site": server}}}}
    (folder / "caddy.json").write_text(json.dumps(config))
    with running(program("caddy", "CADDY"), "run", "--config", folder / "caddy.json", port=CADDY, udp=True,
                 cwd=folder) as process:
        os.environ.pop("QUIC_GO_DISABLE_GSO", None)
        yield process


def curl(port, *flags, host="localhost", names=SITE):
    def transfer(folder, keys):
        urls = [f"https://{host}:{port}/{name}" for name in names]
        with (caddy if port == CADDY else nginx)(folder):
            run(program("curl"), "--insecure", "--silent", "--show-error", "--resolve", f"{host}:{port}:127.0.0.1",
                "--output", "/dev/null", *flags, *[word for url in urls for word in (url, "--output", "/dev/null")][:-2],
                keys=keys)
    return transfer


def ngtcp2(folder, keys):
    """curl with ngtcp2 and nghttp3, as the package curl_cffi has it."""
    import curl_cffi
    os.environ["SSLKEYLOGFILE"] = str(keys)
    with caddy(folder), curl_cffi.Session(http_version="v3only", verify=False) as session:
        for name in SITE:
            answer = session.get(f"https://localhost:{CADDY}/{name}")
            assert len(answer.content) == SITE[name], answer


def aioquic_client(port, case="transfer", version=None):
    def transfer(folder, keys):
        script, got = PEERS / "aioquic_end.py", folder / "got"
        got.mkdir(exist_ok=True)
        start = [sys.executable, script]
        if version:
            start = [sys.executable, "-c", f"import sys, runpy; sys.path.insert(0, {str(PEERS)!r});"
                     "import aioquic.quic.configuration as c, aioquic.quic.packet as p;"
                     "sys.argv = sys.argv[1:];"
                     "m = runpy.run_path(sys.argv[0], run_name='end');"
                     "m['VERSIONS'][:] = [p.QuicProtocolVersion.VERSION_2];"
                     "import asyncio; asyncio.run(m[sys.argv[1]](*sys.argv[2:]))", script]
        own = running(*start, "server", case, "127.0.0.1", AIOQUIC, folder / "cert.pem", folder / "key.pem", folder / "site",
                      port=AIOQUIC, udp=True)
        with caddy(folder) if port == CADDY else own:
            run(*start, "client", case, "127.0.0.1", port, folder / "cert.pem", got, *[f"/{name}" for name in SITE], keys=keys)
    return transfer


def chromium(port, *flags, offload=False):
    """Chromium loads a page that fetches all objects."""
    def transfer(folder, keys):
        import chromium as rig
        public = subprocess.run(["openssl", "pkey", "-in", folder / "key.pem", "-pubout", "-outform", "DER"],
                                capture_output=True, check=True).stdout
        digest = base64.b64encode(hashlib.sha256(public).digest()).decode()
        all_flags = [f"--ssl-key-log-file={keys}", f"--ignore-certificate-errors-spki-list={digest}",
                     "--host-resolver-rules=MAP localhost 127.0.0.1", *flags]
        server = caddy(folder, offload) if port == CADDY else nginx(folder)
        with server, rig.Chromium(all_flags, program("chromium")) as browser:
            target = browser.command("Target.createTarget", url=f"https://localhost:{port}/page.html")["targetId"]
            wait_for_title(browser, target)
    return transfer


def wait_for_title(browser, target, limit=30):
    """Waits until a page says in its title that it is done."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        title = browser.command("Target.getTargetInfo", targetId=target)["targetInfo"]["title"]
        if title.startswith("done"):
            return title
        time.sleep(0.1)
    raise RuntimeError(f"chromium: the page is not done within {limit} s")


def stop_server(ends):
    """The server's process stands still while the client goes on to send."""
    ends[0].send_signal(signal.SIGSTOP)


def kill_server(ends):
    ends[0].kill()


def sctp_ends(name, *words, fault=None):
    """Two ends of one stack over DTLS: messages of several sizes on several streams, in both directions. After a fault,
    the client sends for twelve more seconds, so that a timeout of one second expires three times."""
    def transfer(folder, keys):
        end = program(str(Path(os.environ.get("FIELD_PROGRAMS", "")) / name))
        start = [end, *words, "encap=4433", "dtls=1"]
        environment = {**os.environ, "SSLKEYLOGFILE": str(keys)}

        def begin(role, local, peer):
            return subprocess.Popen([*start, f"role={role}", f"local={local}", f"peer={peer}"], env=environment, text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

        ends = [begin("listen", "127.0.0.1", "127.0.0.2")]
        await_report(ends[0], "ready")
        ends.append(begin("connect", "127.0.0.2", "127.0.0.1"))
        try:
            for end in ends:
                await_report(end, "connected")
            sizes = [10, 1_000, 4_000, 30_000, 100_000]
            for number, size in enumerate(sizes):
                for end in ends:
                    print(f"send {number} {number % 3} {size} {'uo'[number % 2]} f 0", file=end.stdin, flush=True)
            for end in ends:
                for _ in sizes:
                    await_report(end, "message")
            time.sleep(0.5)
            if fault:
                fault(ends)
                print("send 9 1 30000 o f 0", file=ends[1].stdin, flush=True)
                time.sleep(12)
                return
            print("shutdown", file=ends[1].stdin, flush=True)
            await_report(ends[1], "down")
            time.sleep(0.3)
        finally:
            for end in ends:
                end.kill()
                end.wait()
    return transfer


def await_report(process, word):
    for line in process.stdout:
        if line.startswith(": " + word):
            return line
        if line.startswith(": fault"):
            raise RuntimeError(line.strip())
    raise RuntimeError(f"the program ended before it reported {word}")


def log_dtls_keys(keys):
    """Lets aiortc write the secrets of its DTLS connections."""
    from aiortc import rtcdtlstransport
    create = rtcdtlstransport.RTCCertificate._create_ssl_context

    def with_log(self, srtp_profiles):
        context = create(self, srtp_profiles)
        context.set_keylog_callback(lambda _, line: open(keys, "ab").write(line + b"\n"))
        return context

    rtcdtlstransport.RTCCertificate._create_ssl_context = with_log
    return lambda: setattr(rtcdtlstransport.RTCCertificate, "_create_ssl_context", create)


def echo(connection, blocks=0):
    """Sends the messages of all channels back. The first message blocks the event loop, in which SCTP runs, too."""
    @connection.on("datachannel")
    def opened(channel):
        @channel.on("message")
        def received(message):
            nonlocal blocks
            time.sleep(blocks)
            blocks = 0
            channel.send(message)


def aiortc(folder, keys):
    """Two peer connections of aiortc."""
    restore = log_dtls_keys(keys)

    async def talk():
        from aiortc import RTCPeerConnection
        caller, called = RTCPeerConnection(), RTCPeerConnection()
        echo(called)
        channels = [caller.createDataChannel("chat"), caller.createDataChannel("loose", ordered=False, maxRetransmits=2)]
        got = asyncio.Queue()
        for channel in channels:
            channel.on("message", got.put_nowait)
            channel.on("open", lambda channel=channel: [channel.send(b"x" * size) for size in (1, 900, 5_000, 40_000)])
        await caller.setLocalDescription(await caller.createOffer())
        await called.setRemoteDescription(caller.localDescription)
        await called.setLocalDescription(await called.createAnswer())
        await caller.setRemoteDescription(called.localDescription)
        for _ in range(8):
            await asyncio.wait_for(got.get(), 30)
        await caller.close()
        await called.close()

    try:
        asyncio.run(talk())
    finally:
        restore()


PAGE_TEXT = """<script>
const connection = new RTCPeerConnection();
const channels = [connection.createDataChannel("chat"), connection.createDataChannel("loose", {ordered: false, maxRetransmits: 2})];
let left = 8;
for (const channel of channels) {
  channel.onopen = () => [1, 900, 5000, 40000].forEach(size => channel.send(new Uint8Array(size)));
  channel.onmessage = () => { if (--left === 0) { connection.close(); document.title = "done"; } };
}
(async () => {
  await connection.setLocalDescription(await connection.createOffer());
  await new Promise(done => { if (connection.iceGatheringState === "complete") done();
    connection.onicegatheringstatechange = () => connection.iceGatheringState === "complete" && done(); });
  const answer = await fetch("/offer", {method: "POST", body: JSON.stringify(connection.localDescription)});
  await connection.setRemoteDescription(await answer.json());
})();
</script>"""


def blocked_aiortc(folder, keys):
    chromium_aiortc(folder, keys, blocks=4)


def chromium_aiortc(folder, keys, blocks=0):
    """Chromium opens data channels to aiortc, which writes the keys."""
    restore = log_dtls_keys(keys)
    import chromium as rig
    flags = ["--disable-features=WebRtcHideLocalIpsWithMdns"]

    async def answer(reader, writer):
        from aiortc import RTCPeerConnection, RTCSessionDescription
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            # Chromium opens spare connections.
            return writer.close()
        body = PAGE_TEXT.encode()
        if head.startswith(b"POST"):
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            offer = json.loads(await reader.readexactly(length))
            connection = RTCPeerConnection()
            connections.append(connection)
            echo(connection, blocks)
            await connection.setRemoteDescription(RTCSessionDescription(**offer))
            await connection.setLocalDescription(await connection.createAnswer())
            local = connection.localDescription
            body = json.dumps({"sdp": local.sdp, "type": local.type}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        writer.close()

    def load():
        with rig.Chromium(flags, program("chromium")) as browser:
            target = browser.command("Target.createTarget", url=f"http://localhost:{PAGE}/")["targetId"]
            wait_for_title(browser, target)
            time.sleep(0.5)

    async def talk():
        async with await asyncio.start_server(answer, "localhost", PAGE):
            await asyncio.to_thread(load)
        for connection in connections:
            await connection.close()

    connections = []
    try:
        asyncio.run(talk())
    finally:
        restore()


@dataclass
class Transfer:
    """A transfer: the function that runs it, its encryption, what its programs know, and what tshark cannot do.

    `finding` is the rule of `decode --why` that has to find the fault of the transfer.
    """

    run: Callable
    kind: str
    known: dict = field(default_factory=dict)
    limit: str | None = None
    finding: str | None = None


def over_tls(run, known=None):
    return Transfer(run, "tls", known or {"requests": len(SITE), "body bytes": sum(SITE.values())})


def over_quic(run, limit=None, known=None):
    return Transfer(run, "quic", known or {"requests": len(SITE), "body bytes": sum(SITE.values())}, limit)


def over_dtls(run, messages, size, limit=None):
    return Transfer(run, "dtls", {"messages": messages, "message bytes": size}, limit)


QUIC_ONLY = f"--origin-to-force-quic-on=localhost:{CADDY}"
ALL = {
    "curl, nginx: TLS 1.3, HTTP/2": over_tls(curl(NGINX, "--http2", "--parallel")),
    "curl, nginx: TLS 1.3, HTTP/1.1": over_tls(curl(NGINX_1, "--http1.1")),
    "curl, nginx: TLS 1.2, HTTP/2": over_tls(curl(NGINX, "--http2", "--tls-max", "1.2")),
    "curl, nginx: TLS 1.2, AES-128": over_tls(curl(NGINX_1, "--tls-max", "1.2", "--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256")),
    "curl, nginx: ChaCha20": over_tls(curl(NGINX, "--http2", "--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256")),
    "curl, Caddy: TLS 1.3, HTTP/2": over_tls(curl(CADDY, "--http2", "--parallel")),
    "Chromium, nginx: HTTP/2": over_tls(chromium(NGINX), {"requests": len(SITE) + 2}),
    "Chromium, Caddy: HTTP/3": over_quic(chromium(CADDY, QUIC_ONLY), known={"requests": len(SITE) + 2}),
    "Chromium, Caddy: joined datagrams": over_quic(
        chromium(CADDY, QUIC_ONLY, offload=True), "joined datagrams", {"requests": len(SITE) + 2}),
    "curl with ngtcp2, Caddy with quic-go": over_quic(ngtcp2),
    "aioquic, Caddy with quic-go": over_quic(aioquic_client(CADDY)),
    "aioquic, aioquic": over_quic(aioquic_client(AIOQUIC)),
    "aioquic, aioquic: Retry": over_quic(aioquic_client(AIOQUIC, "retry"), "another ClientHello after a Retry"),
    "aioquic, aioquic: key updates": over_quic(aioquic_client(AIOQUIC, "keyupdate"), "a key update before the first packet"),
    "aioquic, aioquic: 0-RTT": over_quic(aioquic_client(AIOQUIC, "zerortt")),
    "aioquic, aioquic: version 2": over_quic(aioquic_client(AIOQUIC, version=2)),
    "pion, pion: DTLS 1.2": over_dtls(sctp_ends("pion"), 10, 270_020),
    "usrsctp, usrsctp: DTLS 1.2": over_dtls(sctp_ends("usrsctp-dtls12"), 10, 270_020),
    "usrsctp, usrsctp: DTLS 1.3": over_dtls(sctp_ends("usrsctp-dtls13"), 10, 270_020, "DTLS 1.3"),
    "aiortc, aiortc: data channels": over_dtls(aiortc, 16, 183_604),
    "Chromium, aiortc: data channels": over_dtls(chromium_aiortc, 16, 183_604),
    "pion, pion: the server is stopped": Transfer(sctp_ends("pion", fault=stop_server), "dtls", finding="peer_silent"),
    "usrsctp, usrsctp: the server is killed": Transfer(
        sctp_ends("usrsctp-dtls12", fault=kill_server), "dtls", finding="peer_silent"),
    "Chromium, aiortc: a blocked event loop": Transfer(blocked_aiortc, "dtls", finding="peer_silent"),
}
