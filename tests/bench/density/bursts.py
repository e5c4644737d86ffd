#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bursts.py BIN_DIR --json FILE [--pods N] [--megabytes N]: what an agent keeps of what is over: memory and threads at rest, once
N pods have come and gone, and once so many MB of manifests were refused, in the directory and over the API."""
import json
import pathlib
import time

import memory
from pods import CALM, Ours, add_rows, arguments, machine_for_pods
from sleepers import manifest

MANIFEST = 2_900_000  # bytes; a document may have 3 MiB


def bad_manifest(name):
    """A pod that is well but for one field, after a list that is as long as it may be."""
    pod = manifest(name)
    container = pod["spec"]["containers"][0]
    container["env"] = [{"name": f"V{i}", "value": "x" * 200} for i in range(MANIFEST // 240)]
    container["imagee"] = "no such field"
    return json.dumps(pod)


def threads(pid):
    return int(next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                    if line.startswith("Threads:")).split()[1])


class Readings:
    """Rows of one agent, each after a while of calm."""

    def __init__(self, agent):
        self.agent = agent
        self.rows = []

    def take(self, when, aims=("-", "-")):
        time.sleep(CALM)
        used = memory.of_processes([self.agent.pid])
        for what, unit, value, aim in (("anonymous", "MB", round(used["Pss_Anon"], 2), aims[0]),
                                       ("pss", "MB", round(used["Pss"], 2), "-"),
                                       ("threads", "threads", threads(self.agent.pid), aims[1])):
            self.rows.append({"row": f"density.bursts.{when}.{what}", "unit": unit, "n": 1, "ours": {"p50": value}, "aim": aim})


def pods_come_and_go(machine, readings, count):
    ours = Ours(machine)
    ours.start(count)
    readings.take(f"{count}_pods")
    ours.stop()
    readings.take("none_again", ("<= 10", "<= 20"))


def manifests_are_refused(machine, readings, megabytes):
    names = [f"bad{i}" for i in range(megabytes * 1_000_000 // MANIFEST)]
    for name in names:
        (machine.manifests / f"{name}.json").write_text(bad_manifest(name))
    # The last in the order in which files are read; of so many that are bad not each has an event.
    last = machine.manifests / "last.json"
    last.write_text(json.dumps(manifest("last")))
    machine.wait("all were read", lambda: "last" in machine.pods(), 120)
    if "imagee" not in machine.ctl("get", "events").stdout:
        raise RuntimeError("bad manifests were not refused")
    readings.take("bad_files", ("<= 10", "<= 20"))
    for name in (*names, "last"):
        (machine.manifests / f"{name}.json").unlink()
    bad = machine.top / "bad.json"
    bad.write_text(bad_manifest("bad"))
    for _ in names:
        refused = machine.ctl("apply", "-f", bad, check=False)
        if refused.returncode == 0 or "imagee" not in refused.stderr:
            raise RuntimeError(f"a bad manifest was not refused: {refused}")
    readings.take("bad_calls", ("<= 10", "<= 20"))


def main():
    args = arguments(pods=500, megabytes=100)
    with machine_for_pods(args.bin, "bursts", args.pods) as (machine, import_image):
        import_image()
        readings = Readings(machine.agent)
        readings.take("rest")
        pods_come_and_go(machine, readings, args.pods)
        manifests_are_refused(machine, readings, args.megabytes)
        add_rows(args.json, readings.rows)


main()
