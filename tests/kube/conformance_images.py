# SPDX-License-Identifier: Apache-2.0
"""The images that conformance tests name, made here and offered by a registry under those names.

All have one root, of Debian's packages, where upstream's have Alpine or busybox: tests look for tools and files, not for
whose they are. What a test does look for in an image is added to it. `nginx` is agnhost's web server: no test asks more
of it than to run."""
import functools
import gzip
import hashlib
import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from registry import MadeImage, RealRegistry  # noqa: E402

# dig, curl, nc, ss, ping, ps, sysctl, hexdump: what tests run in pods.
PACKAGES = "bind9-dnsutils,bsdextrautils,busybox-static,curl,iproute2,iputils-ping,netcat-openbsd,procps,wget"
PORT = 5000
AGNHOST = "/agnhost"
# Tests look for the very words of busybox's shell, and for variables such as data-1: Debian's busybox drops those.
SHELL = rb"""#!/usr/bin/bash
mapfile -d '' -t variables < /proc/self/environ
for one in "${variables[@]}"; do
  [[ $one =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || exec -a "$0" /usr/bin/bash "$@"
done
exec -a "$0" /usr/bin/busybox "$@"
"""


def root(cache):
    """The tar of the root that all have; made once, which takes a mirror of Debian."""
    kept = cache / f"root-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:12]}.tar"
    if not kept.exists():
        print("conformance: making the root of images, a minute", flush=True)
        with tempfile.TemporaryDirectory(prefix=".root-", dir=cache) as top:
            subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "--skip=output/dev",
                            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")),
                            "trixie", f"{top}/root.tar"], check=True)
            pathlib.Path(top, "root.tar").rename(kept)
    return kept


def layer(files=(), links=(), folders=()):
    """A layer's tar. `files`: (name, bytes, mode). `links`: (name, where it leads)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in folders:
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        for name, data, mode in files:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), mode
            tar.addfile(member, io.BytesIO(data))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return out.getvalue()


def certificate():
    """key and certificate that agnhost's TLS servers show."""
    with tempfile.TemporaryDirectory() as top:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "3650",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{top}/key", "-out", f"{top}/crt"],
                       check=True, capture_output=True)
        return [(f"localhost.{kind}", (pathlib.Path(top) / kind).read_bytes(), 0o644) for kind in ("crt", "key")]


def recipes(debian, programs):
    """last part of an image's name -> (layers, configuration)."""
    base = [debian, layer(links=[("usr/bin/sh", "bash"), ("usr/bin/sysctl", "../sbin/sysctl")])]
    busybox = [*base, layer([("usr/bin/sh", SHELL, 0o755)])]
    agnhost = [*base, layer([("agnhost", pathlib.Path(programs["agnhost"]).read_bytes(), 0o755), *certificate()],
                            [("agnhost-2", "agnhost")], ["uploads"])]
    kitten = layer([("data.json", b'{"image": "kitten.jpg"}\n', 0o644),
                    ("usr/lib/os-release", b'PRETTY_NAME="Debian, where a test looks for Alpine Linux"\n', 0o644)])
    nnp = layer([("usr/local/bin/nnp", pathlib.Path(programs["nonewprivs"]).read_bytes(), 0o6755)])
    path = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    return {
        "agnhost": (agnhost, {**path, "Entrypoint": [AGNHOST], "Cmd": ["pause"]}),
        "kitten": ([*agnhost, kitten], {**path, "Entrypoint": [AGNHOST], "Cmd": ["test-webserver"]}),
        "nginx": (agnhost, {**path, "Cmd": [AGNHOST, "test-webserver"]}),
        "pause": (agnhost, {**path, "Entrypoint": [AGNHOST, "pause"], "User": "65535:65535"}),
        "busybox": (busybox, {**path, "Cmd": ["sh"]}),
        "glibc-dns-testing": (base, {**path, "Cmd": ["bash"]}),
        "nonewprivs": ([*base, nnp], {**path, "Cmd": ["nnp"]}),
    }


def names(e2e):
    """Of all images that the tests know, without their registries."""
    listed = subprocess.run([e2e, "--list-images"], check=True, capture_output=True, text=True).stdout.split()
    return sorted({name.partition("/")[2] for name in listed})


def fill(top, debian, programs):
    """The registry in the new folder `top`."""
    made = recipes(debian, programs)
    packed = functools.cache(lambda data: gzip.compress(data, 1))
    registry = RealRegistry(top, PORT)
    try:
        for name in names(programs["e2e.test"]):
            recipe = made.get(name.rpartition("/")[2].partition(":")[0])
            if recipe:
                registry.push_made(MadeImage(*recipe, packing=packed), name)
    finally:
        registry.stop()
    for layout in top.glob("layout-*"):
        shutil.rmtree(layout)


def offer(programs, address):
    """A registry that has them; made once, kept beside the programs."""
    cache = cache_of(programs)
    key = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    for name in ("agnhost", "nonewprivs", "e2e.test"):
        key.update(str(programs[name]).encode())  # their folder is named by what they are made from
    kept = cache / f"images-{key.hexdigest()[:12]}"
    if not kept.exists():
        print("conformance: making images, a minute", flush=True)
        with tempfile.TemporaryDirectory(prefix=".images-", dir=cache) as top:
            fill(pathlib.Path(top, "registry"), root(cache).read_bytes(), programs)
            pathlib.Path(top, "registry").rename(kept)
    return RealRegistry(kept, PORT, address=address)


def cache_of(programs):
    """`programs`: name -> path, as programs/build prints them."""
    return pathlib.Path(programs["e2e.test"]).parents[1]


if __name__ == "__main__":
    root(cache_of(dict(line.split("=", 1) for line in open(sys.argv[1], encoding="utf-8").read().splitlines())))
