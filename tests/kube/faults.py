# SPDX-License-Identifier: Apache-2.0
"""A cluster in which programs die."""
import contextlib
import json
import subprocess
import time

from asking import SERVER, are_ready, condition, deployment, get, pod, pods, restarts, rolled_out, until
from kube_cluster import SERVER as CONTROL_PLANE
from suite import check, equal


def running(cluster, app):
    """The containers that run: name of pod -> id."""
    return {name: p["status"]["containerStatuses"][0]["containerID"] for name, p in pods(cluster, app).items()
            if p["status"].get("containerStatuses") and not p["metadata"].get("deletionTimestamp")}


def ready_since(cluster, app):
    """Name of pod -> when it became ready."""
    return {name: [(c["status"], c["lastTransitionTime"]) for c in p["status"]["conditions"] if c["type"] == "Ready"]
            for name, p in pods(cluster, app).items()}


def test_a_rollout_ends_while_agents_and_keepers_are_killed(cluster):
    cluster.apply(deployment("calm", 6), deployment("busy", 30))
    rolled_out(cluster, "calm")
    until("thirty pods are there", lambda: rolled_out(cluster, "busy") is None, 240)
    calm, calm_ready = running(cluster, "calm"), ready_since(cluster, "calm")
    kills = 0
    with cluster.supervised():
        for change in range(3):
            cluster.apply(deployment("busy", 30, f"echo {change}; " + SERVER))
            for _ in range(4):
                for node in cluster.nodes.values():
                    kills += node.kill(("agent",))
                    kills += node.kill(("hold", "launch", "log"))
                    time.sleep(0.3)
        until("thirty new ones are there", lambda: rolled_out(cluster, "busy") is None, 240)
        until("all are ready", lambda: are_ready(cluster))
        until("only the new ones are left", lambda: len(pods(cluster, "busy")) == 30)
    print(f"  {kills} kills", flush=True)
    check(kills >= 40, kills)
    equal(running(cluster, "calm"), calm, "containers that nobody touched")
    equal(ready_since(cluster, "calm"), calm_ready, "when they became ready")
    equal(set(map(tuple, restarts(pods(cluster, "calm")).values())), {(0,)}, "restarts")
    cluster.kubectl("delete", "deployment", "busy", "calm")
    until("all are gone", lambda: not pods(cluster, "busy") and not pods(cluster, "calm"))


def test_without_the_api_server_pods_go_on_and_it_is_told_afterwards(cluster):
    cluster.apply(deployment("calm", 6))
    # It ends while the server is away.
    cluster.apply(pod("ends", "while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 7", restartPolicy="Never"))
    rolled_out(cluster, "calm")
    until("it runs", lambda: get(cluster, "pod", "ends")["status"]["phase"] == "Running")
    calm = running(cluster, "calm")
    node = cluster.nodes[get(cluster, "pod", "ends")["spec"]["nodeName"]]
    with cluster.without_api_server():
        node.ctl("exec", "ends", "--", "touch", "/tmp/end")
        for each in cluster.nodes.values():
            each.kill(("agent",))
            each.start_agent()
        time.sleep(15)
        for each in cluster.nodes.values():
            each.wait("the agent answers", lambda n=each: n.ctl("version").returncode == 0)
    until("the end is told", lambda: get(cluster, "pod", "ends")["status"]["phase"] == "Failed")
    ended = get(cluster, "pod", "ends")["status"]["containerStatuses"][0]["state"]["terminated"]
    equal(ended["exitCode"], 7, "its code")
    until("all are ready", lambda: are_ready(cluster))
    equal(running(cluster, "calm"), calm, "containers")
    equal(set(map(tuple, restarts(pods(cluster, "calm")).values())), {(0,)}, "restarts")
    cluster.kubectl("delete", "deployment/calm", "pod/ends")
    until("all are gone", lambda: not pods(cluster, "calm") and not pods(cluster, "ends"))


@contextlib.contextmanager
def dropping(node, address):
    """Nothing gets from the node to the address, or back, and nobody is told."""
    rules = [("OUTPUT", "-d", address, "-j", "DROP"), ("INPUT", "-s", address, "-j", "DROP")]
    iptables = [*node.inside, "iptables", "-w", "30"]
    for rule in rules:
        subprocess.run([*iptables, "-I", *rule], check=True)
    try:
        yield
    finally:
        for rule in rules:
            subprocess.run([*iptables, "-D", *rule], check=True)


def test_a_node_whose_packets_are_lost_is_back_when_they_get_through(cluster):
    node = cluster.nodes["n1"]
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    cluster.apply(pod("steady", "while :; do sleep 1 & wait; done", nodeName="n1",
                      tolerations=[{"operator": "Exists"}]),  # nobody evicts it meanwhile
                  pod("leaves", "while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 7", nodeName="n1", restartPolicy="Never",
                      tolerations=[{"operator": "Exists"}]))
    for name in ("steady", "leaves"):
        until(f"{name} runs", lambda n=name: get(cluster, "pod", n)["status"]["phase"] == "Running")
    steady = running(cluster, "steady")
    with dropping(node, CONTROL_PLANE):
        node.ctl("exec", "leaves", "--", "touch", "/tmp/end")
        until("the node is missed", lambda: condition(cluster, "n1", "Ready") == "Unknown", 120)
    until("it is ready again", lambda: condition(cluster, "n1", "Ready") == "True", 60)
    until("what ended meanwhile is told", lambda: get(cluster, "pod", "leaves")["status"]["containerStatuses"][0]["state"]
          .get("terminated", {}).get("exitCode") == 7)
    until("its pod is ready again", lambda: ready_since(cluster, "steady")["steady"][0][0] == "True")
    equal(running(cluster, "steady"), steady, "containers")
    equal(restarts(pods(cluster, "steady")), {"steady": [0]}, "restarts")
    cluster.kubectl("delete", "pod/steady", "pod/leaves")
    until("all are gone", lambda: not pods(cluster, "steady") and not pods(cluster, "leaves"))


def test_after_a_reboot_without_the_api_server_pods_start_from_what_was_last_known(cluster):
    node = cluster.nodes["n1"]
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "first"}},
                  {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}, "stringData": {"k": "geheim"}})
    here = {"nodeName": "n1"}
    plain, hidden = (pod(name, "sleep infinity & wait", **here) for name in ("plain", "hidden"))
    plain["spec"]["containers"][0].update(
        env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "kept", "key": "a"}}}],
        volumeMounts=[{"name": "conf", "mountPath": "/conf"}])
    plain["spec"]["volumes"] = [{"name": "conf", "configMap": {"name": "kept"}}]
    hidden["spec"]["containers"][0]["env"] = [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "k"}}}]
    cluster.apply(plain, hidden)
    for name in ("plain", "hidden"):
        until(f"{name} runs", lambda n=name: get(cluster, "pod", n)["status"]["phase"] == "Running")
    files = list((node.top / "root").glob("**/inputs.json"))
    check(files and all(f.stat().st_mode & 0o777 == 0o600 for f in files), f"kept: {files}")
    check(not any("geheim" in f.read_text() or "Z2VoZWlt" in f.read_text() for f in files), "no Secret is on the disk")

    def local(name):
        return json.loads(node.ctl("get", "pod", name, "-o", "json").stdout)

    def container(name):
        return local(name)["status"]["containerStatuses"][0]

    with cluster.without_api_server():
        cluster.end_machine(node)
        cluster.boot(node)
        node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
        node.wait("the pod runs again", lambda: "running" in container("plain")["state"], 60)
        equal(container("plain")["restartCount"], 1, "restarts")
        said = node.ctl("exec", "plain", "--", "sh", "-c",
                        "echo $A; cat /conf/a; echo; echo $KUBERNETES_SERVICE_HOST; "
                        "ls /var/run/secrets/kubernetes.io/serviceaccount").stdout.split()
        equal(said, ["first", "first", "10.96.0.1", "ca.crt", "namespace"], "variables, files; no token")
        check("running" not in container("hidden")["state"], "what needs a Secret waits")
    until("it starts when the server is back", lambda: "running" in get(
        cluster, "pod", "hidden")["status"]["containerStatuses"][0]["state"])
    until("and the token is there", lambda: "token" in node.ctl(
        "exec", "plain", "--", "ls", "/var/run/secrets/kubernetes.io/serviceaccount").stdout.split())
    until("all are ready", lambda: are_ready(cluster))
    uids = {get(cluster, "pod", name)["metadata"]["uid"] for name in ("plain", "hidden")}
    cluster.kubectl("delete", "pod/plain", "pod/hidden", "configmap/kept", "secret/hidden")
    until("what was kept goes with the pods", lambda: not any(
        f.parent.name in uids for f in (node.top / "root").glob("**/inputs.json")))
