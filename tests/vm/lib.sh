# Shared by the scripts of the VM tier: where things are cached and what each distribution needs.
# shellcheck shell=bash
vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
vm_cache=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/vm

# suite -> kernel that its linux-image-cloud-amd64 carries
declare -A vm_kernel=([bookworm]=6.1 [trixie]=6.12)

# Programs of the guest; the libraries of Holdfast's own programs come with the payload.
vm_packages=(
  systemd systemd-sysv udev dbus linux-image-cloud-amd64 kmod iproute2 nftables iptables procps
  busybox-static curl strace jq attr libcap2-bin conntrack socat python3 e2fsprogs nfs-common nfs-kernel-server apparmor
  selinux-policy-default selinux-policy-dev selinux-policy-src zstd containernetworking-plugins
)

vm_die() { echo "vm: $*" >&2; exit 1; }
