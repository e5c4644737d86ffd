# Shared by the scripts of the VM tier: where things are cached and what each distribution needs.
# shellcheck shell=bash
vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
vm_cache=${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast}/vm

# suite -> kernel that its linux-image-cloud-amd64 carries
declare -A vm_kernel=([bookworm]=6.1 [trixie]=6.12)

# Programs of the guest. The libraries that Holdfast's own programs link are resolved by name per suite.
vm_packages_common=(
  systemd systemd-sysv udev dbus linux-image-cloud-amd64 kmod iproute2 nftables iptables procps
  busybox-static curl strace jq attr libcap2-bin conntrack
  libnl-3-200 libmnl0 libnftnl11 libseccomp2 libcap2 zstd
)
declare -A vm_packages=(
  [bookworm]="libnl-route-3-200 libnl-genl-3-200 libnl-nf-3-200 libgrpc++1.51 libprotobuf32 libspdlog1.10 libfmt9 libarchive13 libfyaml0 libssl3"
  [trixie]="libnl-route-3-200 libnl-genl-3-200 libnl-nf-3-200 libgrpc++1.51t64 libprotobuf32t64 libspdlog1.15 libfmt10 libarchive13t64 libfyaml0 libssl3t64"
)

vm_die() { echo "vm: $*" >&2; exit 1; }
