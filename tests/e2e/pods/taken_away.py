# SPDX-License-Identifier: Apache-2.0
"""Somebody takes away what pods stand on: they come back by themselves, as a whole."""
import json
import os
import signal

from machine import cgroups_in, pids_in, remove_cgroups
from node import WAIT_FOR_TERM, status
from suite import check, equal

SLEEP = "exec sleep 100000"


def sandbox_events(node, name):
    events = json.loads(node.ctl("get", "events", "-A", "-o", "json").stdout)["items"]
    return [event["message"] for event in events
            if event["reason"] == "SandboxChanged" and event["involvedObject"]["name"] == f"{name}-{node.node}"]


def restarted(pod):
    return pod["status"]["phase"] == "Running" and all(
        "running" in one["state"] and one["restartCount"] == 1 for one in pod["status"]["containerStatuses"])


def test_shared_processes_whose_init_is_killed_begin_anew(node):
    node.pod("orphans", containers=[node.container("one", SLEEP), node.container("two", SLEEP)],
             initContainers=[node.container("first", "echo first")], shareProcessNamespace=True)
    pod = node.phase("orphans", "Running")
    uid = pod["metadata"]["uid"]
    init, = {pid for cgroup in cgroups_in(node.container_trees()[0])
             if cgroup.name == "sandbox" and f"pod{uid}" in cgroup.parts for pid in pids_in(cgroup)}
    os.kill(init, signal.SIGKILL)
    pod = node.until("all of it is back", "orphans", restarted)
    equal([one["lastState"]["terminated"]["exitCode"] for one in pod["status"]["containerStatuses"]], [137, 137], "ends")
    equal(status(pod, kind="initContainerStatuses")["restartCount"], 1, "init containers run again")
    equal(sandbox_events(node, "orphans"), ["Pod sandbox changed, it will be killed and re-created."], "told")
    node.remove("orphans")
    node.until_gone("orphans")


def test_pods_come_back_whose_cgroups_were_taken_away(node):
    """As systemd does it when a person stops the unit that delegates them to us."""
    some = {"requests": {"cpu": "100m", "memory": "16Mi"}}
    node.pod("plain", SLEEP)
    node.pod("asks", containers=[node.container("main", SLEEP, resources=some)])
    node.pod("shares", containers=[node.container("main", SLEEP)], shareProcessNamespace=True)
    names = ("plain", "asks", "shares")
    for name in names:
        node.phase(name, "Running")
    remove_cgroups(node.cgroup_trees)
    check(not node.cgroup_trees(), f"removed by the test: {node.cgroup_trees()}")
    node.remove("asks")  # what its class is given is nobody's any more
    node.until_gone("asks")
    for name in ("plain", "shares"):
        node.until("it is back", name, lambda pod: all("running" in one["state"] for one in pod["status"]["containerStatuses"])
                   and node.process_identity(pod))
    node.pod("later", WAIT_FOR_TERM)
    node.phase("later", "Running")
    for name in ("plain", "shares", "later"):
        node.remove(name)
        node.until_gone(name)
