"""Compares the CPU time of a page load from Python with that of the command line, on the same number of threads.

    python benches/python.py PROGRAM [PAGE_LOADS [THREADS]]

Needs the package anabranch[sweep]. Each variant races the same plan of 1,000 points in a new process. The CPU time is that of all
its processes, including their start.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POINTS = 1000
CODE = {
    "race()": "import anabranch, sys; r = anabranch.race(sys.argv[1], threads=int(sys.argv[3])); r.to_json()",
    "sweep, threads": "import anabranch, sys; anabranch.sweep(sys.argv[1], out=sys.argv[2], threads=int(sys.argv[3]))",
    "sweep, Dask": (
        "import anabranch, sys\n"
        "from distributed import Client, LocalCluster\n"
        "if __name__ == '__main__':\n"
        "    with LocalCluster(n_workers=int(sys.argv[3]), threads_per_worker=1, dashboard_address=None) as c, Client(c) as client:\n"
        "        anabranch.sweep(sys.argv[1], out=sys.argv[2], client=client)"
    ),
}


def cost(command):
    """CPU seconds of a command and the child processes that it waited for, and its duration in seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began


def main(program, loads=100_000, threads=1):
    loads, threads = int(loads), int(threads)
    plan = {
        "objects": "10x10kB",
        "rate": [f"{n}mbit" for n in (1, 2, 3, 5, 8, 10, 15, 20, 50, 100)],
        "rtt": [f"{n}ms" for n in (5, 10, 15, 20, 30, 40, 60, 80, 120, 200)],
        "loss": [f"{n / 10}%" for n in range(10)],
        "runs": loads // POINTS // 2,
        "transport": ["tcp", "sctp"],
        "causes": "off",
    }
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "plan.toml")
        file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in plan.items()))
        ways = {"command line": [program, "race", file, "--quiet", f"--threads={threads}", f"--json={place}/all.json"]}
        for number, (name, code) in enumerate(CODE.items()):
            script = Path(place, f"{number}.py")
            script.write_text(code)
            ways[name] = [sys.executable, script, file, Path(place, str(number)), str(threads)]
        print(f"{plan['runs'] * 2 * POINTS} page loads, {threads} at a time")
        first = None
        for name, command in ways.items():
            cpu, wall = cost(command)
            first = first or cpu
            per = cpu / (plan["runs"] * 2 * POINTS)
            print(f"{name:15} {per * 1e6:7.0f} us of CPU a page load, {cpu / first:.3f} of the command line's; {wall:.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
