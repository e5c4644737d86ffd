# SPDX-License-Identifier: Apache-2.0
"""A cluster in which programs die."""
import contextlib
import json
import os
import subprocess
import time

from asking import SERVER, are_ready, condition, deployment, get, pod, pods, restarts, rolled_out, until
from kube_cluster import SERVER as CONTROL_PLANE
from machine import usage
from suite import check, equal


def running(cluster, app):
    """The containers that run: name of pod -> id."""
    return {name: p["status"]["containerStatuses"][0]["containerID"] for name, p in pods(cluster, app).items()
            if p["status"].get("containerStatuses") and not p["metadata"].get("deletionTimestamp")}


def ready_since(cluster, app):
    """Name of pod -> when it became ready."""
    return {name: [(c["status"], c["lastTransitionTime"]) for c in p["status"]["conditions"] if c["type"] == "Ready"]
            for name, p in pods(cluster, app).items()}


KILLS = 30  # of agents, and of holder, launcher and logger together, at least


def test_a_rollout_ends_while_agents_and_keepers_are_killed(cluster):
    cluster.apply(deployment("calm", 6), deployment("busy", 30))
    rolled_out(cluster, "calm")
    until("thirty pods are there", lambda: rolled_out(cluster, "busy") is None, 240)
    calm, calm_ready = running(cluster, "calm"), ready_since(cluster, "calm")
    agents = keepers = changes = 0
    with cluster.supervised():
        while min(agents, keepers) < KILLS:
            changes += 1
            check(changes <= 10, f"{agents} agents and {keepers} keepers in ten rollouts")
            cluster.apply(deployment("busy", 30, f"echo {changes}; " + SERVER))
            for _ in range(4):
                for node in cluster.nodes.values():
                    agents += node.kill(("agent",))
                    keepers += node.kill(("hold", "launch", "log"))
                    time.sleep(0.3)
        until("thirty new ones are there", lambda: rolled_out(cluster, "busy") is None, 240)
        until("all are ready", lambda: are_ready(cluster))
        until("only the new ones are left", lambda: len(pods(cluster, "busy")) == 30)
    print(f"  {agents} agents and {keepers} keepers killed in {changes} rollouts", flush=True)
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


AWAY = int(os.environ.get("HOLDFAST_API_AWAY", "60"))  # seconds


def on_nodes(cluster):
    """Every pod as its node has it: name -> Pod."""
    return {name: p for node in cluster.nodes.values() for name, p in node.pods().items()}


def container(found):
    return found["status"]["containerStatuses"][0]


def shown(found):
    """What of a pod must be the same at the server as on its node."""
    one = container(found)
    ready = next(c["status"] for c in found["status"]["conditions"] if c["type"] == "Ready")
    return found["status"]["phase"], one["restartCount"], one.get("containerID"), ready, sorted(one["state"])


def test_nothing_restarts_that_need_not_while_the_api_server_is_long_away(cluster):
    """Fifty pods: some are probed, some end again and again, some end once."""
    probed = deployment("probed", 10)
    probed["spec"]["template"]["spec"]["containers"][0].update(
        readinessProbe={"exec": {"command": ["sh", "-c", "[ ! -e /tmp/unready ]"]}, "periodSeconds": 2},
        livenessProbe={"exec": {"command": ["sh", "-c", "[ ! -e /tmp/sick ]"]}, "periodSeconds": 2, "failureThreshold": 1})
    ticks, ends = [f"ticks-{n}" for n in range(5)], [f"ends-{n}" for n in range(5)]
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    cluster.apply(deployment("calm", 30), probed, *(pod(name, "sleep 3; exit 1") for name in ticks),
                  *(pod(name, "while [ ! -e /tmp/end ]; do sleep 0.5; done; exit 7", restartPolicy="Never") for name in ends))
    for name in ("calm", "probed"):
        rolled_out(cluster, name)
    until("those that end run", lambda: all(get(cluster, "pod", n)["status"]["phase"] == "Running" for n in ends))
    sick, unready = sorted(pods(cluster, "probed"))[:2]
    mine = {*pods(cluster, "calm"), *pods(cluster, "probed"), *ticks, *ends}
    equal(len(mine), 50, "pods")
    node_of = {name: cluster.nodes[get(cluster, "pod", name)["spec"]["nodeName"]] for name in (sick, unready, *ends)}
    before = {name: p for name, p in on_nodes(cluster).items() if name in mine}

    def run(name, script):
        node_of[name].ctl("exec", name, "--", "sh", "-c", script)

    with cluster.without_api_server():
        began = time.monotonic()
        run(sick, "touch /tmp/sick")
        run(unready, "touch /tmp/unready")
        for name in ends:
            run(name, "touch /tmp/end")
        until("a probe restarts what is sick", lambda: container(on_nodes(cluster)[sick])["restartCount"] == 1)
        until("another takes one out of service", lambda: shown(on_nodes(cluster)[unready])[3] == "False")
        time.sleep(max(0.0, AWAY - (time.monotonic() - began)))  # that long, whatever happens, is what is tried
        run(unready, "rm /tmp/unready")
        until("and back", lambda: shown(on_nodes(cluster)[unready])[3] == "True")
        then = on_nodes(cluster)
        away = time.monotonic() - began
    back, at_the_end = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    until("all nodes are ready", lambda: are_ready(cluster))
    nodes_after = time.monotonic() - back

    def agree():
        server = {p["metadata"]["name"]: p for p in get(cluster, "pods")["items"]}
        there = on_nodes(cluster)
        return all(shown(server[name]) == shown(there[name]) for name in mine - set(ticks))

    until("all is told", agree, 120)
    print(f"  away {away:.0f} s; nodes ready after {nodes_after:.1f} s, everything told after {time.monotonic() - back:.1f} s; "
          f"restarts of what ends: {[container(then[n])['restartCount'] for n in ticks]}", flush=True)
    after = on_nodes(cluster)
    others = mine - {sick, *ticks, *ends}
    equal({n: shown(after[n])[1:3] for n in others}, {n: shown(before[n])[1:3] for n in others}, "what nothing was done to")
    for name in ticks:
        check(container(then[name])["restartCount"] > container(before[name])["restartCount"], f"{name} went on")
        until(f"{name} is told", lambda n=name: container(get(cluster, "pod", n))["restartCount"]
              >= container(then[n])["restartCount"])
    for name in ends:
        ended = container(get(cluster, "pod", name))["state"]["terminated"]
        check(ended["exitCode"] == 7 and ended["finishedAt"] <= at_the_end, f"its end: {ended}")
    cluster.kubectl("delete", "deployment/calm", "deployment/probed", *(f"pod/{name}" for name in (*ticks, *ends)))
    until("all are gone", lambda: not mine & {p["metadata"]["name"] for p in get(cluster, "pods")["items"]}, 120)


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


LOST = int(os.environ.get("HOLDFAST_PACKETS_LOST", "0"))  # seconds at least; the node is missed after some fifty


def test_a_node_whose_packets_are_lost_is_back_when_they_get_through(cluster):
    node = cluster.nodes["n1"]
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    here = {"nodeName": "n1", "tolerations": [{"operator": "Exists"}]}  # nobody evicts it meanwhile
    once = {**here, "restartPolicy": "Never"}
    cluster.apply(pod("steady", "while :; do sleep 1 & wait; done", **here), pod("ticks", "sleep 5; exit 1", **here),
                  pod("leaves", "while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 7", **once),
                  pod("goes", "while :; do sleep 1 & wait; done", **here))
    for name in ("steady", "leaves", "goes"):
        until(f"{name} runs", lambda n=name: get(cluster, "pod", n)["status"]["phase"] == "Running")
    until("ticks has run", lambda: get(cluster, "pod", "ticks")["status"].get("containerStatuses"))
    steady, agent = running(cluster, "steady"), node.agent.pid
    with dropping(node, CONTROL_PLANE):
        began = time.monotonic()
        node.ctl("exec", "leaves", "--", "touch", "/tmp/end")
        until("the node is missed", lambda: condition(cluster, "n1", "Ready") == "Unknown", 120)
        cluster.kubectl("delete", "pod", "goes", "--wait=false")  # and made while nobody hears of it
        cluster.apply(pod("comes", "while :; do sleep 1 & wait; done", **here))
        used = usage([node.agent.pid])
        time.sleep(max(0.0, LOST - (time.monotonic() - began)))  # that long is what is tried
        lost, used_then = time.monotonic() - began, usage([node.agent.pid])
        check("goes" in node.pods() and "comes" not in node.pods(), "what it cannot know yet")
    back = time.monotonic()
    until("it is ready again", lambda: condition(cluster, "n1", "Ready") == "True", 60)
    ready = time.monotonic() - back
    until("what ended meanwhile is told", lambda: get(cluster, "pod", "leaves")["status"]["containerStatuses"][0]["state"]
          .get("terminated", {}).get("exitCode") == 7)
    until("its pod is ready again", lambda: ready_since(cluster, "steady")["steady"][0][0] == "True")
    until("what was deleted is gone", lambda: not pods(cluster, "goes") and "goes" not in node.pods())
    until("what was made runs", lambda: get(cluster, "pod", "comes")["status"]["phase"] == "Running")
    until("every restart is told", lambda: shown(get(cluster, "pod", "ticks"))[:2] == shown(node.pods()["ticks"])[:2])
    print(f"  lost for {lost:.0f} s, ready after {ready:.1f} s, all told after {time.monotonic() - back:.1f} s; agent: "
          f"{used[0]:.1f} then {used_then[0]:.1f} MiB, {used_then[1] - used[1]:.1f} s of processor time; restarts of what ends: "
          f"{container(get(cluster, 'pod', 'ticks'))['restartCount']}", flush=True)
    equal(node.agent.pid, agent, "the agent")
    equal(running(cluster, "steady"), steady, "containers")
    equal(restarts(pods(cluster, "steady")), {"steady": [0]}, "restarts")
    names = ("steady", "leaves", "comes", "ticks")
    cluster.kubectl("delete", *(f"pod/{name}" for name in names))
    until("all are gone", lambda: not any(pods(cluster, name) for name in names))


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


def test_a_store_that_was_restored_is_believed_and_what_is_in_both_goes_on(cluster):
    """Versions go back: what was made since is gone, what was deleted since is there again. No agent is started anew."""
    idle = "while :; do sleep 1 & wait; done"
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default"))
    cluster.apply(deployment("both", 6), pod("deleted", idle, nodeName="n1"))
    rolled_out(cluster, "both")
    until("it runs", lambda: get(cluster, "pod", "deleted")["status"]["phase"] == "Running")
    first = container(get(cluster, "pod", "deleted"))["containerID"]
    copy = cluster.copy_store()
    cluster.apply(deployment("since", 4), pod("made", idle, nodeName="n1"))
    rolled_out(cluster, "since")
    until("it runs", lambda: get(cluster, "pod", "made")["status"]["phase"] == "Running")
    cluster.kubectl("delete", "pod", "deleted")
    until("it is gone", lambda: "deleted" not in on_nodes(cluster))
    both = {name: shown(on_nodes(cluster)[name]) for name in pods(cluster, "both")}
    since = {"made", *pods(cluster, "since")}
    agents = {name: node.agent.pid for name, node in cluster.nodes.items()}
    cluster.restore_store(copy)
    back = time.monotonic()
    until("what was made since ends", lambda: not since & set(on_nodes(cluster)))
    gone = time.monotonic() - back
    until("what was deleted since runs again", lambda: shown(get(cluster, "pod", "deleted"))
          == shown(on_nodes(cluster)["deleted"]) and container(get(cluster, "pod", "deleted"))["containerID"] != first)
    print(f"  gone after {gone:.1f} s, there again after {time.monotonic() - back:.1f} s", flush=True)
    until("all are ready", lambda: are_ready(cluster))
    # What happens from now on is heard.
    cluster.apply(pod("new", idle, nodeName="n1"))
    until("a new one runs", lambda: get(cluster, "pod", "new")["status"]["phase"] == "Running")
    equal({name: shown(p) for name, p in on_nodes(cluster).items() if name in both}, both, "what is in both")
    equal({name: shown(p) for name, p in pods(cluster, "both").items()}, both, "as it is told")
    equal({name: node.agent.pid for name, node in cluster.nodes.items()}, agents, "agents")
    cluster.kubectl("delete", "deployment/both", "pod/deleted", "pod/new")
    until("all are gone", lambda: not {"deleted", "new", *both} & set(on_nodes(cluster)))
