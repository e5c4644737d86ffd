#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""features.py SOURCE [--write]: docs/features.md from features.txt (what a pod can ask for, and the tests that show it)
and from the table of fields in docs/pods.md. It must be what stands there; --write puts it there. Every row of the
sections must be named once, in order, and every test and file that is named must exist."""

import pathlib
import re
import sys

from security_page import tests_of

# Rows of each section of the feature list.
ROWS = {"1.3": 13, "1.4": 9, "1.5": 12, "1.6": 14, "1.7": 6, "1.8": 9, "1.9": 9, "1.22": 11, "2.2": 28, "2.3": 6,
        "3.1": 13, "3.3": 9, "alone": 5}
STATES = {"whole": "all of it", "part": "a part", "none": "not done", "others": "not the node's to do"}
FIELD_ROW = re.compile(r"\| `(\w+)` \| (`\w+`(?:, `\w+`)*) \| (honoured elsewhere|honoured|refused|told)\b")
HEAD = """# What a pod can ask for

What of a pod's life and of its containers is done, and the tests that show it. Made by `tests/unit/structure/features.py --write`
from `features.txt` beside it and from the table of fields in [pods.md](pods.md); a test fails when a row or a test that is named
here does not exist.

"""


def rows_of(text):
    """(section, title) and (row, feature, state, tests, lacking), in their order."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("section "):
            yield (cells[0].removeprefix("section "), cells[1])
        else:
            yield tuple((cells + ["", "", ""])[:5])


def faults(rows, root):
    """What is wrong with the rows."""
    known = tests_of(root)
    wanted = [f"{section}.{n}" for section, count in ROWS.items() for n in range(1, count + 1)]
    found = [row[0] for row in rows if len(row) == 5]
    if found != wanted:
        yield f"not every row stands there once and in order: {sorted(set(wanted) ^ set(found)) or 'order'}"
    for row, _, state, tests, lacking in (row for row in rows if len(row) == 5):
        if state not in STATES:
            yield f"{row}: unknown state {state!r}"
        if state == "whole" and not tests:
            yield f"{row}: done, and no test is named"
        if state != "whole" and not lacking:
            yield f"{row}: what is lacking is not said"
        for name in tests.split():
            if name not in known and not (root / name).exists():
                yield f"{row}: there is no test {name}"


def fields(text):
    """How many fields of a pod are honoured, refused, told; all that the table has."""
    counts = {}
    table = text[text.index("| `PodSpec` |"):]
    for line in table[:table.index("\n\n")].splitlines():
        _, names, state = FIELD_ROW.match(line).groups()
        counts[state] = counts.get(state, 0) + len(names.split(", "))
    return counts


def page(rows, counts):
    """docs/features.md."""
    out = [HEAD]
    states = [row[2] for row in rows if len(row) == 5]
    summary = ", ".join(f"{states.count(state)} {words}" for state, words in STATES.items())
    out.append(f"Of {len(states)} rows: {summary}.\n\n")
    out.append(f"**Fields.** Of {sum(counts.values())} fields of a pod's spec and of what it holds "
               f"{counts['honoured']} are honoured, {counts['honoured elsewhere']} by the control plane, "
               f"{counts['refused']} refused, {counts['told']} told by an event; there is no other "
               "(`FieldRulesTest.EveryFieldOfAPodIsHonouredRefusedOrTold` walks the schema; the table is in "
               "[pods.md](pods.md)). What a refused field holds is refused with it.\n")
    for row in rows:
        if len(row) == 2:
            out.append(f"\n## {row[1]}\n\n| row | feature | state | shown by | lacking |\n|---|---|---|---|---|\n")
        else:
            tests = ", ".join(f"`{name}`" for name in row[3].split())
            out.append(f"| {row[0]} | {row[1]} | {STATES[row[2]]} | {tests} | {row[4]} |\n")
    return "".join(out)


def main():
    root = pathlib.Path(sys.argv[1])
    rows = list(rows_of((pathlib.Path(__file__).parent / "features.txt").read_text()))
    found = list(faults(rows, root))
    made = page(rows, fields((root / "docs/pods.md").read_text()))
    target = root / "docs/features.md"
    if sys.argv[2:] == ["--write"]:
        target.write_text(made)
    elif not target.exists() or target.read_text() != made:
        found.append("docs/features.md is not what features.py makes: run it with --write")
    print("\n".join(found) if found else "the features are as they are said to be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
