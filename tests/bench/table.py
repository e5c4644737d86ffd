#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""table.py [--markdown] FILE: prints the JSON rows of tests/bench/run: ours, limit and each peer, p50/p99 and how often ours goes
into it. As Markdown a line each, as docs/benchmarks.md has them."""
import json
import sys


def figures(value):
    if not isinstance(value, dict):
        return str(value)  # why there is none
    parts = [f"{value[k]:.4g}" for k in ("p50", "p99") if k in value]
    return " / ".join(parts) if parts else ", ".join(f"{k} {v}" for k, v in value.items())


def ratio(ours, other):
    try:
        return f"{other['p50'] / ours['p50']:.2f}x"
    except (KeyError, TypeError, ZeroDivisionError):
        return ""


def show(row):
    ground = f" on {row['ground']}" if "ground" in row else ""
    print(f"\n{row['row']}{ground} [{row.get('unit', '')}], n={row.get('n', '')}, aim {row.get('aim', '-')}")
    print(f"  {'ours':<34}{figures(row['ours'])}")
    if "limit" in row:
        print(f"  {'limit':<34}{figures(row['limit'])}  {ratio(row['ours'], row['limit'])}")
    for name, value in row.get("peers", {}).items():
        print(f"  {name:<34}{figures(value)}  {ratio(row['ours'], value)}")


def show_as_markdown(row):
    limit = row.get("limit", {})
    times = f"{row['ours']['p50'] / limit['p50']:.2f}" if limit.get("p50") and row["ours"].get("p50") else ""
    peers = "; ".join(f"{name} {figures(value)}" for name, value in row.get("peers", {}).items())
    aim = row.get("aim", "-")
    cells = (f"`{row['row']}`", row.get("ground", ""), row.get("unit", ""), row.get("n", ""), figures(row["ours"]),
             figures(limit) if limit else "", times, peers, aim if aim not in ("-", "") else "")
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def main():
    as_markdown = sys.argv[1] == "--markdown"
    if as_markdown:
        print("| row | ground | unit | n | ours, p50 / p99 | limit | ours / limit | peers | aim |\n|---|---|---|---|---|---|---|---|---|")
    with open(sys.argv[-1], encoding="utf-8") as file:
        for line in file:
            (show_as_markdown if as_markdown else show)(json.loads(line))


main()
