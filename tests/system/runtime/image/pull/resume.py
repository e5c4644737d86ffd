# SPDX-License-Identifier: Apache-2.0
"""What a pull has fetched that came to no end: the next one goes on with it, and believes none of it unseen."""
import os
import subprocess
import time

from kills import goes_on, kill_at
from registry import MadeImage, digest_of, layer_of
from scripted_registry import ScriptedRegistry
from suite import check, equal

PART = 1 << 20


class Slow:
    """A registry whose first layer comes to `PART` bytes and then stands still, until it is `quick`."""

    def __init__(self):
        self.image = MadeImage([layer_of({"a": os.urandom(3 * PART)}), layer_of({"b": os.urandom(2 * PART)})])
        self.data = self.image.layers[0]
        self.digest = digest_of(self.data)
        self.quick = False
        self.registry = ScriptedRegistry({"app:1": self.image}, self.script)
        self.name = f"{self.registry.name}/app:1"

    def script(self, handler):
        if self.quick or self.digest not in handler.path:
            return False
        handler.drip(self.data[:PART] + bytes(len(self.data) - PART), PART, 600)
        return True

    def ranges(self, digest=None):
        return [one for _, path, _, one in self.registry.requests if (digest or self.digest) in path]

    def begin_anew(self):
        self.quick = True
        self.registry.requests.clear()


def partial(store):
    return {path.name: path for path in (store / "images/partial").iterdir()}


def stopped_pull(world, slow, store):
    """A pull that was cancelled with a part of the first layer and all of the second."""
    failed = world.pull(slow.name, store, "", "--cancel-after", 1500)
    check(not failed.ok and "cancelled" in failed.text, failed.text)
    parts = partial(store)
    equal(parts[slow.digest[7:]].stat().st_size, PART, "of the first layer")
    equal(list((store / "images/ingest").iterdir()), [], "left in ingest")
    slow.begin_anew()
    return parts


def test_a_cancelled_pull_is_gone_on_with(world):
    slow, store = Slow(), world.folder()
    parts = stopped_pull(world, slow, store)
    check(digest_of(slow.image.layers[1])[7:] in parts, "the layer that was whole")
    goes_on_with_two_layers(world, slow, store)
    equal(slow.ranges(), [f"bytes={PART}-"], "what was asked of the first layer")
    equal(slow.ranges(digest_of(slow.image.layers[1])), [], "what was asked of the second")
    slow.registry.stop()


def goes_on_with_two_layers(world, slow, store):
    world.pull(slow.name, store).well()
    equal(partial(store), {}, "left in partial")
    equal(len(list((store / "images/blobs/sha256").iterdir())), 4, "blobs: two layers, config, manifest")


def test_a_killed_pull_is_gone_on_with(world):
    slow, store = Slow(), world.folder()
    pull = subprocess.Popen(world.command(slow.name, store), stdout=subprocess.PIPE)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        sizes = [path.stat().st_size for path in store.glob("images/ingest/pull-*/blob-" + slow.digest[7:])]
        if sizes == [PART]:
            break
        time.sleep(0.01)
    pull.kill()
    pull.wait()
    slow.begin_anew()
    goes_on_with_two_layers(world, slow, store)
    equal(slow.ranges(), [f"bytes={PART}-"], "what was asked of the first layer")
    slow.registry.stop()


def test_what_a_power_cut_spoiled_is_fetched_anew(world):
    for spoil in (lambda path, size: os.truncate(path, size + PART) or None,  # zeros behind it
                  lambda path, size: path.write_bytes(bytes(size)),
                  lambda path, size: path.write_bytes(bytes(20 * PART))):  # more than there can be
        slow, store = Slow(), world.folder()
        parts = stopped_pull(world, slow, store)
        spoil(parts[slow.digest[7:]], PART)
        goes_on_with_two_layers(world, slow, store)
        equal(slow.ranges()[-1], None, "from the beginning in the end")
        check(len(slow.ranges()) <= 2, f"asked {slow.ranges()}")
        slow.registry.stop()


def test_a_whole_blob_with_wrong_bytes_is_fetched_anew(world):
    slow, store = Slow(), world.folder()
    parts = stopped_pull(world, slow, store)
    parts[slow.digest[7:]].write_bytes(slow.data[:-1] + bytes([slow.data[-1] ^ 1]))
    goes_on_with_two_layers(world, slow, store)
    equal(slow.ranges(), [None], "what was asked of the first layer")
    slow.registry.stop()


def test_what_was_refused_is_not_kept(world):
    def script(handler):
        if digest_of(image.layers[0]) not in handler.path:
            return False
        handler.send(200, image.layers[0][:-1] + b"x")
        return True
    image = MadeImage([layer_of({"a": os.urandom(PART)}), layer_of({"b": os.urandom(PART)})])
    registry = ScriptedRegistry({"app:1": image}, script)
    world.pull(f"{registry.name}/app:1").failed("does not match its digest")
    registry.stop()


def test_killed_where_parts_are_moved(world):
    registry = ScriptedRegistry({"app:1": MadeImage([layer_of({f"{i}": os.urandom(400000)}) for i in range(4)])})
    for point in ("image.partial-kept", "image.partial-kept:2", "image.partial-taken", "image.partial-taken:3"):
        store = world.folder()
        kill_at(world, registry, store, "image.pull-blob:4")  # everything is here, nothing has a name
        kill_at(world, registry, store, point)
        registry.requests.clear()
        goes_on(world, registry, store)
        check(all(one is None for _, _, _, one in registry.requests), "what was whole stayed whole")
        equal(len([path for path in registry.paths("/blobs/")]), 1, "only the config was asked for again")
    registry.stop()
