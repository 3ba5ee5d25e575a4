#!/usr/bin/env python3
"""Clients without a browser beside `race --client plain`: h2load, nghttp and curl load the same objects from nginx over
`anabranch link`.

    plain.py [--anabranch PROGRAM] [--loads N]     as root, for namespaces

For each program and loss it prints the time of all objects, real and simulated, as geometric means. Real times include
the start of the program. Status 1 if a ratio is further from 1 than 6 % without loss, or 16 % with 1 % loss.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rig
import servers

HERE = Path(__file__).resolve().parent
OBJECTS, BYTES = 72, 15_000
NETWORK = rig.PLAN["networks"]["10mbit"]
LIMITS = {"0": 0.06, "1%": 0.16}
# For each loss: the seeds of the link, and the loads over each. A seed decides which packets are lost.
LOADS = {"0": (1, 25), "1%": (8, 20)}
# The command that loads all URLs, and the contestant that stands for it. Debian 12's programs have no X25519MLKEM768.
TLS = "tls=yes,chain=700B,group=x25519"
PROGRAMS = {
    "h2load": (f"h2load -n {OBJECTS} -c 1 -m {OBJECTS} -i {{urls}}", f"tcp:http=2,{TLS}"),
    "nghttp": ("nghttp --no-verify-peer -n -w 20 -W 24 {list}", f"tcp:http=2,{TLS}"),
    "curl, HTTP/2": (f"curl -sk --http2 --parallel --parallel-max {OBJECTS} {{outputs}}", f"tcp:http=2,{TLS}"),
    "curl, HTTP/1.1": ("curl -sk --http1.1 --parallel --parallel-max 6 {outputs}", f"tcp:connections=6,{TLS}"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ends", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--anabranch", default=os.environ.get("ANABRANCH", str(HERE.parents[1] / "target/dist/anabranch")))
    parser.add_argument("--loads", type=int, help="loads over each seed of the link [default: 25, with loss 20]")
    options = parser.parse_args()
    if options.ends:
        {"far": far, "near": near}[options.ends[0]](options.ends[1])
        return
    print(f"{OBJECTS} objects of {BYTES} bytes over {NETWORK}; {servers.version('nginx', options)}")
    outside = []
    for loss, limit in LIMITS.items():
        for program, (command, contestant) in PROGRAMS.items():
            seeds, loads = LOADS[loss]
            times = [took for seed in range(1, seeds + 1)
                     for took in real(command, loss, seed, options.loads or loads, options)]
            if not times:
                sys.exit(f"plain.py: {program}: no load was complete")
            mean, low, high = rig.geometric(times)
            simulated, least, most = rig.geometric(race(contestant, loss, options))
            ratio = simulated / mean
            outside += [program] if abs(ratio - 1) > limit else []
            print(f"loss {loss:3} {program:15} {len(times):3} loads  real {mean:5.0f} ms ({low:.0f} to {high:.0f})  "
                  f"simulated {simulated:5.0f} ms ({least:.0f} to {most:.0f})  {ratio:.2f}, limit {limit:.0%}", flush=True)
    sys.exit(1 if outside else 0)


def real(command, loss, seed, count, options):
    with tempfile.TemporaryDirectory(prefix="plain-") as directory:
        site = Path(directory, "site", "plain.example")
        site.mkdir(parents=True)
        for number in range(OBJECTS):
            site.joinpath(f"{number}.bin").write_bytes(bytes(BYTES))
        files, _ = servers.certificates(directory, ["plain.example"], True)
        job = {"command": command, "count": count, "files": {host: str(file) for host, file in files.items()}}
        Path(directory, "job.json").write_text(json.dumps(job))
        ends = [f"{shlex.quote(sys.executable)} {HERE}/plain.py {end} {directory}" for end in ("far", "near")]
        link = [options.anabranch, "link", "--quiet", "--seed", str(seed), "--path", rig.with_loss("10mbit", loss),
                "--far", ends[0], "--", *shlex.split(ends[1])]
        status = rig.bounded(link, 60 + 20 * count)
        result = Path(directory, "result.json")
        if status != 0 or not result.exists():
            sys.exit(f"plain.py: {command}: the link ended with {status}")
        return json.loads(result.read_text())


def far(directory):
    job = json.loads(Path(directory, "job.json").read_text())
    servers.nginx(directory, job["files"], True, "cubic")


def near(directory):
    """Runs the command of the job, after one run that is not counted."""
    job = json.loads(Path(directory, "job.json").read_text())
    address = os.environ["ANABRANCH_FAR"].split(",")[0]
    urls = [f"https://{address}/{number}.bin" for number in range(OBJECTS)]
    Path(directory, "urls").write_text("\n".join(urls) + "\n")
    command = shlex.split(job["command"].format(
        urls=f"{directory}/urls", list=" ".join(urls), outputs=" ".join(f"-o /dev/null {url}" for url in urls)))
    times = []
    for number in range(job["count"] + 1):
        begun = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        took = (time.perf_counter() - begun) * 1000
        if done.returncode != 0 or b" 0 succeeded" in done.stdout:
            sys.exit(f"{command[0]}: {done.stdout.decode(errors='replace')[-300:]}")
        if number > 0:
            times.append(took)
    Path(directory, "result.json").write_text(json.dumps(times))


def race(contestant, loss, options):
    with tempfile.TemporaryDirectory(prefix="plain-") as directory:
        file = Path(directory, "race.json")
        flags = ["--objects", f"{OBJECTS}x{BYTES}B", "--path", NETWORK, "--loss", loss, "--client", "plain", "--causes", "off",
                 "--transport", contestant, "--runs", str(rig.PLAN["runs"]), "--json", file]
        subprocess.run([options.anabranch, "race", *flags], stdout=subprocess.DEVNULL, timeout=600, check=True)
        runs = json.loads(file.read_text())["points"][0]["contestants"][0]["runs"]
    return [run["page_ns"] / 1e6 for run in runs]


if __name__ == "__main__":
    main()
