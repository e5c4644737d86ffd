#!/bin/bash
# Scenario in a full systemd guest: the Debian package. Installed it runs pods; an upgrade does not touch them; removed
# and purged nothing is left. The libraries come from the payload: what the package depends on is not looked at here.
# deb: yes
set -u
node=$(uname -n)
tree=/sys/fs/cgroup/system.slice/holdfast-pods.service/kubepods
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
step() { printf '\n== %s\n' "$*"; }

wait_for() { # wait_for SECONDS WHAT COMMAND…
  local deadline=$((SECONDS + $1)) what=$2; shift 2
  while ! "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { fail "$what: not in time"; return 1; }
    sleep 0.2
  done
}

# Those that lay ready end with their namespaces, which the kernel takes away after their last user.
has_no_link() { ! ip -o link | grep -qE ': hf'; }

identity() { # pid and start time of each container's process
  find "$tree" -name cgroup.procs -path '*pod*' 2> /dev/null | sort | while read -r procs; do
    while read -r pid; do [ -r "/proc/$pid/stat" ] && echo "$pid $(awk '{print $22}' "/proc/$pid/stat")"; done < "$procs"
  done
}

install_package() { dpkg -i --force-depends holdfast.deb; }
running() { [ "$(holdctl get pod "app-$node" --no-headers | awk '{print $3}')" = Running ]; }

systemctl --version | head -n 1; uname -r
./link-libraries
step "install"
install_package || fail "dpkg -i"
wait_for 60 "the agent answers" holdctl version
getent group holdfast > /dev/null || fail "no group holdfast"
for unit in holdfast-pods holdfast-keeper holdfastd; do
  systemctl is-active --quiet $unit || fail "$unit is not active"
  systemctl is-enabled --quiet $unit || fail "$unit is not enabled"
done
holdctl image import images/busybox.tar --name quickstart/busybox:latest || fail "image import"
holdctl apply -f - <<POD || fail "apply"
apiVersion: v1
kind: Pod
metadata: {name: app}
spec: {containers: [{name: main, image: "quickstart/busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "100000"]}]}
POD
wait_for 60 "the pod runs" running
before=$(identity)
[ -n "$before" ] || fail "no process below $tree"

step "upgrade"
agent=$(systemctl show -p MainPID --value holdfastd)
install_package || fail "dpkg -i again"
wait_for 60 "the agent answers after the upgrade" running
[ "$(identity)" = "$before" ] || fail "the upgrade touched the pod: $before / $(identity)"
[ "$(systemctl show -p MainPID --value holdfastd)" != "$agent" ] || fail "the agent is the old one"
echo "pods untouched by: upgrade"

step "remove"
echo "# mine" >> /etc/holdfast/config.yaml
dpkg -r holdfast || fail "dpkg -r"
[ -z "$(identity)" ] || fail "a container is left: $(identity)"
pgrep -a '^(holdfast|hf-)' && fail "a process is left"
wait_for 10 "no interface is left" has_no_link
nft list ruleset | grep -q holdfast && fail "rules are left"
grep -E 'holdfast|overlay' /proc/mounts && fail "a mount is left"
[ ! -e "$tree" ] || fail "left over: $tree"
tail -n 1 /etc/holdfast/config.yaml | grep -q mine || fail "the configuration is gone"
step "purge"
dpkg --purge holdfast || fail "dpkg --purge"
for object in /var/lib/holdfast /run/holdfast /etc/holdfast /usr/bin/holdfastd /usr/lib/systemd/system/holdfastd.service; do
  [ ! -e "$object" ] || fail "left over: $object"
done
[ $failures -eq 0 ] || { systemctl status --no-pager holdfastd holdfast-keeper holdfast-pods; echo "$failures failures"; exit 1; }
echo "note: deb scenario passed"
