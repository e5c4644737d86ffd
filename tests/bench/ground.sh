# SPDX-License-Identifier: Apache-2.0
# Sourced by the benchmarks whose programs write files. Where they write decides what they measure: an ext4 without a
# journal (as a build machine's root may be) makes each new file dearer the more were deleted in the minutes before. So
# every such benchmark runs on each of these grounds, which are its /tmp:
#   ext4    a journaled ext4 in a file of its own, as a node's disk is
#   tmpfs   where files cost next to nothing
# In a mount namespace of its own; file, device and mounts end with the last process in it, however that ends.

# on_each_ground PROGRAM [ARGUMENT…] --json FILE …: runs PROGRAM on each of $HOLDFAST_GROUNDS (default: both) and ends;
# each row of FILE says its ground. Returns at once on a ground, which $HOLDFAST_GROUND then names.
on_each_ground() {
  [ -z "${HOLDFAST_GROUND:-}" ] || return 0
  local json=/dev/stdout words=() ground code=0
  while [ $# -gt 0 ]; do
    case $1 in
      --json) json=$2; shift 2 ;;
      *) words+=("$1"); shift ;;
    esac
  done
  for ground in ${HOLDFAST_GROUNDS:-ext4 tmpfs}; do
    HOLDFAST_GROUND=$ground unshare --mount --propagation private \
      bash -c 'set -e; . "$1"; shift; stand_on_ground; code=0; "$@" --json /tmp/rows.json || code=$?
               [ ! -e /tmp/rows.json ] || sed "s/^{/{\"ground\":\"$HOLDFAST_GROUND\",/" /tmp/rows.json >&3; exit $code' \
      bash "$ground_script" "${words[@]}" 3>> "$json" || code=$?
  done
  exit "$code"
}

ground_script=$(readlink -f "${BASH_SOURCE[0]}")

# Mounts $HOLDFAST_GROUND over /tmp. A checkout that lies below /tmp itself stays where it is.
stand_on_ground() {
  local place file top
  place=$(mktemp -d /var/tmp/holdfast-ground-XXXXXX)
  case $HOLDFAST_GROUND in
    tmpfs) mount -t tmpfs -o size=6G,mode=1777 tmpfs "$place" ;;
    ext4)
      file=$place.img
      fallocate -l 6G "$file"
      mke2fs -q -F -t ext4 -J size=64 -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$file"
      mount -o loop "$file" "$place"  # the device goes with the mount
      rm "$file"
      ;;
    *) echo "ground.sh: no ground $HOLDFAST_GROUND" >&2; return 2 ;;
  esac
  chmod 1777 "$place"
  for top in "$(dirname "$ground_script")/../.." ${HOLDFAST_BENCH_SEES:-}; do
    top=$(readlink -f "$top")
    [[ $top = /tmp/* ]] || continue
    mkdir -p "$place/${top#/tmp/}"
    mount --rbind "$top" "$place/${top#/tmp/}"
  done
  mount --rbind "$place" /tmp
  umount -l "$place"; rmdir "$place"
}
