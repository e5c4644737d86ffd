# SPDX-License-Identifier: Apache-2.0
"""What a container sees and may use: volumes, users, environment, memory."""
import json
import os
import pathlib
import subprocess

from node import WAIT_FOR_TERM, status
from suite import check, equal


def test_volumes(node):
    host = node.top / "host"
    host.mkdir()
    (host / "in").write_text("from the node\n")
    node.pod("volumes", containers=[node.container(
        "main", "cat /host/in; echo out > /host/out; stat -c %a:%g /disk; df -k /mem | tail -1; "
        "touch /ro/x 2>/dev/null || echo read-only; ls /sub; sleep 1000",
        volumeMounts=[{"name": "host", "mountPath": "/host"}, {"name": "disk", "mountPath": "/disk"},
                      {"name": "mem", "mountPath": "/mem"}, {"name": "host", "mountPath": "/ro", "readOnly": True},
                      {"name": "disk", "mountPath": "/sub", "subPath": "made/here"}])],
        volumes=[{"name": "host", "hostPath": {"path": str(host), "type": "Directory"}},
                 {"name": "disk", "emptyDir": {}},
                 {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "2Mi"}}],
        securityContext={"fsGroup": 4321})
    pod = node.phase("volumes", "Running")
    node.wait("its log", lambda: "read-only" in node.log("volumes"))
    log = node.log("volumes")
    check("from the node\n" in log and "2777:4321" in log and " 2048 " in log, log)
    equal((host / "out").read_text(), "out\n", "what the pod wrote")
    node.remove("volumes")
    node.until_gone("volumes")
    check((host / "in").exists(), "a hostPath volume is not ours to remove")
    check(pod["metadata"]["uid"] not in pathlib.Path("/proc/self/mountinfo").read_text(), "tmpfs is unmounted")
    node.pod("bad-path", containers=[node.container(
        "main", "exit 0", volumeMounts=[{"name": "host", "mountPath": "/host"}])],
        volumes=[{"name": "host", "hostPath": {"path": str(host / "in"), "type": "Directory"}}])
    node.wait("FailedMount", lambda: "is not a directory" in node.ctl("get", "events").stdout)
    equal(status(node.get("bad-path"))["state"]["waiting"]["reason"], "ContainerCreating", "state")
    node.remove("bad-path")


def test_security_and_environment(node):
    node.pod("who", containers=[node.container(
        "main", "id -u; id -g; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; "
        "echo $NODE $MEMORY $JOINED; touch /x 2>/dev/null || echo sealed; exec sleep 1000",
        env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
             {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
             {"name": "JOINED", "value": "$(NODE)-$$(NODE)"}],
        resources={"limits": {"memory": "32Mi", "cpu": "100m"}},
        securityContext={"runAsUser": 1000, "runAsGroup": 2000, "readOnlyRootFilesystem": True,
                         "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})])
    pod = node.phase("who", "Running")
    node.wait("its log", lambda: "sealed" in node.log("who"))
    log = node.log("who").split("\n")
    equal(log[0:2], ["1000", "2000"], "user")
    check("0000000000000000" in log[2] and log[3].endswith("1"), str(log))
    equal(log[4], f"{node.node} 32 {node.node}-$(NODE)", "environment")
    equal(pod["status"]["qosClass"], "Guaranteed", "QoS")
    memory = [p for t in node.cgroup_trees() for n in ("memory.max", "memory.limit_in_bytes")
              for p in t.glob(f"**/pod{pod['metadata']['uid']}/{n}")]
    equal(memory[0].read_text().strip(), str(32 << 20), "limit of the pod's cgroup")
    node.remove("who")


def test_a_pod_with_users_of_its_own(node):
    mount = [{"name": "data", "mountPath": "/data"}, {"name": "fast", "mountPath": "/fast"}]
    node.pod("own-users", containers=[
        node.container("main", "id -u; echo by name > /dev/stdout; cat /proc/self/uid_map; touch /data/made "
                       "/fast/made /made; stat -c '%n %u' /data/made /fast/made /made /bin/busybox /etc/hosts; "
                       + WAIT_FOR_TERM, volumeMounts=mount),
        node.container("user", "id -u; touch /data/by-user; " + WAIT_FOR_TERM, volumeMounts=mount,
                       securityContext={"runAsUser": 1000, "runAsGroup": 1000})],
        volumes=[{"name": "data", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory"}}],
        hostUsers=False)
    pod = node.until("Running", "own-users", lambda p: p["status"]["phase"] == "Running")
    node.wait("its log", lambda: node.log("own-users", "-c", "main").endswith("up\n"))
    lines = node.log("own-users", "-c", "main").splitlines()
    equal(lines[:2], ["0", "by name"], "root, and a stream opened by name")
    inside, first, count = map(int, lines[2].split())
    equal((inside, count, first >= 65536), (0, 65536, True), "map")
    equal(lines[3:8], ["/data/made 0", "/fast/made 0", "/made 0", "/bin/busybox 0", "/etc/hosts 0"], "owners")
    uid = pod["metadata"]["uid"]
    folder = node.top / "root/pods" / uid
    given = json.loads((folder / "userns").read_text())
    wanted = [{"hostId": first, "containerId": 0, "length": 65536}]
    equal(given, {"uidMappings": wanted, "gidMappings": wanted}, "record")
    node.wait("the other's file", lambda: (folder / "volumes/kubernetes.io~empty-dir/data/by-user").exists())
    equal((folder / "volumes/kubernetes.io~empty-dir/data/by-user").stat().st_uid, 1000, "owner on disk")
    pid, _ = min(node.process_identity(pod))
    check(first <= os.stat(f"/proc/{pid}").st_uid < first + 65536, "nobody on the host")
    name = f"own-users-{node.node}"
    equal(node.ctl("exec", name, "-c", "main", "--", "/bin/sh", "-c",
                   "id -u > /dev/stdout; readlink /proc/self/ns/user").stdout,
          f"0\n{os.readlink(f'/proc/{pid}/ns/user')}\n", "exec")
    node.restart_agent()
    node.pod("own-users-2", "cat /proc/self/uid_map; " + WAIT_FOR_TERM, hostUsers=False)
    node.wait("the second's log", lambda: node.log("own-users-2").endswith("up\n"))
    second = int(node.log("own-users-2").split()[1])
    check(abs(second - first) >= 65536, f"the same ids twice: {first} and {second}")
    ip = node.get("own-users-2")["status"]["podIP"]
    equal(subprocess.run(["busybox", "ping", "-c1", "-W5", ip], capture_output=True, check=False).returncode,
          0, "its address answers")
    # What cannot have its owners mapped is refused by name, and nothing runs with the host's.
    node.pod("own-users-3", containers=[node.container("main", "exit 0", volumeMounts=[
        {"name": "proc", "mountPath": "/host"}])], hostUsers=False,
        volumes=[{"name": "proc", "hostPath": {"path": "/proc"}}])
    pod = node.until("refused", "own-users-3",
                     lambda p: status(p)["state"].get("waiting", {}).get("reason") == "CreateContainerError")
    check("the file system of /proc" in status(pod)["state"]["waiting"]["message"], str(status(pod)))
    for name in ("own-users", "own-users-2", "own-users-3"):
        node.remove(name)
        node.until_gone(name)


def test_out_of_memory_is_told(node):
    node.pod("greedy", containers=[node.container(
        "main", "head -c 200m /dev/zero | tail", resources={"limits": {"memory": "24Mi"}})],
        restartPolicy="Never")
    pod = node.phase("greedy", "Failed", 60)
    ended = status(pod)["state"]["terminated"]
    equal(ended["reason"], "OOMKilled", f"reason of {ended}")
    node.remove("greedy")


def test_all_pods_together_are_limited_to_what_is_allocatable(node):
    allocatable = json.loads(node.ctl("get", "node", "-o", "json").stdout)["items"][0]["status"]["allocatable"]
    limits = [p for tree in node.cgroup_trees()
              for p in (tree / "kubepods/memory.limit_in_bytes", tree / "kubepods/memory.max") if p.exists()]
    equal([int(p.read_text()) // 1024 for p in limits], [int(allocatable["memory"].removesuffix("Ki"))],
          "memory of kubepods")
    pids = [p.read_text() for tree in node.cgroup_trees() for p in [tree / "kubepods/pids.max"] if p.exists()]
    check(len(pids) == 1 and int(pids[0]) > 0, f"pids of kubepods: {pids}")
