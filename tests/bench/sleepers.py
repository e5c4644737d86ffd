# SPDX-License-Identifier: Apache-2.0
"""Pods that sleep: a manifest of ours, and what the limit program starts its own from."""
import shutil

PROGRAM = ["/bin/sleep", "100000"]


def manifest(name):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "test/busybox:latest", "imagePullPolicy": "Never", "command": PROGRAM}]}}


def make_layer(folder):
    """The layer that `bench_start_limit FOLDER …` finds there; returns it."""
    layer = folder / "root/layer"
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (layer / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", layer / "bin/busybox")
    (layer / "bin/sleep").symlink_to("busybox")
    return layer
