#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the JSON rows of tests/bench/run as a table: ours, limit and each peer, p50/p99 and ratio."""
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


def main():
    for line in open(sys.argv[1], encoding="utf-8"):
        row = json.loads(line)
        ground = f" on {row['ground']}" if "ground" in row else ""
        print(f"\n{row['row']}{ground} [{row.get('unit', '')}], n={row.get('n', '')}, aim {row.get('aim', '-')}")
        print(f"  {'ours':<34}{figures(row['ours'])}")
        if "limit" in row:
            print(f"  {'limit':<34}{figures(row['limit'])}  {ratio(row['ours'], row['limit'])}")
        for name, value in row.get("peers", {}).items():
            print(f"  {name:<34}{figures(value)}  {ratio(row['ours'], value)}")


main()
