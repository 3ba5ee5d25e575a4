"""The servers at the far end of the link: nginx for HTTP/1.1 and HTTP/2, Caddy or `anabranch serve` for HTTP/3.

Each runs in the foreground in the network namespace of its caller and serves `DIRECTORY/site`, which pages.py wrote.
"""

import base64
import hashlib
import json
import os
import socket
import subprocess
from pathlib import Path

# Linux: the option of IPPROTO_TCP that selects congestion control.
TCP_CONGESTION = 13


def certificates(directory, hosts, apart):
    """Makes a certificate for each host if they are kept `apart`, else one for all; returns (file of each host, SPKI hash).

    All have the same key, so that one hash makes Chromium accept them.
    """
    directory = Path(directory)
    key = directory / "key.pem"
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    files = {}
    for group in [[host] for host in hosts] if apart else [hosts]:
        file = directory / f"{group[0]}.pem"
        names = ",".join(f"DNS:{host}" for host in group)
        openssl("req", "-x509", "-new", "-key", key, "-days", "3", "-subj", f"/CN={group[0]}",
                "-addext", f"subjectAltName={names}", "-out", file)
        files.update({host: file for host in group})
    public = openssl("pkey", "-in", key, "-pubout", "-outform", "DER")
    return files, base64.b64encode(hashlib.sha256(public).digest()).decode()


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, timeout=30, check=False)
    if done.returncode != 0:
        raise SystemExit(f"openssl {arguments[0]}: {done.stderr.decode().strip()}")
    return done.stdout


def version(server, options):
    """What the program says that serves, such as nginx/1.22.1. Caddy is as old as its go.mod says."""
    if server == "caddy":
        required = Path(__file__).with_name("caddy").joinpath("go.mod").read_text()
        return "caddy " + required.split("github.com/caddyserver/caddy/v2 ")[1].split()[0]
    program = "nginx" if server == "nginx" else options.anabranch
    done = subprocess.run([program, "-v" if server == "nginx" else "--version"], capture_output=True, text=True, check=True)
    return (done.stdout + done.stderr).strip().removeprefix("nginx version: ")


def nginx(directory, files, http2, congestion):
    """Replaces this process by nginx.

    nginx inherits its listening socket, whose congestion control is set before: connections take it over, and the
    namespace's default cannot be changed to one that the kernel restricts.
    """
    http2 = " http2" if http2 else ""
    blocks = "\n".join(
        f"server {{ listen 0.0.0.0:443 ssl{http2}; server_name {host}; root {directory}/site/{host};"
        f" ssl_certificate {file}; ssl_certificate_key {directory}/key.pem; }}" for host, file in files.items())
    temporary = " ".join(f"{what}_temp_path {directory}/{what};" for what in
                         ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    Path(directory, "nginx.conf").write_text(f"""daemon off; worker_processes 1; user root;
pid {directory}/nginx.pid; error_log {directory}/nginx.errors;
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile on; {temporary}
types {{ text/html html; text/css css; text/javascript js; image/jpeg jpg; image/png png; image/gif gif;
  image/svg+xml svg; font/woff2 woff2; }}
ssl_protocols TLSv1.2 TLSv1.3; add_header Access-Control-Allow-Origin *;
{blocks} }}
""")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, congestion.encode())
    listener.bind(("0.0.0.0", 443))
    listener.listen(511)
    listener.set_inheritable(True)
    os.environ["NGINX"] = f"{listener.fileno()};"
    os.execvp("nginx", ["nginx", "-p", directory, "-c", f"{directory}/nginx.conf"])


def caddy(directory, files, program):
    """Replaces this process by Caddy with its defaults, except that it sends Alt-Svc over HTTP/3, too.

    Chromium then knows that the server takes priorities, as it does of each server whose Alt-Svc it knows.
    """
    pairs = [{"certificate": str(file), "key": f"{directory}/key.pem"} for file in dict.fromkeys(files.values())]
    fields = {"Access-Control-Allow-Origin": ["*"], "Alt-Svc": ['h3=":443"; ma=2592000']}
    routes = [{"handle": [{"handler": "headers", "response": {"set": fields}}]}]
    routes += [{"match": [{"host": [host]}], "handle": [{"handler": "file_server", "root": f"{directory}/site/{host}"}]}
               for host in files]
    server = {"listen": [":443"], "routes": routes, "automatic_https": {"disable": True},
              "tls_connection_policies": [{}], "strict_sni_host": False}
    config = {"admin": {"disabled": True, "config": {"persist": False}}, "logging": {"logs": {"default": {"level": "ERROR"}}},
              "apps": {"tls": {"certificates": {"load_files": pairs}}, "http": {"servers": {"site": server}}}}
    Path(directory, "caddy.json").write_text(json.dumps(config))
    os.environ.update(HOME=directory, XDG_DATA_HOME=directory, XDG_CONFIG_HOME=directory)
    os.execvp(program, [program, "run", "--config", f"{directory}/caddy.json"])


def serve(directory, files, program):
    """Replaces this process by `anabranch serve`, which has one site and one certificate for all hosts."""
    file = next(iter(files.values()))
    merged = Path(directory, "merged")
    for path in Path(directory, "site").glob("*/**/*"):
        if path.is_file():
            link = merged.joinpath(*path.relative_to(directory, ).parts[2:])
            link.parent.mkdir(parents=True, exist_ok=True)
            link.hardlink_to(path)
    os.execvp(program, [program, "serve", str(merged), "--quiet", "--listen", "h3://*:443",
                        "--cert", str(file), "--key", f"{directory}/key.pem"])
