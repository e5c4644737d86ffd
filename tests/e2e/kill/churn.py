#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""churn.py BIN MAKE_IMAGE [--seconds N] [--seed N]: pods of several kinds come, change and go without a pause, with their ConfigMaps
and Services, while agent, holder, launcher and logger are killed at random, also twice in a row. Every few seconds all that is
wanted has to run and be ready, nothing may have started again, and nobody may have waited in vain for the keeper: who starts it
again does so at once, whatever else waits for it."""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "support"), str(pathlib.Path(__file__).resolve().parents[1] / "pods")]
from node import IMAGE, Node
from suite import check, equal, run_on

MOST_PODS = 40
OBJECTS = 4  # ConfigMaps, and Services
KILLS = (("agent",), ("hold",), ("hold", "hold"), ("launch",), ("log",), ("launch", "hold", "hold"))


class Churn:
    def __init__(self, node, dice):
        self.node = node
        self.dice = dice
        self.count = 0
        self.wanted = set()
        self.services = set()

    def often(self, share):
        return self.dice.random() < share

    def pod(self, name):
        """Waits, and ends when it is told to; what it has besides is left to chance. No hooks: whose exit code is lost
        (docs/keeper.md) has failed, and its container starts again."""
        main = self.node.container("main", "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done",
                                   env=[{"name": "VERSION", "value": str(self.dice.random())}])
        spec = {"terminationGracePeriodSeconds": self.dice.randrange(3)}
        of = f"map{self.dice.randrange(OBJECTS)}"
        if self.often(0.3):
            main["envFrom"] = [{"configMapRef": {"name": of}}]
        if self.often(0.3):
            main["volumeMounts"] = [{"name": "map", "mountPath": "/map"}]
            spec["volumes"] = [{"name": "map", "configMap": {"name": of}}]
        if self.often(0.3):
            main["readinessProbe"] = {"exec": {"command": ["/bin/true"]}, "periodSeconds": 1}
        if self.often(0.2):
            spec["initContainers"] = [self.node.container("init", "exit 0")]
        containers = [main, self.node.container("second", "exec sleep 1000")] if self.often(0.2) else [main]
        self.node.pod(name, containers=containers, metadata={"labels": {"app": self.dice.choice("ab")}}, **spec)

    def config_map(self, name):
        self.count += 1
        self.node.write(name, json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                                          "data": {"count": str(self.count)}}))

    def service(self, name):
        self.node.write(name, json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {
            "selector": {"app": self.dice.choice("ab")}, "ports": [{"port": 80}]}}))
        self.services.add(name)

    def change_something(self):
        what = self.dice.random()
        known = sorted(self.wanted)
        if what < 0.4 and len(known) < MOST_PODS or not known:
            self.count += 1
            self.pod(f"p{self.count}")
            self.wanted.add(f"p{self.count}")
        elif what < 0.6:
            gone = self.dice.choice(known)
            self.node.remove(gone)
            self.wanted.discard(gone)
        elif what < 0.7:
            self.pod(self.dice.choice(known))
        elif what < 0.85:
            self.config_map(f"map{self.dice.randrange(OBJECTS)}")
        elif what < 0.95 or not self.services:
            self.service(f"service{self.dice.randrange(OBJECTS)}")
        else:
            gone = self.dice.choice(sorted(self.services))  # as the seed has it
            self.node.remove(gone)
            self.services.discard(gone)

    def kill(self):
        for role in self.dice.choice(KILLS):
            self.node.kill((role,))
            if role == "agent":
                self.node.start_agent()
            time.sleep(self.dice.choice((0, 0.05, 0.3)))  # before, while or after it is brought back

    def settle(self):
        def is_there():
            pods = self.node.pods()
            return set(pods) == self.wanted and all(
                c.get("ready") for p in pods.values() for c in p["status"].get("containerStatuses", [{}]))
        self.node.wait("all that is wanted is ready, and nothing else there", is_there, 90)
        again = [(name, c["name"], c["lastState"]) for name, p in self.node.pods().items()
                 for c in p["status"]["containerStatuses"] if c["restartCount"]]
        equal(again, [], "containers that started again")

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
