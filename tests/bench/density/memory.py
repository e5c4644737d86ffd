# SPDX-License-Identifier: Apache-2.0
"""What this machine's memory is used for, as far as it can be counted instead of guessed from what is free. All of it is the
whole machine's: who compares two readings wants a quiet one."""
import pathlib
import time

MB = 1024 * 1024
SETTLED = 256 * 1024  # bytes by which two readings of the kernel's objects may differ


def of_processes(pids):
    """Sums of smaps_rollup in MB."""
    sums = {"Pss": 0, "Pss_Anon": 0, "Rss": 0}
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            key = line.split(":")[0]
            if key in sums:
                sums[key] += int(line.split()[1])
    return {k: v / 1024 for k, v in sums.items()}


def slab_bytes():
    """{cache: bytes}. Objects in use times their size: a half empty slab is not charged to who came last."""
    found = {}
    for line in pathlib.Path("/proc/slabinfo").read_text().splitlines()[2:]:
        name, active, _, size = line.split()[:4]
        found[name] = int(active) * int(size)
    return found


def settled_slab_bytes():
    """Once what nobody refers to is dropped, and what RCU still has to free is freed."""
    last = None
    for _ in range(40):
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("2")
        time.sleep(0.5)
        now = slab_bytes()
        if last is not None and abs(sum(now.values()) - sum(last.values())) < SETTLED:
            break
        last = now
    return now


def reading():
    """MB by kind: objects of the kernel, of which "slab NAME" are those of one cache, its page tables, stacks and per-CPU
    areas; pages of tmpfs."""
    caches = settled_slab_bytes()
    found = {"slab": sum(caches.values()) / MB, **{f"slab {name}": size / MB for name, size in caches.items()}}
    wanted = {"PageTables": "page tables", "KernelStack": "stacks", "Percpu": "per CPU", "Shmem": "tmpfs"}
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        key, value = line.split()[:2]
        if (name := wanted.get(key.rstrip(":"))):
            found[name] = int(value) / 1024
    return found


def between(before, after, pods):
    """MB per pod by kind."""
    return {kind: (after.get(kind, 0) - size) / pods for kind, size in before.items()}
