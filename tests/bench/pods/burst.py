# SPDX-License-Identifier: Apache-2.0
"""Pods that come all at once, as files: from the first manifest's rename into the directory until a watch has shown all of them
running. The limit program starts as many one after the other."""
import json
import select
import subprocess
import time

from sleepers import manifest

ROUNDS = 5
REST = 3  # seconds after each round: the kernel takes apart what its pods had
LIMIT_SECONDS = 120


def await_running(watch, names):
    """Reads what `holdctl get pods -w` prints until all of `names` run."""
    missing = set(names)
    deadline = time.monotonic() + LIMIT_SECONDS
    while missing:
        if not select.select([watch.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"{len(missing)} of {len(names)} pods do not run")
        words = watch.stdout.readline().decode().split()
        if "Running" in words:
            missing.discard(words[0].partition("-")[0])  # the node's name comes after a file's


def ours(machine, count):
    """ms"""
    names = [f"b{i}" for i in range(count)]
    waiting = machine.top / "burst"
    waiting.mkdir(exist_ok=True)
    for name in ("first", *names):
        (waiting / f"{name}.json").write_text(json.dumps(manifest(name)))
    watch = subprocess.Popen([machine.bin / "holdctl", "--socket", machine.run / "holdfastd.sock", "get", "pods", "-w",
                              "--no-headers"], stdout=subprocess.PIPE, bufsize=0)
    try:
        (waiting / "first.json").rename(machine.manifests / "first.json")
        await_running(watch, ["first"])  # so it watches
        begin = time.monotonic()
        for name in names:
            (waiting / f"{name}.json").rename(machine.manifests / f"{name}.json")
        await_running(watch, names)
        return (time.monotonic() - begin) * 1000
    finally:
        watch.terminate()
        watch.wait()
        for name in ("first", *names):
            (machine.manifests / f"{name}.json").unlink(missing_ok=True)
        machine.wait("all pods are gone", lambda: not machine.pods(), 180)
        time.sleep(REST)


def limit(command, count):
    """ms"""
    begin = time.monotonic()
    process = subprocess.Popen([*command, "net", f"hold={count}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("the limit program could not start its pods")
    took = (time.monotonic() - begin) * 1000
    process.communicate()
    time.sleep(REST)
    return took


def figures(samples):
    samples = sorted(samples)
    return {"p50": round(samples[len(samples) // 2], 1), "p99": round(samples[-1], 1)}


def measure(machine, limit_command, count, json_file):
    samples = [(ours(machine, count), limit(limit_command, count)) for _ in range(ROUNDS + 1)][1:]  # the first warms caches
    row = {"row": f"pods.burst_{count}", "unit": "ms", "n": ROUNDS, "ours": figures([s[0] for s in samples]),
           "limit": figures([s[1] for s in samples]), "aim": "350"}
    with open(json_file, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
