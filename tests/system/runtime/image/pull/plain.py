# SPDX-License-Identifier: Apache-2.0
"""Pulls that succeed: kinds of layers, indexes, platforms, what is here already."""
import gzip
import os
import pathlib
import subprocess
import tarfile
import time

from registry import ARCHITECTURE, OCI, MadeImage, digest_of, gzipped, layer_of
from scripted_registry import ScriptedRegistry
from suite import check, equal
import json


def content(pulled, index, name):
    return (pathlib.Path(pulled.layers[index]) / name).read_bytes()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


class Index(MadeImage):
    """Several images under one index."""

    def __init__(self, entries):
        self.blobs = {}
        manifests = []
        for image, where in entries:
            self.blobs.update(image.blobs)
            manifests.append({"mediaType": OCI + "manifest.v1+json", "digest": image.digest,
                              "size": len(image.manifest), "platform": where})
        self.top = json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json",
                               "manifests": manifests}).encode()
        self.digest = digest_of(self.top)
        self.blobs[self.digest] = self.top


def test_a_real_registrys_image_is_pulled(world):
    registry = world.registry()
    image = MadeImage([layer_of({"a": b"one"}), layer_of({"b": os.urandom(3 << 20)})])
    registry.push_made(image, "some/app:1")
    pulled = world.pull(f"{registry.name}/some/app:1").well()
    equal(pulled.digest, f"{registry.name}/some/app@{image.digest}", "repo digest")
    equal(pulled.id, digest_of(image.config), "id")
    equal(content(pulled, 0, "a"), b"one", "content")
    by_digest = world.pull(f"{registry.name}/some/app@{image.digest}").well()
    equal(by_digest.id, pulled.id, "by digest")
    again = world.pull(f"{registry.name}/some/app:1", pulled.store).well()
    equal(again.id, pulled.id, "again")


def test_docker_schema_2_is_pulled(world):
    registry = world.registry()
    image = MadeImage([layer_of({"a": b"docker"})])
    registry.push_made(image, "v2s2:1", "--format", "v2s2")
    equal(content(world.pull(f"{registry.name}/v2s2:1").well(), 0, "a"), b"docker", "content")


def test_layers_may_be_plain_gzip_or_zstd(world):
    layer = layer_of({"a": b"x" * 100000})
    images = {"plain:1": MadeImage([layer], packing=lambda data: data, media_type=OCI + "layer.v1.tar"),
              "zstd:1": MadeImage([layer], packing=zstd, media_type=OCI + "layer.v1.tar+zstd"),
              "gzip:1": MadeImage([layer])}
    registry = ScriptedRegistry(images)
    for name in images:
        equal(content(world.pull(f"{registry.name}/{name}").well(), 0, "a"), b"x" * 100000, name)
    registry.stop()


def test_an_index_gives_this_machines_image(world):
    mine = MadeImage([layer_of({"a": b"mine"})])
    other = MadeImage([layer_of({"a": b"other"})], architecture="s390x")
    attestation = MadeImage([layer_of({"a": b"paper"})])
    index = Index([(other, {"os": "linux", "architecture": "s390x"}),
                   (attestation, {"os": "unknown", "architecture": "unknown"}),
                   (mine, {"os": "linux", "architecture": ARCHITECTURE})])
    registry = ScriptedRegistry({"multi:1": index, "foreign:1": Index([(other, {"os": "linux", "architecture": "s390x"})]),
                                 "single:1": other})
    pulled = world.pull(f"{registry.name}/multi:1").well()
    equal(content(pulled, 0, "a"), b"mine", "content")
    equal(pulled.digest, f"{registry.name}/multi@{index.digest}", "the index's digest")
    world.pull(f"{registry.name}/foreign:1").failed("no match for platform in manifest", "linux/s390x")
    world.pull(f"{registry.name}/single:1").failed("no match for platform in manifest")
    registry.stop()


def test_what_is_here_is_not_fetched_again(world):
    shared = layer_of({"base": os.urandom(100000)})
    first = MadeImage([shared, layer_of({"a": b"1"})], packing=gzipped)
    second = MadeImage([shared, layer_of({"a": b"2"})], packing=gzipped)
    registry = ScriptedRegistry({"app:1": first, "app:2": second})
    pulled = world.pull(f"{registry.name}/app:1").well()
    registry.requests.clear()
    world.pull(f"{registry.name}/app:2", pulled.store).well()
    equal(len([path for path in registry.paths("/blobs/") if digest_of(first.layers[0]) in path]), 0, "the shared layer")
    registry.requests.clear()
    world.pull(f"{registry.name}/app:2", pulled.store).well()
    equal([method for method, _, _, _ in registry.requests], ["HEAD"], "an unchanged tag costs one question")
    registry.images["app:2"] = first
    equal(world.pull(f"{registry.name}/app:2", pulled.store).well().id, digest_of(first.config), "a moved tag")
    registry.stop()


def test_what_a_policy_rejects_is_not_asked_for(world):
    registry = ScriptedRegistry({"app:1": MadeImage([layer_of({"a": b"1"})])})
    policy = world.folder() / "policy.json"
    accept, reject = [{"type": "insecureAcceptAnything"}], [{"type": "reject"}]
    policy.write_text(json.dumps({"default": accept, "transports": {"docker": {f"{registry.name}/app": reject}}}))
    world.pull(f"{registry.name}/app:1", None, "", "--policy", policy).failed("SignatureValidationFailed: ")
    equal(registry.requests, [], "requests")
    policy.write_text(json.dumps({"default": reject, "transports": {"docker": {f"{registry.name}/app": accept}}}))
    world.pull(f"{registry.name}/app:1", None, "", "--policy", policy).well()
    registry.stop()


def test_a_policy_means_what_it_means_to_skopeo(world):
    registry = world.registry()
    image = MadeImage([layer_of({"a": b"1"})])
    for name in ("team/app:1", "team/app:2", "teams/app:1"):
        registry.push_made(image, name)
    host, address = registry.name, registry.name.partition(":")[0]
    accept, reject = [{"type": "insecureAcceptAnything"}], [{"type": "reject"}]
    file = world.folder() / "policy.json"
    verdicts = []
    for scopes in ((), (host,), (address,), (f"{host}/team",), (f"{host}/team/app:1",), (f"{host}/team/app@{image.digest}",), ("",),
                   ("*.0.0.1",), ("*.1",), (f"*.0.0.1:{registry.port}",), ("*.127.0.0.1",), ("*",),
                   (f"{host}/team/app", f"{host}/team"), ("*.0.1", ""), (f"{host}/team/", f"{host}/te")):
        for default, other in ((accept, reject), (reject, accept)):
            # Of two scopes the second says again what the default says.
            rules = {scope: default if number else other for number, scope in enumerate(scopes)}
            file.write_text(json.dumps({"default": default, "transports": {"docker": rules}}))
            for name in ("team/app:1", "team/app:2", "teams/app:1", f"team/app@{image.digest}"):
                copied = subprocess.run(["skopeo", "--policy", file, "copy", "-q", "--src-tls-verify=false", f"docker://{host}/{name}",
                                         f"dir:{world.folder()}"], capture_output=True, text=True, check=False)
                verdict = f"{name} by {file.read_text()}"
                if copied.returncode == 0:
                    world.pull(f"{host}/{name}", None, "", "--policy", file).well()
                else:
                    _, _, reason = copied.stderr.strip().strip('"').partition("Source image rejected: ")
                    check(reason, f"{verdict}: {copied.stderr}")
                    world.pull(f"{host}/{name}", None, "", "--policy", file).failed("SignatureValidationFailed: ", reason)
                verdicts.append(copied.returncode == 0)
    check(len(set(verdicts)) == 2, "all the same")


def test_zstd_chunked_is_zstd(world):
    registry = world.registry()
    files = {f"f{number}": os.urandom(1000) * 300 + b"end" for number in range(5)}
    # skopeo writes the tar anew, with two blocks of zeros at its end.
    layer = layer_of(files).rstrip(b"\0")
    layer += bytes(-len(layer) % 512 + 1024)
    image = MadeImage([layer], packing=lambda data: data, media_type=OCI + "layer.v1.tar")
    registry.push_made(image, "chunked:1", "--dest-compress-format", "zstd:chunked")
    manifest = json.loads(subprocess.run(["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{registry.name}/chunked:1"],
                                         capture_output=True, check=True).stdout)
    layer, = manifest["layers"]
    check(layer["mediaType"].endswith("+zstd") and any("zstd-chunked" in key for key in layer["annotations"]), str(layer))
    pulled = world.pull(f"{registry.name}/chunked:1").well()
    for name, data in files.items():
        equal(content(pulled, 0, name), data, name)


def test_layers_come_side_by_side(world):
    import threading
    together = threading.Barrier(3, timeout=10)

    def script(handler):
        if "/blobs/" in handler.path and digest_of(image.config) not in handler.path:
            together.wait()
        return False
    image = MadeImage([layer_of({str(i): os.urandom(1000)}) for i in range(3)])
    registry = ScriptedRegistry({"app:1": image}, script)
    world.pull(f"{registry.name}/app:1").well()
    registry.stop()
    check(not together.broken, "three blobs at a time")


def test_layers_are_unpacked_while_others_still_come(world):
    import threading
    seen = threading.Event()
    store = world.folder()

    def script(handler):
        if "/blobs/" not in handler.path or digest_of(image.layers[1]) not in handler.path:
            return False
        end = time.monotonic() + 20
        while not seen.is_set() and time.monotonic() < end:
            if any(store.glob("images/ingest/*/layer-0/a")):
                seen.set()
            time.sleep(0.01)
        return False
    image = MadeImage([layer_of({"a": b"first"}), layer_of({"b": b"second"})])
    registry = ScriptedRegistry({"app:1": image}, script)
    world.pull(f"{registry.name}/app:1", store).well()
    registry.stop()
    check(seen.is_set(), "the first layer's file, before the second layer was sent")


def test_a_layer_that_is_none_ends_the_downloads_of_the_others(world):
    def script(handler):
        if "/blobs/" in handler.path and digest_of(image.layers[1]) in handler.path:
            handler.drip(image.layers[1], 4096, 0.05)
            return True
        return False
    image = MadeImage([b"no tar at all" * 100, layer_of({"b": os.urandom(8 << 20)})])
    registry = ScriptedRegistry({"app:1": image}, script)
    world.pull(f"{registry.name}/app:1").failed("layer 1 ", within=10)
    registry.stop()


class EndlessImage(MadeImage):
    """One file of `mebibytes`, as as many gzip members: a megabyte to fetch, seconds to unpack."""

    def __init__(self, mebibytes):
        header = tarfile.TarInfo("big")
        header.size = mebibytes << 20
        piece = os.urandom(1024) * 1024
        layer = gzip.compress(header.tobuf()) + gzip.compress(piece) * mebibytes
        super().__init__([layer], packing=lambda packed: packed)


def test_a_pull_that_is_cancelled_while_it_unpacks_ends_soon(world):
    registry = ScriptedRegistry({"app:1": EndlessImage(1200)})
    store = world.folder()
    pull = subprocess.Popen(world.command(f"{registry.name}/app:1", store, "", "--cancel-after", 1000),
                            stdout=subprocess.PIPE, text=True)
    began = time.monotonic()
    text = pull.communicate(timeout=60)[0]
    took = time.monotonic() - began - 1
    check(pull.returncode == 1 and "cancelled" in text, text)
    check(took < 5, f"{took:.1f} s after it was cancelled")
    equal(list((store / "images/ingest").iterdir()), [], "left in ingest")
    registry.stop()
    print(f"  ended {took * 1000:.0f} ms after it was cancelled, its start included", flush=True)


def test_a_pull_that_is_cancelled_ends_soon_and_leaves_nothing(world):
    def script(handler):
        if "/blobs/" in handler.path and digest_of(image.layers[0]) in handler.path:
            handler.drip(image.layers[0], 4096, 0.05)
            return True
        return False
    image = MadeImage([layer_of({"a": os.urandom(4 << 20)})])
    registry = ScriptedRegistry({"app:1": image}, script)
    world.pull(f"{registry.name}/app:1", None, "", "--cancel-after", 700).failed("cancelled", within=5)
    registry.stop()
