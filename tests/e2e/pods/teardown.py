# SPDX-License-Identifier: Apache-2.0
"""Pods whose files are hard to remove: they go all the same, and hold nobody up."""
import os
import pathlib
import subprocess
import time

from node import WAIT_FOR_TERM
from suite import check, equal

DATA = {"volumes": [{"name": "data", "emptyDir": {}}]}
MOUNT = [{"name": "data", "mountPath": "/data"}]

# 1,000 levels are one path; longer chains are made by moving one into the end of another.
NEST = ("nest() { p=$(printf 'd/%.0s' $(seq 1000)); mkdir -p $1/t/$p; for i in $(seq $2); do "
        "mkdir -p $1/n/$p; mv $1/t $1/n/$p/t; mv $1/n $1/t; done; }; ")


def volume_of(node, name):
    uid = node.get(name)["metadata"]["uid"]
    return node.top / "root/pods" / uid / "volumes/kubernetes.io~empty-dir/data"


def check_of(node, *flags):
    return node.ctl("check", *flags, check=False).stdout


def test_32000_levels_of_directories_go_with_their_pod(node):
    node.pod("deep", containers=[node.container("main", NEST + "nest /tmp 31; nest /data 7; echo nested; "
                                                + WAIT_FOR_TERM, volumeMounts=MOUNT)], **DATA)
    node.wait("nested", lambda: "nested" in node.log("deep"), 300)
    agent = node.agent.pid
    node.remove("deep")
    node.until_gone("deep", 300)
    equal(node.agent.pid, agent, "the agent of before")
    check(node.agent.poll() is None, "the agent lives")
    node.restart_agent()
    node.pod("after-deep", WAIT_FOR_TERM)
    node.phase("after-deep", "Running")
    node.remove("after-deep")
    node.until_gone("after-deep")
    node.wait("nothing is left over", lambda: "aside" not in check_of(node), 90)


def test_what_cannot_be_removed_is_set_aside(node):
    node.pod("stays", containers=[node.container("main", WAIT_FOR_TERM, volumeMounts=MOUNT)], **DATA)
    node.phase("stays", "Running")
    volume = volume_of(node, "stays")
    (volume / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", volume / "mounted"], check=True)
    (volume / "mounted/file").write_text("not the pod's")
    node.remove("stays")
    node.until_gone("stays")
    told = check_of(node)
    check("root/aside/" in told and "was set aside" in told, told)
    check("something is mounted on it" in (node.top / "agent.log").read_text(), "told in the log")

    node.restart_agent()
    node.pod("stays", WAIT_FOR_TERM)
    node.phase("stays", "Running")
    node.remove("stays")
    node.until_gone("stays")
    mounted = next((node.top / "root/aside").glob("*/**/mounted"))
    equal((mounted / "file").read_text(), "not the pod's", "what is mounted is not touched")
    check("something is mounted on it" in check_of(node, "--repair"), "a repair says why")
    subprocess.run(["umount", mounted], check=True)
    check_of(node, "--repair")
    check("aside" not in check_of(node), "removed in the end")
    check(not (node.top / "root/aside").exists(), "and the directory with it")


def test_somebody_goes_on_writing_while_a_volume_is_removed(node):
    node.pod("written", containers=[node.container("main", WAIT_FOR_TERM, volumeMounts=MOUNT)], **DATA)
    node.phase("written", "Running")
    volume = volume_of(node, "written")
    node.pod("writer", containers=[node.container(
        "main", "cd /pods/*/volumes/kubernetes.io~empty-dir/data; echo up; i=0; while :; do i=$((i+1)); "
        "mkdir -p x$i/y; : > x$i/y/f; : > f$i; mv x$i $((i%7)); done 2> /dev/null",
        volumeMounts=[{"name": "pods", "mountPath": "/pods"}])],
        volumes=[{"name": "pods", "hostPath": {"path": str(node.top / "root/pods")}}])
    node.wait("writes", lambda: (volume / "f50").exists())
    began = time.monotonic()
    node.remove("written")
    node.until_gone("written", 90)
    print(f"    gone after {time.monotonic() - began:.1f} s")
    check(not volume.exists(), "the volume is gone from its place")
    node.remove("writer")
    node.until_gone("writer")
    node.wait("nothing is left over", lambda: check_of(node, "--repair") and "aside" not in check_of(node), 60)


def test_an_agent_that_is_killed_while_it_removes_goes_on_at_its_next_start(node):
    node.pod("many", containers=[node.container(
        "main", "for d in $(seq 200); do mkdir /data/$d; for i in $(seq 200); do : > /data/$d/$i; done; done; "
        "echo made; " + WAIT_FOR_TERM, volumeMounts=MOUNT)], **DATA)
    node.wait("made", lambda: "made" in node.log("many"), 300)
    volume = volume_of(node, "many")
    pod_dir = pathlib.Path(*volume.parts[:-3])
    node.remove("many")
    node.wait("it is being removed", lambda: len(os.listdir(volume)) < 195)
    node.restart_agent()
    node.until_gone("many", 120)
    check(not pod_dir.exists(), "nothing of it is left")
