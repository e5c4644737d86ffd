# SPDX-License-Identifier: Apache-2.0
"""Probes of each kind against real containers, and what becomes of them."""
import json
import os
import time

from node import status
from suite import check, equal

SERVE = "mkdir -p /tmp/www && echo fine > /tmp/www/index.html; httpd -p 8080 -h /tmp/www; echo up; while :; do sleep 1000; done"
IDLE = "trap 'exit 0' TERM; echo up; while :; do sleep 1000 & wait $!; done"


def probe(handler, **more):
    return {**handler, "periodSeconds": 1, **more}


def web(node, script=SERVE, **probes):
    return node.container("main", script, ports=[{"name": "http", "containerPort": 8080}], **probes)


def is_ready(pod):
    conditions = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
    equal(conditions["Ready"], conditions["ContainersReady"], "both conditions")
    ready = status(pod).get("ready", False)
    equal(conditions["Ready"], "True" if ready else "False", "the condition and the container's status")
    return ready


def events(node, name):
    """What was said of a pod: (reason, message)."""
    found = json.loads(node.ctl("get", "events", "-o", "json").stdout)["items"]
    return [(e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == f"{name}-{node.node}"]


def tells(node, name, reason, text, seconds=30):
    node.wait(f"{name}: {reason}: {text}",
              lambda: any(r == reason and text in m for r, m in events(node, name)), seconds)


def exec_in(node, name, script):
    node.ctl("exec", f"{name}-{node.node}", "--", "sh", "-c", script)


def test_readiness_by_each_handler(node):
    handlers = {"ready-exec": {"exec": {"command": ["test", "-e", "/tmp/www/index.html"]}},
                "ready-http": {"httpGet": {"port": "http", "path": "/index.html"}},
                "ready-tcp": {"tcpSocket": {"port": "http"}}}
    for name, handler in handlers.items():
        node.pod(name, containers=[web(node, readinessProbe=probe(handler, failureThreshold=1))])
    for name in handlers:
        node.until("ready", name, is_ready)
    # The file is the page that is asked for and the one that is looked for; the server is the port.
    exec_in(node, "ready-exec", "rm /tmp/www/index.html")
    exec_in(node, "ready-http", "rm /tmp/www/index.html")
    exec_in(node, "ready-tcp", "killall httpd")
    for name in handlers:
        node.until("not ready", name, lambda p: not is_ready(p))
    tells(node, "ready-exec", "Unhealthy", "Readiness probe failed: ")
    tells(node, "ready-http", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404")
    tells(node, "ready-tcp", "Unhealthy", ":8080: connect: connection refused")
    exec_in(node, "ready-http", "echo again > /tmp/www/index.html")
    pod = node.until("ready again", "ready-http", is_ready)
    equal(status(pod)["restartCount"], 0, "nothing was killed for it")
    for name in handlers:
        node.remove(name)


def test_a_pod_in_the_nodes_network_is_probed_by_name_and_host(node):
    node.pod("ready-host", hostNetwork=True, containers=[node.container(
        "main", SERVE.replace("8080", "18080"), ports=[{"name": "http", "containerPort": 18080, "hostPort": 18080}],
        readinessProbe=probe({"httpGet": {"port": "http", "host": "127.0.0.1", "path": "/"}}),
        livenessProbe=probe({"tcpSocket": {"port": 18080, "host": "127.0.0.1"}}))])
    node.until("ready", "ready-host", is_ready)
    node.remove("ready-host")


def test_an_agent_that_comes_back_does_not_change_ready(node):
    node.pod("ready-kept", containers=[web(node, readinessProbe=probe({"httpGet": {"port": "http"}}, periodSeconds=3),
                                           startupProbe=probe({"tcpSocket": {"port": 8080}}))])
    before = node.until("ready", "ready-kept", is_ready)
    for _ in range(3):
        node.restart_agent()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            pod = node.get("ready-kept")
            if pod is not None:
                equal(pod["status"], before["status"], "status")
            time.sleep(0.05)
    # And it is still probed.
    exec_in(node, "ready-kept", "killall httpd")
    node.until("not ready", "ready-kept", lambda p: not is_ready(p))
    node.remove("ready-kept")


def test_liveness_kills_and_the_container_starts_again(node):
    node.pod("alive", containers=[web(node, "touch /tmp/alive; " + IDLE, livenessProbe=probe(
        {"exec": {"command": ["sh", "-c", "echo looked; test -e /tmp/alive"]}}, failureThreshold=2))])
    node.until("running", "alive", lambda p: status(p).get("started"))
    exec_in(node, "alive", "rm /tmp/alive")
    pod = node.until("a restart", "alive", lambda p: status(p)["restartCount"] == 1 and status(p).get("started"))
    equal(status(pod)["lastState"]["terminated"]["exitCode"], 0, "it had its grace period")
    tells(node, "alive", "Unhealthy", "Liveness probe failed: looked")
    tells(node, "alive", "Killing", "Container main failed liveness probe, will be restarted")
    time.sleep(3)  # as long as the first one lived: nothing happens, which no event tells
    equal(status(node.get("alive"))["restartCount"], 1, "the new one is well")
    node.remove("alive")


def test_a_probes_own_grace_period_counts(node):
    node.pod("graceless", containers=[web(node, "trap '' TERM; echo up; while :; do sleep 1; done", livenessProbe=probe(
        {"exec": {"command": ["false"]}}, failureThreshold=1, terminationGracePeriodSeconds=2))],
        terminationGracePeriodSeconds=20)
    pod = node.until("a restart", "graceless", lambda p: status(p)["restartCount"] >= 1, 15)
    equal(status(pod)["lastState"]["terminated"]["exitCode"], 137, "killed")
    node.remove("graceless")


def test_startup_comes_first_and_its_failure_kills(node):
    slow = "sleep 3; touch /tmp/up; " + IDLE
    node.pod("slow", containers=[web(node, slow, startupProbe=probe({"exec": {"command": ["test", "-e", "/tmp/up"]}}, failureThreshold=30),
                                     livenessProbe=probe({"exec": {"command": ["test", "-e", "/tmp/up"]}}, failureThreshold=1))])
    node.until("not started", "slow", lambda p: status(p)["state"].get("running") and status(p).get("started") is False)
    pod = node.until("started", "slow", lambda p: status(p).get("started"))
    equal(status(pod)["restartCount"], 0, "liveness waited for it")
    node.remove("slow")
    node.pod("never-up", restartPolicy="Never", containers=[web(node, IDLE, startupProbe=probe({"tcpSocket": {"port": 1}}, failureThreshold=2))])
    pod = node.until("ended", "never-up", lambda p: p["status"]["phase"] in ("Failed", "Succeeded"))
    equal(pod["status"]["phase"], "Succeeded", "it took the signal well, and never restarts")
    tells(node, "never-up", "Killing", "Container main failed startup probe")
    node.remove("never-up")


def test_a_sidecars_startup_probe_holds_up_the_rest(node):
    node.pod("held-up", IDLE, initContainers=[node.container(
        "side", "sleep 2; touch /tmp/up; " + IDLE, restartPolicy="Always",
        startupProbe=probe({"exec": {"command": ["test", "-e", "/tmp/up"]}}, failureThreshold=30))])
    pod = node.until("the sidecar runs", "held-up", lambda p: status(p, kind="initContainerStatuses")["state"].get("running"))
    equal(status(pod)["state"].keys(), {"waiting"}, "main")
    pod = node.phase("held-up", "Running")
    check(status(pod, kind="initContainerStatuses")["started"], "the sidecar has started")
    node.remove("held-up")


def test_a_probe_that_hangs_is_ended_with_all_it_started(node):
    node.pod("hangs", containers=[web(node, IDLE, readinessProbe=probe(
        {"exec": {"command": ["sh", "-c", "sleep 4321 & exec sleep 4321"]}}))])
    tells(node, "hangs", "Unhealthy", 'Readiness probe failed: command timed out: "sh -c sleep 4321 & exec sleep 4321" timed out after 1s')
    time.sleep(5)  # several more probes, each of which would leave its processes
    left = node.ctl("exec", f"hangs-{node.node}", "--", "sh", "-c", "ps | grep -c '[s]leep 4321' || true").stdout
    check(int(left) <= 2, f"{left} processes of probes that are over")
    node.remove("hangs")


def in_pieces(port):
    """A server whose answer has an empty body in chunks, of which each byte comes by itself."""
    return rf"""printf '#!/bin/sh
printf "HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n"; sleep 0.1; printf "\\r"; sleep 0.1; printf "\\n"
' > /tmp/answer; chmod +x /tmp/answer; exec nc -ll -p {port} -e /tmp/answer"""


def test_an_answer_that_comes_in_pieces(node):
    """Boost 1.74 has an assertion that does not hold then."""
    agent = node.agent.pid
    node.pod("pieces", containers=[web(node, in_pieces(8080), readinessProbe=probe({"httpGet": {"port": "http"}}))])
    node.until("ready", "pieces", is_ready)
    time.sleep(2)  # a probe a second: each of them ended the agent
    equal((node.agent.pid, node.agent.poll()), (agent, None), "the agent")
    node.remove("pieces")


MANY, RESTARTS = (110, 20) if os.environ.get("HOLDFAST_WHOLE") else (12, 3)


def test_probed_pods_do_not_notice_that_the_agent_is_killed(node):
    """tests/bench/probes has how long it takes; HOLDFAST_WHOLE=1: 110 pods, 20 times."""
    handlers = ({"exec": {"command": ["true"]}}, {"httpGet": {"port": "http"}}, {"tcpSocket": {"port": "http"}})
    names = [f"kept{i}" for i in range(MANY)]
    node.set_config(maxPods=2 * MANY)  # beside those of other tests
    node.restart_agent()
    for i, name in enumerate(names):
        node.pod(name, containers=[web(node, readinessProbe=probe(handlers[i % 3], timeoutSeconds=10, failureThreshold=10),
                                       livenessProbe=probe(handlers[i % 3], timeoutSeconds=10, failureThreshold=10))])
    node.wait("all are ready", lambda: all(name in pods and is_ready(pods[name]) for pods in [node.pods()] for name in names), 180)
    before = {name: pod for name, pod in node.pods().items() if name in names}
    processes = {name: node.process_identity(pod) for name, pod in before.items()}
    for turn in range(RESTARTS):
        node.restart_agent()
        shown = 0
        end = time.monotonic() + 2.5  # each is probed again, some twice
        while time.monotonic() < end or not shown:
            try:
                pods = node.pods()
            except RuntimeError:
                continue  # it does not listen yet
            shown += 1
            for name in names:
                equal(pods[name]["status"], before[name]["status"], f"status of {name} after {turn + 1} kills")
    for name, pod in node.pods().items():
        if name in names:
            equal(node.process_identity(pod), processes[name], f"processes of {name}")
    for name in names:
        node.remove(name)
