#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""made.py: OCI layouts with the files of Debian's packages, as `docker build` would pack them, and NAME=PATH lines of them.

    gzip    8 layers, 1 GB unpacked, gzip -6
    zstd    the same layers by zstd -3
    middle  the second of these layers, 100 MB
    small   busybox and 10 MB of files

The packages are those that Debian 12 and 13 both have, in the version that apt has now; the tars hold the same for the same
packages. Cached; the first call takes a few minutes."""
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys

LAYERS = (("libllvm19",), ("libclang-cpp19", "vim-runtime"), ("libreoffice-core",), ("libreoffice-common", "fonts-noto-core"),
          ("python3-scipy", "python3-sympy", "python3-numpy"), ("libstd-rust-dev",), ("firefox-esr",),
          ("libicu-dev", "python3-django", "manpages-dev"))
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OCI = "application/vnd.oci.image."
PACKERS = {"gzip": ["gzip", "-6", "-n"], "zstd": ["zstd", "-q", "-3"]}
SMALL = 8 << 20


def tar(root, out):
    subprocess.run(["tar", "-C", root, "--sort=name", "--numeric-owner", "-cf", out, "."], check=True)


def layer_tars(top):
    """One tar per layer, from packages that are fetched and unpacked beside the system."""
    debs = top / "debs"
    debs.mkdir()
    shutil.chown(debs, "_apt")
    names = [name for layer in LAYERS for name in layer]
    subprocess.run(["apt-get", "download", "-qq", *names], cwd=debs, check=True, stdout=sys.stderr)
    for number, layer in enumerate(LAYERS):
        root = top / f"root-{number}"
        root.mkdir()
        for name in layer:
            deb, = debs.glob(f"{name}_*.deb")
            subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
        tar(root, top / f"layer-{number}.tar")
    busybox = top / "root-busybox"
    (busybox / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), busybox / "bin/busybox")
    for applet in ("sh", "sleep", "true"):
        (busybox / "bin" / applet).symlink_to("busybox")
    tar(busybox, top / "busybox.tar")
    some, taken = top / "root-some", 0
    for file in sorted(path for path in (top / "root-1/usr/share").rglob("*") if path.is_file() and not path.is_symlink()):
        if taken >= SMALL:
            break
        taken += file.stat().st_size
        target = some / file.relative_to(top / "root-1")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    tar(some, top / "some.tar")


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add(layout, media_type, path):
    hexadecimal = digest(path)
    size = path.stat().st_size
    path.rename(layout / "blobs/sha256" / hexadecimal)
    return {"mediaType": media_type, "digest": "sha256:" + hexadecimal, "size": size}


def add_document(layout, media_type, document):
    path = layout / "new"
    path.write_text(json.dumps(document))
    return add(layout, media_type, path)


def make_layout(layout, tars, packing):
    (layout / "blobs/sha256").mkdir(parents=True)
    layers = []
    for source in tars:
        packed = layout / "packed"
        with open(packed, "wb") as out:
            subprocess.run([*PACKERS[packing], "-c", source], stdout=out, check=True)
        layers.append(add(layout, OCI + "layer.v1.tar+" + packing, packed))
    config = add_document(layout, OCI + "config.v1+json", {
        "architecture": ARCHITECTURE, "os": "linux", "config": {"Cmd": ["/bin/sleep", "100000"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest(source) for source in tars]}})
    manifest = add_document(layout, OCI + "manifest.v1+json", {
        "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": config, "layers": layers})
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (layout / "unpacked-bytes").write_text(str(sum(source.stat().st_size for source in tars)))


def main():
    cache = pathlib.Path(os.environ.get("HOLDFAST_CACHE") or
                         pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "holdfast"))
    out = cache / "bench-images" / hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]
    if not (out / "complete").exists():
        shutil.rmtree(out, ignore_errors=True)
        top = out / "work"
        top.mkdir(parents=True)
        layer_tars(top)
        tars = [top / f"layer-{number}.tar" for number in range(len(LAYERS))]
        for packing in ("gzip", "zstd"):
            make_layout(out / packing, tars, packing)
        make_layout(out / "middle", [tars[1]], "gzip")
        make_layout(out / "small", [top / "busybox.tar", top / "some.tar"], "gzip")
        shutil.rmtree(top)
        (out / "complete").touch()
    for name in ("gzip", "zstd", "middle", "small"):
        print(f"{name}={out / name}")


if __name__ == "__main__":
    main()
