"""What the package promises: equal to the command line, one sentence for what is wrong, tables that others read."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import anabranch
import pytest

QUICK = {"objects": "5x10kB", "rate": "10mbit", "rtt": "40ms", "runs": 8, "causes": "off"}


def program(*words):
    done = subprocess.run([sys.executable, "-m", "anabranch", *words], capture_output=True, text=True, check=False)
    return done


def without_time(text):
    """JSON without how long this one race took, which no two share."""
    found, count = re.subn(r'"elapsed_s": [0-9.e-]+', '"elapsed_s": 0', text)
    assert count == 1
    return found


def test_a_race_is_that_of_the_command_line():
    result = anabranch.race(loss=["0", "2%"], transport=["tcp", "many=sctp:num_ostreams=5"], **QUICK)
    flags = ["--loss", "0,2%", "--transport", "tcp", "--transport", "many=sctp:num_ostreams=5"]
    for key, value in QUICK.items():
        flags += [f"--{key}", str(value)]
    done = program("race", *flags, "--json", "-", "--quiet")
    assert done.returncode == 0, done.stderr
    assert without_time(result.to_json()) == without_time(done.stdout)
    again = program(*result.command.split()[1:], "--json", "-", "--quiet")
    assert without_time(again.stdout) == without_time(done.stdout)


def test_tables_are_what_is_in_the_json():
    result = anabranch.race(loss=["0", "2%"], transport=["tcp", "sctp"], **QUICK)
    found = json.loads(result.to_json())
    runs = result.runs.to_arrow()
    told = [run["page_ns"] for point in found["points"] for one in point["contestants"] for run in one["runs"]]
    assert runs["page_ns"].to_pylist() == told
    assert set(runs["loss"].to_pylist()) == {"0", "2%"}
    means = {
        (point["factors"]["loss"], one["name"]): one["summary"]["page_ms"]["mean"]
        for point in found["points"]
        for one in point["contestants"]
    }
    frame = result.summary.to_pandas()
    frame = frame[frame.metric == "page_ms"]
    assert {(row.loss, row.contestant): row["mean"] for _, row in frame.iterrows()} == means
    objects = result.objects.to_polars()
    assert len(objects) == sum(len(run["objects"]["delivered_ns"]) for p in found["points"] for one in p["contestants"] for run in one["runs"])
    assert "blocked_ns" in objects.columns


def test_comparisons_are_a_table():
    result = anabranch.race(transport=["tcp", "sctp", "quic"], **QUICK)
    rows = result.comparisons.to_pandas()
    rows = rows[rows.metric == "page_ms"]
    # Without loss and with.
    assert list(zip(rows.a, rows.b)) == 2 * [("sctp", "tcp"), ("quic", "tcp"), ("quic", "sctp")]
    assert set(rows.verdict) <= {"less", "more", "tie", "undecided"} and (rows.ratio > 0).all()
    assert (rows.median_ratio > 0).all() and (rows.less + rows.more <= rows.n).all()


def test_causes_are_a_table():
    contestants = ["wide=tcp:iw=10", "narrow=tcp:iw=2"]
    result = anabranch.race(objects="10x20kB", rate="10mbit", rtt="100ms", transport=contestants, runs=10)
    causes = result.causes.to_arrow()
    assert causes.num_rows > 0 and "change" in causes.column_names
    assert all(effect > 0 for effect in causes["effect"].to_pylist())
    assert result.verdicts and "Use wide: " in str(result)


def test_changes_are_a_table():
    rows = anabranch.race(transport=["tcp", "sctp"], **QUICK, loss=["0", "2%"]).changes.to_pandas()
    # Each of the two levels of loss is a change of the other.
    assert list(zip(rows.loss, rows.change)) == 2 * [("0", "loss=2%")] + 2 * [("2%", "loss=0")]
    assert list(rows.contestant) == 2 * ["tcp", "sctp"] and (rows.median_ms > 0).all()


@pytest.mark.parametrize(
    ("keywords", "flags"),
    [
        ({"transport": "tpc"}, ["--transport", "tpc"]),
        ({"rate": "10furlongs"}, ["--rate", "10furlongs"]),
        ({"loss": "200%"}, ["--loss", "200%"]),
        ({"objects": "0x1kB"}, ["--objects", "0x1kB"]),
        ({"nonsense": 1}, None),
    ],
)
def test_what_is_wrong_is_said_as_by_the_command_line(keywords, flags):
    with pytest.raises(anabranch.PlanError) as caught:
        anabranch.race(**keywords)
    line = str(caught.value)
    assert line and "\n" not in line and "panicked" not in line
    if flags:
        assert program("race", *flags).stderr.strip() == f"anabranch: {line}"


def test_no_such_plan_and_no_such_type():
    with pytest.raises(anabranch.PlanError, match="nowhere.toml"):
        anabranch.race("nowhere.toml")
    with pytest.raises(TypeError, match="rate"):
        anabranch.race(rate=object())


def test_an_interrupt_ends_a_race():
    # A process that a shell starts in the background ignores the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        anabranch.race(objects="10x100kB", rate="2mbit", rtt="100ms", loss="2%", runs=50_000)


def test_the_interpreter_is_free_during_a_race():
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    told = []
    anabranch.race(objects="30x30kB", rate="10mbit", rtt="60ms", loss="2%", runs=300, progress=lambda *now: told.append(now), causes="off")
    stop.set()
    thread.join()
    assert told and told[-1][0] == told[-1][1]
    # Somebody else ran between the first and the last report of progress.
    assert len(ticks) > 3


def test_report_and_notebook(tmp_path):
    result = anabranch.race(transport=["tcp", "sctp"], **QUICK)
    result.report(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert "<iframe" in result._repr_html_()
    with pytest.raises(OSError):
        result.report(tmp_path / "no" / "r.html")


def test_a_study(tmp_path):
    found = anabranch.study("rajamani-2002", quick=True, table=["slide-24"])
    assert found.cells.num_rows > 0 and "verdict" in found.cells.column_names
    with pytest.raises(anabranch.CommandError) as caught:
        anabranch.study("no-such-study")
    assert caught.value.code == 2 and "no-such-study" in str(caught.value)


def test_a_bundle_is_the_program_s(tmp_path):
    done = program("study", "bundle", "rajamani-2002", "--quiet", "--out", str(tmp_path / "bundle"))
    assert done.returncode != 0 and done.stderr.count("\n") == 1 and "use the program `anabranch`" in done.stderr
    assert not (tmp_path / "bundle").exists()


def test_a_server_is_fetched_from(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"hello\n" * 1000)
    with anabranch.Server(tmp_path, ["tcp://127.0.0.1:0", "h3://127.0.0.1:0"]) as server:
        assert len(server.urls) == 2
        assert anabranch.get(f"{server.urls[0]}/a.txt") == b"hello\n" * 1000
        assert anabranch.get(f"{server.urls[1]}/a.txt", trust=server.fingerprint) == b"hello\n" * 1000
    with pytest.raises(anabranch.CommandError):
        anabranch.get(f"{server.urls[0]}/a.txt")
    with pytest.raises(anabranch.CommandError), anabranch.Server(tmp_path / "nowhere"):
        pass


def test_a_capture_is_decoded(tmp_path):
    out = tmp_path / "out"
    assert program("race", "--objects", "2x10kB", "--transport", "sctp", "--runs", "1", "--out", str(out), "--quiet").returncode == 0
    capture = next(out.rglob("*.pcapng*"))
    decoded = anabranch.decode(capture)
    assert decoded.streams.num_rows > 0 and decoded.json["schema"].startswith("anabranch.decode/")
    with pytest.raises(anabranch.CommandError):
        anabranch.decode(tmp_path / "nothing.pcapng")


def test_a_link_is_slow(network_link):
    run = network_link(rtt="100ms", far="sleep 5")
    done = run(["sh", "-c", "ping -c 1 $ANABRANCH_FAR 2>/dev/null || true; echo $ANABRANCH_FAR"])
    assert done.returncode == 0 and done.stdout.strip()


GRID = {"objects": "3x10kB", "rate": ["2mbit", "10mbit"], "rtt": ["20ms", "80ms"], "loss": ["0", "1%", "3%"], "runs": 4}


def test_a_sweep_is_its_races(tmp_path):
    swept = anabranch.sweep(out=tmp_path / "a", transport=["tcp", "sctp"], causes="off", **GRID)
    runs = swept.to_arrow("runs")
    whole = anabranch.race(transport=["tcp", "sctp"], causes="off", **GRID).runs.to_arrow()
    assert runs.drop_columns("point").to_pylist() == whole.to_pylist()
    assert sorted(set(runs["point"].to_pylist())) == list(range(12))
    # What is there is kept, also after a part was lost.
    lost = sorted((tmp_path / "a" / "runs").iterdir())[3]
    before = {path.name: path.read_bytes() for path in (tmp_path / "a" / "runs").iterdir()}
    lost.unlink()
    anabranch.sweep(out=tmp_path / "a", transport=["tcp", "sctp"], causes="off", **GRID)
    assert {path.name: path.read_bytes() for path in (tmp_path / "a" / "runs").iterdir()} == before
    with pytest.raises(ValueError, match="another folder"):
        anabranch.sweep(out=tmp_path / "a", transport=["tcp"], causes="off", **GRID)


def test_workers_that_die_lose_nothing(tmp_path):
    distributed = pytest.importorskip("distributed")
    here = anabranch.sweep(out=tmp_path / "here", transport=["tcp", "sctp"], causes="off", **GRID)
    with distributed.LocalCluster(n_workers=8, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        with distributed.Client(cluster) as client:
            victims = [worker.pid for worker in list(cluster.workers.values())[:2]]
            seen = []

            def progress(done, _):
                seen.append(done)
                if victims and done > 2:
                    os.kill(victims.pop(), signal.SIGKILL)

            there = anabranch.sweep(out=tmp_path / "there", client=client, transport=["tcp", "sctp"], causes="off", progress=progress, **GRID)
            assert not victims and seen[-1] == 12
    for table in ("summary", "runs"):
        assert there.to_arrow(table).equals(here.to_arrow(table))


def test_people_are_those_of_the_command(tmp_path):
    keys = {"population": "world:bytes=x0.1", "people": 20, "runs": 2}
    swept = anabranch.sweep(out=tmp_path / "people", transport=["six=tcp:connections=6", "sctp"], **keys)
    people = swept.people()
    assert len(people) == 20
    words = [f"--{key}={value}" for key, value in keys.items()]
    words += ["--transport", "six=tcp:connections=6", "--transport", "sctp", "--quiet", "--out", str(tmp_path / "command")]
    assert str(people) == program("race", *words).stdout
    people.report(tmp_path / "people.html")
    page = (tmp_path / "people.html").read_text()
    assert "Which transport is best" in page and "<svg" in people._repr_html_()
    # The page names a command that can be typed.
    assert "anabranch race --transport six=tcp:connections=6 --transport sctp --population world:bytes=x0.1 --people 20 --runs 2" in page
    with pytest.raises(ValueError, match="no table of comparisons"):
        anabranch.sweep(out=tmp_path / "short", transport=["tcp", "sctp"], tables=("summary",), causes="off", **keys).people()
    with pytest.raises(ValueError, match="not people"):
        anabranch.sweep(out=tmp_path / "none", transport=["tcp", "sctp"], causes="off", **GRID).people()
    with pytest.raises(anabranch.PlanError, match="add --out DIR, or sweep them"):
        anabranch.race(population="world")


PLAN = 'objects = "2x10kB"\nrtt = ["10ms", "40ms", "90ms"]\nloss = "0"\nruns = 2\ntransport = ["tcp", "sctp"]\n'
#: Slurm as it is seen from outside: a job is a copy of its script, run in the background, for five minutes at most.
SLURM = {
    "sbatch": 'job=$(mktemp "$JOBS/XXXXXX"); cp "$1" "$job"; setsid timeout 300 bash "$job" > "$job.log" 2>&1 < /dev/null &\necho $! >> "$JOBS/jobs"\necho "Submitted batch job $!"',
    "scancel": 'for job; do kill -- "-$job"; done',
}


@pytest.mark.parametrize("kind", ["local", "slurm"])
def test_the_example_of_a_cluster(tmp_path, kind):
    pytest.importorskip("dask_jobqueue" if kind == "slurm" else "distributed")
    for name, script in SLURM.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
    (tmp_path / "plan.toml").write_text(PLAN)
    script = Path(__file__).parent.parent / "examples" / "sweep.py"
    command = [sys.executable, script, tmp_path / "plan.toml", tmp_path / "whole", kind, "2"]
    own = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "JOBS": str(tmp_path)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=own, timeout=300)
    finally:
        # Of jobs that nobody has cancelled nothing stays.
        jobs = tmp_path / "jobs"
        for job in jobs.read_text().split() if jobs.exists() else []:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(job), signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert "3/3" in done.stdout
    here = anabranch.sweep(tmp_path / "plan.toml", out=tmp_path / "here")
    for part in sorted((tmp_path / "here").rglob("*.parquet")):
        assert part.read_bytes() == (tmp_path / "whole" / part.relative_to(tmp_path / "here")).read_bytes()
    assert here.to_arrow("runs").num_rows == 12
