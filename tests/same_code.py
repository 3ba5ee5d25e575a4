"""Checks that a change to Rust sources leaves the code as it is.

same_code.py REV [--names] [PATH..]

Compares the tokens of each changed file with those of the commit REV, without comments and white space, and prints the first
token that differs. --names checks a change that only renames. It also ignores identifiers, those captured by format strings
included, imports and `mod` items (a new name changes their order), and what a new name's length or spelling makes rustfmt
change: `name: name` for `name`, commas, semicolons and braces. Exits with 1 if anything differs.
"""

import re
import subprocess
import sys

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)"""
    r"""|(?P<block>/\*)"""
    r"""|(?P<raw>(?:b|c)?r(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes))"""
    r"""|(?P<string>(?:b|c)?"(?:\\(?:.|\n)|[^"\\])*")"""
    r"""|(?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')"""
    r"""|(?P<lifetime>'\w+)"""
    r"""|(?P<name>(?:r\#)?[^\W\d]\w*)"""
    r"""|(?P<number>\d\w*(?:\.\d\w*)?)"""
    r"""|(?P<mark>.)"""
)

# A token that stands for every identifier.
NAME = "a name"
# Identifiers in a format string: {name}, {name:..}, {:name$}.
CAPTURE = re.compile(r"(?<=\{)[A-Za-z_]\w*|[A-Za-z_]\w*(?=\$)")
IMPORT = re.compile(r"^\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))? )?(?:use [^;]*|mod \w+);", re.M)


def tokens(text, names):
    """(line, token) pairs."""
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        kind, token, end = match.lastgroup, match.group(), match.end()
        if kind == "hashes":
            kind = "raw"
        if kind == "block":
            depth = 1
            while depth:
                mark = re.compile(r"/\*|\*/").search(text, end)
                depth, end = depth + (1 if mark.group() == "/*" else -1), mark.end()
        elif kind == "name" and names:
            found.append((at, NAME))
        elif kind in ("string", "raw") and names:
            found.append((at, CAPTURE.sub("_", token)))
        elif kind != "space":
            found.append((at, token))
        at = end
    line, last, out = 1, 0, []
    for at, token in found:
        line += text.count("\n", last, at)
        last = at
        out.append((line, token))
    return without_layout(out) if names else out


def without_layout(code):
    """Takes away what depends on the spelling or the length of names."""
    out = []
    for line, token in (pair for pair in code if pair[1] not in "{},;"):
        if token == NAME and [token for _, token in out[-2:]] == [NAME, ":"]:
            # `field: value` counts as `field`.
            out.pop()
        else:
            out.append((line, token))
    return out


def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def main():
    words = [word for word in sys.argv[1:] if word != "--names"]
    if not words:
        sys.exit("same_code: name a commit")
    names, revision, paths = "--names" in sys.argv, words[0], words[1:]
    changed = git("diff", "--name-status", "--find-renames", "--relative", revision, "--", *(paths or ["."])).splitlines()
    differ = 0
    for _, *files in (line.split("\t") for line in changed if line.endswith(".rs")):
        path = files[-1]
        try:
            before, now = git("show", f"{revision}:./{files[0]}"), open(path, encoding="utf-8").read()
        except (subprocess.CalledProcessError, FileNotFoundError):
            print(f"{path}: in one of the two trees only")
            differ += 1
            continue
        if names:
            before, now = (IMPORT.sub("", text) for text in (before, now))
        old, new = tokens(before, names), tokens(now, names)
        for (_, was), (line, token) in zip(old, new):
            if was != token:
                print(f"{path}:{line}: {token[:60]} instead of {was[:60]}")
                differ += 1
                break
        else:
            if len(old) != len(new):
                print(f"{path}: {len(new)} tokens instead of {len(old)}")
                differ += 1
    print(f"{len(changed)} files, {differ} differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
