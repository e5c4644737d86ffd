# SPDX-License-Identifier: Apache-2.0
"""What the node takes, refuses and tells; and wishes that are honoured to the letter."""
import json
import os

from node import WAIT_FOR_TERM, status
from suite import check, equal


def refused(node, name, **spec):
    node.pod(name, "sleep 1000", **spec)
    pod = node.phase(name, "Failed")
    equal(pod["status"].get("containerStatuses"), None, f"{name}: containers")
    check(pod["status"]["message"].startswith("Pod was rejected: "), pod["status"]["message"])
    return pod["status"]["reason"]


def events(node, name):
    items = json.loads(node.ctl("get", "events", "-o", "json").stdout)["items"]
    return [(e["reason"], e["message"]) for e in items if e["involvedObject"]["name"] == f"{name}-{node.node}"]


def test_a_pod_that_the_node_cannot_honour_fails_and_stays_so(node):
    equal(refused(node, "big", containers=[node.container(
        "main", "sleep 1000", resources={"requests": {"cpu": "6400"}})]), "OutOfcpu", "room")
    equal(refused(node, "else", nodeSelector={"disk": "nosuch"}), "NodeAffinity", "labels")
    equal(refused(node, "windows", os={"name": "windows"}), "PodOSNotSupported", "system")
    equal(refused(node, "sysctl", securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}),
          "SysctlForbidden", "sysctl")
    equal(refused(node, "armor", securityContext={"appArmorProfile": {"type": "RuntimeDefault"}}), "AppArmor", "profile")
    equal(events(node, "else"), [("NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node "
                                  "affinity/selector")], "events")
    node.restart_agent()
    node.wait("the agent answers", lambda: node.ctl("version").returncode == 0)
    equal(node.phase("big", "Failed")["status"]["reason"], "OutOfcpu", "after a restart")
    for name in ("big", "else", "windows", "sysctl", "armor"):
        node.remove(name)
        node.until_gone(name)


def test_a_critical_pod_is_made_room_for(node):
    """Pods of every quality of service have to go for one of a higher priority, each in good order."""
    cpus = os.cpu_count() * 1000

    def stands(name, part, priority, guaranteed=False):
        resources = {"requests": {"cpu": f"{cpus * part // 100}m", "memory": "8Mi"}}
        if guaranteed:
            resources["limits"] = resources["requests"]
        node.pod(name, containers=[node.container("main", WAIT_FOR_TERM, resources=resources)], priority=priority)
        return node.phase(name, "Running")

    low = [f"low-{n}" for n in range(6)]
    for n, name in enumerate(low):
        stands(name, 15, 2000000000, guaranteed=n % 2 == 0)
    stands("high", 95, 2000001000)
    for name in low:
        went = node.phase(name, "Failed")["status"]
        equal(went["reason"], "Preempting", name)
        equal([c["reason"] for c in went["conditions"] if c["type"] == "DisruptionTarget"], ["TerminationByKubelet"], name)
        equal(status({"status": went})["state"]["terminated"]["exitCode"], 0, f"{name} ended in its own time")
    for name in [*low, "high"]:
        node.remove(name)
        node.until_gone(name)


def test_what_is_left_out_is_told(node):
    node.pod("told", "sleep 1000", serviceAccountName="robot", priorityClassName="gold", topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}])
    node.phase("told", "Running")
    told = [m for reason, m in events(node, "told") if reason == "FieldNotHonoured"]
    equal(sorted(m.split(":")[0] for m in told),
          ["spec.priorityClassName", "spec.serviceAccountName", "spec.topologySpreadConstraints"], "fields")
    node.remove("told")
    node.until_gone("told")
    node.pod("class", "sleep 1000", runtimeClassName="gvisor")
    node.wait("its event", lambda: ("FailedCreatePodSandBox", "Failed to create pod sandbox: runtimeclass.node.k8s.io "
                                    "\"gvisor\" not found") in events(node, "class"))
    node.remove("class")
    node.until_gone("class")


def test_the_longest_name_runs_and_goes(node):
    name = "l" * (253 - 1 - len(node.node))
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0, "containers": [node.container("main", "echo said; sleep 1000")]}}
    node.write("long", json.dumps(manifest))
    node.phase(name, "Running")
    node.wait("its log", lambda: node.log(name) == "said\n")
    node.remove("long")
    node.until_gone(name)
    equal([p.name for p in node.logs.iterdir() if "lll" in p.name], [], "log directories")


def test_a_message_of_bytes_that_are_no_text_harms_nobody(node):
    node.pod("bytes", r"printf '\377bin' > /dev/termination-log; exit 1", restartPolicy="Never")
    message = status(node.phase("bytes", "Failed"))["state"]["terminated"]["message"]
    equal(message, "\N{REPLACEMENT CHARACTER}bin", "message")
    equal(node.ctl("get", "pods").stderr, "", "what other commands say of it")
    node.remove("bytes")
    node.until_gone("bytes")


def test_limits_and_volumes_are_what_a_kubelet_makes_of_them(node):
    node.pod("exact", containers=[
        node.container("main", "df -k /mem | tail -1; ls /maybe | wc -l; touch /maybe/x 2>/dev/null || echo sealed; "
                       "sleep 1000", resources={"limits": {"memory": "32Mi"}},
                       volumeMounts=[{"name": "mem", "mountPath": "/mem"}, {"name": "maybe", "mountPath": "/maybe"}])],
        volumes=[{"name": "mem", "emptyDir": {"medium": "Memory"}},
                 {"name": "maybe", "configMap": {"name": "nosuch", "optional": True}}])
    node.phase("exact", "Running")
    node.wait("its log", lambda: "sealed" in node.log("exact"))
    log = node.log("exact")
    check(" 32768 " in log and "\n0\n" in log, log)
    node.remove("exact")
    node.until_gone("exact")
    node.pod("none", containers=[node.container("main", "sleep 1000", resources={"limits": {"memory": "0"}})])
    node.phase("none", "Running")
    node.remove("none")
    node.until_gone("none")
