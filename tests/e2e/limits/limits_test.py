#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pods that take all processes, memory and open files they can get (DO-01): limits_test.py [--patience N]
BIN_DIR MAKE_IMAGE [FILTER].

Run as root in a network and mount namespace of its own (CMakeLists.txt does that).
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from bounded import MEMORY, PIDS, BoundedNode, Shell  # noqa: E402
from machine import COUNTS  # noqa: E402
from node import IMAGE  # noqa: E402
from suite import check, equal, run_on  # noqa: E402

HOGS = {"bomb-1": "processes", "bomb-2": "processes", "bomb-3": "processes", "bomb-4": "processes",
        "eater-1": "memory", "eater-2": "memory", "opener-1": "files", "opener-2": "files"}
STEADY = ("steady-1", "steady-2", "steady-3")
COUNT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; done"
SECONDS = 8


def hog(node, name, what):
    # 512 open files each: 200 processes of them are no more than this machine bears.
    node.pod(name, containers=[node.container(
        "main", f"ulimit -n 512; exec /bin-dir/container_hog {what}",
        volumeMounts=[{"name": "bin", "mountPath": "/bin-dir", "readOnly": True}])],
        volumes=[{"name": "bin", "hostPath": {"path": str(node.bin), "type": "Directory"}}],
        terminationGracePeriodSeconds=0)


def lines(node, name):
    return node.log(name).count("\n")


def remove(node, names):
    for name in names:
        node.remove(name)
    for name in names:
        node.until_gone(name, 60)


def test_the_nodes_share_is_kept_without_any_reserve_configured(node):
    equal(node.read("pids", "kubepods", "pids.max", "pids.max"), str(PIDS - PIDS // 10), "kubepods' pids")
    equal(node.read("memory", "kubepods", "memory.limit_in_bytes", "memory.max"),
          str(MEMORY - (100 << 20)), "kubepods' memory")
    # An open file costs its pod 184 bytes at least, and so does an instance of inotify; the others 80 and 128.
    for path, cost in zip(COUNTS, (184, 184, 80, 128), strict=True):
        check(int(path.read_text()) > (MEMORY - (100 << 20)) // cost, f"pods could take all of {path}")


def test_the_limit_of_a_pod_comes_from_the_configuration(node):
    node.pod("limited", "sleep 1000")
    uid = node.phase("limited", "Running")["metadata"]["uid"]

    def pids():
        return node.read("pids", f"kubepods/besteffort/pod{uid}", "pids.max", "pids.max")
    equal(pids(), "1024", "by default")
    for setting, limit in ((50, "50"), (0, "max"), (-1, "max"), (200, "200")):
        node.restart(podPidsLimit=setting)
        equal(pids(), limit, f"podPidsLimit {setting}, after a restart of the agent")
    remove(node, ["limited"])


def test_eight_hogs_leave_the_node_and_the_other_pods_alone(node):
    node.restart(podPidsLimit=200)
    for name in STEADY:
        node.pod(name, COUNT)
    for name in STEADY:
        node.phase(name, "Running")
    with Shell(node) as shell:
        for name, what in HOGS.items():
            hog(node, name, what)
        for name in HOGS:
            node.wait(f"{name} is at work", lambda n=name: "hog" in node.log(n), 60)
        before = {name: lines(node, name) for name in STEADY}
        time.sleep(SECONDS)
        after = {name: lines(node, name) for name in STEADY}
    print(f"shell: {shell.runs} programs, slowest {shell.slowest:.2f} s; API: slowest {shell.slowest_answer:.2f} s; "
          f"lines {before} -> {after}")
    equal(shell.errors, [], "what failed beside the pods")
    check(shell.runs > SECONDS, f"only {shell.runs} programs were started")
    for name in STEADY:
        check(after[name] > before[name] + 3, f"{name} stood still: {before[name]} -> {after[name]}")
        equal(node.get(name)["status"]["containerStatuses"][0]["restartCount"], 0, f"restarts of {name}")
    bomb = node.get("bomb-1")["metadata"]["uid"]
    equal(node.read("pids", f"kubepods/besteffort/pod{bomb}", "pids.current", "pids.current"), "200", "bomb-1's processes")
    node.wait("a memory hog was killed", lambda: "OOMKilled" in str(node.get("eater-1")["status"]) +
              str(node.get("eater-2")["status"]), 60)
    remove(node, [*HOGS, *STEADY])


def test_bombs_without_a_limit_of_their_own_leave_the_node_alone(node):
    node.restart(podPidsLimit=-1)
    bombs = [name for name, what in HOGS.items() if what == "processes"]
    with Shell(node) as shell:
        for name in bombs:
            hog(node, name, "processes")
        share = PIDS - PIDS // 10
        node.wait("the pods have all that is theirs",
                  lambda: int(node.read("pids", "kubepods", "pids.current", "pids.current")) >= share, 60)
        time.sleep(SECONDS / 2)
    print(f"shell: {shell.runs} programs, slowest {shell.slowest:.2f} s; API: slowest {shell.slowest_answer:.2f} s")
    equal(shell.errors, [], "what failed beside the pods")
    check(shell.runs > 4, f"only {shell.runs} programs were started")
    remove(node, bombs)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patience", type=int, default=1, help="as Machine's")
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("make_image", type=pathlib.Path)
    parser.add_argument("filter", nargs="?", default="")
    return parser.parse_args()


def main():
    arguments = parse()
    tests = [(name, test) for name, test in globals().items()
             if name.startswith("test_") and arguments.filter in name]
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    archive = top / "busybox.tar"
    subprocess.run([arguments.make_image, "busybox", archive], check=True)
    node = BoundedNode(arguments.bin, top / "node", "limits", patience=arguments.patience)
    node.bound()
    return run_on(node, top, tests, lambda: node.ctl("image", "import", archive, "--name", IMAGE, "--cmd", "/bin/sh"))


if __name__ == "__main__":
    sys.exit(main())
