# SPDX-License-Identifier: Apache-2.0
"""OCI artifacts: pulled, pushed, imported, collected; what their blobs become."""
import io
import os
import pathlib
import shutil
import stat
import subprocess
import tarfile

from kills import kill_at, nothing_is_half_made, points_of_a_pull
from registry import ARCHITECTURE, OCI, TITLE, UNPACK, MadeArtifact, MadeImage, digest_of, gzipped, layer_of
from plain import Index
from scripted_registry import ScriptedRegistry
from suite import check, equal

TGZ = OCI + "layer.v1.tar+gzip"


def titled(title, data, media_type="application/octet-stream"):
    return media_type, data, {TITLE: title}


def shown(pulled):
    """name -> content of what a volume of it shows: regular files, higher layers over lower ones."""
    files = {}
    for layer in map(pathlib.Path, pulled.layers):
        files.update({str(path.relative_to(layer)): path for path in layer.rglob("*") if path.is_file()})
    return {name: path.read_bytes() for name, path in files.items()}


def directory_as_oras_packs_it(name):
    """A directory "name" with a file and a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member, kind, data in ((name, tarfile.DIRTYPE, b""), (f"{name}/deep", tarfile.REGTYPE, b"in a tar"),
                                   (f"{name}/link", tarfile.SYMTYPE, b"")):
            info = tarfile.TarInfo(member)
            info.type, info.size, info.mode, info.linkname = kind, len(data), 0o755, "deep"
            tar.addfile(info, io.BytesIO(data))
    return gzipped(out.getvalue())


def test_a_real_registrys_artifact_becomes_files(world):
    registry = world.registry()
    model = os.urandom(3 << 20)
    artifact = MadeArtifact([titled("model/weights.bin", model), titled("readme.txt", b"plain"),
                             # What oras calls a file of which it was told no type.
                             titled("notes.md", b"# no tar", OCI + "layer.v1.tar"),
                             (TGZ, directory_as_oras_packs_it("data"), {TITLE: "data", UNPACK: "true"}),
                             (TGZ, gzipped(layer_of({"bare/x": b"of a layer"})), {}),
                             ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", b"chart", {})])
    registry.push_made(artifact, "team/model:1")
    pulled = world.pull(f"{registry.name}/team/model:1").well()
    equal(shown(pulled), {"model/weights.bin": model, "readme.txt": b"plain", "notes.md": b"# no tar",
                          "data/deep": b"in a tar", "data/link": b"in a tar", "bare/x": b"of a layer",
                          "sha256-" + digest_of(b"chart")[7:]: b"chart"}, "files")
    equal(pulled.id, artifact.digest, "its id is its manifest's digest")
    equal(pulled.digest, f"{registry.name}/team/model@{artifact.digest}", "repo digest")
    files = pathlib.Path(pulled.layers[-1])
    for path, mode in ((files, 0o755), (files / "model", 0o755), (files / "readme.txt", 0o644)):
        info = path.stat()
        equal((stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid), (mode, 0, 0), str(path))
    blob = pulled.store / "images/blobs/sha256" / digest_of(model)[7:]
    check(blob.samefile(files / "model/weights.bin"), "a file is on the disk once")
    again = world.pull(f"{registry.name}/team/model:1", pulled.store).well()
    equal((again.id, again.layers), (pulled.id, pulled.layers), "after the store was opened again")


def test_artifacts_with_one_config_are_several(world):
    """All have the empty config: what one is must not be what the other is, nor go with it."""
    registry = world.registry()
    store = world.folder()
    pulled = {}
    for name in ("a", "b"):
        registry.push_made(MadeArtifact([titled("f", name.encode())]), f"{name}:1")
        pulled[name] = world.pull(f"{registry.name}/{name}:1", store).well()
    check(pulled["a"].id != pulled["b"].id, "one id")
    equal([shown(each) for each in pulled.values()], [{"f": b"a"}, {"f": b"b"}], "content")


def test_what_images_and_artifacts_share_stays_apart(world):
    """One blob: a layer of an image, a tar of an artifact, and a file of another."""
    layer = gzipped(layer_of({"x": b"1"}))
    image = MadeImage([layer_of({"x": b"1"})], packing=gzipped)
    unpacked, as_file = MadeArtifact([(TGZ, layer, {})]), MadeArtifact([titled("layer.tgz", layer)])
    registry = ScriptedRegistry({"image:1": image, "unpacked:1": unpacked, "file:1": as_file})
    store = world.folder()
    equal([shown(world.pull(f"{registry.name}/{name}:1", store).well()) for name in ("image", "unpacked", "file")],
          [{"x": b"1"}, {"x": b"1"}, {"layer.tgz": layer}], "files")
    equal(len(list((store / "images/blobs/sha256").glob("*"))), 6, "blobs: two configs, three manifests, the layer once")
    equal(len([path for path in registry.paths("/blobs/") if digest_of(layer) in path]), 1, "times it was fetched")
    registry.stop()


def test_an_index_chooses_by_platform(world):
    mine, other = MadeArtifact([titled("f", b"mine")]), MadeArtifact([titled("f", b"other")])
    registry = ScriptedRegistry({"multi:1": Index([(other, {"os": "linux", "architecture": "s390x"}),
                                                   (mine, {"os": "linux", "architecture": ARCHITECTURE})])})
    equal(shown(world.pull(f"{registry.name}/multi:1").well()), {"f": b"mine"}, "files")
    registry.stop()


def test_an_artifact_may_have_nothing_to_show(world):
    registry = world.registry()
    registry.push_made(MadeArtifact([(MadeArtifact.EMPTY, b"{}", {})]), "nothing:1")
    equal(world.pull(f"{registry.name}/nothing:1").well().layers, [], "layers")


def test_it_is_pushed_as_it_came(world):
    registry = world.registry()
    artifact = MadeArtifact([titled("f", os.urandom(1000)), (TGZ, gzipped(layer_of({"a": b"1"})), {})])
    registry.push_made(artifact, "here:1")
    name = f"{registry.name}/here:1"
    pushed = world.push(world.pull(name).well(), name, f"{registry.name}/there:1").well()
    equal(pushed.digest, f"{registry.name}/there@{artifact.digest}", "digest")
    layout = world.folder()
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--src-tls-verify=false",
                    f"docker://{registry.name}/there:1", f"oci:{layout}:x"], check=True, capture_output=True)
    blobs = {path.name for path in (layout / "blobs/sha256").iterdir()}
    equal(blobs, {digest[7:] for digest in artifact.blobs}, "what skopeo finds")


def test_hostile_titles_leave_nothing(world):
    for title, why in (("../../etc/cron.d/x", 'must not hold ".."'), ("/etc/cron.d/x", "must be relative"),
                       ("a/../../x", 'must not hold ".."'), ("a\n\x1b[31mb", "control character"), (".", "names no file"),
                       ("a" * 256, "longer than 255"), ("a/" * 40 + "b", "deeper than")):
        registry = ScriptedRegistry({"bad:1": MadeArtifact([titled("good", b"1"), titled(title, b"2")])})
        world.pull(f"{registry.name}/bad:1").failed(why)
        check(not [path for path in registry.paths("/blobs/") if digest_of(b"{}") not in path], "a blob was asked for")
        registry.stop()
    for titles in (("a", "a"), ("a", "a/b"), ("./a", "a")):
        registry = ScriptedRegistry({"bad:1": MadeArtifact([titled(title, os.urandom(9)) for title in titles])})
        world.pull(f"{registry.name}/bad:1").failed("artifact: title")
        registry.stop()


def test_a_lie_about_a_file_is_found(world):
    """The right length, other bytes; and a tar that is none."""
    artifact = MadeArtifact([titled("f", b"right")])
    artifact.blobs[digest_of(b"right")] = b"wrong"
    no_tar = MadeArtifact([(TGZ, b"no gzip, no tar" * 100, {})])
    registry = ScriptedRegistry({"lie:1": artifact, "none:1": no_tar})
    world.pull(f"{registry.name}/lie:1").failed("does not match its digest")
    world.pull(f"{registry.name}/none:1").failed("layer 1 sha256:", "open tar")
    registry.stop()


def test_links_in_a_tar_lead_nowhere_for_files(world):
    """A tar that puts a link where another blob's directory is to be: the files' tree is its own."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("d")
        link.type, link.linkname = tarfile.SYMTYPE, "/tmp"
        tar.addfile(link)
    registry = ScriptedRegistry({"app:1": MadeArtifact([(TGZ, gzipped(out.getvalue()), {}), titled("d/planted", b"x")])})
    pulled = world.pull(f"{registry.name}/app:1").well()
    equal([(pathlib.Path(layer) / "d").is_symlink() for layer in pulled.layers], [True, False], "links")
    equal((pathlib.Path(pulled.layers[1]) / "d/planted").read_bytes(), b"x", "the file")
    check(not pathlib.Path("/tmp/planted").exists(), "it was written through the link")
    registry.stop()


def test_killed_at_each_pause_point_of_an_artifact(world):
    registry = ScriptedRegistry({"app:1": MadeArtifact(
        [titled(f"{i}", os.urandom(400000)) for i in range(3)] + [(TGZ, gzipped(layer_of({"a": b"1"})), {})])})
    points = points_of_a_pull(world, registry)
    check("image.files-linked" in points, points)
    for point in points:
        store = world.folder()
        kill_at(world, registry, store, point)
        nothing_is_half_made(store)
        equal(len(shown(world.pull(f"{registry.name}/app:1", store).well())), 4, f"files after {point}")
        nothing_is_half_made(store)
        for part, count in (("ingest", 0), ("partial", 0), ("blobs/sha256", 6), ("layers", 2)):
            equal(len(list((store / "images" / part).iterdir())), count, f"{part} after {point}")
        shutil.rmtree(store)
    registry.stop()
