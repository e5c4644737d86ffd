# SPDX-License-Identifier: Apache-2.0
"""Text of images and manifests on its way into logs and into the container."""
import hashlib
import io
import json
import platform
import re
import tarfile

from suite import check, equal

FORGED = "\n<0>2026-01-01 emergency FORGED {}\r\x1b]0;pwned\x07\x1b[2J\x7f\u009b31m"
HOMES = {
    "newline": "/h\nintruder::0:0::/:/bin/sh", "return": "/h\rintruder::0:0::/:/bin/sh", "colon": "/a:/b:0:0",
    "escaped": "/h\\nintruder::0:0::/:/bin/sh", "long": "/" + "h" * 65535,
}
# The user has no line of its own there: what an intruder's line would be added for.
NOBODY_KNOWN = {"runAsUser": 54321, "runAsGroup": 54321}
SHOW = "cat /etc/passwd /etc/group 2>/dev/null | md5sum; printf %s \"$HOME\" | md5sum; sleep 1000"


def import_image(node, name, *flags):
    node.ctl("image", "import", node.top.parent / "busybox.tar", "--name", name, *flags)


def import_image_of_user(node, name, user):
    """As an image archive brings it: no flag of holdctl takes such a user."""
    layer, archive = node.top.parent / "busybox.tar", node.top / "user.tar"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    config = {"architecture": machine, "os": "linux", "config": {"Cmd": ["/bin/sh"], "User": user},
              "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"]}}
    documents = {"config.json": config,
                 "manifest.json": [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]}
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, "layer.tar")
        for file, document in documents.items():
            text = json.dumps(document).encode()
            entry = tarfile.TarInfo(file)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    node.ctl("image", "import", archive)
    archive.unlink()


def image_container(image, **more):
    return {"name": "main", "image": image, "imagePullPolicy": "Never", **more}


def test_text_of_others_forges_no_line_of_the_log(node):
    import_image(node, "test/entrypoint:1", "--entrypoint", "/x" + FORGED.format("entrypoint"))
    refused = node.ctl("image", "import", node.top.parent / "busybox.tar", "--user", "a" + FORGED.format("user"), check=False)
    equal(refused.returncode, 1, "such a user by a flag")
    import_image_of_user(node, "test/user:1", "a" + FORGED.format("user"))
    for kind in ("entrypoint", "user"):
        node.pod(f"log-{kind}", containers=[image_container(f"test/{kind}:1")], restartPolicy="Never")
    (node.manifests / ("file" + FORGED.format("file").replace("/", "") + ".json")).write_text("{nonsense")
    log = node.top / "agent.log"
    node.wait("what the agent says", lambda: all(
        f"FORGED {kind}".encode() in log.read_bytes() for kind in ("entrypoint", "user", "file")))
    text = log.read_bytes()
    found = re.findall(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\n<", text)
    equal(found, [], "control characters in the log")
    for line in text.split(b"\n")[:-1]:
        check(line.startswith((b"20", b"holdfast-keeper")), f"forged: {line}")
        check(b"FORGED" not in line or b"\\n<0>" in line, f"cut apart: {line}")
    for file in node.manifests.glob("file*FORGED*"):
        file.unlink()
    for kind in ("entrypoint", "user"):
        node.remove(f"log-{kind}")
        node.until_gone(f"log-{kind}")
        node.ctl("image", "rm", f"test/{kind}:1")


def digest(text):
    return hashlib.md5(text.encode()).hexdigest()


def shown(node, name):
    node.wait(f"{name}'s log", lambda: node.log(name).count("\n") == 2, seconds=20)
    return [line.split()[0] for line in node.log(name).splitlines()]


def test_home_is_a_variable_and_is_written_nowhere(node):
    node.pod("home-none", SHOW, securityContext=NOBODY_KNOWN)
    accounts = shown(node, "home-none")[0]
    for name, home in HOMES.items():
        node.pod(f"home-{name}", containers=[node.container("main", SHOW, env=[{"name": "HOME", "value": home}])],
                 securityContext=NOBODY_KNOWN)
        import_image(node, f"test/home-{name}:1", "--cmd", json.dumps(["/bin/sh", "-c", SHOW]), "--env", f"HOME={home}")
        node.pod(f"home-image-{name}", containers=[image_container(f"test/home-{name}:1")], securityContext=NOBODY_KNOWN)
    for name, home in HOMES.items():
        for pod in (f"home-{name}", f"home-image-{name}"):
            equal(shown(node, pod), [accounts, digest(home)], f"accounts and HOME of {pod}")
    node.pod("home-nul", containers=[node.container("main", SHOW, env=[{"name": "HOME", "value": "/h\0x"}])])
    node.wait("the refusal", lambda: "NUL" in node.ctl("get", "events", "-A").stdout)
    for name in HOMES:
        node.remove(f"home-{name}")
        node.remove(f"home-image-{name}")
    for name in ("none", "nul"):
        node.remove(f"home-{name}")
    for name in HOMES:
        node.until_gone(f"home-image-{name}")
        node.ctl("image", "rm", f"test/home-{name}:1")
