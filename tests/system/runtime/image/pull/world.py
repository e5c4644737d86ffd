# SPDX-License-Identifier: Apache-2.0
"""What the tests share: a real registry, and pulls into stores of their own."""
import os
import subprocess
import time

from registry import RealRegistry
from suite import check


class Pulled:
    def __init__(self, done, seconds, store):
        self.ok = done.returncode == 0
        self.text = done.stdout + done.stderr
        self.seconds = seconds
        self.store = store
        words = [line.split(" ", 1) for line in done.stdout.splitlines()]
        self.id = next((rest for kind, rest in words if kind == "id"), None)
        self.digest = next((rest for kind, rest in words if kind == "digest"), None)
        self.layers = [rest for kind, rest in words if kind == "layer"]

    def well(self):
        check(self.ok, self.text)
        return self

    def failed(self, *words, within=20):
        check(not self.ok, f"pulled: {self.text}")
        for word in words:
            check(word in self.text, f"no {word!r} in: {self.text}")
        check(self.seconds < within, f"took {self.seconds:.1f} s: {self.text}")
        left = self.files()
        check(not left, f"left in the store: {left}")
        return self

    def files(self):
        """Everything below the store that is not its own furniture."""
        found = [path for path in self.store.rglob("*") if path.is_file() and path.name != "lock"]
        return [str(path.relative_to(self.store)) for path in found]


class Pushed:
    def __init__(self, done, seconds):
        self.ok = done.returncode == 0
        self.text = done.stdout + done.stderr
        self.seconds = seconds
        words = [line.split(" ") for line in done.stdout.splitlines()]
        self.digest = next((rest[0] for kind, *rest in words if kind == "digest"), None)
        self.index = next((rest[0] for kind, *rest in words if kind == "index"), None)
        self.was_there = any(kind == "there" for kind, *_ in words)
        self.states = [rest[1] for kind, *rest in words if kind == "sent"]
        self.bytes = [int(rest[2]) for kind, *rest in words if kind == "sent"]

    def well(self):
        check(self.ok, self.text)
        return self

    def failed(self, *words, within=20):
        check(not self.ok, f"pushed: {self.text}")
        for word in words:
            check(word in self.text, f"no {word!r} in: {self.text}")
        check(self.seconds < within, f"took {self.seconds:.1f} s: {self.text}")
        return self


class World:
    def __init__(self, bin_dir, top):
        self.bin = bin_dir
        self.top = top
        self.count = 0
        self.registries = []

    def registry(self, **options):
        self.count += 1
        registry = RealRegistry(self.top / f"registry-{self.count}", port=5000 + self.count, **options)
        self.registries.append(registry)
        return registry

    def folder(self):
        self.count += 1
        folder = self.top / f"folder-{self.count}"
        folder.mkdir()
        return folder

    def command(self, reference, store, hosts="", *flags):
        return [self.bin / "image_pull_driver", store, hosts, reference, *map(str, flags)]

    def pull(self, reference, store=None, hosts="", *flags, **environment):
        store = store or self.folder()
        began = time.monotonic()
        done = subprocess.run(self.command(reference, store, hosts, *flags), capture_output=True, text=True,
                              check=False, timeout=120, env={**os.environ, **environment})
        return Pulled(done, time.monotonic() - began, store)

    def push(self, pulled, reference, destination, *flags, hosts="", **environment):
        """From the store of what was pulled."""
        began = time.monotonic()
        done = subprocess.run(self.command(reference, pulled.store, hosts, "--push", destination, *flags), check=False,
                              capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
        return Pushed(done, time.monotonic() - began)

    def stop(self):
        for registry in self.registries:
            registry.stop()
