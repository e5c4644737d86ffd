#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pods.py BIN_DIR --image TAR --peers FILE [--json FILE] [--n N]: a real agent and keeper, and what the
limit program needs; then bench_pods measures, and burst.py."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support"), str(pathlib.Path(__file__).resolve().parents[1])]
import burst
from machine import Machine
from sleepers import make_layer


def make_limit(top, bin_dir):
    """The limit program's layer; gives (folder, cgroup parent, which the program makes)."""
    layer = make_layer(top / "limit")
    shutil.copy(pathlib.Path(bin_dir) / "bench_start_payload", layer / "bin/payload")
    return top / "limit", f"/holdfast-limit-{os.getpid()}-{top.name[-8:]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--image", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--json", default="/dev/stdout")
    parser.add_argument("--n", default="200")
    args = parser.parse_args()
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-pods-"))
    machine = Machine(args.bin, top, "pods")
    machine.set_config(maxPods=1000)
    limit, parent = make_limit(top, args.bin)
    try:
        machine.start_agent()
        machine.wait("the agent answers", lambda: machine.ctl("version"), 30)
        machine.ctl("image", "import", args.image, "--name", "test/busybox:latest")
        machine.wait("the keeper is there", lambda: all(machine.keepers().values()), 30)
        subprocess.run([pathlib.Path(args.bin) / "bench_pods", "--socket", machine.run / "holdfastd.sock",
                        "--limit", limit, "--cgroup", parent, "--peers", args.peers,
                        "--json", args.json, "--n", args.n], check=True)
        for standing in ("0", "100", "500"):
            subprocess.run([pathlib.Path(args.bin) / "bench_pods", "--socket", machine.run / "holdfastd.sock",
                            "--limit", limit, "--cgroup", parent, "--standing", standing, "--json", args.json,
                            "--n", str(max(int(args.n) // 4, 5))], check=True)
        burst.measure(machine, [pathlib.Path(args.bin) / "bench_start_limit", limit, parent], 100, args.json)
    finally:
        machine.stop()
        shutil.rmtree(top, ignore_errors=True)


main()
