#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""holdctl image import --containerd: containerd_test.py BIN_DIR [FILTER], or --write.

The root directory is what containerd's own packages write (writer/main.go), expected.json in it what they say that it
has. Where the writer can be built it is written anew, and is changed while we read; else it is that of recorded.tar.gz, which
--write makes."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))
from machine import Machine  # noqa: E402
from suite import Skip, check, equal, run_on  # noqa: E402

RECORDED = HERE / "recorded.tar.gz"
BLOBS = "io.containerd.content.v1.content/blobs/sha256"
DATABASE = "io.containerd.metadata.v1.bolt/meta.db"
HELLO = "docker.io/library/hello:1"
DISCARDED = "registry.example/discarded:1"
FOREIGN = "registry.example/foreign:1"


def build_writer(path):
    """None where it cannot be built."""
    if not shutil.which("go"):
        return None
    # There is no network here: tests/support/fetch-golden gets what it is made from.
    built = subprocess.run(["go", "build", "-o", path, "."], cwd=HERE / "writer", check=False)
    return path if built.returncode == 0 else None


class Node(Machine):
    def __init__(self, bin_dir, top):
        super().__init__(bin_dir, top / "node", "containerd")
        self.root = top / "containerd"
        self.writer = build_writer(top / "writer")
        if self.writer:
            subprocess.run([self.writer, self.root], stderr=subprocess.DEVNULL, check=True)
        else:
            with tarfile.open(RECORDED) as archive:
                archive.extractall(self.root)

    def expected(self, namespace):
        everything = json.loads((self.root / "expected.json").read_text())
        return [image for image in everything if image["Namespace"] == namespace]

    def import_all(self, *words, root=None):
        return self.ctl("image", "import", f"--containerd={root or self.root}", *words, check=False)

    def images(self):
        return json.loads(self.ctl("image", "ls", "-o", "json").stdout)["items"]

    def forget(self):
        self.ctl("image", "prune", "-a", "-f")
        equal(self.images(), [], "images after a prune")

    def copy_of_root(self, name):
        copy = self.top / name
        shutil.copytree(self.root, copy, symlinks=True)
        return copy


def test_everything_that_is_whole_comes_with_its_names_and_the_rest_is_told(node):
    ran = node.import_all()
    equal(ran.returncode, 1, "exit code: two cannot be imported")
    said = node.expected("k8s.io")
    whole = [image for image in said if image["Config"] and not image["Missing"]]
    names = collections.defaultdict(set)
    for image in whole:
        if not image["Name"].startswith("sha256:"):
            names[image["Config"]].add(image["Name"])
    have = {image["id"]: image for image in node.images()}
    equal(sorted(have), sorted(names), "ids, which containerd says are configs")
    for config, given in names.items():
        of_image = {*have[config].get("repoTags", []), *have[config].get("repoDigests", [])}
        check(given <= of_image, f"{given} of {of_image}")
    printed = {line.split()[0] for line in ran.stdout.splitlines()}
    check({f"image/{HELLO}", "image/registry.example/listed:v1", "image/registry.example:5000/team/shared:2"} < printed,
          ran.stdout)
    equal(len(printed), 4, f"one line for each image: {ran.stdout}")

    missing = next(image["Missing"] for image in said if image["Name"] == DISCARDED)
    errors = ran.stderr.splitlines()
    check(any(DISCARDED in line and f"{len(missing)} of its 3 layers are not there" in line
              and line.endswith(f"; pull it: holdctl image pull {DISCARDED}") for line in errors), ran.stderr)
    check(any(FOREIGN in line and "no match for platform" in line and "pull it" not in line for line in errors), ran.stderr)
    untagged = [image["Name"] for image in said if image["Name"].startswith("sha256:")
                and not any(other["Target"] == image["Target"] and other["Name"] != image["Name"] for other in said)]
    equal([line for line in errors if line.startswith("note: ")],
          [f"note: {name} was skipped: it has no other name" for name in untagged], "notes")
    equal(len(errors), 2 + len(untagged), f"errors and notes: {ran.stderr}")


def test_a_pod_runs_of_what_was_imported(node):
    equal(node.import_all("hello:1").returncode, 0, "import")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello"},
           "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": HELLO, "imagePullPolicy": "Never"}]}}
    (node.manifests / "hello.json").write_text(json.dumps(pod))
    node.wait("the pod's log", lambda: node.ctl("logs", "hello").stdout == "hello from containerd\n")
    image_id = node.pods()["hello"]["status"]["containerStatuses"][0]["imageID"]
    target = next(image["Target"] for image in node.expected("k8s.io") if image["Name"] == HELLO)
    equal(image_id, f"docker.io/library/hello@{target}", "imageID is the digest that containerd has")
    (node.manifests / "hello.json").unlink()
    node.wait("the pod is gone", lambda: "hello" not in node.pods())


def test_names_choose(node):
    node.forget()
    ran = node.import_all("hello:1", "registry.example/listed:v1", "none:1")
    equal((ran.returncode, ran.stderr), (1, "error: none:1: containerd has no image of that name\n"), "what is not there")
    equal([image["repoTags"] for image in sorted(node.images(), key=str)],
          sorted([[HELLO], ["registry.example/listed:v1"]]), "images")
    # Again: nothing changes.
    before = node.images()
    equal(node.import_all("hello:1").returncode, 0, "once more")
    equal(node.images(), before, "images")
    pinned = next(image["Name"] for image in node.expected("k8s.io") if "pinned@" in image["Name"])
    equal(node.import_all(pinned).returncode, 0, pinned)
    equal(node.ctl("image", "inspect", pinned, "-o", "jsonpath={.config.labels.label}").stdout, "by digest", "its label")


def test_another_namespace_with_more_names_than_a_page_has_room_for(node):
    node.forget()
    ran = node.import_all("--containerd-namespace=many")
    equal((ran.returncode, ran.stderr), (0, ""), "import")
    equal(sorted(node.images()[0]["repoTags"]), [image["Name"] for image in node.expected("many")], "names")
    ran = node.import_all("--containerd-namespace", "none")
    check(ran.returncode == 1 and 'containerd has no namespace "none"; there are: k8s.io, many' in ran.stderr, ran.stderr)


def test_a_blob_that_is_not_what_it_says_imports_nothing(node):
    node.forget()
    root = node.copy_of_root("spoilt")
    target = next(image["Target"] for image in node.expected("many"))
    manifest = json.loads((root / BLOBS / target[7:]).read_text())
    layer = root / BLOBS / manifest["layers"][0]["digest"][7:]
    layer.chmod(0o600)
    whole = layer.read_bytes()
    layer.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    ran = node.import_all(HELLO, root=root)
    check(ran.returncode == 1 and f"{HELLO}: " in ran.stderr and "does not match its digest" in ran.stderr, ran.stderr)
    layer.write_bytes(whole + b"x")
    ran = node.import_all(HELLO, root=root)
    check(ran.returncode == 1 and "that it is said to have" in ran.stderr, ran.stderr)
    layer.unlink()
    layer.symlink_to(node.root / BLOBS / layer.name)
    ran = node.import_all(HELLO, root=root)
    check(ran.returncode == 1 and "symbolic link" in ran.stderr, ran.stderr)
    equal(node.images(), [], "images")


def test_a_database_that_is_none_is_told(node):
    root = node.copy_of_root("damaged")
    database = root / DATABASE
    whole = database.read_bytes()
    for content, words in ((b"", "no database of bbolt"), (b"x" * 100_000, "no database of bbolt"),
                           (whole[:2 * os.sysconf("SC_PAGE_SIZE")], "damaged: ")):
        database.write_bytes(content)
        ran = node.import_all(root=root)
        check(ran.returncode == 1 and ran.stderr.startswith("error: ") and words in ran.stderr, ran.stderr)
    database.unlink()
    ran = node.import_all(root=root)
    check(ran.returncode == 1 and "meta.db: no such file or directory" in ran.stderr.lower(), ran.stderr)


def test_containerd_may_be_running(node):
    if not node.writer:
        raise Skip("the writer cannot be built here")
    node.forget()
    with subprocess.Popen([node.writer, node.root, "busy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as busy:
        for _ in range(30):
            ran = node.import_all("--containerd-namespace=many", "registry.example/many/app:0299")
            equal((ran.returncode, ran.stderr), (0, ""), "import beside a writer")
        transactions, _ = busy.communicate()
    check(int(transactions.split()[0]) > 300, transactions)


def write():
    with tempfile.TemporaryDirectory() as top:
        root = pathlib.Path(top) / "root"
        subprocess.run(["go", "run", ".", root], cwd=HERE / "writer", check=True)
        subprocess.run(["tar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0",
                        "--use-compress-program=gzip -9n", "-C", root, "-cf", RECORDED, "."], check=True)


def main():
    if sys.argv[1] == "--write":
        return write()
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_") and wanted in name]
    top = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return run_on(Node(pathlib.Path(sys.argv[1]), top), top, tests)


if __name__ == "__main__":
    sys.exit(main())
