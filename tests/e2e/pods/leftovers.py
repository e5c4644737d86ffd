# SPDX-License-Identifier: Apache-2.0
"""Run last: nothing of all the pods before is left."""
import subprocess

from suite import check, equal


def test_nothing_is_left(node):
    for file in node.manifests.glob("*.json"):
        file.unlink()
    node.wait("all pods gone", lambda: not node.pods())
    result = node.ctl("check", check=False)
    equal((result.returncode, result.stdout.strip()), (0, "Nothing is left over on this node."), "check")
    equal(list((node.top / "root/pods").iterdir()), [], "pod directories")
    equal(list((node.run / "pods").iterdir()), [], "directories of generated files")
    equal(list((node.top / "log/pods").iterdir()), [], "log directories")
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [line for line in links if ": hk" in line]
    # What lies ready for pods to come has no alias yet; there is one for each sandbox of the pool.
    ready = [line for line in ours if ": hkp" in line and "alias" not in line]
    check(ours == ready and len(ready) <= 4, ours)
    for tree in node.cgroup_trees():
        left = [str(p) for p in tree.glob("**/pod*")]
        check(not left, f"cgroups: {left}")
