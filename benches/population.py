"""Whether docs/population.md quotes what its commands say: half an hour of two cores.

    python benches/population.py PROGRAM

Runs each `anabranch race` of the page; status 1, and the paragraph, where a quotation is of none of them.
"""

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
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    quoted = [part.strip("\n") for kind, block in blocks if not kind for part in block.split("\n\n")]
    strange = [part for part in quoted if part not in said]
    for part in strange:
        print("no command says\n" + part)
    print(f"{len(quoted) - len(strange)} of {len(quoted)} quotations are what the commands say")
    return 1 if strange or not quoted else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
