# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumes by their claims."""
import pathlib

from asking import get, inside_pod, pod, pods, restarts, until
from suite import check, equal

WAIT = "while :; do sleep 1 & wait; done"


def volume(name, node, **source):
    """A PersistentVolume of one node."""
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none", **source,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}}


CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}


def claim(name, volume_name):
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {**CLAIM, "volumeName": volume_name}}


def with_volume(name, source, script=WAIT, node=None):
    made = pod(name, script, **({"nodeName": node} if node else {}))
    made["spec"]["volumes"] = [{"name": "data", **source}]
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


def runs(cluster, name):
    until(f"{name} runs", lambda: get(cluster, "pod", name)["status"]["phase"] == "Running")
    return get(cluster, "pod", name)


def events(cluster, name):
    return [f'{e["reason"]}: {e["message"]}' for e in get(cluster, "events")["items"] if e["involvedObject"]["name"] == name]


def folder(cluster, name):
    made = pathlib.Path(cluster.folder) / name
    made.mkdir(exist_ok=True)
    return str(made)


def test_a_local_and_a_host_path_volume_outlive_their_pods(cluster):
    cluster.apply(volume("disk", "n1", local={"path": folder(cluster, "disk")}),
                  volume("path", "n1", hostPath={"path": folder(cluster, "path")}), claim("disk", "disk"), claim("path", "path"))
    for name in ("disk", "path"):
        source = {"persistentVolumeClaim": {"claimName": name}}
        cluster.apply(with_volume("first", source, f"echo of {name} > /data/file; {WAIT}"))
        equal(runs(cluster, "first")["spec"]["nodeName"], "n1", "the scheduler's choice")
        cluster.kubectl("delete", "pod", "first")
        until("it is gone", lambda: not pods(cluster, "first"))
        source["persistentVolumeClaim"]["readOnly"] = True
        cluster.apply(with_volume("second", source))
        found = runs(cluster, "second")
        equal(inside_pod(cluster, found, "cat", "/data/file"), f"of {name}", "what the first one wrote")
        equal(inside_pod(cluster, found, "sh", "-c", "touch /data/x 2>/dev/null || echo no"), "no", "a use that only reads")
        cluster.kubectl("delete", "pod", "second")
        until("it is gone", lambda: not pods(cluster, "second"))


def test_a_claim_that_is_missing_is_told_and_waited_for(cluster):
    cluster.apply(with_volume("early", {"persistentVolumeClaim": {"claimName": "late"}}, node="n1"))
    until("it is told", lambda: any(
        e.startswith("FailedMount: Unable to attach or mount volumes: unmounted volumes=[data]") and
        'persistentvolumeclaims "late" not found' in e for e in events(cluster, "early")))
    cluster.apply(claim("late", "late"))
    until("it is told that nobody bound it", lambda: any("PVC is not bound" in e for e in events(cluster, "early")))
    cluster.apply(volume("late", "n1", local={"path": folder(cluster, "late")}))
    runs(cluster, "early")
    cluster.kubectl("delete", "pod/early", "pvc/late", "pv/late")


def test_a_volume_of_another_node_is_not_used(cluster):
    cluster.apply(volume("there", "n2", local={"path": folder(cluster, "there")}), claim("there", "there"))
    cluster.apply(with_volume("here", {"persistentVolumeClaim": {"claimName": "there"}}, node="n1"))
    until("it is told", lambda: any(
        'MountVolume.NodeAffinity check failed for volume "there" : no matching NodeSelectorTerms' in e
        for e in events(cluster, "here")))
    cluster.kubectl("delete", "pod/here", "pvc/there", "pv/there")


def test_a_pod_with_a_claim_of_its_own(cluster):
    own = {"ephemeral": {"volumeClaimTemplate": {"spec": {**CLAIM, "volumeName": "own"}}}}
    cluster.apply(volume("own", "n1", local={"path": folder(cluster, "own")}), with_volume("owner", own))
    runs(cluster, "owner")
    equal(get(cluster, "pvc", "owner-data")["status"]["phase"], "Bound", "the claim")
    cluster.kubectl("delete", "pod/owner")
    until("its claim goes with it", lambda: not [c for c in get(cluster, "pvc")["items"] if c["metadata"]["name"] == "owner-data"])
    cluster.kubectl("delete", "pv/own")


def test_without_the_api_server_a_pod_finds_its_volume(cluster):
    cluster.apply(with_volume("steady", {"persistentVolumeClaim": {"claimName": "disk"}}, "echo $$ > /data/pid; sleep 1000 & wait"))
    found = runs(cluster, "steady")
    node = cluster.nodes["n1"]
    with cluster.without_api_server():
        node.kill(("agent",))
        node.start_agent()
        node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
        inside_pod(cluster, found, "sh", "-c", "kill 1")
        until("it runs again", lambda: inside_pod(cluster, found, "cat", "/data/pid") == "1")
    until("that is told", lambda: restarts({"steady": get(cluster, "pod", "steady")}) == {"steady": [1]})
    check(not [e for e in events(cluster, "steady") if e.startswith("FailedMount")], "no trouble")
    cluster.kubectl("delete", "pod/steady", "pvc/disk", "pvc/path", "pv/disk", "pv/path")
