#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The puller and the pusher against real and hostile registries: pull_test.py BIN_DIR [FILTER].

Run as root in a network and mount namespace of its own (CMakeLists.txt does that).
"""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "support"))
import artifacts  # noqa: E402
import faults  # noqa: E402
import hosts  # noqa: E402
import http2  # noqa: E402
import kills  # noqa: E402
import logins  # noqa: E402
import plain  # noqa: E402
import push  # noqa: E402
import resume  # noqa: E402
import umoci  # noqa: E402
from suite import run_tests  # noqa: E402
from world import World  # noqa: E402

MODULES = (plain, artifacts, logins, hosts, faults, kills, resume, push, umoci, http2)


def main():
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-pull-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Not the machine's own disk: how full that is decides whether there is room for images.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "none", top], check=True)
    world = World(pathlib.Path(sys.argv[1]), top)
    try:
        failed = run_tests(world, [(name, test) for module in MODULES for name, test in vars(module).items()
                                   if name.startswith("test_") and wanted in name])
    finally:
        world.stop()
        subprocess.run(["umount", "-l", top], check=True)
        top.rmdir()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
