# SPDX-License-Identifier: Apache-2.0
"""Probes, hooks and readiness gates where an API server and its controllers look at what they come to."""
import time

from asking import SERVER, deployment, fetch, get, inside_pod, pod, pods, restarts, rolled_out, service, until
from suite import check, equal

READY = {"httpGet": {"port": 80, "path": "/ready"}, "periodSeconds": 1, "failureThreshold": 1}


def readied(name, replicas, probes, script=SERVER, **more):
    made = deployment(name, replicas, script, **more)
    made["spec"]["template"]["spec"]["containers"][0] |= probes
    return made


def do(cluster, name, script):
    """In each pod of `name`."""
    for found in pods(cluster, name).values():
        inside_pod(cluster, found, "sh", "-c", script)


def endpoints(cluster, name):
    """Addresses that are ready, and those that are not."""
    slices = get(cluster, "endpointslices", "-l", f"kubernetes.io/service-name={name}")["items"]
    sets = {True: set(), False: set()}
    for found in slices:
        for endpoint in found.get("endpoints") or []:
            sets[endpoint["conditions"].get("ready", True)].update(endpoint["addresses"])
    return sets[True], sets[False]


def said(cluster, reason):
    return [e["message"] for e in get(cluster, "events")["items"] if e["reason"] == reason]


def test_a_rollout_waits_for_readiness_and_endpoints_follow_it(cluster):
    cluster.apply(readied("probed", 2, {"readinessProbe": READY}), service("probed"))
    until("both run", lambda: [p["status"]["phase"] for p in pods(cluster, "probed").values()] == ["Running"] * 2)
    until("and are no endpoints yet", lambda: len(endpoints(cluster, "probed")[1]) == 2)
    equal(get(cluster, "deployment", "probed")["status"].get("readyReplicas", 0), 0, "ready replicas")
    until("it is told", lambda: any("statuscode: 404" in text for text in said(cluster, "Unhealthy")))
    do(cluster, "probed", "echo x > /www/ready")
    rolled_out(cluster, "probed")
    until("both are endpoints", lambda: len(endpoints(cluster, "probed")[0]) == 2)
    url = f"http://{get(cluster, 'service', 'probed')['spec']['clusterIP']}/"
    names = set(pods(cluster, "probed"))
    one = sorted(names)[0]
    inside_pod(cluster, pods(cluster, "probed")[one], "rm", "/www/ready")
    until("one is none any more", lambda: len(endpoints(cluster, "probed")[0]) == 1)
    until("nobody sends to it", lambda: all({fetch(n.inside, url) for _ in range(12)} == names - {one}
                                            for n in cluster.nodes.values()))
    # A version that never gets ready replaces nothing.
    cluster.apply(readied("probed", 2, {"readinessProbe": READY}, "echo two; " + SERVER))
    until("the new one runs", lambda: len(pods(cluster, "probed")) == 3)
    time.sleep(5)  # some of the probe's periods: nothing may happen, which nothing tells
    check(names & set(pods(cluster, "probed")), "pods that were ready went for one that is not")
    cluster.kubectl("delete", "deployment/probed", "service/probed")


def test_liveness_restarts_and_tells(cluster):
    cluster.apply(readied("lively", 1, {"livenessProbe": {
        "exec": {"command": ["test", "!", "-e", "/dead"]}, "periodSeconds": 1, "failureThreshold": 2}}))
    rolled_out(cluster, "lively")
    do(cluster, "lively", "touch /dead")
    until("a restart", lambda: list(restarts(pods(cluster, "lively")).values()) == [[1]])
    until("it is ready again", lambda: get(cluster, "deployment", "lively")["status"].get("readyReplicas") == 1)
    check("Container c failed liveness probe, will be restarted" in said(cluster, "Killing"), said(cluster, "Killing"))
    check("Liveness probe failed: " in said(cluster, "Unhealthy"), said(cluster, "Unhealthy"))
    cluster.kubectl("delete", "deployment/lively")


def test_an_agent_that_comes_back_does_not_change_ready(cluster):
    cluster.apply(readied("kept", 2, {"readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 2},
                                      "startupProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1}}))
    rolled_out(cluster, "kept")
    before = {n: p["status"]["conditions"] for n, p in pods(cluster, "kept").items()}
    for node in cluster.nodes.values():
        node.kill(("agent",))
        node.start_agent()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        equal({n: p["status"]["conditions"] for n, p in pods(cluster, "kept").items()}, before, "conditions")
        time.sleep(0.2)
    cluster.kubectl("delete", "deployment/kept")


def test_a_readiness_gate_is_the_controllers(cluster):
    gated = pod("gated", SERVER, readinessGates=[{"conditionType": "example.com/in-the-balancer"}])
    gated["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 80}, "periodSeconds": 1}
    cluster.apply(gated)

    def conditions():
        return {c["type"]: c for c in get(cluster, "pod", "gated")["status"].get("conditions", [])}
    until("its containers are ready", lambda: conditions().get("ContainersReady", {}).get("status") == "True")
    equal((conditions()["Ready"]["status"], conditions()["Ready"]["reason"]), ("False", "ReadinessGatesNotReady"), "the pod")
    cluster.kubectl("patch", "pod", "gated", "--subresource=status", "-p",
                    '{"status":{"conditions":[{"type":"example.com/in-the-balancer","status":"True"}]}}')
    until("the pod is ready", lambda: conditions()["Ready"]["status"] == "True")
    cluster.kubectl("delete", "pod/gated")


def test_hooks_of_a_pod_of_the_api_server(cluster):
    hooked = pod("hooked", "while :; do sleep 1 & wait; done")
    hooked["spec"]["terminationGracePeriodSeconds"] = 20
    hooked["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["touch", "/began"]}},
                                                    "preStop": {"sleep": {"seconds": 4}}}
    cluster.apply(hooked)
    until("it runs", lambda: get(cluster, "pod", "hooked")["status"]["phase"] == "Running")
    inside_pod(cluster, get(cluster, "pod", "hooked"), "test", "-e", "/began")
    begin = time.monotonic()
    cluster.kubectl("delete", "pod/hooked")
    check(4 <= time.monotonic() - begin < 15, f"its preStop took {time.monotonic() - begin} s")
    failed = pod("hook-fails", "while :; do sleep 1 & wait; done")
    failed["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["false"]}}}
    cluster.apply(failed)
    until("it is told", lambda: "PostStartHook failed" in said(cluster, "FailedPostStartHook"))
    cluster.kubectl("delete", "pod/hook-fails")
