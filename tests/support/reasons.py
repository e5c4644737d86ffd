#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reasons.py LOG…: of each test that failed in the logs of tests/run its name and why, in few lines:
CI keeps only the end of its output. Understands GoogleTest's words, which our Python tests use too, as
`ctest -V` prints them (each line behind the program's number), and any other log by its errors."""
import pathlib
import re
import sys

ALL_LINES = 40
WIDTH = 240
BEFORE = 15  # lines before a reason that say how it came to it
AFTER = 8    # of the reason itself

NUMBERED = re.compile(r"^(\d+): ?(.*)$")
BEGAN = re.compile(r"^\[ RUN      \] (\S+)")
ENDED = re.compile(r"^\[ *(OK|FAILED|SKIPPED) *\] (\S+?),? .*\(\d+ ms\)$")
PROGRAM_FAILED = re.compile(r"^ *\d+/\d+ +Test +#(\d+): +(\S+) .*\*\*\*(.*)$")
# The first words of a reason, the best first.
ASSERTION = re.compile(r": Failure$")
SANITIZER = re.compile(r"ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|: runtime error: ")
EXCEPTION = re.compile(r"^([\w.]*(Error|Exception|Expired|Breach|Interrupt)|broken|SystemExit)\b.*")
COMPILER = re.compile(r"(^|: )(fatal )?error: |^FAILED: |^CMake Error")


class Reason:
    """`lines`: those before it, then from `at` on its own."""

    def __init__(self, title, lines, at):
        first = max(0, at - BEFORE)
        self.title = title
        self.before = lines[first:at]
        self.own = lines[at:at + AFTER]

    def fit(self, room):
        """At most `room` lines, its own first."""
        own = self.own[:room]
        left = room - len(own)
        return (self.before[-left:] if left > 0 else []) + own


def first_at(pattern, lines):
    return next((i for i, line in enumerate(lines) if pattern.search(line)), None)


def last_at(pattern, lines):
    return next((i for i in reversed(range(len(lines))) if pattern.search(lines[i])), None)


def reason_of(title, lines):
    for find, pattern in ((first_at, ASSERTION), (first_at, SANITIZER), (last_at, EXCEPTION),
                          (first_at, COMPILER)):
        at = find(pattern, lines)
        if at is not None:
            # What leads to an assertion is in the test; what leads to an exception is in the output.
            return Reason(title, lines[at:] if pattern is ASSERTION else lines,
                          0 if pattern is ASSERTION else at)
    return Reason(title, lines, max(0, len(lines) - AFTER))


def reasons_of_program(name, how, lines):
    """Of the cases of one program. One that ended within a case, or without any, is told as a whole."""
    out = []
    case, began = None, 0
    for i, line in enumerate(lines):
        if found := BEGAN.match(line):
            case, began = found[1], i + 1
        elif found := ENDED.match(line):
            if found[1] == "FAILED":
                out.append(reason_of(f"{name}: {found[2]}", lines[began:i]))
            case, began = None, i + 1
    if how and case is not None:
        out.append(reason_of(f"{name}: {case} ({how})", lines[began:]))
    elif how and not out:
        out.append(reason_of(f"{name} ({how})", lines))
    return out


def reasons_of(name, text):
    programs, failed = {}, {}
    for line in text.splitlines():
        if found := NUMBERED.match(line):
            programs.setdefault(found[1], []).append(found[2])
        elif found := PROGRAM_FAILED.match(line):
            failed[found[1]] = (found[2], " ".join(found[3].split()))
    if not failed:  # no log of ctest
        lines = text.splitlines()
        if any(map(BEGAN.match, lines)):
            return reasons_of_program(name, "ended early", lines)
        return [reason_of(name, lines)]
    return [reason for number, (program, how) in failed.items()
            for reason in reasons_of_program(program, how, programs.get(number, []))]


def summary(reasons):
    """At most ALL_LINES lines: each test's title, and as much of its reason as there is room for."""
    shown = reasons[:ALL_LINES if len(reasons) <= ALL_LINES else ALL_LINES - 1]
    out, room = [], ALL_LINES - len(shown) - (len(shown) < len(reasons))
    for i, reason in enumerate(shown):
        lines = reason.fit(room // (len(shown) - i))
        room -= len(lines)
        out += [f"FAILED {reason.title}"] + [f"  {line}" for line in lines]
    if len(shown) < len(reasons):
        out.append(f"and {len(reasons) - len(shown)} more")
    return [line if len(line) <= WIDTH else line[:WIDTH - 1] + "…" for line in out]


def main():
    reasons = [reason for path in map(pathlib.Path, sys.argv[1:])
               for reason in reasons_of(path.stem, path.read_text(errors="replace"))]
    print("\n".join(summary(reasons)))


if __name__ == "__main__":
    main()
