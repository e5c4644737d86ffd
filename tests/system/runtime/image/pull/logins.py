# SPDX-License-Identifier: Apache-2.0
"""Who is asked for what, and who is told: basic and token authentication."""
import base64
import json

from hosts import certificate
from registry import MadeImage, htpasswd, layer_of
from scripted_registry import ScriptedRegistry
from suite import check, equal


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class TokenRegistry(ScriptedRegistry):
    """A registry and its token service on one port. `password` None: tokens for everybody."""

    def __init__(self, password=None, uses=1000, realm=None):
        self.image = MadeImage([layer_of({"a": b"secret"})])
        super().__init__({"org/app:1": self.image}, self.guard)
        self.password, self.uses, self.issued, self.left = password, uses, 0, {}
        self.realm = realm or f"{self.url}/token"

    def guard(self, handler):
        said = handler.headers.get("Authorization", "")
        if handler.path.startswith("/token"):
            if self.password and said != basic("jane", self.password):
                handler.send(401, b"{}")
            else:
                self.issued += 1
                self.left[f"Bearer token-{self.issued}"] = self.uses
                handler.send(200, json.dumps({"token": f"token-{self.issued}"}).encode())
            return True
        if self.left.get(said, 0) > 0:
            self.left[said] -= 1
            return False
        handler.send(401, b"{}", {"WWW-Authenticate":
                                  f'Bearer realm="{self.realm}",service="reg",scope="repository:org/app:pull"'})
        return True


def test_an_anonymous_token_is_fetched(world):
    registry = TokenRegistry()
    world.pull(f"{registry.name}/org/app:1").well()
    equal(registry.issued, 1, "one token for the whole pull")
    check(any("service=reg" in path and "scope=repository:org/app:pull" in path for path in registry.paths("/token")),
          str(registry.paths("/token")))
    registry.stop()


def test_a_token_is_had_with_a_login(world):
    registry = TokenRegistry(password="pw 1")
    world.pull(f"{registry.name}/org/app:1", None, "", "--login", "jane:pw 1").well()
    refused = world.pull(f"{registry.name}/org/app:1", None, "", "--login", "jane:wrong-pw")
    refused.failed("failed to authorize", "401 Unauthorized")
    check("wrong-pw" not in refused.text, "the password is in the error")
    world.pull(f"{registry.name}/org/app:1").failed("anonymous token", "401 Unauthorized")
    registry.stop()


def test_a_token_that_runs_out_is_renewed(world):
    registry = TokenRegistry(uses=1)
    world.pull(f"{registry.name}/org/app:1").well()
    check(registry.issued >= 3, f"{registry.issued} tokens")
    registry.stop()


def test_a_real_registry_with_basic_authentication(world):
    registry = world.registry(auth=htpasswd(world.folder() / "htpasswd", "jane", "pw"))
    image = MadeImage([layer_of({"a": b"1"})])
    registry.push_made(image, "app:1", "--dest-creds", "jane:pw")
    # Also what is here is for those only whom the registry lets in, by whatever name.
    for name in (f"{registry.name}/app:1", f"{registry.name}/app@{image.digest}"):
        here = world.pull(name, None, "", "--login", "jane:pw").well()
        world.pull(name, here.store, "", "--login", "jane:pw").well()
        for flags, words in ((("--login", "jane:other"), "refuses the login"), ((), "may require authorization")):
            refused = world.pull(name, here.store, "", *flags)
            check(not refused.ok and words in refused.text, f"{name} {flags}: {refused.text}")
    world.pull(f"{registry.name}/app:1", None, "", "--login", "jane:other").failed("refuses the login")
    world.pull(f"{registry.name}/app:1").failed("may require authorization")


def test_401_for_ever_ends(world):
    registry = ScriptedRegistry({}, lambda handler: handler.send(401, b"", {
        "WWW-Authenticate": f'Bearer realm="{registry.url}/token"'}) or True)
    world.pull(f"{registry.name}/app:1").failed("401 Unauthorized")
    check(len(registry.requests) < 10, f"{len(registry.requests)} requests")
    registry.stop()

    def gullible(handler):
        if handler.path.startswith("/token"):
            handler.send(200, b'{"token":"t"}')
        else:
            handler.send(401, b"", {"WWW-Authenticate": f'Bearer realm="{registry.url}/token"'})
        return True
    registry = ScriptedRegistry({}, gullible)
    world.pull(f"{registry.name}/app:1").failed("401 Unauthorized")
    check(len(registry.requests) < 12, f"{len(registry.requests)} requests")
    registry.stop()


def test_no_login_goes_to_another_host(world):
    thief = ScriptedRegistry({}, lambda handler: handler.send(401, b"", {
        "WWW-Authenticate": 'Basic realm="me too"'}) or True, address="127.0.0.2")
    image = MadeImage([layer_of({"a": b"1"})])

    def script(handler):
        if handler.headers.get("Authorization") != basic("jane", "pw"):
            handler.send(401, b"", {"WWW-Authenticate": 'Basic realm="here"'})
        elif "/blobs/" in handler.path:
            handler.send(307, b"", {"Location": thief.url + handler.path})
        else:
            return False
        return True
    registry = ScriptedRegistry({"app:1": image}, script)
    world.pull(f"{registry.name}/app:1", None, "", "--login", "jane:pw").failed("another host without TLS")
    equal(thief.requests, [], "without TLS nobody is sent on to another host")
    registry.stop()
    # A token service of another host without TLS gets nothing either.
    registry = TokenRegistry(password="pw", realm=f"{thief.url}/token")
    world.pull(f"{registry.name}/org/app:1", None, "", "--login", "jane:pw").failed("without TLS")
    equal(thief.requests, [], "nor is a token asked for")
    for server in (registry, thief):
        server.stop()


def test_a_redirect_with_tls_is_followed_without_the_login(world):
    folder = world.folder()
    certificate(folder, "ca")
    image = MadeImage([layer_of({"a": b"1"})])
    store = ScriptedRegistry({"app:1": image}, address="127.0.0.2",
                             certificate=certificate(folder, "server", address="127.0.0.2", authority="ca"))

    def script(handler):
        if handler.headers.get("Authorization") != basic("jane", "pw"):
            handler.send(401, b"", {"WWW-Authenticate": 'Basic realm="here"'})
        elif "/blobs/" in handler.path:
            handler.send(307, b"", {"Location": store.url + handler.path})
        else:
            return False
        return True
    registry = ScriptedRegistry({"app:1": image}, script)
    flags = (None, "", "--login", "jane:pw")
    world.pull(f"{registry.name}/app:1", *flags).failed("certificate")
    world.pull(f"{registry.name}/app:1", *flags, SSL_CERT_FILE=str(folder / "ca.crt")).well()
    check(store.requests, "the other host was asked")
    equal({authorization for _, _, authorization, _ in store.requests}, {None}, "what it was told")
    # Nor does it get the login by asking for it.
    store.script = lambda handler: handler.send(401, b"", {"WWW-Authenticate": 'Basic realm="me too"'}) or True
    world.pull(f"{registry.name}/app:1", *flags, SSL_CERT_FILE=str(folder / "ca.crt")).failed("401 Unauthorized")
    equal({authorization for _, _, authorization, _ in store.requests}, {None}, "what it was told")
    for server in (registry, store):
        server.stop()
