# SPDX-License-Identifier: Apache-2.0
"""Other amounts of cpu and memory for a pod that runs: a manifest with a UID of its own that asks for them."""
from admission import events
from node import WAIT_FOR_TERM, status
from suite import check, equal

HOLDS_MEMORY = "x=$(head -c 24000000 /dev/zero | tr '\\0' x); "


def apply(node, name, cpu, memory="64Mi", script=WAIT_FOR_TERM, **more):
    node.pod(name, metadata={"uid": f"{name}-uid"}, containers=[node.container(
        "main", script, resources={"requests": {"cpu": cpu, "memory": "16Mi"}, "limits": {"memory": memory}}, **more)])


def condition(pod, kind):
    return next((c for c in pod["status"]["conditions"] if c["type"] == kind), None)


def quota_of_memory(node, pod):
    """The limit that the kernel has of the pod's cgroup and of its container's."""
    files = [p for t in node.cgroup_trees() for n in ("memory.max", "memory.limit_in_bytes")
             for p in t.glob(f"**/pod{pod['metadata']['uid']}/**/{n}")]
    return sorted({int(p.read_text()) for p in files})


def cpu(pod):
    return status(pod)["resources"]["requests"]["cpu"]


def test_a_manifest_that_asks_for_other_amounts_is_resized_in_place(node):
    apply(node, "grown", "100m")
    first = node.phase("grown", "Running")
    equal(quota_of_memory(node, first), [64 << 20], "limits")
    apply(node, "grown", "200m", "96Mi")
    grown = node.until("resized", "grown", lambda p: cpu(p) == "200m")
    equal(quota_of_memory(node, grown), [96 << 20], "limits")
    equal((status(grown)["containerID"], status(grown)["restartCount"]), (status(first)["containerID"], 0), "it runs on")
    equal((status(grown)["allocatedResources"]["cpu"], grown["status"]["resources"]["requests"]["cpu"]),
          ("200m", "200m"), "what is shown")
    node.wait("events", lambda: {r for r, _ in events(node, "grown")} >= {"ResizeStarted", "ResizeCompleted"})
    node.restart_agent()
    node.until("remembered", "grown", lambda p: cpu(p) == "200m")
    apply(node, "grown", "50m", "48Mi")
    shrunk = node.until("smaller", "grown", lambda p: cpu(p) == "50m")
    equal(quota_of_memory(node, shrunk), [48 << 20], "limits")
    node.remove("grown")
    node.until_gone("grown")


def test_a_resize_without_room_waits_and_survives_its_agent(node):
    apply(node, "waits", "100m")
    node.phase("waits", "Running")
    apply(node, "waits", "6400")
    pod = node.until("deferred", "waits", lambda p: condition(p, "PodResizePending") is not None)
    pending = condition(pod, "PodResizePending")
    equal((pending["status"], pending["reason"]), ("True", "Deferred"), "condition")
    check(pending["message"].startswith("Node didn't have enough resource: cpu, requested: 6400000, "), pending["message"])
    equal((cpu(pod), status(pod)["allocatedResources"]["cpu"]), ("100m", "100m"), "what it has")
    node.restart_agent()
    pod = node.until("still deferred", "waits", lambda p: condition(p, "PodResizePending") is not None)
    equal((cpu(pod), condition(pod, "PodResizePending")["lastTransitionTime"]),
          ("100m", pending["lastTransitionTime"]), "after a restart")
    apply(node, "waits", "100m")
    node.until("taken back", "waits", lambda p: condition(p, "PodResizePending") is None)
    node.remove("waits")
    node.until_gone("waits")


def test_a_container_starts_again_where_its_policy_says_so(node):
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    apply(node, "again", "100m", resizePolicy=policy)
    first = node.phase("again", "Running")
    apply(node, "again", "200m", resizePolicy=policy)
    pod = node.until("restarted", "again", lambda p: status(p)["restartCount"] == 1 and cpu(p) == "200m")
    check(status(pod)["containerID"] != status(first)["containerID"], "another run")
    check(("Killing", "Container main resize requires restart") in events(node, "again"), "event")
    node.remove("again")
    node.until_gone("again")


def test_a_memory_limit_below_what_is_used_is_refused_until_it_fits(node):
    apply(node, "full", "100m", "128Mi", HOLDS_MEMORY + "echo full; " + WAIT_FOR_TERM)
    first = node.phase("full", "Running")
    node.wait("it holds its memory", lambda: "full" in node.log("full"))
    apply(node, "full", "100m", "18Mi", HOLDS_MEMORY + "echo full; " + WAIT_FOR_TERM)
    pod = node.until("refused", "full", lambda p: (condition(p, "PodResizeInProgress") or {}).get("reason") == "Error")
    check(condition(pod, "PodResizeInProgress")["message"].startswith(
        "cannot decrease memory limits: [attempting to set pod memory limit (18874368) below current usage ("), "message")
    equal(quota_of_memory(node, pod), [128 << 20], "limits")
    equal(status(pod)["resources"]["limits"]["memory"], "128Mi", "what it has")
    check("ResizeError" in {r for r, _ in events(node, "full")}, "event")
    apply(node, "full", "100m", "112Mi", HOLDS_MEMORY + "echo full; " + WAIT_FOR_TERM)
    pod = node.until("another wish", "full", lambda p: condition(p, "PodResizeInProgress") is None)
    equal(quota_of_memory(node, pod), [112 << 20], "limits")
    equal(status(pod)["containerID"], status(first)["containerID"], "it lived")
    node.remove("full")
    node.until_gone("full")
