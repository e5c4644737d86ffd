# SPDX-License-Identifier: Apache-2.0
"""Pods of a real API server that write more to the node's disk than they may."""
from asking import deployment, get, pod, pods, until
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
