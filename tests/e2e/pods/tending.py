# SPDX-License-Identifier: Apache-2.0
"""Images that are looked after: names, room, and archives of a directory."""
import json
import subprocess

from node import IMAGE, WAIT_FOR_TERM, status
from registry import MadeImage, layer_of
from suite import check, equal


def import_made(node, image, name):
    archive = node.top / "made.tar"
    layout = image.write_layout(node.top / f"layout-{name.replace('/', '-').replace(':', '-')}")
    subprocess.run(["tar", "-cf", archive, "-C", layout, "oci-layout", "index.json", "blobs"], check=True)
    node.ctl("image", "import", archive, "--name", name)


def tags(node):
    images = json.loads(node.ctl("image", "ls", "-o", "json").stdout)["items"]
    return sorted(tag for image in images for tag in image.get("repoTags", []))


def node_events(node, reason):
    events = json.loads(node.ctl("get", "events", "-A", "-o", "json").stdout)["items"]
    return [event["message"] for event in events if event["reason"] == reason]


def test_a_person_names_images_and_makes_room(node):
    node.pod("keeps", WAIT_FOR_TERM)  # the image that all tests need
    node.phase("keeps", "Running")
    node.ctl("image", "prune", "-a", "-f")  # what other tests have left
    import_made(node, MadeImage([layer_of({"a": b"x" * 3000000})], packing=lambda data: data,
                                media_type="application/vnd.oci.image.layer.v1.tar"), "tending/big:1")
    equal(node.ctl("image", "tag", "tending/big:1", "registry:5000/other:2").stdout,
          'image "tending/big:1" tagged "registry:5000/other:2"\n', "tag")
    check("registry:5000/other:2" in tags(node), str(tags(node)))
    rows = node.ctl("image", "du").stdout.splitlines()
    check(any(line.startswith("docker.io/tending/big:1") and "never" in line for line in rows), "\n".join(rows))
    check(any(line.startswith(f"docker.io/{IMAGE}") and line.rstrip().endswith("now") for line in rows), "\n".join(rows))
    check(rows[-1].startswith("Total: ") and "reclaimable: 6" in rows[-1], rows[-1])
    equal(node.ctl("image", "prune", "--force").stdout, "Total reclaimed space: 0B\n", "both have names")
    said = node.ctl("image", "prune", "-a", "-f").stdout
    check(said.startswith("untagged: docker.io/tending/big:1\nuntagged: registry:5000/other:2\ndeleted: sha256:"), said)
    check("\nTotal reclaimed space: 6" in said, said)
    check(f"docker.io/{IMAGE}" in tags(node) and "docker.io/tending/big:1" not in tags(node), str(tags(node)))
    equal(node.ctl("image", "prune", "-f", "--filter", "label=x", check=False).returncode, 1, "an unknown filter")
    node.remove("keeps")
    node.until_gone("keeps")


def test_archives_of_a_directory_are_images_that_stay(node):
    folder = node.top / "archives"
    node.set_config(imageDir=str(folder))
    node.restart_agent()
    node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
    node.ctl("image", "tag", IMAGE, "tending/archive:1")
    with open(folder / "archive.tar.part", "wb") as out:
        subprocess.run([node.bin / "holdctl", "--socket", node.run / "holdfastd.sock", "image", "export",
                        "tending/archive:1"], stdout=out, check=True)
    node.ctl("image", "rm", "tending/archive:1")
    node.pod("waits", containers=[{**node.container("main", WAIT_FOR_TERM), "image": "tending/archive:1",
                                   "imagePullPolicy": "Never"}])
    node.until("it waits", "waits", lambda pod: status(pod)["state"].get("waiting", {}).get("reason") == "ErrImageNeverPull")
    (folder / "archive.tar.part").rename(folder / "archive.tar")
    node.phase("waits", "Running")
    node.remove("waits")
    node.until_gone("waits")
    imported = f"Imported image archive {folder}/archive.tar: docker.io/tending/archive:1"
    equal(node_events(node, "ImageImported"), [imported], "told")
    image = next(one for one in json.loads(node.ctl("image", "ls", "-o", "json").stdout)["items"]
                 if "docker.io/tending/archive:1" in one["repoTags"])
    equal(image["pinned"], True, "pinned")
    refused = node.ctl("image", "rm", image["id"], check=False)
    check(refused.returncode == 1 and "is in use by archive archive.tar" in refused.stderr, refused.stderr)
    check("docker.io/tending/archive:1" in tags(node), str(tags(node)))
    node.ctl("image", "prune", "-a", "-f")
    check("docker.io/tending/archive:1" in tags(node), "pruned although it is pinned")
    (folder / "noise.tar").write_bytes(b"noise" * 1000)
    node.wait("the error is told", lambda: node_events(node, "ImageImportFailed"))
    node.restart_agent()
    node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
    node.wait("the error is told again, by a new agent", lambda: node_events(node, "ImageImportFailed"))
    equal(node_events(node, "ImageImported"), [], "what is here is not imported again")
    for file in folder.iterdir():
        file.unlink()
    node.set_config(imageDir="")
    node.restart_agent()
    node.wait("the agent answers", lambda: node.ctl("version", check=False).returncode == 0)
    node.ctl("image", "rm", "tending/archive:1")
