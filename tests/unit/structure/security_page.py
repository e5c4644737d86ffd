#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""security_page.py SOURCE: docs/security.md against the tree. Every row of the catalogue stands there once, with a
known state; every test it names exists; every attack of the kit is on it; what is held names a test."""
import pathlib
import re
import sys

ROWS = {"RT": 13, "PR": 16, "IM": 11, "VO": 8, "AP": 11, "DO": 11, "NE": 14, "CK": 1, "HK": 2, "PA": 6}
STATES = ("held", "broken", "open", "not offered")
GTEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
ATTACK = re.compile(r"@attack\([^\n]*\)\ndef (\w+)\(", re.MULTILINE)
PRINTED = re.compile(r'name = "(\w+\.\w+)"')


def tests_of(root):
    names = {"security." + name for file in (root / "tests/security/attacks").glob("*.py")
             for name in ATTACK.findall(file.read_text())}
    for file in (root / "tests").rglob("*.cc"):
        names.update(f"{suite}.{name}" for suite, name in GTEST.findall(file.read_text()))
    for file in (root / "tests/security").rglob("*.py"):
        names.update(PRINTED.findall(file.read_text()))
    return names


def named_in(cell):
    """Names of tests and files in a cell; ".Name" continues the suite before it."""
    suite = ""
    for word in re.findall(r"`([^`]+)`", cell):
        if "/" in word:
            yield word
        elif re.fullmatch(r"\w*\.\w+", word) and not word.endswith(".md"):
            suite = word.partition(".")[0] or suite
            yield f"{suite}.{word.partition('.')[2]}"


def faults(root):
    known = tests_of(root)
    text = (root / "docs/security.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
            if re.match(r"\| (?:[A-Z]{2}|B)-\d", line)]
    found = [row[0] for row in rows]
    wanted = [f"{kind}-{n:02}" for kind, count in ROWS.items() for n in range(1, count + 1)]
    yield from (f"row {row} stands there {found.count(row)} times" for row in wanted if found.count(row) != 1)
    yield from (f"row {row} is not in the catalogue" for row in found if row not in wanted and row[0] != "B")
    named = set()
    for row, _, state, shown in rows:
        if state not in STATES:
            yield f"{row}: unknown state {state!r}"
        names = list(named_in(shown))
        named.update(names)
        if state == "held" and not names and not shown.startswith("the attacks of"):
            yield f"{row}: held, and no test is named"
        for name in names:
            if name not in known and not (root / name).exists():
                yield f"{row}: there is no test {name}"
    for attack in sorted(name for name in known if name.startswith("security.")):
        if attack not in named:
            yield f"{attack} is not on the page"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "the page and the tree agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
