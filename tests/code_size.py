"""Prints how much code each crate has, and its longest functions.

code_size.py [--functions LINES]

Counts the tokens of `crates/*/src` without comments, white space and tests: neither layout nor documentation changes the
figure. Tests are files or folders named `tests` or `testing`, and items under `#[cfg(test)]`. With --functions, also lists
every function with more than LINES lines.
"""

import pathlib
import sys

from same_code import tokens

CLOSING = {"(": ")", "[": "]", "{": "}"}


def item_end(code, at):
    """The index after the item that begins at `at`: after its body or its semicolon."""
    depth = 0
    while at < len(code):
        mark = code[at][1]
        if mark in CLOSING:
            depth += 1
        elif mark in CLOSING.values():
            depth -= 1
            if depth == 0 and mark == "}":
                return at + 1
        elif mark == ";" and depth == 0:
            return at + 1
        at += 1
    return at


def without_tests(code):
    kept, at = [], 0
    while at < len(code):
        head = [token for _, token in code[at : at + 12]]
        head = head[: head.index("]") + 1] if "]" in head else head
        if head[:4] == ["#", "[", "cfg", "("] and "test" in head and "not" not in head:
            at = item_end(code, at + len(head))
        else:
            kept.append(code[at])
            at += 1
    return kept


def functions(code):
    """(name, first line, lines) of each function that has a body."""
    for at, (line, token) in enumerate(code):
        if token != "fn" or not code[at + 1][1].isidentifier():
            continue
        end = item_end(code, at)
        if code[end - 1][1] == "}":
            yield code[at + 1][1], line, code[end - 1][0] - line + 1


def main():
    limit = int(sys.argv[2]) if sys.argv[1:2] == ["--functions"] else None
    root, sizes, long = pathlib.Path(__file__).parent.parent, {}, []
    for path in sorted(root.glob("crates/*/src/**/*.rs")):
        parts = path.relative_to(root).with_suffix("").parts
        if {"tests", "testing"} & set(parts):
            continue
        code = without_tests(tokens(path.read_text(encoding="utf-8"), names=False))
        sizes[parts[1]] = sizes.get(parts[1], 0) + len(code)
        long += [(lines, "/".join(parts), line, name) for name, line, lines in functions(code) if limit and lines > limit]
    for crate, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"{size:8d}  {crate}")
    print(f"{sum(sizes.values()):8d}  in all")
    for lines, path, line, name in sorted(long, reverse=True):
        print(f"{lines:5d}  {path}.rs:{line} {name}")


main()
