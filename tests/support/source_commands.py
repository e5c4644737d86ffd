#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""source_commands.py BUILD OUT: compile_commands.json of BUILD into the directory OUT, with the sources that it compiles
together (CMake's unity units) one by one, each with its unit's command."""
import json
import pathlib
import re
import sys


def sources_of(unit):
    if "Unity" not in pathlib.Path(unit).parts:
        return [unit]
    return re.findall(r'^#include "(.*)"$', pathlib.Path(unit).read_text(), re.MULTILINE)


def main():
    build, out = map(pathlib.Path, sys.argv[1:])
    commands = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        for source in sources_of(entry["file"]):
            command = entry["command"].replace(entry["file"], source)
            commands.append({"directory": entry["directory"], "file": source, "command": command})
    out.mkdir(parents=True, exist_ok=True)
    (out / "compile_commands.json").write_text(json.dumps(commands, indent=1))


if __name__ == "__main__":
    main()
