#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when the man page and --help of holdctl disagree: every command and long option of either must
be in the other."""
import re
import subprocess
import sys

COMMANDS = ["get", "describe", "logs", "exec", "attach", "port-forward", "cp", "debug", "apply", "delete", "explain", "image", "image pull", "image push", "image import",
            "image ls", "image inspect", "image rm", "image export", "image tag", "image prune", "image du", "check", "wait", "top", "proxy", "proxy dump", "version",
            "completion", "help"]


def help_of(program: str, words: list) -> str:
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def options(text: str) -> set:
    return set(re.findall(r"--[a-z][a-z-]+", text))


def main() -> int:
    program, page = sys.argv[1], open(sys.argv[2], encoding="utf-8").read().replace("\\-", "-")
    faults = []
    listed = set(re.findall(r"^  ([a-z-]+) {2,}", help_of(program, []).split("Subcommands:")[1]
                            .split("Examples:")[0], re.M))
    for command in sorted(listed - {c.split()[0] for c in COMMANDS}):
        faults.append(f"command {command} is not known to this test")
    in_help = options(help_of(program, []))
    for command in COMMANDS:
        in_help |= options(help_of(program, command.split()))
        if not re.search(rf"^\.SS .*\b{command}\b", page, re.M):
            faults.append(f"command {command}: no heading in the man page")
    in_page = options(page)
    faults += [f"{option}: in --help, not in the man page" for option in sorted(in_help - in_page)]
    faults += [f"{option}: in the man page, not in --help" for option in sorted(in_page - in_help)]
    print("\n".join(faults) if faults else f"{len(in_page)} options agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
