# SPDX-License-Identifier: Apache-2.0
"""hosts.toml: mirrors, certificates, headers; TLS; proxies."""
import base64
import subprocess

from registry import MadeImage, layer_of
from scripted_registry import ScriptedRegistry
from suite import check, equal


def certificate(folder, name, address="127.0.0.1", authority=None, key_usage="serverAuth,clientAuth"):
    """Key and certificate below `folder`; signed by `authority`, a name, or by itself."""
    key, cert = folder / f"{name}.key", folder / f"{name}.crt"
    more = ["-CA", folder / f"{authority}.crt", "-CAkey", folder / f"{authority}.key"] if authority else []
    extensions = ["-addext", f"subjectAltName=IP:{address}", "-addext", f"extendedKeyUsage={key_usage}"] if authority \
        else ["-addext", "basicConstraints=critical,CA:TRUE"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "2", "-subj", f"/CN={name}", "-keyout", key, "-out", cert, *more, *extensions],
                   check=True, capture_output=True)
    return cert, key


def hosts_toml(directory, registry, text):
    folder = directory / registry
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.toml").write_text(text)
    return folder


def test_a_mirror_is_asked_first_and_the_server_after_it(world):
    image = MadeImage([layer_of({"a": b"1"})])
    mirror, server = ScriptedRegistry(), ScriptedRegistry({"org/app:1": image})
    directory = world.folder()
    hosts_toml(directory, "registry.test", f'server = "{server.url}"\n'
               '[host."http://127.0.0.1:1"]\n  dial_timeout = "1s"\n'
               f'[host."{mirror.url}"]\n  capabilities = ["pull", "resolve"]\n'
               f'  [host."{mirror.url}".header]\n    X-Who = "holdfast"\n')
    world.pull("registry.test/org/app:1", None, directory).well()
    check(mirror.paths("/v2/org/app/manifests/1"), "the mirror was asked")
    mirror.images["org/app:1"] = image
    server.requests.clear()
    pulled = world.pull("registry.test/org/app:1", None, directory).well()
    equal(server.requests, [], "the mirror had everything")
    equal(pulled.digest, f"registry.test/org/app@{image.digest}", "the name stays the registry's")
    for registry in (mirror, server):
        registry.stop()


def test_the_default_folder_and_override_path(world):
    image = MadeImage([layer_of({"a": b"1"})])
    mirror = ScriptedRegistry({"org/app:1": image})
    directory = world.folder()
    hosts_toml(directory, "_default", f'server = "http://127.0.0.1:1/v2"\n[host."{mirror.url}/v2"]\n  override_path = true\n')
    world.pull("anything.test/org/app:1", None, directory).well()
    mirror.stop()


def test_a_mirror_that_lies_is_passed_over(world):
    image = MadeImage([layer_of({"a": b"truth" * 1000})])

    def lie(handler):
        if "/blobs/" not in handler.path:
            return False
        handler.send(200, b"lies!" * 300)
        return True
    mirror, server = ScriptedRegistry({"org/app:1": image}, lie), ScriptedRegistry({"org/app:1": image})
    directory = world.folder()
    hosts_toml(directory, "registry.test", f'server = "{server.url}"\n[host."{mirror.url}"]\n')
    world.pull("registry.test/org/app:1", None, directory).well()
    for registry in (mirror, server):
        registry.stop()


def test_tls_with_own_authority_and_client_certificate(world):
    folder = world.folder()
    certificate(folder, "ca")
    cert, key = certificate(folder, "server", authority="ca")
    certificate(folder, "me", authority="ca")
    registry = world.registry(http={"tls": {"certificate": str(cert), "key": str(key),
                                            "clientcas": [str(folder / "ca.crt")]}})
    layout = MadeImage([layer_of({"a": b"1"})])
    pushing = world.folder()
    for name, source in (("ca.crt", "ca.crt"), ("client.cert", "me.crt"), ("client.key", "me.key")):
        (pushing / name).write_bytes((folder / source).read_bytes())
    registry.push_made(layout, "app:1", "--dest-cert-dir", str(pushing))
    directory = world.folder()
    base = f'server = "https://{registry.name}"\n'
    place = hosts_toml(directory, registry.name, base)
    world.pull(f"{registry.name}/app:1", None, directory).failed("certificate")
    for name in ("ca.crt", "me.crt", "me.key"):
        (place / name).write_bytes((folder / name).read_bytes())
    hosts_toml(directory, registry.name, base + 'ca = "ca.crt"\n')
    world.pull(f"{registry.name}/app:1", None, directory).failed("certificate")
    hosts_toml(directory, registry.name, base + 'ca = ["ca.crt"]\nclient = [["me.crt", "me.key"]]\n')
    world.pull(f"{registry.name}/app:1", None, directory).well()
    hosts_toml(directory, registry.name, base + 'skip_verify = true\nclient = [["me.crt", "me.key"]]\n')
    world.pull(f"{registry.name}/app:1", None, directory).well()


def test_certificates_as_docker_keeps_them(world):
    folder = world.folder()
    certificate(folder, "ca")
    cert, key = certificate(folder, "server", authority="ca")
    registry = ScriptedRegistry({"app:1": MadeImage([layer_of({"a": b"1"})])}, certificate=(cert, key))
    place = world.folder() / registry.name
    place.mkdir()
    (place / "mine.crt").write_bytes((folder / "ca.crt").read_bytes())
    world.pull(f"{registry.name}/app:1", None, place.parent).well()
    registry.stop()


def test_mistakes_in_hosts_toml_are_told_with_their_line(world):
    directory = world.folder()
    for text, words in (('server = "http://x"\nbogus = 1\n', ("hosts.toml", "line 2", "bogus", "unknown field")),
                        ('[host."http://m"]\n  skip_verify = "yes"\n', ("line 2", "skip_verify")),
                        ('server = ', ("line 1",)),
                        ('server = "ftp://x:y@z"\n', ("server",)),
                        ('ca = "not-there.crt"\n', ("not-there.crt",))):
        hosts_toml(directory, "registry.test", text)
        world.pull("registry.test/app:1", None, directory).failed(*words)


class Proxy:
    """An HTTP proxy that remembers what it was asked for."""

    def __init__(self, target):
        self.seen = []

        def script(handler):
            self.seen.append((handler.path, handler.headers.get("Proxy-Authorization")))
            handler.path = handler.path.split("//", 1)[-1].split("/", 1)[-1]
            handler.path = "/" + handler.path
            target.answer_well(handler)
            return True
        self.server = ScriptedRegistry({}, script)


def test_a_proxy_of_the_environment_is_used_and_not_for_the_node_itself(world):
    image = MadeImage([layer_of({"a": b"1"})])
    registry = ScriptedRegistry({"app:1": image})
    proxy = Proxy(registry)
    url = proxy.server.url.replace("http://", "http://me:secret@")
    directory = world.folder()
    hosts_toml(directory, "far.test", 'server = "http://far.test"\n')
    world.pull("far.test/app:1", None, directory, http_proxy=url, HTTPS_PROXY="http://127.0.0.1:1").well()
    check(any("http://far.test/v2/app/manifests/1" in path for path, _ in proxy.seen), str(proxy.seen))
    equal(proxy.seen[0][1], "Basic " + base64.b64encode(b"me:secret").decode(), "the proxy's login")
    proxy.seen.clear()
    world.pull(f"{registry.name}/app:1", None, "", http_proxy=url).well()
    equal(proxy.seen, [], "a loopback registry needs no proxy")
    for server in (registry, proxy.server):
        server.stop()
