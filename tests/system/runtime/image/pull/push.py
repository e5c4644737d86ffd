# SPDX-License-Identifier: Apache-2.0
"""Pushes: what arrives, what is not sent again, who is asked, and what a registry may do to them."""
import hashlib
import json
import os
import subprocess
import threading

from hosts import certificate
from logins import basic
from plain import Index
from registry import ARCHITECTURE, OCI, MadeImage, digest_of, gzipped, htpasswd, layer_of
from scripted_registry import ScriptedRegistry, reset
from suite import check, equal


def made(layers=2, size=300000):
    return MadeImage([layer_of({str(i): os.urandom(size)}) for i in range(layers)])


def stored(world, image, name="some/app:1"):
    """A store that has it, under the name at a registry which is gone."""
    source = ScriptedRegistry({name: image})
    pulled = world.pull(f"{source.name}/{name}").well()
    source.stop()
    return pulled, f"{source.name}/{name}"


def fetched_by_skopeo(world, reference, *flags):
    """Its files as skopeo gets them, whatever they are called there: digests."""
    folder = world.folder() / "copy"
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", *flags, f"docker://{reference}",
                    f"dir:{folder}"], check=True, capture_output=True)
    return {"sha256:" + hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()
            if file.name != "version"}


def uploads(registry):
    return [path for method, path, _, _ in registry.requests if method == "PUT" and "/blobs/" in path]


def test_what_was_pushed_is_what_skopeo_pulls(world):
    registry = world.registry()
    for image, form in ((made(), ()), (made(), ("--format", "v2s2"))):
        registry.push_made(image, "first/app:1", *form)
        pulled = world.pull(f"{registry.name}/first/app:1").well()
        other = world.registry()
        pushed = world.push(pulled, f"{registry.name}/first/app:1", f"{other.name}/second/app:2").well()
        equal(pushed.digest.split("@")[1], pulled.digest.split("@")[1], "the digest stays")
        equal(pushed.states, ["done", "done"], "layers")
        equal(fetched_by_skopeo(world, f"{other.name}/second/app:2"),
              fetched_by_skopeo(world, f"{registry.name}/first/app:1"), "manifest, config and layers")
        equal(world.pull(f"{other.name}/second/app:2").well().id, pulled.id, "pulled again")


def test_an_image_that_was_imported_is_pushed(world):
    registry = world.registry()
    image = made(1)
    pulled, name = stored(world, image)
    pushed = world.push(pulled, pulled.id, f"{registry.name}/by-id:1").well()
    equal(pushed.digest, f"{registry.name}/by-id@{image.digest}", "digest")
    world.push(pulled, pulled.id, "").failed("named by its id: say where it goes")
    world.push(pulled, name, f"{registry.name}/by-id@{image.digest}").well()
    world.push(pulled, name, f"{registry.name}/by-id@sha256:{'0' * 64}").failed("its manifest is")
    world.push(pulled, "absent:1", f"{registry.name}/absent:1").failed("no image")


def test_only_what_is_missing_is_sent(world):
    base = layer_of({"base": os.urandom(100000)})
    first, second = (MadeImage([base, layer_of({"own": os.urandom(1000)})], packing=gzipped) for _ in range(2))
    registry = ScriptedRegistry()
    pulled, name = stored(world, first)
    world.push(pulled, name, f"{registry.name}/app:1").well()
    equal(len(uploads(registry)), 3, "two layers and the config")
    registry.requests.clear()
    again = world.push(pulled, name, f"{registry.name}/app:1").well()
    check(again.was_there, "said to be there")
    equal([method for method, _, _, _ in registry.requests], ["HEAD"], "what is there costs one question")
    registry.requests.clear()
    world.push(pulled, name, f"{registry.name}/app:2").well()
    equal(uploads(registry), [], "another name of it")
    pulled, name = stored(world, second)
    registry.requests.clear()
    partly = world.push(pulled, name, f"{registry.name}/app:3").well()
    equal(partly.states, ["present", "done"], "the shared layer")
    check(all(digest_of(second.layers[0]) not in path for path in uploads(registry)), "it was sent again")
    order = [path for method, path, _, _ in registry.requests if method == "PUT"]
    check("/manifests/" in order[-1], f"the manifest comes last: {order}")
    registry.stop()


def test_layers_are_taken_over_from_another_repository(world):
    registry = world.registry()
    image = made(2, size=2 << 20)
    registry.push_made(image, "base/app:1")
    pulled = world.pull(f"{registry.name}/base/app:1").well()
    pushed = world.push(pulled, f"{registry.name}/base/app:1", f"{registry.name}/other/app:1").well()
    equal(pushed.states, ["mounted", "mounted"], "layers")
    equal(fetched_by_skopeo(world, f"{registry.name}/other/app:1"),
          fetched_by_skopeo(world, f"{registry.name}/base/app:1"), "content")


def test_a_registry_that_takes_nothing_over_gets_it_sent(world):
    for status in (202, 400, 403, 404, 405):
        image = made(1)

        def script(handler, status=status):
            if "mount=" not in handler.path or status == 202:
                return False
            handler.body()
            handler.send(status, b"{}")
            return True
        registry = ScriptedRegistry({"base/app:1": image}, script)
        pulled = world.pull(f"{registry.name}/base/app:1").well()
        pushed = world.push(pulled, f"{registry.name}/base/app:1", f"{registry.name}/other/app:1").well()
        equal(pushed.states, ["done"], f"after {status}")
        asked = [path for path in registry.paths("mount=") if path.endswith("&from=base/app")]
        equal(len(asked), 1, f"asked to take it over ({status})")
        equal(len(registry.paths("/blobs/uploads/")), {202: 4}.get(status, 5), f"no more questions than needed ({status})")
        equal(set(registry.pushed["other/app"]), {*image.blobs, "1"} - {image.digest}, "what came")
        registry.stop()


def test_of_an_index_the_image_that_is_here_is_pushed(world):
    mine = made(1)
    index = Index([(mine, {"os": "linux", "architecture": ARCHITECTURE}),
                   (made(1), {"os": "linux", "architecture": "s390x"})])
    pulled, name = stored(world, index)
    registry = ScriptedRegistry()
    pushed = world.push(pulled, name, f"{registry.name}/app:1").well()
    equal(pushed.index, index.digest, "it is told")
    equal(digest_of(registry.pushed["app"]["1"]), mine.digest, "the image's own manifest")
    registry.stop()


def test_layers_that_are_not_to_be_handed_on_stay(world):
    image = MadeImage([layer_of({"a": b"1"})], media_type=OCI + "layer.nondistributable.v1.tar+gzip")
    pulled, name = stored(world, image)
    registry = ScriptedRegistry()
    equal(world.push(pulled, name, f"{registry.name}/app:1").well().states, ["foreign"], "state")
    check(digest_of(image.layers[0]) not in registry.pushed["app"], "it was sent")
    registry.stop()


def test_basic_authentication(world):
    registry = world.registry(auth=htpasswd(world.folder() / "htpasswd", "jane", "pw"))
    pulled, name = stored(world, made())
    target = f"{registry.name}/app:1"
    world.push(pulled, name, target, "--login", "jane:pw").well()
    world.push(pulled, name, f"{registry.name}/app:2", "--login", "jane:wrong-pw").failed("push access denied", "refuses the login")
    world.push(pulled, name, f"{registry.name}/app:2").failed("push access denied")


class TokenService(ScriptedRegistry):
    """Takes what has a token; a token is its own scopes, and runs out before the first upload that takes nothing over.
    `refuses`: scopes that nobody gets."""

    def __init__(self, images=None, refuses=()):
        super().__init__(images, self.guard)
        self.refuses = refuses
        self.ran_out = False

    def guard(self, handler):
        path = handler.path
        if path.startswith("/token"):
            scopes = [part[6:] for part in path.split("?", 1)[1].split("&") if part.startswith("scope=")]
            if handler.headers.get("Authorization") != basic("jane", "pw"):
                handler.send(401)
            elif any(scope in self.refuses for scope in scopes):
                handler.send(403)
            else:
                handler.send(200, json.dumps({"token": "+".join(scopes).replace(",", ".")}).encode())
            return True
        said = handler.headers.get("Authorization", "").replace(".", ",")
        needs = ["repository:app:pull,push"] + (["repository:base:pull"] if "mount=" in path else [])
        runs_out = path.endswith("/uploads/") and not self.ran_out
        self.ran_out = self.ran_out or runs_out
        if all(scope in said for scope in needs) and not runs_out:
            return False
        handler.body()
        handler.send(401, b"", {"WWW-Authenticate": f'Bearer realm="{self.url}/token",scope="{" ".join(needs)}"'})
        return True


def test_tokens_are_asked_for_what_a_push_needs(world):
    image = made(1)
    for refuses in ((), ("repository:base:pull",)):
        registry = TokenService(refuses=refuses)
        registry.images = {"base:1": image}
        registry.script, guard = (lambda handler: False), registry.script
        pulled = world.pull(f"{registry.name}/base:1").well()
        registry.script = guard
        registry.requests.clear()
        world.push(pulled, f"{registry.name}/base:1", f"{registry.name}/app:1", "--login", "jane:pw").well()
        first, *more = registry.paths("/token")
        check(first.endswith("?scope=repository:app:pull,push"), first)
        both = "repository:app:pull,push&scope=repository:base:pull"
        equal([path.split("scope=", 1)[1] for path in more], [both, "repository:app:pull,push" if refuses else both],
              "also what is taken over, unless that is refused")
        world.push(pulled, f"{registry.name}/base:1", f"{registry.name}/app:2").failed("failed to push", "anonymous token")
        registry.stop()


def test_what_breaks_off_is_sent_again(world):
    image = made(1, size=4 << 20)
    pulled, name = stored(world, image)
    for how in ("reset", "503", "lost session", "expired"):
        left = [2]

        def script(handler, how=how, left=left):
            if handler.command != "PUT" or digest_of(image.layers[0]) not in handler.path or left[0] == 0:
                return False
            left[0] -= 1
            handler.rfile.read(1 << 20)
            handler.close_connection = True
            if how == "reset":
                reset(handler)
            elif how == "expired":
                left[0] = 0
                handler.send(401, b"", {"WWW-Authenticate": 'Basic realm="here"'})
            else:
                handler.send({"503": 503, "lost session": 404}[how], b"{}")
            return True
        registry = ScriptedRegistry({}, script)
        pushed = world.push(pulled, name, f"{registry.name}/app:1", "--login", "jane:pw").well()
        equal(pushed.states, ["done"], how)
        equal(registry.pushed["app"][digest_of(image.layers[0])], image.layers[0], f"whole after {how}")
        sessions = [path for path in registry.paths("/blobs/uploads/") if path.endswith("uploads/")]
        equal(len(sessions), 3 if how == "expired" else 4, f"a session for each try ({how})")
        registry.stop()


def test_a_refusal_ends_it_and_the_name_stays_what_it_was(world):
    image = made(1, size=4 << 20)
    pulled, name = stored(world, image)
    old = made(1)

    def refusing(status, part):
        def script(handler):
            if handler.command != "PUT" or part not in handler.path:
                return False
            handler.body()
            handler.send(status, b"{}")
            return True
        return script
    for status, part in ((413, "/blobs/"), (403, "/blobs/"), (400, "/manifests/"), (403, "/manifests/")):
        registry = ScriptedRegistry({"app:1": old}, refusing(status, part))
        world.push(pulled, name, f"{registry.name}/app:1").failed("failed to push", str(status))
        check("1" not in registry.pushed.get("app", {}), "named")
        check(len(registry.requests) < 15, f"{len(registry.requests)} requests")
        registry.stop()


def test_a_registry_that_takes_it_for_something_else_is_told(world):
    pulled, name = stored(world, made(1))
    for part in ("/blobs/", "/manifests/"):
        def script(handler, part=part):
            if handler.command != "PUT" or part not in handler.path:
                return False
            handler.body()
            handler.send(201, b"", {"Docker-Content-Digest": "sha256:" + "0" * 64})
            return True
        registry = ScriptedRegistry({}, script)
        world.push(pulled, name, f"{registry.name}/app:1").failed("took it for sha256:000")
        registry.stop()


def test_an_upload_that_stands_still_is_begun_anew(world):
    image = made(1, size=16 << 20)
    pulled, name = stored(world, image)
    stalls = [1]

    def script(handler):
        if handler.command != "PUT" or digest_of(image.layers[0]) not in handler.path or stalls[0] == 0:
            return False
        stalls[0] = 0
        handler.rfile.read(1000)
        handler.close_connection = True
        released.wait(20)
        return True
    released = threading.Event()
    registry = ScriptedRegistry({}, script)
    pushed = world.push(pulled, name, f"{registry.name}/app:1", "--stall", 2).well()
    released.set()
    check(2 < pushed.seconds < 15, f"{pushed.seconds} s")
    equal(registry.pushed["app"][digest_of(image.layers[0])], image.layers[0], "the layer")
    registry.stop()


def test_one_that_is_cancelled_ends_soon(world):
    image = made(1, size=16 << 20)
    pulled, name = stored(world, image)
    released = threading.Event()

    def script(handler):
        if handler.command == "PUT":
            released.wait(20)
        return False
    registry = ScriptedRegistry({}, script)
    world.push(pulled, name, f"{registry.name}/app:1", "--cancel-after", 700).failed("cancelled", within=5)
    released.set()
    registry.stop()


def test_uploads_go_where_the_registry_says_within_reason(world):
    folder = world.folder()
    certificate(folder, "ca")
    image = made(1)
    pulled, name = stored(world, image)
    elsewhere = ScriptedRegistry(address="127.0.0.2", certificate=certificate(
        folder, "server", address="127.0.0.2", authority="ca"))
    plain = ScriptedRegistry(address="127.0.0.3")

    def sending_to(place, status):
        def script(handler):
            if handler.headers.get("Authorization") != basic("jane", "pw"):
                handler.body()
                handler.send(401, b"", {"WWW-Authenticate": 'Basic realm="here"'})
            elif status == 202 and handler.command == "POST":
                handler.send(202, b"", {"Location": f"{place}/v2/app/blobs/uploads/1?state=1"} if place else {})
            elif status == 307 and handler.command == "PUT" and "/blobs/" in handler.path:
                handler.body()
                handler.send(307, b"", {"Location": place + handler.path})
            else:
                return False
            return True
        return script
    flags = ("--login", "jane:pw")
    for status in (202, 307):
        registry = ScriptedRegistry({}, sending_to(elsewhere.url, status))
        elsewhere.requests.clear()
        elsewhere.pushed.clear()
        world.push(pulled, name, f"{registry.name}/app:1", *flags, SSL_CERT_FILE=str(folder / "ca.crt")).well()
        equal(set(elsewhere.pushed["app"]), {digest_of(image.layers[0]), digest_of(image.config)}, f"blobs ({status})")
        equal({authorization for _, _, authorization, _ in elsewhere.requests}, {None}, f"what it was told ({status})")
        registry.script = sending_to(plain.url, status)
        registry.pushed.clear()
        world.push(pulled, name, f"{registry.name}/app:1", *flags).failed("another host without TLS")
        equal(plain.requests, [], "nobody is sent there")
        registry.stop()
    registry = ScriptedRegistry({}, sending_to("", 202))
    world.push(pulled, name, f"{registry.name}/app:1", *flags).failed("no Location")
    for server in (registry, elsewhere, plain):
        server.stop()


def test_the_hosts_of_a_registry_say_who_takes_pushes(world):
    pulled, name = stored(world, made(1))
    mirror, server = ScriptedRegistry(), ScriptedRegistry()
    hosts = world.folder()
    (hosts / "r.example").mkdir()
    file = hosts / "r.example/hosts.toml"

    def to(*capabilities):
        file.write_text(f'server = "{server.url}"\n[host."{mirror.url}"]\ncapabilities = {json.dumps(capabilities)}\n')
        for registry in (mirror, server):
            registry.pushed.clear()
        return world.push(pulled, name, "r.example/app:1", hosts=hosts)
    to("pull", "resolve").well()
    check(server.pushed and not mirror.pushed, "not to one that is for pulls only")
    to("pull", "push").well()
    check(mirror.pushed and not server.pushed, "to the first that takes pushes")
    file.write_text('capabilities = ["pull"]\n')
    world.push(pulled, name, "r.example/app:1", hosts=hosts).failed("gives no host the capability push")
    for registry in (mirror, server):
        registry.stop()
