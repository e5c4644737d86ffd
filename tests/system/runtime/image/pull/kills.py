# SPDX-License-Identifier: Apache-2.0
"""SIGKILL to the puller, holdfast-fetch and holdfast-unpack: the next pull goes on, nothing half-made shows.

HOLDFAST_PULL_KILLS: at how many random moments (15)."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from registry import MadeImage, layer_of
from scripted_registry import ScriptedRegistry
from suite import check, equal

MOMENTS = int(os.environ.get("HOLDFAST_PULL_KILLS", "15"))


def image():
    return MadeImage([layer_of({f"{i}": os.urandom(400000)}) for i in range(4)])


def children(pid):
    """(pid, name) of those of all its threads that live at the moment."""
    found = []
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [(int(child), pathlib.Path(f"/proc/{child}/comm").read_text().strip())
                      for child in file.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            pass  # ended between two of these
    return found


def points_of_a_pull(world, registry):
    """Every pause point that a pull passes, in their order."""
    stops = world.folder()
    world.pull(f"{registry.name}/app:1", None, "", HOLDFAST_PAUSE_AT="?", HOLDFAST_PAUSE_DIR=str(stops)).well()
    return list(dict.fromkeys(name for file in stops.glob("passed.*") for name in file.read_text().split()))


def nothing_is_half_made(store):
    """What has a name is whole; what is being worked on lies in ingest only."""
    import hashlib
    for blob in (store / "images/blobs/sha256").glob("*"):
        equal(hashlib.sha256(blob.read_bytes()).hexdigest(), blob.name, "a blob's content")
    for record in (store / "images/images").glob("*.json"):
        check((store / "images/blobs/sha256" / record.stem).exists(), "an image record without its manifest")


def what_is_there(store):
    """Which parts of a store have anything in them."""
    parts = ("ingest", "partial", "blobs/sha256", "layers", "images", "names")
    there = [part for part in parts if any((store / "images" / part).glob("*"))]
    return there or ["nothing"]


def goes_on(world, registry, store):
    nothing_is_half_made(store)
    world.pull(f"{registry.name}/app:1", store).well()
    nothing_is_half_made(store)
    equal(list((store / "images/ingest").iterdir()), [], "left in ingest")
    equal(list((store / "images/partial").iterdir()), [], "left in partial")
    equal(len(list((store / "images/blobs/sha256").iterdir())), 6, "blobs: four layers, config, manifest")
    equal(len(list((store / "images/layers").iterdir())), 4, "layers")


def kill_at(world, registry, store, point):
    """A pull that is killed, with its helpers, where it stops at the pause point."""
    stops = world.folder()
    pull = subprocess.Popen(world.command(f"{registry.name}/app:1", store), stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "HOLDFAST_PAUSE_AT": point, "HOLDFAST_PAUSE_DIR": str(stops)})
    end = time.monotonic() + 20
    while not any(stops.iterdir()) and pull.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    check(any(stops.iterdir()), f"{point} was never reached: {pull.poll()}")
    helpers = [pid for pid, _ in children(pull.pid)]
    pull.kill()
    pull.wait()
    for pid in helpers:
        world_end = time.monotonic() + 5
        while pathlib.Path(f"/proc/{pid}").exists() and time.monotonic() < world_end:
            time.sleep(0.01)
        check(not pathlib.Path(f"/proc/{pid}").exists(), f"{point}: a helper outlived its agent")


def test_killed_at_each_pause_point(world):
    registry = ScriptedRegistry({"app:1": image()})
    points = points_of_a_pull(world, registry)
    check({"image.pull-piece", "image.pull-blob", "image.import-staged", "image.layer-named"} <= set(points), points)
    for point in points:
        store = world.folder()
        kill_at(world, registry, store, point)
        goes_on(world, registry, store)
    registry.stop()


def test_killed_at_random_moments(world):
    """The puller, or one of its helpers, within the time that a pull takes."""
    chance = random.Random(20)
    registry = ScriptedRegistry({"app:1": image()})
    whole = min(world.pull(f"{registry.name}/app:1").well().seconds for _ in range(5))
    killed, found = {}, {}
    for _ in range(MOMENTS):
        store = world.folder()
        pull = subprocess.Popen(world.command(f"{registry.name}/app:1", store), stdout=subprocess.PIPE)
        time.sleep(chance.uniform(0, 1.2 * whole))
        pid, name = chance.choice([(pull.pid, "puller"), *children(pull.pid)])
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            name = "nobody"
        pull.communicate()
        killed[name] = killed.get(name, 0) + 1
        for what in what_is_there(store):
            found[what] = found.get(what, 0) + 1
        goes_on(world, registry, store)
        shutil.rmtree(store)
    print(f"  killed: {killed}; what the next pull found: {found}", flush=True)
    registry.stop()


def helper_is_killed(world, name):
    """True when the helper was caught alive; the pull then fails with a reason, and a new one works."""
    slow = image()

    def script(handler):
        if "/blobs/" in handler.path:
            time.sleep(0.2)
        return False
    registry = ScriptedRegistry({"app:1": slow}, script)
    store = world.folder()
    pull = subprocess.Popen(world.command(f"{registry.name}/app:1", store), stdout=subprocess.PIPE, text=True)
    caught = False
    while pull.poll() is None and not caught:
        for pid, comm in children(pull.pid):
            if comm.startswith(name):
                os.kill(pid, signal.SIGKILL)
                caught = True
    text = pull.communicate()[0]
    check(pull.returncode == 1 or not caught, text)
    if caught:
        check("holdfast-" in text, text)
    goes_on(world, registry, store)
    registry.stop()
    return caught


def test_a_killed_fetch_fails_the_pull_and_nothing_else(world):
    check(helper_is_killed(world, "holdfast-fetch"), "holdfast-fetch was never seen")


def test_a_killed_unpack_fails_the_pull_and_nothing_else(world):
    check(any(helper_is_killed(world, "holdfast-unpack") for _ in range(20)), "holdfast-unpack was never seen")


def test_the_helper_is_caged(world):
    """What holdfast-fetch is while it waits for a registry."""
    def script(_):
        time.sleep(3)
        return False
    registry = ScriptedRegistry({"app:1": image()}, script)
    pull = subprocess.Popen(world.command(f"{registry.name}/app:1", world.folder()), stdout=subprocess.PIPE)
    end = time.monotonic() + 5
    while not registry.requests and time.monotonic() < end:
        time.sleep(0.01)
    (pid, _), = [child for child in children(pull.pid) if child[1].startswith("holdfast-fetch")]
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                  if ":\t" in line)
    equal(status["Uid"].split(), ["65534"] * 4, "uid")
    equal(status["Groups"].strip(), "", "groups")
    for kind in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
        equal(int(status[kind], 16), 0, kind)
    equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "no_new_privs, seccomp")
    root = pathlib.Path(f"/proc/{pid}/root")
    equal(sorted(path.name for path in root.iterdir()), ["etc"], "its file system")
    mounts = pathlib.Path(f"/proc/{pid}/mounts").read_text().splitlines()
    equal(len(mounts), 1, "mounts")
    check({"ro", "nosuid", "nodev", "noexec"} <= set(mounts[0].split()[3].split(",")), mounts[0])
    environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    check(b"PATH" not in environment and b"HOME" not in environment, "its environment")
    pull.kill()
    pull.wait()
    registry.stop()
