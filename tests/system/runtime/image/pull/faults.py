# SPDX-License-Identifier: Apache-2.0
"""Registries that lie, stall and break off: each ends with an error that says what it was, at bounded cost."""
import gzip
import json
import os
import time

from registry import OCI, MadeImage, digest_of, layer_of
from scripted_registry import ScriptedRegistry, reset
from suite import check, equal

IMAGE = MadeImage([layer_of({"a": os.urandom(300000)})])
BLOB = digest_of(IMAGE.layers[0])


def on_blob(answer):
    """A script that has `answer(handler, data)` answer for the layer."""
    def script(handler):
        if BLOB not in handler.path:
            return False
        answer(handler, IMAGE.layers[0])
        return True
    return script


def pull_of(world, script, *flags, images=None):
    registry = ScriptedRegistry(images if images is not None else {"app:1": IMAGE}, script)
    pulled = world.pull(f"{registry.name}/app:1", None, "", *flags)
    registry.stop()
    return pulled, registry


def test_wrong_bytes_are_refused(world):
    def flip(handler, data):
        handler.send(200, data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])
    pull_of(world, on_blob(flip))[0].failed(BLOB, "does not match its digest")


def test_wrong_lengths_are_refused(world):
    pull_of(world, on_blob(lambda h, data: h.send(200, data + b"x")))[0].failed("where the manifest says")
    pull_of(world, on_blob(lambda h, data: h.send(200, data * 50, length="")))[0].failed("more than", "the manifest says")
    pull_of(world, on_blob(lambda h, data: h.send(200, data[:-1])))[0].failed("where the manifest says")


def test_a_blob_that_breaks_off_goes_on_where_it_ended(world):
    broken = []

    def script(handler, data):
        begin = handler.range_begin()
        if len(broken) == 3:
            return handler.send(206, data[begin:], {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"})
        broken.append(begin)
        handler.send(206 if begin else 200, data[begin:begin + 70000],
                     {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"} if begin else {},
                     length=len(data) - begin)
        return None
    pulled, _ = pull_of(world, on_blob(script))
    pulled.well()
    equal(broken, [0, 70000, 140000], "where each began")


def test_a_registry_that_ignores_ranges_or_gets_them_wrong(world):
    state = {"count": 0}

    def ignores(handler, data):
        state["count"] += 1
        if state["count"] == 1:
            return handler.send(200, data[:50000], length=len(data))
        return handler.send(200, data)
    pull_of(world, on_blob(ignores))[0].well()
    state["count"] = 0

    def other_offset(handler, data):
        state["count"] += 1
        if state["count"] == 1:
            return handler.send(200, data[:50000], length=len(data))
        return handler.send(206, data[1000:], {"Content-Range": f"bytes 1000-{len(data) - 1}/{len(data)}"})
    pull_of(world, on_blob(other_offset))[0].failed("sent bytes from 1000 on")
    state["count"] = 0

    def unsatisfiable(handler, data):
        state["count"] += 1
        if state["count"] == 1:
            return handler.send(200, data[:50000], length=len(data))
        return handler.send(416) if handler.headers.get("Range") else handler.send(200, data)
    pull_of(world, on_blob(unsatisfiable))[0].well()


def test_a_blob_that_is_always_cut_off_is_given_up(world):
    pulled, registry = pull_of(world, on_blob(lambda h, data: h.send(200, data[:10], length=len(data))))
    pulled.failed(BLOB, within=40)
    check(len(registry.paths(BLOB)) <= 21, f"{len(registry.paths(BLOB))} tries")
    pulled, registry = pull_of(world, on_blob(lambda h, data: reset(h)))
    pulled.failed(BLOB, within=40)


def test_a_stall_is_noticed_and_gone_on_with(world):
    stalled = []

    def script(handler, data):
        begin = handler.range_begin()
        if not stalled:
            stalled.append(1)
            return handler.drip(data[:100000] + bytes(len(data) - 100000), 100000, 30)
        return handler.send(206, data[begin:], {"Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"})
    pulled, registry = pull_of(world, on_blob(script), "--stall", 2)
    pulled.well()
    check(2 <= pulled.seconds < 13, f"{pulled.seconds:.1f} s")
    equal([one for method, path, _, one in registry.requests if BLOB in path], [None, "bytes=100000-"], "what was asked")


def test_a_stall_before_the_answer_is_noticed(world):
    stalled = []

    def script(handler):
        if stalled:
            return False
        stalled.append(1)
        time.sleep(20)  # longer than the puller waits: the stall itself
        return True
    pulled, _ = pull_of(world, script, "--stall", 1)
    pulled.well()
    check(pulled.seconds < 12, f"{pulled.seconds:.1f} s")


def test_a_registry_that_drips_for_ever_is_given_up(world):
    pulled, _ = pull_of(world, on_blob(lambda h, data: h.drip(data, 5, 0.1)), "--stall", 1)
    pulled.failed(BLOB, within=40)


def test_redirects_end(world):
    def loop(handler):
        handler.send(302, b"", {"Location": handler.path})
        return True
    pulled, registry = pull_of(world, loop)
    pulled.failed("more than 10 redirects")
    check(len(registry.requests) <= 12, f"{len(registry.requests)} requests")
    for location, words in (("ftp://127.0.0.1/x", "redirect"), ("http://user:pw@127.0.0.1:1/x", "redirect"),
                            ("http://127.0.0.2:9/x", "another host without TLS"), ("file:///etc/passwd", "redirect")):
        def elsewhere(handler, where=location):
            handler.send(302, b"", {"Location": where})
            return True
        pull_of(world, elsewhere)[0].failed(words)


def test_429_and_503_are_waited_for(world):
    answers = [(429, {"Retry-After": "1"}), (503, {})]

    def script(handler):
        if not answers:
            return False
        status, headers = answers.pop()
        handler.send(status, b"", headers)
        return True
    pulled, _ = pull_of(world, script)
    pulled.well()
    check(pulled.seconds >= 1.5, f"{pulled.seconds:.1f} s")
    pull_of(world, lambda h: h.send(429, b"", {"Retry-After": "86400"}) or True)[0].failed("429 Too Many Requests", "86400")
    pulled, registry = pull_of(world, lambda h: h.send(500, b"") or True)
    pulled.failed("500 Internal Server Error")
    equal(len(registry.requests), 5, "tries")


def manifest_of(text, content_type=OCI + "manifest.v1+json", headers=None):
    def script(handler):
        if "/manifests/" not in handler.path:
            return False
        handler.send(200, text, {"Content-Type": content_type, **(headers or {})})
        return True
    return script


def test_documents_that_are_none(world):
    pull_of(world, manifest_of(b"<html>login here</html>", "text/html"))[0].failed("text/html")
    pull_of(world, manifest_of(b"{", OCI + "manifest.v1+json"))[0].failed("image manifest")
    pull_of(world, manifest_of(b"[" * 100000))[0].failed("image manifest")
    pull_of(world, manifest_of(json.dumps({"schemaVersion": 1, "fsLayers": []}).encode(),
                               "application/vnd.docker.distribution.manifest.v1+prettyjws"))[0].failed("schema 1")
    both = json.loads(IMAGE.manifest)
    both["manifests"] = []
    pull_of(world, manifest_of(json.dumps(both).encode()))[0].failed("both an index and a manifest")
    pull_of(world, manifest_of(IMAGE.manifest, OCI + "index.v1+json"))[0].failed("both an index and a manifest")
    pull_of(world, manifest_of(IMAGE.manifest, "application/vnd.docker.distribution.manifest.v2+json"))[0].failed("announced as")
    pull_of(world, manifest_of(IMAGE.manifest, headers={"Docker-Content-Digest": "sha256:" + "0" * 64}))[0].failed("announced as")


def test_documents_that_are_too_large(world):
    pull_of(world, manifest_of(b" " * (5 << 20)))[0].failed("larger than the limit of 4194304 bytes")
    many = json.loads(IMAGE.manifest)
    many["layers"] = many["layers"] * 600
    pull_of(world, manifest_of(json.dumps(many).encode()))[0].failed("more than 500 entries")
    huge = json.loads(IMAGE.manifest)
    huge["config"]["size"] = 1 << 40
    pull_of(world, manifest_of(json.dumps(huge).encode()))[0].failed("the limit for documents")
    sizes = json.loads(IMAGE.manifest)
    sizes["layers"][0]["size"] = (1 << 64) - 1
    pull_of(world, manifest_of(json.dumps(sizes).encode()))[0].failed("more than the limit")
    sizes["layers"][0]["size"] = 60 << 30
    pull_of(world, manifest_of(json.dumps(sizes).encode()))[0].failed("no room for images")
    pull_of(world, lambda h: h.send(200, b"", {f"X-{i}": "y" * 1000 for i in range(60)}) or True)[0].failed("headers", within=40)


def test_digests_that_are_none(world):
    for digest in ("sha256:../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "0" * 32, "sha256:" + "0" * 63):
        wrong = json.loads(IMAGE.manifest)
        wrong["layers"][0]["digest"] = digest
        pull_of(world, manifest_of(json.dumps(wrong).encode()))[0].failed("digest")


def test_indexes_in_circles_end(world):
    """An index cannot hold its own digest, but a registry can answer a digest with anything."""
    inner = {"mediaType": OCI + "index.v1+json", "digest": "sha256:" + "1" * 64, "size": 10}
    index = json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [inner]}).encode()
    pulled, registry = pull_of(world, manifest_of(index, OCI + "index.v1+json"))
    pulled.failed("does not match its digest")
    check(len(registry.requests) < 6, "requests")
    deep = MadeImage([layer_of({"a": b"1"})])
    text, kind = deep.manifest, OCI + "manifest.v1+json"
    for _ in range(6):
        text = json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": [
            {"mediaType": kind, "digest": digest_of(text), "size": len(text)}]}).encode()
        deep.blobs[digest_of(text)] = text
        kind = OCI + "index.v1+json"
    deep.top = text
    pull_of(world, None, images={"app:1": deep})[0].failed("nested too deeply")


def test_layers_that_are_bombs_or_no_layers(world):
    bomb = MadeImage([bytes(1)], packing=lambda _: gzip.compress(b"\0" * (64 << 20)) * 30)
    pull_of(world, None, images={"app:1": bomb})[0].failed("layer 1", within=60)
    noise = MadeImage([b"not a tar" * 1000])
    pull_of(world, None, images={"app:1": noise})[0].failed("layer 1")
    other = MadeImage([layer_of({"a": b"1"})])
    config = json.loads(other.config)
    config["rootfs"]["diff_ids"] = ["sha256:" + "2" * 64]
    liar = MadeImage([layer_of({"a": b"1"})])
    liar.config = json.dumps(config).encode()
    manifest = json.loads(liar.manifest)
    manifest["config"] = liar.add(OCI + "config.v1+json", liar.config)
    liar.manifest = json.dumps(manifest).encode()
    pull_of(world, None, images={"app:1": liar})[0].failed("the image config says")


def test_what_is_not_there(world):
    pulled, registry = pull_of(world, None, images={})
    pulled.failed(f'failed to pull and unpack image "{registry.name}/app:1": failed to resolve reference',
                  f"{registry.name}/app:1: not found")
    world.pull("127.0.0.1:1/app:1").failed("onnect")
    world.pull("no-such-host.invalid/app:1").failed("resolve host", within=40)
    world.pull("127.0.0.1:1/UPPER:1").failed("must be lowercase")
