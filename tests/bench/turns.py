#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""turns.py AFTER BEFORE: rows of two builds that were measured in turns, as one row each: ours, and beside it "before".
AFTER and BEFORE are files that hold one JSON row per line, those of all turns; a row's figures are the medians over
the turns, of p50 and of p99. A row that only one build has is left out, and named on stderr."""
import collections
import json
import statistics
import sys


def rows_of(path):
    """{(ground, row): [row of each turn]}"""
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            found[row.get("ground", ""), row["row"]].append(row)
    return found


def middle(rows):
    return {key: round(statistics.median(row["ours"][key] for row in rows), 4)
            for key in ("p50", "p99") if all(key in row["ours"] for row in rows)}


def main():
    after, before = map(rows_of, sys.argv[1:])
    for key, rows in after.items():
        if key not in before:
            continue
        ground = {"ground": key[0]} if key[0] else {}
        print(json.dumps({**ground, "row": key[1], "unit": rows[0].get("unit", ""), "n": sum(row["n"] for row in rows),
                          "ours": middle(rows), "peers": {"before": middle(before[key])}}))
    if alone := sorted(name for _, name in after.keys() ^ before.keys()):
        print("turns.py: only one of the builds has", ", ".join(alone), file=sys.stderr)


main()
