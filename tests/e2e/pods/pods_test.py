#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods from manifests under the real agent and keeper: pods_test.py BIN_DIR MAKE_IMAGE [FILTER].

Run as root in a network and mount namespace of its own (CMakeLists.txt does that). All pods live
on one machine; each test uses names of its own, so the tests share its start and its end.
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import admission  # noqa: E402
import commands  # noqa: E402
import files  # noqa: E402
import hostile_text  # noqa: E402
import isolation  # noqa: E402
import leftovers  # noqa: E402
import hooks  # noqa: E402
import inputs  # noqa: E402
import lifecycle  # noqa: E402
import probes  # noqa: E402
import pulls  # noqa: E402
import resizes  # noqa: E402
import restarts  # noqa: E402
import services  # noqa: E402
import sessions  # noqa: E402
import streams  # noqa: E402
import taken_away  # noqa: E402
import teardown  # noqa: E402
import tending  # noqa: E402
from node import IMAGE, Node  # noqa: E402
from suite import run_on  # noqa: E402

MODULES = (lifecycle, probes, hooks, restarts, isolation, admission, resizes, files, inputs, commands, hostile_text, services, pulls, tending, streams, sessions, teardown, taken_away, leftovers)


def main():
    bin_dir, make_image = map(pathlib.Path, sys.argv[1:3])
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    tests = [(name, test) for module in MODULES for name, test in vars(module).items()
             if name.startswith("test_") and (wanted in name or module is leftovers)]
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    archive = top / "busybox.tar"
    subprocess.run([make_image, "busybox", archive], check=True)
    node = Node(bin_dir, top / "node", "e2e")
    streams.serve(node)
    return run_on(node, top, tests, lambda: node.ctl("image", "import", archive, "--name", IMAGE, "--cmd", "/bin/sh"))


if __name__ == "__main__":
    sys.exit(main())
