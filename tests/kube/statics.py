# SPDX-License-Identifier: Apache-2.0
"""Static pods of nodes in a cluster, and their mirrors."""
import json

from asking import get, inside_pod, pod, until
from suite import check, equal


def write(node, name, script="sleep infinity & wait", **meta):
    """A manifest file, put in place at once as kubeadm does it."""
    made = pod(name, script)
    made["metadata"].update(meta)
    aside = node.top / f"{name}.new"
    aside.write_text(json.dumps(made))
    aside.rename(node.manifests / f"{name}.yaml")


def container(found):
    return found["status"]["containerStatuses"][0]


def running(cluster, name, space="default"):
    """The mirror, once it says that its container runs."""
    until(f"{name} runs", lambda: "running" in container(get(cluster, "pod", name, "-n", space))["state"])
    return get(cluster, "pod", name, "-n", space)


def the_one(cluster):
    """The static pod that the tests share."""
    node = cluster.nodes["n1"]
    if not (node.manifests / "stays.yaml").exists():
        write(node, "stays", labels={"app": "stays"}, annotations={"example.org/a": "b"})
    return running(cluster, "stays-n1")


def is_gone(cluster, name):
    return not cluster.kubectl("get", "pod", name, "--ignore-not-found", "-o", "name")


def test_a_static_pod_is_seen_as_its_mirror(cluster):
    node = cluster.nodes["n1"]
    mirror = the_one(cluster)
    meta, notes = mirror["metadata"], mirror["metadata"]["annotations"]
    equal(notes["kubernetes.io/config.mirror"], notes["kubernetes.io/config.hash"], "hash")
    equal((notes["kubernetes.io/config.source"], notes["example.org/a"]), ("file", "b"), "annotations")
    check(notes["kubernetes.io/config.seen"], notes)
    equal(meta["ownerReferences"], [{"apiVersion": "v1", "kind": "Node", "name": "n1", "controller": True,
                                     "uid": get(cluster, "node", "n1")["metadata"]["uid"]}], "owner")
    equal(mirror["spec"]["nodeName"], "n1", "node")
    here = json.loads(node.ctl("get", "pod", "stays-n1", "-o", "json").stdout)
    equal(here["metadata"]["uid"], notes["kubernetes.io/config.hash"], "the static pod's own UID")
    check(meta["uid"] != here["metadata"]["uid"], "the mirror has its own")
    equal((mirror["status"]["podIP"], container(mirror)["containerID"]),
          (here["status"]["podIP"], container(here)["containerID"]), "status")
    equal({c["type"]: c["status"] for c in mirror["status"]["conditions"]},
          dict.fromkeys(("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), "True"),
          "conditions")


def test_a_static_pod_is_told_of_services(cluster):
    said = inside_pod(cluster, the_one(cluster), "sh", "-c", "echo $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT")
    equal(said, "10.96.0.1 443", "what every pod is told")


def test_a_mirror_that_is_deleted_comes_back_and_the_container_goes_on(cluster):
    before = the_one(cluster)
    for words in ((), ("--force", "--grace-period=0")):
        last = get(cluster, "pod", "stays-n1")["metadata"]["uid"]
        cluster.kubectl("delete", "pod", "stays-n1", "--wait=false", *words)
        until("another mirror", lambda u=last: get(cluster, "pod", "stays-n1")["metadata"]["uid"] != u)
        after = running(cluster, "stays-n1")
        equal(container(after)["containerID"], container(before)["containerID"], "container")
        equal(container(after)["restartCount"], 0, "restarts")


def test_mirrors_outlive_the_agent_and_follow_the_node(cluster):
    before = the_one(cluster)
    cluster.nodes["n1"].kill_agent()
    equal(running(cluster, "stays-n1")["metadata"]["uid"], before["metadata"]["uid"], "the mirror, by a new agent")
    node = get(cluster, "node", "n1")["metadata"]["uid"]
    cluster.kubectl("delete", "node", "n1")
    until("the node is back", lambda: get(cluster, "node", "n1")["metadata"]["uid"] != node)
    uid = get(cluster, "node", "n1")["metadata"]["uid"]
    until("the mirror is the new node's", lambda: get(
        cluster, "pod", "stays-n1")["metadata"]["ownerReferences"][0]["uid"] == uid)
    equal(container(running(cluster, "stays-n1"))["containerID"], container(before)["containerID"], "container")


def test_a_changed_file_is_another_pod_and_without_its_file_it_goes(cluster):
    before = the_one(cluster)
    write(cluster.nodes["n1"], "stays", "echo two; sleep infinity & wait")
    until("another hash", lambda: get(cluster, "pod", "stays-n1")["metadata"]["annotations"]
          ["kubernetes.io/config.hash"] != before["metadata"]["annotations"]["kubernetes.io/config.hash"])
    after = running(cluster, "stays-n1")
    check(container(after)["containerID"] != container(before)["containerID"], "the container is another one")
    (cluster.nodes["n1"].manifests / "stays.yaml").unlink()
    until("the mirror is gone", lambda: is_gone(cluster, "stays-n1"))
    equal(json.loads(cluster.nodes["n1"].ctl("get", "pods", "-A", "-o", "json").stdout)["items"], [], "pods of the node")


def test_a_missing_namespace_is_told_and_the_pod_runs(cluster):
    node = cluster.nodes["n2"]
    write(node, "early", namespace="later")
    node.wait("it runs", lambda: json.loads(node.ctl("get", "pod", "-n", "later", "early-n2", "-o", "json").stdout)
              ["status"]["phase"] == "Running")
    until("an event of the node says so", lambda: any(
        e["reason"] == "FailedMirrorPod" and 'namespaces "later" not found' in e["message"]
        for e in get(cluster, "events", "-n", "default")["items"]))
    cluster.kubectl("create", "namespace", "later")
    running(cluster, "early-n2", "later")
    (node.manifests / "early.yaml").unlink()
    cluster.kubectl("delete", "namespace", "later")


def test_a_mirror_of_nobody_is_taken_away(cluster):
    """Somebody writes one, or its manifest went while the agent was away."""
    made = pod("nobody", "exit 1")
    made["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    made["spec"].update(nodeName="n1", automountServiceAccountToken=False)
    cluster.apply(made)
    until("it is gone", lambda: is_gone(cluster, "nobody"))
