# SPDX-License-Identifier: Apache-2.0
"""Pods of a real API server that are given other amounts while they run: `kubectl patch --subresource resize`."""
import json

from asking import get, pod, until
from suite import check, equal


def amounts(cpu, memory="64Mi"):
    return {"requests": {"cpu": cpu, "memory": "32Mi"}, "limits": {"memory": memory}}


def put(cluster, name, cpu, node=None, **more):
    body = pod(name, "exec sleep 12345")
    body["spec"]["containers"][0].update(resources=amounts(cpu), **more)
    if node:
        body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    cluster.apply(body)
    until("it runs", lambda: get(cluster, "pod", name)["status"]["phase"] == "Running")
    return get(cluster, "pod", name)


def resize(cluster, name, cpu, memory="64Mi"):
    cluster.kubectl("patch", "pod", name, "--subresource", "resize", "-p", json.dumps(
        {"spec": {"containers": [{"name": "c", "resources": amounts(cpu, memory)}]}}))


def condition(found, kind):
    return next((c for c in found["status"]["conditions"] if c["type"] == kind), None)


def has(cluster, name):
    return get(cluster, "pod", name)["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"]


def reasons(cluster, name):
    return {e["reason"] for e in get(cluster, "events")["items"] if e["involvedObject"]["name"] == name}


def test_a_pod_is_resized_in_place(cluster):
    before = put(cluster, "resized", "50m")
    resize(cluster, "resized", "80m", "80Mi")
    until("it has it", lambda: has(cluster, "resized") == "80m")
    until("and is through", lambda: condition(get(cluster, "pod", "resized"), "PodResizeInProgress") is None)
    found = get(cluster, "pod", "resized")
    container = found["status"]["containerStatuses"][0]
    equal((container["containerID"], container["restartCount"]),
          (before["status"]["containerStatuses"][0]["containerID"], 0), "it went on")
    equal((container["allocatedResources"]["cpu"], container["resources"]["limits"]["memory"]), ("80m", "80Mi"), "given")
    equal(found["status"]["observedGeneration"], found["metadata"]["generation"], "generation")
    equal((found["status"]["allocatedResources"]["cpu"], found["status"]["resources"]["requests"]["cpu"]),
          ("80m", "80m"), "of the pod")
    until("events", lambda: reasons(cluster, "resized") >= {"ResizeStarted", "ResizeCompleted"})
    cluster.kubectl("delete", "pod", "resized")


def test_a_resize_waits_for_the_room_that_another_pod_has(cluster):
    # An API server refuses what is more than the whole node: two thirds of it, twice.
    cpu = get(cluster, "node", "n1")["status"]["allocatable"]["cpu"]
    large = (int(cpu[:-1]) if cpu.endswith("m") else 1000 * int(cpu)) * 2 // 3 | 1  # odd, so that its text is in thousandths
    put(cluster, "waiting", "50m", "n1")
    put(cluster, "large", f"{large}m", "n1")
    resize(cluster, "waiting", f"{large}m")
    until("deferred", lambda: condition(get(cluster, "pod", "waiting"), "PodResizePending") is not None)
    found = get(cluster, "pod", "waiting")
    pending = condition(found, "PodResizePending")
    equal((pending["status"], pending["reason"], pending["observedGeneration"]),
          ("True", "Deferred", found["metadata"]["generation"]), "condition")
    check(pending["message"].startswith(f"Node didn't have enough resource: cpu, requested: {large}, used: "),
          pending["message"])
    equal(has(cluster, "waiting"), "50m", "what it has")
    until("its event", lambda: "ResizeDeferred" in reasons(cluster, "waiting"))
    cluster.kubectl("delete", "pod", "large")
    until("given", lambda: has(cluster, "waiting") == f"{large}m")
    until("and nothing waits", lambda: condition(get(cluster, "pod", "waiting"), "PodResizePending") is None)
    equal(get(cluster, "pod", "waiting")["status"]["containerStatuses"][0]["restartCount"], 0, "restarts")
    cluster.kubectl("delete", "pod", "waiting")


def test_a_container_that_wants_it_starts_again_for_a_resize(cluster):
    put(cluster, "restarted", "50m", resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])
    resize(cluster, "restarted", "70m")
    until("another run has it", lambda: get(cluster, "pod", "restarted")["status"]["containerStatuses"][0]["restartCount"] == 1
          and has(cluster, "restarted") == "70m")
    cluster.kubectl("delete", "pod", "restarted")


def test_amounts_of_a_pod_as_a_whole_are_resized(cluster):
    body = pod("whole", "exec sleep 12345")
    body["spec"]["resources"] = {"requests": {"cpu": "50m"}, "limits": {"cpu": "500m"}}
    cluster.apply(body)
    until("it runs", lambda: get(cluster, "pod", "whole")["status"]["phase"] == "Running")
    cluster.kubectl("patch", "pod", "whole", "--subresource", "resize", "-p", json.dumps(
        {"spec": {"resources": {"requests": {"cpu": "60m"}, "limits": {"cpu": "600m"}}}}))
    until("it has it", lambda: get(cluster, "pod", "whole")["status"]["resources"]["limits"]["cpu"] == "600m")
    until("and is through", lambda: condition(get(cluster, "pod", "whole"), "PodResizeInProgress") is None)
    equal(get(cluster, "pod", "whole")["status"]["containerStatuses"][0]["restartCount"], 0, "restarts")
    cluster.kubectl("delete", "pod", "whole")
