"""Checks that docs/population.md quotes the output of its commands; takes half an hour on two cores.

    python benches/population.py PROGRAM

Runs each `anabranch race` of the page. Prints each quoted paragraph that is in no output; the exit code is then 1. One quotation
is the output of this script: the verdicts after six of the ten page loads of the first command, compared with those after ten.
`decision` implements the rule of the verdicts independently of the program.
"""

import gzip
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(program):
    page = (ROOT / "docs" / "population.md").read_text()
    said = []
    with tempfile.TemporaryDirectory() as place:
        for number, line in enumerate(re.findall(r"^anabranch (race .*)$", page.replace("\\\n", " "), re.MULTILINE)):
            words = re.sub(r"--out \S+", f"--out {place}/{number}", line.split(" #")[0]).split()
            print("anabranch", *words, flush=True)
            done = subprocess.run([Path(program).resolve(), *words, "--quiet"], cwd=ROOT, check=True, capture_output=True, text=True)
            said += [part.strip("\n") for part in done.stdout.split("\n\n")]
        said.append(six_of_ten(Path(place) / "0" / "points"))
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    quoted = [part.strip("\n") for kind, block in blocks if not kind for part in block.split("\n\n")]
    strange = [part for part in quoted if part not in said]
    for part in strange:
        print("no command says\n" + part)
    print(f"{len(quoted) - len(strange)} of {len(quoted)} quotations are what the commands say")
    return 1 if strange or not quoted else 0


def six_of_ten(points):
    """Compares the verdicts after six and after ten page loads, for all pairs of contestants of all points."""
    pairs = undecided = decided = undone = otherwise = reverse = alike = parted = changed = 0
    for file in sorted(points.glob("*.json.gz")):
        point = json.loads(gzip.decompress(file.read_bytes()))["point"]
        times = [[run["page_ns"] for run in one["runs"]] for one in point["contestants"]]
        if not point["chance"] or any(len(own) != 10 or None in own for own in times):
            continue
        for one in range(len(times)):
            for other in range(one):
                loads = list(zip(times[one], times[other]))
                first, all_ten = decision(loads[:6]), decision(loads)
                same = len(set(loads[:6])) == 1
                alike += same
                parted += same and len(set(loads)) > 1
                changed += same and first != all_ten
                pairs += 1
                undecided += all_ten is None
                decided += first is not None
                undone += first is not None and all_ten is None
                otherwise += None not in (first, all_ten) and first != all_ten
                reverse += None not in (first, all_ten) and first * all_ten < 0
    return (
        f"where packets can be lost at random, of {pairs} pairs of contestants six of ten page loads leave {pairs - decided} undecided, ten {undecided}\n"
        f"of the {decided} that six decide all ten leave {undone} undecided and decide {otherwise} otherwise, {reverse} the other way round\n"
        f"{alike} pairs are alike in all six; {parted} of these are not in all ten, and {changed} of {alike} are decided otherwise"
    )


def decision(loads):
    """1 or -1 if the first is slower or faster by at least 3 %, 0 if they are equivalent, None if undecided."""
    logarithms = [math.log(one / other) for one, other in loads]
    mean = sum(logarithms) / len(loads)
    half = 0.0
    if len(set(loads)) > 1:
        square = sum((value - mean) ** 2 for value in logarithms) / (len(loads) - 1)
        # The 97.5 % quantile of Student's t, for 5 and 9 degrees of freedom.
        half = {6: 2.570582, 10: 2.262157}[len(loads)] * math.sqrt(square / len(loads))
    gap = math.log(1.03)
    if abs(mean) >= gap and abs(mean) > half:
        return 1 if mean > 0 else -1
    return 0 if abs(mean) + half <= gap else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
