# SPDX-License-Identifier: Apache-2.0
"""Files in the manifest directory that are none, or that never end."""
import os
import stat

from attack import attack, breach_if
from oracle import SECRET


def plant(folder, canary):
    (folder / "m-secret.yaml").symlink_to(canary / "secret")
    (folder / "m-shadow.yaml").symlink_to("/etc/shadow")
    (folder / "m-loop.yaml").symlink_to("m-loop.yaml")
    (folder / "m-kmsg.yaml").symlink_to("/proc/kmsg")
    (folder / "m-mem.yaml").symlink_to("/proc/self/mem")
    (folder / "m-folder.yaml").symlink_to("/")
    os.mkfifo(folder / "m-fifo.yaml")
    os.mknod(folder / "m-zero.yaml", stat.S_IFCHR | 0o600, os.makedev(1, 5))
    with open(folder / "m-sparse.yaml", "wb") as file:
        file.truncate(50 << 30)
    (folder / "m-deep.yaml").write_bytes(b"[" * (9 << 20))
    (folder / "m-alias.yaml").write_text("".join(
        f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 9) if i else 1}]\n" for i in range(9)))
    (folder / "m-control.yaml").write_bytes(b"kind: Pod\0\x1b[31m\x9b")
    (folder / ".m-hidden.yaml").write_text("{ hidden")


@attack("M1,PA-01,VO-08")
def manifests_that_are_no_files_or_never_end(kit):
    folder = kit.node.manifests
    log = kit.node.top / "agent.log"
    before = log.stat().st_size
    plant(folder, kit.canary)
    kit.pod("good", [kit.container("main", ["/bin/true"])])
    kit.finished("good")
    said = log.read_bytes()[before:].decode(errors="replace") + "".join(
        kit.node.ctl(*words, check=False).stdout for words in (("get", "events"), ("describe", "node")))
    for file in [*folder.glob("m-*"), *folder.glob(".m-*")]:
        file.unlink()
    breach_if(SECRET in said or "root:x:" in said or "root:*:" in said, "the text of a link's target is told")
    return "13 files"
