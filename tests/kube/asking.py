# SPDX-License-Identifier: Apache-2.0
"""What tests ask of the cluster, and things they put into it."""
import http.client
import json
import subprocess
import time

from machine import PATIENCE

IMAGE = "busybox:latest"


def until(what, ready, seconds=90):
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    last = None
    while True:
        try:
            if ready():
                return
        except (RuntimeError, OSError, KeyError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
            last = error  # not there yet
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s ({last})")
        time.sleep(0.1)


def get(cluster, *words):
    return json.loads(cluster.kubectl("get", *words, "-o", "json"))


def condition(cluster, node, kind):
    found = [c for c in get(cluster, "node", node)["status"].get("conditions", []) if c["type"] == kind]
    return found[0]["status"] if found else None


def are_ready(cluster):
    return all(condition(cluster, name, "Ready") == "True" for name in cluster.nodes)


def pod_spec(script, **more):
    return {"terminationGracePeriodSeconds": 2,
            "containers": [{"name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                            "command": ["sh", "-c", f"trap 'exit 0' TERM; {script}"]}], **more}


# Answers with the name of its pod, and ends at once when it is asked to.
SERVER = "mkdir -p /www; hostname > /www/index.html; httpd -p 80 -h /www; while :; do sleep 1 & wait; done"


def deployment(name, replicas, script=SERVER, **more):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                     "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec(script, **more)}}}


def service(name, **spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}], **spec}}


def pod(name, script, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": pod_spec(script, **more)}


def rolled_out(cluster, name):
    cluster.kubectl("rollout", "status", "deployment", name, f"--timeout={50 * PATIENCE}s")


def pods(cluster, app):
    """name -> Pod."""
    return {p["metadata"]["name"]: p for p in get(cluster, "pods", "-l", f"app={app}")["items"]}


def fetch(words, url):
    """What a program finds at `url`; `words` run it elsewhere. "" when nobody answers."""
    done = subprocess.run([*words, "wget", "-q", "-T", str(2 * PATIENCE), "-t", "1", "-O", "-", url], capture_output=True, text=True,
                          check=False, timeout=20 * PATIENCE)
    return done.stdout.strip()


def inside_pod(cluster, found, *command):
    """What a command prints in a pod, by the node's own tool."""
    node = cluster.nodes[found["spec"]["nodeName"]]
    meta = found["metadata"]
    return node.ctl("exec", "-n", meta["namespace"], meta["name"], "--", *command).stdout.strip()


def restarts(found):
    return {name: [c["restartCount"] for c in p["status"].get("containerStatuses", [])] for name, p in found.items()}
