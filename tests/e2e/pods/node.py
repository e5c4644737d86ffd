# SPDX-License-Identifier: Apache-2.0
"""The machine that the tests share, and what they say of it."""
import json
import os
import signal

from machine import Machine

IMAGE = "test/busybox:latest"
WAIT_FOR_TERM = "trap 'echo got TERM; exit 0' TERM; echo up; while :; do sleep 1000 & wait $!; done"


class Node(Machine):
    """A Machine with verbs for single pods."""

    def pod(self, name, script=None, containers=None, metadata=None, **spec):
        if containers is None:
            containers = [self.container("main", script)]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})},
                "spec": {"terminationGracePeriodSeconds": 5, "dnsPolicy": "Default",
                         "containers": containers, **spec}}
        self.write(name, json.dumps(body))

    @staticmethod
    def container(name, script, **more):
        return {"name": name, "image": IMAGE, "imagePullPolicy": "Never",
                "command": ["/bin/sh", "-c", script], **more}

    def write(self, name, text):
        new = self.manifests / f".{name}.new"
        new.write_text(text)
        new.rename(self.manifests / f"{name}.json")

    def remove(self, name):
        (self.manifests / f"{name}.json").unlink()

    def get(self, name):
        return self.pods().get(name)

    def until(self, what, name, ready, seconds=30):
        """Waits for `ready(pod)` and returns that pod."""
        found = {}

        def look():
            found["pod"] = self.get(name)
            return found["pod"] is not None and ready(found["pod"])
        try:
            self.wait(f"{name}: {what}", look, seconds)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{json.dumps(found.get('pod'), indent=1)}") from error
        return found["pod"]

    def until_gone(self, name, seconds=30):
        self.wait(f"{name} is gone", lambda: self.get(name) is None, seconds)

    def phase(self, name, phase, seconds=30):
        return self.until(phase, name, lambda p: p["status"]["phase"] == phase, seconds)

    def log(self, name, *flags):
        return self.ctl("logs", f"{name}-{self.node}", *flags).stdout

    def restart_agent(self, how=signal.SIGKILL):
        os.kill(self.agent.pid, how)
        self.agent.wait()
        self.start_agent()


def status(pod, index=0, kind="containerStatuses"):
    return pod["status"][kind][index]
