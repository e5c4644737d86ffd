# SPDX-License-Identifier: Apache-2.0
"""What the control plane alone costs: a node that does nothing. It says Running of a pod at sight, and lets its object go
at the sight of its deletion. With `tokens` it asks before for the pod's token, as a node must that gives it to a container."""
import contextlib
import http.client
import json
import queue
import threading

import watch

TOKEN_SECONDS = 3607  # as in the volume of every pod
HANDS = 4  # requests at a time, as many as a kubelet's for statuses are seldom


class FloorNode:
    def __init__(self, plane, name, tokens=False):
        self.plane = plane
        self.name = name
        self.tokens = tokens
        self.todo = queue.Queue()
        plane.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        self.events = watch.events(plane, "/api/v1/pods", f"fieldSelector=spec.nodeName={name}")
        self.threads = [threading.Thread(target=self.follow, daemon=True)]
        self.threads += [threading.Thread(target=self.work, daemon=True) for _ in range(HANDS)]
        for thread in self.threads:
            thread.start()

    def follow(self):
        for event in self.events:
            pod = event["object"]
            if event["type"] == "ADDED":
                self.todo.put(("PATCH", pod))
            elif event["type"] == "MODIFIED" and "deletionTimestamp" in pod["metadata"]:
                self.todo.put(("DELETE", pod))

    def work(self):
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):  # the server has ended; who waits for a pod tells
                self.carry_out(*self.todo.get())

    def carry_out(self, verb, pod):
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if verb == "PATCH":
            if self.tokens:
                self.ask_for_token(meta)
            self.plane.request("PATCH", f"{path}/status", {"status": {"phase": "Running"}})
        else:
            self.plane.exchange("DELETE", path, json.dumps(
                {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}), "application/json")

    def ask_for_token(self, meta):
        pod = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        self.plane.request("POST", f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/default/token",
                           {"spec": {"expirationSeconds": TOKEN_SECONDS, "boundObjectRef": pod}})

    def pids(self):
        return {}
