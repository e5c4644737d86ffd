# SPDX-License-Identifier: Apache-2.0
# Sourced by the benchmarks that run crun, runc and podman beside ours. They expect a mount namespace of
# their own and a folder $work; everything made here is gone after peers_finish.

# The rest of the command line in a pid namespace of its own, also for the root of mount_root. Its first
# process reaps: podman takes a conmon that nobody has reaped for a living one and waits 20 s for it. What
# was left running ends with it.
in_pid_namespace() {
  unshare --pid --mount --fork --kill-child --mount-proc --propagation private bash -c '
    [ ! -d "$0/proc" ] || mount -t proc proc "$0/proc"
    "$@"; exit $?' "$work/root" "$@"
}

# crun and podman refuse a hybrid cgroup tree that has no v1 hugetlb.
mount_hugetlb() {
  [ ! -e /sys/fs/cgroup/cgroup.controllers ] && [ ! -d /sys/fs/cgroup/hugetlb ] || return 0
  mkdir "$work/cgroup"
  mount --rbind /sys/fs/cgroup "$work/cgroup"
  mount -t tmpfs cgroup /sys/fs/cgroup
  for dir in "$work"/cgroup/*; do
    mkdir "/sys/fs/cgroup/${dir##*/}"; mount --rbind "$dir" "/sys/fs/cgroup/${dir##*/}"
  done
  mkdir /sys/fs/cgroup/hugetlb
  mount -t cgroup -o hugetlb hugetlb /sys/fs/cgroup/hugetlb || rmdir /sys/fs/cgroup/hugetlb
}

# A hierarchy that was unmounted before its last cgroup was freed stays, with its controller, until it
# is mounted and unmounted once more.
unmount_hugetlb() {
  [ -d "$work/cgroup" ] || return 0
  for _ in $(seq 100); do
    umount /sys/fs/cgroup/hugetlb 2> /dev/null || true
    [ "$(awk '$1 == "hugetlb" {print $2}' /proc/cgroups)" != 0 ] || break
    mount -t cgroup -o hugetlb hugetlb /sys/fs/cgroup/hugetlb || break
    sleep 0.05
  done
  umount -l /sys/fs/cgroup/hugetlb 2> /dev/null || true
  umount -l "$work/cgroup"
}

# mount_root ROOT: a Debian root at $work/root that can be written to, for chroot(1); ROOT stays as it is.
mount_root() {
  mkdir "$work/root" "$work/upper" "$work/overlay"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$work/upper,workdir=$work/overlay" "$work/root"
  for dir in proc sys dev; do mount --rbind "/$dir" "$work/root/$dir"; done
  for dir in run tmp; do mount -t tmpfs tmpfs "$work/root/$dir"; done
}

version() { "$@" --version | head -1 | grep -o '[0-9][0-9.]*[0-9]' | head -1; }

# podman_flags RUNTIME FOLDER: storage of its own, so that a podman of this machine never sees it.
podman_flags() {
  echo "--root $2/podman --runroot $2/podman-run --tmpdir $2/podman-tmp --cgroup-manager cgroupfs --runtime $1"
}

# An explicit limit: podman's own is above the hard limit of a machine without CAP_SYS_RESOURCE.
podman_limits() { echo "--ulimit nofile=1024:$(ulimit -Hn) --ulimit nproc=1024:$(ulimit -Hu)"; }

had_podman=$(find /sys/fs/cgroup -maxdepth 2 -name libpod_parent | head -1)

peers_finish() {
  # podman leaves its own behind; one that was there before is not ours to take.
  [ -n "$had_podman" ] || find /sys/fs/cgroup -depth -type d -path '*/libpod_parent*' -exec rmdir {} + 2> /dev/null || true
  unmount_hugetlb
  umount -R -l "$work/root" 2> /dev/null || true
  rm -rf --one-file-system "$work"
}
