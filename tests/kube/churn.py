# SPDX-License-Identifier: Apache-2.0
"""Pods of an API server that come, change and go without a pause while agents, keepers and the API server itself die."""
import json
import os
import random
import time

from asking import IMAGE, get, until
from machine import may_be_unknown
from suite import check, equal

SECONDS = int(os.environ.get("HOLDFAST_KUBE_CHURN", "60"))
MOST_PODS = 40
MAPS = 4
JOB_ENDS = 7
OTHER_IMAGE = "busybox:other"
KILLS = (("agent",), ("hold",), ("launch",), ("log",), ("hold", "hold"), ("agent", "hold"), ("launch", "hold"),
         ("agent", "hold", "launch", "log"))
NAMESPACE = "churn"


def is_job(name):
    return name.startswith("job")


class Churn:
    def __init__(self, cluster, dice):
        self.cluster = cluster
        self.dice = dice
        self.begun = cluster.folder / "begun"  # of all nodes: it outlives the volumes of what has ended
        self.count = 0
        self.wanted = {}  # name -> how often its container has begun
        self.kills = []  # when, and of which roles

    def often(self, share):
        return self.dice.random() < share

    def kubectl(self, *words, **more):
        return self.cluster.kubectl("-n", NAMESPACE, *words, **more)

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    @staticmethod
    def container(name, script, **more):
        return {"name": name, "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script], **more}

    def pod(self, name):
        """Says in its volume each time that it begins, and waits; what it has besides is left to chance. No probe and no hook
        fails by itself. One that is a job ends with a code that nobody else gives it."""
        # Not by the scheduler: one whose binding fails, because the API server dies, may wait for minutes.
        spec = {"nodeName": self.dice.choice(sorted(self.cluster.nodes)), "terminationGracePeriodSeconds": self.dice.randrange(3),
                "volumes": [{"name": "begun", "hostPath": {"path": str(self.begun), "type": "Directory"}}]}
        waits = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"
        last = f"sleep {self.dice.choice((0, 0.3, 2))}; exit {JOB_ENDS}" if is_job(name) else waits
        main = self.container("main", f"echo >> /begun/times; {last}", env=[{"name": "POD_UID", "valueFrom": {
            "fieldRef": {"fieldPath": "metadata.uid"}}}], volumeMounts=[{"name": "begun", "mountPath": "/begun", "subPathExpr": "$(POD_UID)"}])
        if is_job(name):
            spec["restartPolicy"] = "Never"
        if self.often(0.3):
            main["envFrom"] = [{"configMapRef": {"name": f"map{self.dice.randrange(MAPS)}"}}]
        if self.often(0.3):
            main["volumeMounts"].append({"name": "map", "mountPath": "/map"})
            spec["volumes"].append({"name": "map", "projected": {"sources": [
                {"configMap": {"name": f"map{self.dice.randrange(MAPS)}"}},
                {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}})
        if not is_job(name):
            if self.often(0.3):
                main["readinessProbe"] = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1, "timeoutSeconds": 30}
            if self.often(0.2):
                main["livenessProbe"] = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1, "failureThreshold": 1,
                                         "timeoutSeconds": 30}
            if self.often(0.3):
                main["lifecycle"] = {"postStart": {"exec": {"command": ["sleep", self.dice.choice(("0", "0.2", "1"))]}}}
        before = []
        if self.often(0.2):
            before.append(self.container("init", "exit 0"))
        if self.often(0.2):
            before.append(self.container("side", waits, restartPolicy="Always"))
        others = [self.container("second", waits)] if not is_job(name) and self.often(0.2) else []
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "churn"}},
                "spec": {**spec, "initContainers": before, "containers": [main, *others]}}

    def config_map(self, number):
        self.count += 1
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"map{number}"}, "data": {"COUNT": str(self.count)}}

    def any_name(self):
        return self.dice.choice(sorted(self.wanted))

    # --- changes ---

    def create(self):
        names = []
        for _ in range(self.dice.choice((1, 1, 3))):
            self.count += 1
            names.append(f"{'job' if self.often(0.2) else 'pod'}{self.count}")
        self.apply(*map(self.pod, names))
        self.wanted.update(dict.fromkeys(names, 1))

    def delete(self):
        name = self.any_name()
        self.kubectl("delete", "pod", name, "--wait=false", *self.dice.choice(((), (), ("--force", "--grace-period=0"))))
        del self.wanted[name]

    def replace(self):
        """Another of the same name, as soon as it may be there."""
        name = self.any_name()
        self.kubectl("replace", "--force", "-f", "-", text=json.dumps(self.pod(name)))
        self.wanted[name] = 1

    def label(self):
        self.count += 1
        self.kubectl("label", "pod", self.any_name(), f"turn={self.count}", "--overwrite")

    def change_map(self):
        self.apply(self.config_map(self.dice.randrange(MAPS)))

    def change_image(self):
        """Once in a life: two changes may be one restart."""
        found = [name for name, begun in sorted(self.wanted.items()) if begun == 1 and not is_job(name)]
        if found:
            name = self.dice.choice(found)
            self.settle({name})  # its first one runs
            self.kubectl("set", "image", f"pod/{name}", f"main={OTHER_IMAGE}")
            self.wanted[name] = 2

    def change_something(self):
        if len(self.wanted) < 5 or len(self.wanted) < MOST_PODS and self.often(0.4):
            return self.create()
        return self.dice.choices((self.delete, self.replace, self.label, self.change_map, self.change_image),
                                 (40, 10, 15, 20, 15))[0]()

    def kill(self):
        node = self.dice.choice(list(self.cluster.nodes.values()))
        for role in self.dice.choice(KILLS):
            self.kills.append((time.time(), role))
            node.kill((role,))
            time.sleep(self.dice.choice((0, 0, 0.05, 0.3)))  # before, while or after it is brought back

    def kill_server(self):
        with self.cluster.without_api_server():
            for _ in range(self.dice.randrange(4)):
                self.kill()
            time.sleep(self.dice.choice((0, 1, 5)))  # for so long it is away, whatever happens: that is what is tried

    # --- what has to be true ---

    def at_server(self):
        return {p["metadata"]["name"]: p for p in get(self.cluster, "pods", "-n", NAMESPACE)["items"]}

    def on_nodes(self):
        return {(node.node, p["metadata"]["name"]): p for node in self.cluster.nodes.values() for p in node.pods().values()
                if p["metadata"]["namespace"] == NAMESPACE}

    def times_begun(self, pod):
        times = self.begun / pod["metadata"]["uid"] / "times"
        return times.read_text().count("\n") if times.exists() else 0

    @staticmethod
    def essence(pod):
        """What is the same wherever it is asked for."""
        status = pod["status"]
        return (pod["metadata"]["uid"], status.get("phase"), status.get("podIP"),
                [(c["name"], c.get("ready"), c["restartCount"], c.get("containerID"), sorted(c["state"]))
                 for kind in ("initContainerStatuses", "containerStatuses") for c in status.get(kind, [])])

    def wrong(self, only=None):
        """name -> what is not yet so."""
        server, nodes = self.at_server(), self.on_nodes()
        found = {}
        for name in {*server, *self.wanted, *(name for _, name in nodes)}:
            if only is not None and name not in only:
                continue
            pod, here = server.get(name), [key for key in nodes if key[1] == name]
            if name not in self.wanted or pod is None or pod["metadata"].get("deletionTimestamp"):
                found[name] = f"wanted: {name in self.wanted}, at the server: {pod is not None}, on {here}"
            elif here != [(pod["spec"].get("nodeName"), name)]:
                found[name] = f"of {pod['spec'].get('nodeName')}, on {here}: {pod['status'].get('conditions')}"
            elif self.essence(pod) != self.essence(nodes[here[0]]):
                found[name] = f"the server has {self.essence(pod)}, the node {self.essence(nodes[here[0]])}"
            elif is_job(name) and pod["status"].get("phase") != "Failed":
                found[name] = f"has not ended: {self.essence(pod)}"
            elif not is_job(name) and not all(c["ready"] for c in pod["status"].get("containerStatuses", [{"ready": False}])):
                found[name] = f"is not ready: {self.essence(pod)}"
            elif self.times_begun(pod) < self.wanted[name]:
                found[name] = f"began {self.times_begun(pod)} times of {self.wanted[name]}"
        return found

    def settle(self, only=None):
        try:
            until("what is wanted is as it is wanted, on both sides", lambda: not self.wrong(only), 120)
        except TimeoutError as error:
            raise AssertionError("\n".join([str(error), *(f"{name}: {what}" for name, what in sorted(self.wrong(only).items())),
                                            f"killed: {self.kills[-20:]}"])) from error

    def check_all(self):
        self.settle()
        server = self.at_server()
        equal({name: times for name, p in server.items() if (times := self.times_begun(p)) != self.wanted[name]}, {},
              "began more often")
        counts = {name: {c["name"]: c["restartCount"] for c in p["status"]["containerStatuses"]} for name, p in server.items()}
        equal({name: count for name, count in counts.items()
               if count.pop("main") != self.wanted[name] - 1 or any(count.values())}, {}, "started again")
        for name, found in server.items():
            if is_job(name):
                end = next(c for c in found["status"]["containerStatuses"] if c["name"] == "main")["state"]["terminated"]
                check(end["exitCode"] == JOB_ENDS or may_be_unknown(end, self.kills), f"{name} ended as {end}")

    def end(self):
        self.cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        until("all pods are gone", lambda: not self.at_server() and not self.on_nodes(), 180)
        # A launcher that was replaced ends with its last container.
        until("one of each keeper is left", lambda: all(len(pids) == 1 for node in self.cluster.nodes.values()
                                                        for pids in node.keepers().values()))


def test_pods_come_change_and_go_while_everything_dies(cluster):
    seed = int(os.environ.get("HOLDFAST_KUBE_CHURN_SEED", random.randrange(1_000_000)))
    churn = Churn(cluster, random.Random(seed))
    print(f"  seed {seed}", flush=True)
    churn.begun.mkdir()
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.import_image(cluster.folder.parent / "busybox.tar", OTHER_IMAGE)
    until("the namespace has its account", lambda: get(cluster, "serviceaccount", "default", "-n", NAMESPACE))
    churn.apply(*map(churn.config_map, range(MAPS)))
    changes, rounds, deadline = 0, 0, time.monotonic() + SECONDS
    with cluster.supervised():
        while time.monotonic() < deadline:
            pause = time.monotonic() + churn.dice.uniform(3, 10)
            while time.monotonic() < pause:
                churn.change_something()
                changes += 1
                if churn.often(0.15):
                    churn.kill()
                elif churn.often(0.02):
                    churn.kill_server()
            churn.check_all()
            rounds += 1
        churn.end()
    print(f"  {changes} changes, {len(churn.kills)} kills; all was as wanted {rounds} times", flush=True)
    check(changes > 5 and churn.kills, "nothing happened")
