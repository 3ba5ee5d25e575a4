"""Draws a random sample of comments and doc paragraphs for people to judge.

draw_comments.py SEED [COUNT] [PATH..]

Prints COUNT (default 60) of them from the Rust sources below PATH (default: crates, tests, benches/src, interop/src,
conformance/src, fuzz/src). Each is shown as a reader meets it: with its file, the first paragraph of the file, the lines above
and below. Each paragraph of a doc comment counts as one item; comments of fewer than four words are skipped. The judge rates
each item, not the lines around it: clear at first reading, clear at second reading, unclear.
"""

import itertools
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ["crates", "tests", "benches/src", "interop/src", "conformance/src", "fuzz/src"]


# The number of lines that are shown above and below an item.
ABOVE, BELOW = 6, 8


def comments(path):
    """Yields (first line, last line, lines of the file, first paragraph of the file) for each paragraph."""
    lines = path.read_text(encoding="utf-8").splitlines()
    opening = list(itertools.takewhile(lambda line: line.startswith("//! "), lines))
    at = 0
    while at < len(lines):
        match = re.match(r"\s*(//[/!]?)(?!/)", lines[at])
        if not match:
            at += 1
            continue
        begin, words, fenced = at, [], False
        mark = re.compile(r"\s*" + re.escape(match.group(1)) + r"(?![/!]) ?(.*)")
        while at < len(lines) and (line := mark.match(lines[at])):
            text = line.group(1)
            fenced ^= text.startswith("```")
            if not text and not fenced and words:
                break
            words.append(text)
            at += 1
        if len(" ".join(words).split()) >= 4:
            yield begin, at, lines, opening
        at = max(at, begin + 1)


def main():
    if len(sys.argv) < 2:
        sys.exit("draw_comments: name a seed")
    seed, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60
    paths = sorted(path for folder in sys.argv[3:] or FOLDERS for path in (ROOT / folder).rglob("*.rs")
                   if "target" not in path.relative_to(ROOT).parts)
    found = [(path, *comment) for path in paths for comment in comments(path)]
    for number, (path, begin, end, lines, opening) in enumerate(random.Random(seed).sample(found, min(count, len(found))), 1):
        print(f"{number}. {path.relative_to(ROOT)}:{begin + 1}")
        if begin >= len(opening):
            print("\n".join("   | " + line for line in [*opening, "..."]))
        for at in range(max(0 if begin < len(opening) else len(opening), begin - ABOVE), min(len(lines), end + BELOW)):
            print((" > " if begin <= at < end else "   ") + "| " + lines[at])
        print()
    print(f"{len(found)} in all")


main()
