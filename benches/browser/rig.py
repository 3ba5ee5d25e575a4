#!/usr/bin/env python3
"""Chromium beside the simulation: loads the pages of pages.py over `anabranch link`, and races the same pages.

    rig.py cells                          lists the cells that cells.toml draws
    rig.py real [CELL..]                  loads pages with Chromium; appends a line for each cell to --out
    rig.py simulated [CELL..]             races the same cells; appends a line for each cell to --out
    rig.py table                          real beside simulated: geometric means, 95 % intervals, ratios
    rig.py timeline CELL                  one load as a JSON array of requests
    rig.py calibration                    the recorded HAR files beside their simulation over the network that they show
    rig.py hars                           records the HAR files of cells.toml that do not exist, each the median of
                                          nine loads (--loads)

A CELL is page/hosts/loss/network/transport, and `*` matches any part: news/*/0/10mbit/http2. Without CELL all drawn cells
are meant. A cell that --out already has is skipped, so that an interrupted run continues; `real --seed 2` adds loads of a
cell over a link with other losses. `real`, `timeline` and `hars`
need root, for namespaces.
"""

import argparse
import fnmatch
import json
import math
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from datetime import datetime
from pathlib import Path

import chromium
import pages
import servers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLAN = tomllib.loads((HERE / "cells.toml").read_text())
# A load that takes longer than this has failed; a cell may have a few of them.
LOAD_SECONDS = 90
# Loads of a page from which `hars` takes the median one.
RECORDED_LOADS = 9
# Two-sided 95 % points of Student's t for 1 to 29 degrees of freedom; beyond, the normal distribution's is near enough.
STUDENT = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10,
           2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05]


def every_cell():
    return [f"{page}/{hosts}/{loss}/{network}/{transport}"
            for page in PLAN["pages"] for hosts in PLAN["hosts"] for loss in PLAN["loads"] for network in PLAN["networks"]
            for transport, how in PLAN["transports"].items() if hosts in how["hosts"]]


def drawn_cells():
    """The drawn cells, in the order of the plan."""
    cells = [cell for cell in every_cell() if PLAN["transports"][cell.rsplit("/", 1)[1]].get("drawn")]
    drawn = set(random.Random(PLAN["seed"]).sample(cells, PLAN["draw"]))
    return [cell for cell in cells if cell in drawn]


def selected(patterns):
    """The drawn cells, or those of all cells that match the patterns, in the order of the patterns."""
    if not patterns:
        return drawn_cells()
    found = {}
    for pattern in patterns:
        matching = [cell for cell in every_cell() if fnmatch.fnmatchcase(cell, pattern)]
        if not matching:
            sys.exit(f"rig.py: no cell matches '{pattern}'; a cell is page/hosts/loss/network/transport, as in {every_cell()[0]}")
        found.update(dict.fromkeys(matching))
    return list(found)


def recorded(file):
    """The results in a file of lines, by cell and side. Real loads over links of several seeds are taken together."""
    file, results = Path(file), {}
    for result in map(json.loads, file.read_text().splitlines() if file.exists() else []):
        seeds, key = {result.get("seed", 1)}, (result["cell"], result["side"])
        known = results.get(key)
        if known and result["side"] == "real" and not seeds & known["seeds"]:
            result = {**known, "times": known["times"] + result["times"], "failed": known["failed"] + result["failed"]}
            seeds |= known["seeds"]
        results[key] = {**result, "seeds": seeds}
    return results


def append(file, result):
    with open(file, "a", encoding="utf-8") as out:
        out.write(json.dumps(result) + "\n")


def geometric(times):
    """The geometric mean of times, and its 95 % interval."""
    logs = [math.log(t) for t in times]
    mean = sum(logs) / len(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / (len(logs) - 1))
    half = (STUDENT[len(logs) - 2] if len(logs) - 2 < len(STUDENT) else 1.96) * deviation / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def over_link(page, hosts, transport, path, count, options, keep="times"):
    """Loads a page `count` times in namespaces that `anabranch link` makes, and returns what the near end wrote."""
    with tempfile.TemporaryDirectory(prefix="rig-cell-") as directory:
        objects = pages.write(directory, page, hosts)
        names = list(dict.fromkeys(made.host for made in objects))
        files, spki = servers.certificates(directory, names, hosts == "kept")
        how = PLAN["transports"][transport]
        job = {"server": how["server"], "congestion": how.get("congestion", "cubic"), "http2": transport.startswith("http2"),
               "quic": transport.startswith("http3"), "hosts": names, "files": {host: str(file) for host, file in files.items()},
               "spki": spki, "url": pages.url(objects[0]), "objects": len(objects), "count": count, "keep": keep,
               "netlog": options.netlog, "caddy": options.caddy, "anabranch": options.anabranch}
        Path(directory, "job.json").write_text(json.dumps(job))
        command = [options.anabranch, "link", "--quiet", "--seed", str(options.seed), "--path", path,
                   "--far", f"{sys.executable} {HERE}/rig.py far {directory}", "--",
                   sys.executable, f"{HERE}/rig.py", "near", directory]
        status = bounded(command, 60 + 4 * LOAD_SECONDS + 20 * count)
        result = Path(directory, "result.json")
        if status != 0 or not result.exists():
            errors = [f"{file.name}: {file.read_text()[-400:]}" for file in Path(directory).glob("*.errors")]
            raise chromium.Failed(f"{page} over {transport}: the link ended with {status}. {' '.join(errors)}")
        return json.loads(result.read_text())


def bounded(command, limit):
    """Runs a command for at most `limit` seconds, ends all its processes, and returns its status."""
    process = subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        return process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"{limit} s"
    finally:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
                process.wait(timeout=10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass


def far(directory):
    """Becomes the server of the job in `directory`."""
    job = json.loads(Path(directory, "job.json").read_text())
    errors = os.open(f"{directory}/server.errors", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    if job["server"] == "nginx":
        servers.nginx(directory, job["files"], job["http2"], job["congestion"])
    elif job["server"] == "caddy":
        servers.caddy(directory, job["files"], job["caddy"])
    else:
        servers.serve(directory, job["files"], job["anabranch"])


def near(directory):
    """Loads the page of the job in `directory`, at the near end of the link. The first load warms the browser up."""
    job = json.loads(Path(directory, "job.json").read_text())
    address = os.environ["ANABRANCH_FAR"].split(",")[0]
    flags = [f"--host-resolver-rules=MAP *.example {address}, MAP * ~NOTFOUND",
             f"--ignore-certificate-errors-spki-list={job['spki']}"]
    if job["quic"]:
        flags.append("--origin-to-force-quic-on=" + ",".join(f"{host}:443" for host in job["hosts"]))
    else:
        flags.append("--disable-quic")
    if job["netlog"]:
        flags.append(f"--log-net-log={job['netlog']}")
    kept, failed = [], []
    with chromium.Chromium(flags) as browser:
        for number in range(job["count"] + 1):
            try:
                load = browser.load(job["url"], job["objects"], LOAD_SECONDS)
            except chromium.Failed as error:
                failed.append(str(error))
                if len(failed) > 3:
                    break
                continue
            if number > 0 or job["count"] == 0:
                kept.append({"times": load.milliseconds, "timeline": load.timeline, "har": load.har}[job["keep"]]())
        connections, protocols = load.connections(), load.protocols()
        version = browser.version
    Path(directory, "result.json").write_text(json.dumps(
        {"kept": kept, "failed": failed, "connections": connections, "protocols": protocols, "chromium": version}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["cells", "real", "simulated", "table", "timeline", "calibration", "hars", "far", "near"])
    parser.add_argument("cells", nargs="*")
    parser.add_argument("--out", default=str(HERE / "results.jsonl"), help="file of results, a line for each cell and side")
    parser.add_argument("--loads", type=int, help="loads of each cell [default: those of cells.toml]")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no cell after this time")
    parser.add_argument("--seed", type=int, default=1, help="seed of the link and of the race")
    parser.add_argument("--held-out", action="store_true", help="simulate and show cells that are held out, too")
    parser.add_argument("--judge", action="store_true", help="table: status 1 unless the cells agree well enough")
    parser.add_argument("--race", help="flags of all races [default: those of cells.toml]")
    parser.add_argument("--netlog", help="file for Chromium's netlog")
    parser.add_argument("--anabranch", default=os.environ.get("ANABRANCH", str(ROOT / "target/dist/anabranch")))
    parser.add_argument("--caddy", default=os.environ.get("CADDY", str(ROOT / "target/caddy")))
    options = parser.parse_intermixed_args()
    if options.verb == "far":
        far(options.cells[0])
    elif options.verb == "near":
        near(options.cells[0])
    elif options.verb == "cells":
        print("\n".join(selected(options.cells)))
    elif options.verb == "timeline":
        for cell in selected(options.cells):
            page, hosts, loss, network, transport = cell.split("/")
            got = over_link(page, hosts, transport, with_loss(network, loss), 1, options, "timeline")
            print(json.dumps(got["kept"][0], indent=1))
    else:
        {"real": real, "simulated": simulated, "table": table, "hars": hars, "calibration": calibration}[options.verb](options)


def with_loss(network, loss):
    return PLAN["networks"][network] + ("" if loss == "0" else f",loss={loss}")


def hars(options):
    for name, load in PLAN["recorded"].items():
        file = recorded_file(name)
        if file.exists():
            continue
        file.parent.mkdir(exist_ok=True)
        count = options.loads or RECORDED_LOADS
        got = over_link(load["page"], load["hosts"], load["transport"], load["path"], count, options, "har")
        if len(got["kept"]) < count:
            sys.exit(f"rig.py: {name}: {len(got['kept'])} of {count} loads were complete: {str(got['failed'][:1])[:400]}")
        write_median(name, got["kept"])


def write_median(name, logs):
    """Writes the load of median page time of several loads of a recorded page as its HAR file."""
    load, logs = PLAN["recorded"][name], sorted(logs, key=page_time)
    log, times = logs[len(logs) // 2], [page_time(each) for each in logs]
    log["log"]["comment"] = (
        f"{load['page']} of benches/browser/pages.py, hosts: {load['hosts']}, over {load['path']}; the median of {len(logs)} "
        f"loads, which took {', '.join(f'{time:.0f}' for time in times)} ms")
    # An entry a line, so that changes can be read.
    entries = log["log"].pop("entries")
    text = json.dumps(log)[:-2] + ', "entries": [\n' + ",\n".join(map(json.dumps, entries)) + "\n]}}\n"
    json.loads(text)
    recorded_file(name).write_text(text)
    print(f"{name}: {len(entries)} requests, {times[len(times) // 2]:.0f} ms ({times[0]:.0f} to {times[-1]:.0f})", flush=True)


def recorded_file(name):
    return HERE / PLAN["recorded"][name].get("file", f"har/{name}.har")


def page_time(log):
    """Navigation start to the end of the last response of a HAR file, in milliseconds."""
    log = log["log"]
    start = datetime.fromisoformat(log["pages"][0]["startedDateTime"])
    return max((datetime.fromisoformat(entry["startedDateTime"]) - start).total_seconds() * 1000 + entry["time"]
               for entry in log["entries"])


def real(options):
    begun, done = time.monotonic(), recorded(options.out)
    for cell in selected(options.cells):
        if (cell, "real") in done and options.seed in done[cell, "real"]["seeds"]:
            continue
        if time.monotonic() - begun > options.seconds:
            break
        page, hosts, loss, network, transport = cell.split("/")
        count = options.loads or PLAN["loads"][loss]
        got = over_link(page, hosts, transport, with_loss(network, loss), count, options)
        if not got["kept"]:
            sys.exit(f"rig.py: {cell}: no load was complete; the first failure: {str(got['failed'][:1])[:400]}")
        result = {"cell": cell, "side": "real", "seed": options.seed, "times": got["kept"], "failed": got["failed"],
                  "connections": got["connections"], "protocols": got["protocols"], "browser": got["chromium"],
                  "server": servers.version(PLAN["transports"][transport]["server"], options),
                  "date": time.strftime("%Y-%m-%d"), "load_average": round(os.getloadavg()[0], 1)}
        append(options.out, result)
        mean, low, high = geometric(got["kept"])
        print(f"{cell:44} {len(got['kept']):3} loads  {mean:6.0f} ms ({low:.0f} to {high:.0f})  "
              f"{got['connections']} connections, {' '.join(got['protocols'])}", flush=True)


def is_held_out(cell):
    return any(fnmatch.fnmatchcase(cell, pattern) for pattern in PLAN["held_out"])


def simulated(options):
    done = recorded(options.out)
    for cell in selected(options.cells):
        if (cell, "simulated") in done or is_held_out(cell) and not options.held_out:
            continue
        page, hosts, loss, network, transport = cell.split("/")
        with tempfile.TemporaryDirectory(prefix="rig-race-") as directory:
            pages.write(directory, page, hosts)
            flags = ["--page", f"{directory}/page.har", "--path", PLAN["networks"][network], "--loss", loss,
                     "--transport", PLAN["transports"][transport]["contestant"], "--runs", str(options.loads or PLAN["runs"]),
                     "--seed", str(options.seed), *(PLAN["race"] if options.race is None else shlex.split(options.race))]
            done_race = subprocess.run([options.anabranch, "race", *flags, "--json", f"{directory}/race.json"],
                                       capture_output=True, text=True, timeout=1800, check=False)
            if done_race.returncode != 0:
                sys.exit(f"rig.py: {cell}: race: {done_race.stderr.strip()[-400:]}")
            runs = json.loads(Path(directory, "race.json").read_text())["points"][0]["contestants"][0]["runs"]
        times = [round(run["page_ns"] / 1e6, 1) for run in runs if run["page_ns"] is not None]
        if not times:
            sys.exit(f"rig.py: {cell}: no simulated run was complete")
        append(options.out, {"cell": cell, "side": "simulated", "times": times, "failed": len(runs) - len(times), "flags": flags[2:]})
        mean, low, high = geometric(times)
        print(f"{cell:44} {len(times):3} runs  {mean:6.0f} ms ({low:.0f} to {high:.0f})", flush=True)


def calibration(options):
    """Prints the page time of each recorded HAR file, and that of its simulation by `race --network recorded`."""
    print(f"{'recorded':32} {'real, ms':>9} {'simulated, ms':>14}  simulated/real")
    for name, load in PLAN["recorded"].items():
        with tempfile.TemporaryDirectory(prefix="rig-race-") as directory:
            flags = ["--network", "recorded", "--transport", PLAN["transports"][load["transport"]]["contestant"],
                     "--runs", str(options.loads or 11), "--seed", str(options.seed), "--loss", "0", "--causes", "off"]
            subprocess.run([options.anabranch, "race", recorded_file(name), *flags, "--json", f"{directory}/race.json"],
                           stdout=subprocess.DEVNULL, timeout=600, check=True)
            found = json.loads(Path(directory, "race.json").read_text())["calibrations"][0]
        ratio = found["simulated_ns"] / found["recorded_ns"]
        print(f"{name:32} {found['recorded_ns'] / 1e6:9.0f} {found['simulated_ns'] / 1e6:14.0f}  {ratio:.2f}  "
              f"{found['network']} ({load['path']})")


def table(options):
    """Prints real beside simulated, and what share of the cells agrees. With --judge it exits with 1 unless the limits hold."""
    done, rows = recorded(options.out), []
    print(f"{'cell':38} {'real, ms':>26} {'simulated, ms':>26}  simulated/real")
    for cell in selected(options.cells):
        if (cell, "real") not in done or is_held_out(cell) and not options.held_out:
            continue
        real_mean, low, high = geometric(done[cell, "real"]["times"])
        line = f"{cell:38} {f'{real_mean:.0f} ({low:.0f} to {high:.0f})':>26}"
        if (cell, "simulated") in done:
            mean, least, most = geometric(done[cell, "simulated"]["times"])
            ratio = mean / real_mean
            spread = math.hypot(math.log(high / real_mean), math.log(most / mean))
            line += f" {f'{mean:.0f} ({least:.0f} to {most:.0f})':>26}  {ratio:.2f} ({ratio * math.exp(-spread):.2f} to {ratio * math.exp(spread):.2f})"
            rows.append((cell, ratio))
        print(line)
    if not rows:
        return
    within = {bound: sum(1 - bound <= ratio <= 1 + bound for _, ratio in rows) / len(rows) for bound in (0.15, 0.25)}
    compared = pairs([cell for cell, _ in rows], done)
    wrong = [name for name, real, spread, found in compared if abs(real) > spread and (real < 0) != (found < 0)]
    print(f"{len(rows)} cells; within 0.85 to 1.15: {within[0.15]:.0%}; within 0.75 to 1.25: {within[0.25]:.0%}; "
          f"orders of two transports that differ: {', '.join(wrong) or 'none'}")
    print(f"\n{'ratio of two transports':58}  real  simulated")
    for name, real, _, found in compared:
        print(f"{name:58} {math.exp(real):5.2f} {math.exp(found):10.2f}")
    near = sum(abs(found - real) <= math.log(1.1) for _, real, _, found in compared)
    print(f"{near} of {len(compared)} ratios are within a factor of 1.1 of the real one")
    if options.judge and (within[0.15] < 0.9 or within[0.25] < 0.95 or set(wrong) - set(PLAN["differ"])):
        sys.exit(1)


def pairs(cells, done):
    """Pairs of transports under the same conditions: name, ratio of the real times, its 95 % spread, and the simulated
    ratio. The last three are logarithms."""
    found = []
    for one in cells:
        for other in cells:
            if one >= other or one.rsplit("/", 1)[0] != other.rsplit("/", 1)[0]:
                continue
            (a, _, a_high), (b, _, b_high) = (geometric(done[cell, "real"]["times"]) for cell in (one, other))
            spread = math.hypot(math.log(a_high / a), math.log(b_high / b))
            x, y = (geometric(done[cell, "simulated"]["times"])[0] for cell in (one, other))
            found.append((f"{one} and {other.rsplit('/', 1)[1]}", math.log(a / b), spread, math.log(x / y)))
    return found


if __name__ == "__main__":
    main()
