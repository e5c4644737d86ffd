# SPDX-License-Identifier: Apache-2.0
"""A cluster in which programs die."""
import time

from asking import SERVER, are_ready, deployment, get, pod, pods, restarts, rolled_out, until
from suite import check, equal


def running(cluster, app):
    """The containers that run: name of pod -> id."""
    return {name: p["status"]["containerStatuses"][0]["containerID"] for name, p in pods(cluster, app).items()
            if p["status"].get("containerStatuses") and not p["metadata"].get("deletionTimestamp")}


def test_a_rollout_ends_while_agents_and_keepers_are_killed(cluster):
    cluster.apply(deployment("calm", 6), deployment("busy", 10))
    rolled_out(cluster, "calm")
    rolled_out(cluster, "busy")
    calm = running(cluster, "calm")
    kills = 0
    with cluster.supervised():
        for change in range(3):
            cluster.apply(deployment("busy", 10, f"echo {change}; " + SERVER))
            for _ in range(4):
                for node in cluster.nodes.values():
                    kills += node.kill(("agent",))
                    kills += node.kill(("hold", "launch", "log"))
                    time.sleep(0.3)
        rolled_out(cluster, "busy")
        until("all are ready", lambda: are_ready(cluster))
        until("only the new ones are left", lambda: len(pods(cluster, "busy")) == 10)
    print(f"  {kills} kills", flush=True)
    check(kills >= 40, kills)
    equal(running(cluster, "calm"), calm, "containers that nobody touched")
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
