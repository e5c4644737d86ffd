# SPDX-License-Identifier: Apache-2.0
"""Images made by hand, Debian's docker-registry on loopback, and skopeo to push to it."""
import ctypes
import gzip
import hashlib
import io
import json
import pathlib
import platform
import socket
import subprocess
import tarfile
import time

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OCI = "application/vnd.oci.image."


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer_of(files):
    """A layer's tar: name -> bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o755
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def gzipped(data):
    """Of equal data equal bytes, for layers that images are to share: else gzip's header has the time."""
    return gzip.compress(data, mtime=0)


class MadeImage:
    """One image as its documents: blobs by digest, and the manifest."""

    def __init__(self, layers, config=None, packing=gzip.compress, architecture=ARCHITECTURE,
                 media_type=OCI + "layer.v1.tar+gzip"):
        self.blobs = {}
        self.layers = [packing(layer) for layer in layers]
        self.config = json.dumps({
            "architecture": architecture, "os": "linux", "config": config or {"Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]}}).encode()
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
            "config": self.add(OCI + "config.v1+json", self.config),
            "layers": [self.add(media_type, layer) for layer in self.layers]}).encode()
        self.add("", self.manifest)
        self.digest = digest_of(self.manifest)

    def add(self, media_type, data):
        self.blobs[digest_of(data)] = data
        return {"mediaType": media_type, "digest": digest_of(data), "size": len(data)}

    def write_layout(self, path):
        path = pathlib.Path(path)
        (path / "blobs/sha256").mkdir(parents=True)
        for digest, data in self.blobs.items():
            (path / "blobs/sha256" / digest[7:]).write_bytes(data)
        (path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
            {"mediaType": OCI + "manifest.v1+json", "digest": self.digest, "size": len(self.manifest)}]}))
        return path


class MadeArtifact(MadeImage):
    """An OCI artifact as oras makes them, of (media type, bytes, annotations)."""

    EMPTY = "application/vnd.oci.empty.v1+json"

    def __init__(self, blobs, artifact_type="application/vnd.example.files", config=(EMPTY, b"{}"), **manifest):
        self.blobs = {}
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "artifactType": artifact_type,
            "config": self.add(*config),
            "layers": [{**self.add(media_type, data), "annotations": annotations} for media_type, data, annotations in blobs],
            **manifest}).encode()
        self.add("", self.manifest)
        self.digest = digest_of(self.manifest)


TITLE = "org.opencontainers.image.title"
UNPACK = "io.deis.oras.content.unpack"


def answers(port, address="127.0.0.1", inside=()):
    if inside:
        connect = f"import socket; socket.create_connection(('{address}', {port}), 1)"
        return subprocess.run([*inside, "python3", "-c", connect], stderr=subprocess.DEVNULL).returncode == 0
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, port)) == 0


def bcrypt(password):
    """By crypt(3): Python 3.13 has no module for it any more."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    return library.crypt(password.encode(), b"$2b$04$" + b"a" * 21 + b"u").decode()


def htpasswd(path, user, password):
    """An `auth` of RealRegistry for this one user."""
    path.write_text(f"{user}:{bcrypt(password)}\n")
    return {"htpasswd": {"realm": "r", "path": str(path)}}


class RealRegistry:
    """docker-registry on `address`:port, its files below `top`. `http` is merged into that part of its configuration.
    `inside`: words before those of its programs, so that they run elsewhere."""

    def __init__(self, top, port=5000, http=None, auth=None, address="127.0.0.1", inside=()):
        self.inside = list(inside)
        self.top = pathlib.Path(top)
        self.top.mkdir(parents=True, exist_ok=True)
        self.port = port
        self.name = f"{address}:{port}"
        config = {"version": 0.1, "log": {"level": "warn"},
                  "storage": {"filesystem": {"rootdirectory": str(self.top / "data")}},
                  "http": {"addr": self.name, **(http or {})}}
        if auth:
            config["auth"] = auth
        file = self.top / "config.yml"
        file.write_text(json.dumps(config))
        with open(self.top / "log", "ab") as log:
            self.process = subprocess.Popen([*self.inside, "docker-registry", "serve", file], stdout=log, stderr=log)
        end = time.monotonic() + 20
        while not answers(port, address, inside):
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError("docker-registry: " + (self.top / "log").read_text()[-2000:])
            time.sleep(0.05)

    def push(self, source, repository, *flags):
        """`source` as skopeo names it; returns nothing, fails loudly."""
        subprocess.run([*self.inside, "skopeo", "--insecure-policy", "copy", "--all", "--dest-tls-verify=false", *flags, source,
                        f"docker://{self.name}/{repository}"], check=True, capture_output=True)

    def push_made(self, image, repository, *flags):
        layout = image.write_layout(self.top / f"layout-{time.monotonic_ns()}")
        self.push(f"oci:{layout}", repository, *flags)

    def stop(self):
        self.process.kill()
        self.process.wait()
