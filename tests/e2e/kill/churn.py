#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""churn.py BIN MAKE_IMAGE [--seconds N] [--seed N]: pods of several kinds come, change and go without a pause, with their ConfigMaps
and Services, while agent, holder, launcher and logger are killed at random, also twice in a row. Every few seconds all that is
wanted has to run and be ready, or to have ended as it does; nothing may have started again or twice, what is executed in a container has to
be answered, and nobody may have waited in vain for the keeper: who starts it again does so at once, whatever else waits for it."""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support"), str(pathlib.Path(__file__).resolve().parents[1] / "pods")]
from machine import may_be_unknown
from node import IMAGE, Node
from suite import check, equal, run_on

MOST_PODS = 40
OBJECTS = 4  # ConfigMaps, and Services
JOB_ENDS = 7
KILLS = (("agent",), ("hold",), ("hold", "hold"), ("launch",), ("log",), ("launch", "hold", "hold"))


def is_job(name):
    return name.startswith("job")


class Churn:
    def __init__(self, node, dice):
        self.node = node
        self.dice = dice
        self.count = 0
        self.wanted = set()
        self.services = set()
        self.kills = []  # when, and what

    def often(self, share):
        return self.dice.random() < share

    def container(self, script, **more):
        """Called main; each time that it begins it says so in its pod's volume "begun"."""
        return self.node.container("main", f"echo >> /begun/times; {script}",
                                   volumeMounts=[{"name": "begun", "mountPath": "/begun"}], **more)

    def times_begun(self, pod):
        volumes = self.node.top / "root/pods" / pod["metadata"]["uid"] / "volumes/kubernetes.io~empty-dir"
        times = volumes / "begun/times"
        return times.read_text().count("\n") if times.exists() else 0

    def pod(self, name):
        """Waits, and ends when it is told to; what it has besides is left to chance. No hook and no probe fails by itself."""
        main = self.container("trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done",
                              env=[{"name": "VERSION", "value": str(self.dice.random())}])
        spec = {"terminationGracePeriodSeconds": self.dice.randrange(3), "volumes": [{"name": "begun", "emptyDir": {}}]}
        of = f"map{self.dice.randrange(OBJECTS)}"
        if self.often(0.3):
            main["envFrom"] = [{"configMapRef": {"name": of}}]
        if self.often(0.3):
            main["volumeMounts"].append({"name": "map", "mountPath": "/map"})
            spec["volumes"].append({"name": "map", "configMap": {"name": of}})
        if self.often(0.3):
            main["readinessProbe"] = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1}
        if self.often(0.2):
            main["livenessProbe"] = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1, "failureThreshold": 1,
                                     "timeoutSeconds": 30}
        if self.often(0.3):
            main["lifecycle"] = {"postStart": {"exec": {"command": ["/bin/sleep", self.dice.choice(("0", "0.2", "1"))]}}}
        if self.often(0.2):
            spec["initContainers"] = [self.node.container("init", "exit 0")]
        containers = [main, self.node.container("second", "exec sleep 1000")] if self.often(0.2) else [main]
        self.node.pod(name, containers=containers, metadata={"labels": {"app": self.dice.choice("ab")}}, **spec)

    def job(self, name):
        """Ends by itself, with a code that nobody else gives it."""
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "volumes": [{"name": "begun", "emptyDir": {}}]}
        if self.often(0.3):
            spec["initContainers"] = [self.node.container("side", "exec sleep 1000", restartPolicy="Always")]
        main = self.container(f"sleep {self.dice.choice((0, 0.3, 2))}; exit {JOB_ENDS}")
        self.node.pod(name, containers=[main], **spec)

    def config_map(self, name):
        self.count += 1
        self.node.write(name, json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                                          "data": {"count": str(self.count)}}))

    def service(self, name):
        self.node.write(name, json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {
            "selector": {"app": self.dice.choice("ab")}, "ports": [{"port": 80}]}}))
        self.services.add(name)

    def make(self, name):
        if is_job(name):
            self.job(name)
        else:
            self.pod(name)

    def change_something(self):
        what = self.dice.random()
        known = sorted(self.wanted)
        if what < 0.4 and len(known) < MOST_PODS or not known:
            self.count += 1
            name = f"{'job' if self.often(0.2) else 'pod'}{self.count}"
            self.make(name)
            self.wanted.add(name)
        elif what < 0.6:
            gone = self.dice.choice(known)
            self.node.remove(gone)
            self.wanted.discard(gone)
        elif what < 0.7:
            self.make(self.dice.choice(known))
        elif what < 0.85:
            self.config_map(f"map{self.dice.randrange(OBJECTS)}")
        elif what < 0.95 or not self.services:
            self.service(f"service{self.dice.randrange(OBJECTS)}")
        else:
            gone = self.dice.choice(sorted(self.services))  # as the seed has it
            self.node.remove(gone)
            self.services.discard(gone)

    def described(self, names):
        return "".join(f"{name}:\n" + self.node.ctl("describe", "pod", self.running(name), check=False).stdout for name in sorted(names))

    def running(self, name):
        """What the pod is called as one of this node's."""
        return f"{name}-{self.node.node}"

    def end_process(self, role):
        self.kills.append((time.time(), role))
        self.node.kill((role,))

    def kill(self):
        for role in self.dice.choice(KILLS):
            self.end_process(role)
            if role == "agent":
                self.node.start_agent()
            time.sleep(self.dice.choice((0, 0.05, 0.3)))  # before, while or after it is brought back

    def settle(self):
        def late():
            pods = self.node.pods()
            return self.wanted ^ set(pods) | {name for name, p in pods.items()
                                              if not self.is_as_wanted(name, p["status"]) or self.times_begun(p) == 0}
        try:
            self.node.wait("all that is wanted is ready or has ended, and nothing else there", lambda: not late(), 90)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n" + self.described(late())) from error
        pods = self.node.pods()
        again = [name for name, p in pods.items() if any(c["restartCount"] for c in p["status"]["containerStatuses"])]
        check(not again, "started again:\n" + self.described(again))
        # Whatever the status tells: a second one beside the first would not be in it.
        equal({name: times for name, p in pods.items() if (times := self.times_begun(p)) != 1}, {}, "began more than once")
        ends = {name: p["status"]["containerStatuses"][0]["state"]["terminated"] for name, p in pods.items() if is_job(name)}
        equal({name: end for name, end in ends.items() if end["exitCode"] != JOB_ENDS and not may_be_unknown(end, self.kills)}, {},
              "how jobs ended")

    @staticmethod
    def is_as_wanted(name, status):
        if is_job(name):
            return status.get("phase") == "Failed"
        return all(c.get("ready") for c in status.get("containerStatuses", [{}]))

    def exec_in_one(self):
        """Whatever died just before it, and in the middle of it."""
        waiting = sorted(name for name in self.wanted if not is_job(name))
        if not waiting:
            return
        running = self.running(self.dice.choice(waiting))
        for role in self.dice.choice(((), ("launch",), ("hold",), ("log",))):
            self.end_process(role)
        equal(self.node.ctl("exec", running, "-c", "main", "--", "/bin/echo", "said").stdout, "said\n", f"exec in {running}")

    def end(self):
        for name in (*self.wanted, *self.services, *(f"map{i}" for i in range(OBJECTS))):
            self.node.remove(name)
        self.node.wait("all pods are gone", lambda: not self.node.pods(), 90)


def run(node, seconds, seed):
    print(f"seed {seed}")
    churn = Churn(node, random.Random(seed))
    for i in range(OBJECTS):
        churn.config_map(f"map{i}")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pause = time.monotonic() + churn.dice.uniform(2, 6)
        while time.monotonic() < pause:
            churn.change_something()
            if churn.often(0.04):
                churn.kill()
            time.sleep(churn.dice.choice((0, 0.01, 0.05)))  # the pace is left to chance as well
        churn.settle()
        churn.exec_in_one()
    churn.end()
    # Not an agent whose start ended with the holder's: it is started again.
    in_vain = [line for line in (node.top / "agent.log").read_text().splitlines()
               if "connection refused" in line and " warning " in line]
    check(not in_vain, "waited in vain for the keeper:\n" + "\n".join(in_vain[:5]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("make_image")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    args = parser.parse_args()
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-churn-"))
    archive = top / "busybox.tar"
    subprocess.run([args.make_image, "busybox", archive], check=True)
    node = Node(args.bin, top, "churn")
    return run_on(node, top, [("test_pods_come_and_go_while_processes_are_killed", lambda n: run(n, args.seconds, args.seed))],
                  lambda: node.ctl("image", "import", archive, "--name", IMAGE, "--cmd", "/bin/sh"))


sys.exit(main())
