# SPDX-License-Identifier: Apache-2.0
"""Pods of a real API server that have more than they may, or more than the node can spare."""
from asking import condition, deployment, get, pod, pods, restarts, until
from suite import check, equal

WRITE = "dd if=/dev/zero of={}/file bs=1024 count={} 2>/dev/null; while :; do sleep 1 & wait; done"


def writer(name, where, kib, limit=None, size_limit=None):
    body = pod(name, WRITE.format(where, kib))
    container = body["spec"]["containers"][0]
    if limit:
        container["resources"] = {"limits": {"ephemeral-storage": limit}}
    body["spec"]["volumes"] = [{"name": "data", "emptyDir": {"sizeLimit": size_limit} if size_limit else {}}]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return body


def is_evicted(cluster, name, why):
    until("it is evicted", lambda: get(cluster, "pod", name)["status"]["phase"] == "Failed")
    status = get(cluster, "pod", name)["status"]
    equal((status["reason"], status["message"]), ("Evicted", why), "status")
    selector = f"involvedObject.name={name},reason=Evicted"
    until("and told", lambda: get(cluster, "events", "--field-selector", selector)["items"])
    equal(get(cluster, "events", "--field-selector", selector)["items"][0]["message"], why, "event")
    cluster.kubectl("delete", "pod", name)


def test_an_empty_dir_has_a_limit(cluster):
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    cluster.apply(writer("greedy-volume", "/data", 2048, size_limit="1Mi"))
    is_evicted(cluster, "greedy-volume", 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". ')


def test_layers_and_volumes_count_for_the_pod(cluster):
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    cluster.apply(writer("greedy-layer", "/tmp", 2048, limit="1Mi"))
    is_evicted(cluster, "greedy-layer",
               "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ")


def test_an_evicted_pod_is_replaced_and_who_keeps_to_its_limit_stays(cluster):
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    cluster.apply(writer("modest", "/data", 512, limit="4Mi", size_limit="1Mi"))
    until("it runs", lambda: get(cluster, "pod", "modest")["status"]["phase"] == "Running")
    made = deployment("greedy", 1)
    made["spec"]["template"]["spec"] = writer("greedy", "/data", 2048, size_limit="1Mi")["spec"]
    cluster.apply(made)
    until("another takes its place", lambda: len(pods(cluster, "greedy")) > 1)
    phases = [found["status"]["phase"] for found in pods(cluster, "greedy").values()]
    check("Failed" in phases, phases)
    # The watch has looked once more, at all pods, when the second one goes as well.
    until("that one's place is taken, too", lambda: len(pods(cluster, "greedy")) > 2)
    equal(get(cluster, "pod", "modest")["status"]["phase"], "Running", "the modest one")
    cluster.kubectl("delete", "deployment", "greedy")
    cluster.kubectl("delete", "pod", "modest")


POOR = "n9"
LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, available: "


def poor_node(cluster):
    """A machine whose pods may have 300 MiB together, and which is short of memory below 100."""
    total = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal:"))
    node = cluster.make_node(POOR, "10.200.0.19", cluster.credentials(POOR))
    node.set_config(systemReserved={"memory": f"{total - 300 * 1024}Ki"}, evictionPressureTransitionPeriod="20s",
                    evictionHard={"memory.available": "100Mi"})
    return node


def hog(name, mib, **resources):
    """Has so much in a file in memory, for good."""
    body = pod(name, f"dd if=/dev/zero of=/mem/file bs=1M count={mib} 2>/dev/null; while :; do sleep 1 & wait; done",
               nodeName=POOR, volumes=[{"name": "mem", "emptyDir": {"medium": "Memory"}}])
    body["spec"]["containers"][0].update(volumeMounts=[{"name": "mem", "mountPath": "/mem"}], resources=resources)
    return body


def is_short(cluster, answer):
    return condition(cluster, POOR, "MemoryPressure") == answer


def test_a_node_short_of_memory_ends_who_took_more_than_it_asked_for(cluster):
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    node = poor_node(cluster)
    try:
        node.start_agent()
        until("it is a node", lambda: condition(cluster, POOR, "Ready") == "True")
        node.ctl("image", "import", cluster.folder.parent / "busybox.tar", "--name", "busybox", "--cmd", "/bin/sh")
        cluster.apply(hog("asked", 90, requests={"memory": "120Mi"}))
        until("it runs", lambda: get(cluster, "pod", "asked")["status"]["phase"] == "Running")
        equal(condition(cluster, POOR, "MemoryPressure"), "False", "with room for all")
        cluster.apply(hog("hungry", 160))
        until("it is evicted", lambda: get(cluster, "pod", "hungry")["status"]["phase"] == "Failed")
        status = get(cluster, "pod", "hungry")["status"]
        equal((status["reason"], status["message"][:len(LOW)]), ("Evicted", LOW), "status")
        check("Container c was using " in status["message"] and
              ", request is 0, has larger consumption of memory. " in status["message"], status["message"])
        target = [c for c in status["conditions"] if c["type"] == "DisruptionTarget"]
        equal([(c["status"], c["reason"], c["message"]) for c in target],
              [("True", "TerminationByKubelet", status["message"])], "condition")
        until("the node says why", lambda: is_short(cluster, "True"))
        until("and so does an event", lambda: "Attempting to reclaim memory" in [e["message"] for e in get(
            cluster, "events", "--field-selector", f"involvedObject.name={POOR},reason=EvictionThresholdMet")["items"]])
        selector = "involvedObject.name=hungry,reason=Evicted"
        until("the pod's event is there", lambda: get(cluster, "events", "--field-selector", selector)["items"])
        event = get(cluster, "events", "--field-selector", selector)["items"][0]
        equal(event["message"], status["message"], "event")
        equal({k: event["metadata"]["annotations"][k] for k in ("offending_containers", "starved_resource")},
              {"offending_containers": "c", "starved_resource": "memory"}, "annotations")
        cluster.apply(pod("late", "sleep 1000", nodeName=POOR))
        until("who asks for nothing is not taken", lambda: get(cluster, "pod", "late")["status"]["phase"] == "Failed")
        late = get(cluster, "pod", "late")["status"]
        equal((late["reason"], late["message"]),
              ("Evicted", "Pod was rejected: The node had condition: [MemoryPressure]. "), "status of the late one")
        until("it is over", lambda: is_short(cluster, "False"))
        found = get(cluster, "pod", "asked")
        equal((found["status"]["phase"], restarts({"asked": found})), ("Running", {"asked": [0]}), "who had asked for it")
    finally:
        cluster.kubectl("delete", "pod", "asked", "hungry", "late", "--ignore-not-found", "--grace-period=1")
        cluster.remove_node(node)
        cluster.kubectl("delete", "node", POOR, "--ignore-not-found")
