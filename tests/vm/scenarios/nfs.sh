#!/bin/bash
# Scenario in a full systemd guest, under the units: volumes of a real NFS server, which is the kernel's own on the same
# machine. Read and written, read-only, by sub path, refused; then the server does not answer any more while pods use it:
# other pods start, the agent restarts and is killed, the pods are deleted and gone, and when it answers again so do volumes.
# deb: yes
set -u
node=$(uname -n)
server=192.0.2.10
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
step() { printf '\n== %s\n' "$*"; }

wait_for() { # wait_for SECONDS WHAT COMMAND…
  local deadline=$((SECONDS + $1)) began=$SECONDS what=$2; shift 2
  while ! "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { fail "$what: not in time"; holdctl get pods; return 1; }
    sleep 0.2
  done
  echo "note: $what: $((SECONDS - began)) s"
}

pod() { # pod NAME VOLUME MOUNT COMMAND: each of the middle two a flow mapping, VOLUME "" for none
  local volumes= mounts=
  [ -z "$2" ] || { volumes="volumes: [{name: data, nfs: $2}]"; mounts="volumeMounts: [$3]"; }
  holdctl apply -f - <<POD || fail "apply $1"
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 1
  $volumes
  containers:
  - name: main
    image: quickstart/busybox:latest
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "$4"]
    $mounts
POD
}

state() { holdctl get pod "$1-$node" --no-headers | awk '{print $3}'; }
is() { [ "$(state "$1")" = "$2" ]; }
told() { holdctl describe pod "$1-$node" | grep -qF "$2"; }
gone() { ! holdctl get pods --no-headers | grep -q "^$1-"; }
written() { [ "$(cat "$1" 2> /dev/null)" = "$2" ]; }
mounts() { grep -c " - nfs4\? " /proc/self/mountinfo; }
no_mounts() { [ "$(mounts)" = 0 ]; }
no_helper() { ! pgrep -x mount.nfs; }
hang() { nft add table inet hang && nft add chain inet hang in '{type filter hook input priority -300;}' && nft add rule inet hang in tcp dport 2049 drop; }
answer() { nft delete table inet hang; }

uname -r; mount.nfs -V
./link-libraries
ip link add uplink type dummy && ip address add $server/24 dev uplink && ip link set uplink up && ip route add default via 192.0.2.1
dpkg -i --force-depends holdfast.deb || fail "dpkg -i"
wait_for 60 "the agent answers" holdctl version
holdctl image import images/busybox.tar --name quickstart/busybox:latest || fail "image import"

step "the server"
# The root is an overlay of nobody's: what is exported lies on a file system of its own.
mkdir -p /exports && mount -t tmpfs tmpfs /exports && mkdir /exports/a && chmod 777 /exports/a && echo 1 > /exports/a/known
echo "/exports *(rw,no_root_squash,insecure,no_subtree_check,fsid=0)" > /etc/exports
systemctl start rpcbind nfs-server || { systemctl status --no-pager nfs-server; fail "no NFS server"; }

step "written, read by sub path, refused"
pod writer "{server: $server, path: /a}" "{name: data, mountPath: /data}" \
  'echo mine > /data/first; while :; do echo more >> /data/more || exit 1; sleep 0.1; done'
pod reader "{server: $server, path: /, readOnly: true}" "{name: data, mountPath: /data, subPath: a}" \
  'cat /data/known; echo no > /data/known; while :; do cat /data/known; sleep 0.1; done'
# What it has written is still to be sent when it is killed: the kernel does that before it lets the process end.
pod dirty "{server: $server, path: /a}" "{name: data, mountPath: /data}" \
  'exec 3>/data/log; while :; do echo line >&3; sleep 0.05; done'
wait_for 120 "the writer runs" is writer Running
wait_for 60 "the one that leaves its lines to the kernel runs" is dirty Running
wait_for 60 "the reader runs" is reader Running
wait_for 30 "the server has what was written" written /exports/a/first mine
holdctl logs "reader-$node" | head -n 2
written /exports/a/known 1 || fail "a read-only volume was written"
pod absent "{server: $server, path: /none}" "{name: data, mountPath: /data}" 'sleep 100000'
wait_for 60 "a path that is not exported is told" told absent 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32'
holdctl describe pod "absent-$node" | tail -n 5
holdctl delete pod "absent-$node"
wait_for 60 "that pod is gone" gone absent
[ "$(mounts)" = 3 ] || fail "$(mounts) mounts, not one for each pod"

step "the server does not answer"
hang
sleep 5
ps -eo stat,wchan:30,args | grep -E '^D' || echo "note: nobody waits in the kernel"
pod stuck "{server: $server, path: /a}" "{name: data, mountPath: /data}" 'sleep 100000'
pod other "" "" 'sleep 100000'
wait_for 60 "another pod starts" is other Running
pkill -KILL -f 'cat /data/known'
wait_for 60 "a container that starts again by a sub path is told why it cannot" told reader "does not answer"
wait_for 60 "the mount is under way" pgrep -x mount.nfs
systemctl restart holdfastd || fail "restart"
wait_for 60 "the agent answers after a restart" is other Running
wait_for 60 "the mount is under way again" pgrep -x mount.nfs
former=$(pgrep -x mount.nfs)
systemctl kill -s KILL --kill-whom=main holdfastd
wait_for 90 "the agent answers after a kill" is other Running
pod further "" "" 'sleep 100000'
wait_for 60 "a further pod starts" is further Running
! pgrep -x mount.nfs | grep -qF "$former" || fail "what a killed agent was mounting runs on: $former"
holdctl top pods > /dev/null || fail "top pods"

step "its pods are deleted"
for name in stuck reader writer dirty; do
  holdctl delete pod "$name-$node" --no-wait || fail "delete $name"
done
wait_for 60 "the one that was being mounted is gone" gone stuck
wait_for 120 "the reader is gone" gone reader
wait_for 60 "the writer is gone" gone writer
wait_for 180 "the one with lines to be sent is gone" gone dirty
ps -eo pid,stat,wchan:30,args | grep -E '^ *[0-9]+ D' || true
wait_for 10 "no mount is left" no_mounts
wait_for 10 "no helper is left" no_helper
find /var/lib/holdfast/pods /var/lib/holdfast -maxdepth 3 -name 'kubernetes.io~nfs' | grep . && fail "something is left of a volume"

step "it answers again"
answer
pod after "{server: $server, path: /a}" "{name: data, mountPath: /data}" 'cat /data/first > /data/second && sleep 100000'
wait_for 120 "a volume is mounted again" is after Running
wait_for 30 "and written" written /exports/a/second mine
holdctl delete pod "after-$node"
wait_for 60 "gone as well" gone after
wait_for 10 "no mount is left at the end" no_mounts
journalctl --no-pager -u holdfastd | tail -n 40
echo "summary: $failures failures"
[ $failures = 0 ]
