#!/bin/bash
# Scenario in a full systemd guest: AppArmor, which the build machine lacks. Under which profile a container, its execs,
# probes and hooks are, what the default one refuses, and what becomes of pods whose profile is not there.
set -u
cd /payload
node=$(uname -n)
kernel=/sys/kernel/security/apparmor
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

loaded() { grep -q "^$1 (enforce)$" $kernel/profiles; }
unload() { echo -n "$1" > $kernel/.remove; }
inside() { local pod=$1; shift; holdctl exec "$pod-$node" -- "$@"; }
running() { [ "$(holdctl get pod "$1-$node" -o jsonpath='{.status.phase}')" = Running ]; }
waits_because() { holdctl get pod "$1-$node" -o jsonpath='{.status.containerStatuses[0].state.waiting.message}' | grep -qF "$2"; }

pod() { # pod NAME POD-FIELDS CONTAINER-SECURITY-CONTEXT: its container, its hook and its probe write down what they are under
  holdctl apply -f - <<POD
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 0
  $2
  containers:
  - name: main
    image: busybox
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "cat /proc/self/attr/current > /main/label; exec sleep 100000"]
    lifecycle: {postStart: {exec: {command: [sh, -c, "cat /proc/self/attr/current > /main/hook"]}}}
    readinessProbe: {exec: {command: [sh, -c, "cat /proc/self/attr/current > /main/new; mv /main/new /main/probe"]}, periodSeconds: 1, timeoutSeconds: 30}
    volumeMounts: [{name: main, mountPath: /main}]
    securityContext: {$3}
  volumes: [{name: main, emptyDir: {}}]
POD
}

is_under() { # is_under NAME LABEL: the container, a hook, a probe, an exec, and the container as an exec sees it
  local name=$1 label=$2 what
  wait_for 90 "$name is ready" holdctl wait --for=condition=Ready --timeout=1s "pod/$name-$node" ||
    { holdctl describe pod "$name-$node"; return; }
  for what in /main/label /main/hook /main/probe /proc/self/attr/current; do
    [ "$(inside "$name" cat $what)" = "$label" ] || fail "$name: $what is '$(inside "$name" cat $what)', not '$label'"
  done
  echo "$name: $label"
}

uname -r
[ -e $kernel/profiles ] || { echo "the kernel has no AppArmor"; exit 1; }
step "quickstart"
# A default route, which Services need.
ip link add uplink type dummy && ip address add 192.0.2.10/24 dev uplink && ip link set uplink up &&
  ip route add default via 192.0.2.1 || fail "uplink"
./quickstart || { fail "quickstart"; exit 1; }
loaded holdfast-default || fail "holdfast-default is not loaded"
default="holdfast-default (enforce)"

step "which profile"
apparmor_parser --replace --skip-cache --quiet <<'PROFILE' || fail "apparmor_parser"
profile scenario flags=(attach_disconnected) { file, network, capability, umount, signal, deny /main/forbidden w, }
PROFILE
pod plain "" ""
pod standard "securityContext: {appArmorProfile: {type: Unconfined}}" "appArmorProfile: {type: RuntimeDefault}"
pod free "" "appArmorProfile: {type: Unconfined}"
pod mine "securityContext: {appArmorProfile: {type: Localhost, localhostProfile: scenario}}" ""
pod bound "" "allowPrivilegeEscalation: false, runAsUser: 1000, capabilities: {drop: [ALL]}"
pod mighty "" "privileged: true"
pod named "" "privileged: true, appArmorProfile: {type: Localhost, localhostProfile: scenario}"
pod users "hostUsers: false" ""
pod shared "shareProcessNamespace: true" ""
is_under plain "$default"
[ $failures -eq 0 ] || exit 1
is_under standard "$default"
is_under free unconfined
is_under mine "scenario (enforce)"
is_under bound "$default"
is_under mighty unconfined
is_under named "scenario (enforce)"
is_under users "$default"
is_under shared "$default"
[ "$(inside toolbox cat /proc/1/attr/current)" = "$default" ] || fail "toolbox: $(inside toolbox cat /proc/1/attr/current)"

step "what it refuses"
inside mine sh -c 'echo > /main/forbidden' && fail "the node's own profile is not in force"
inside plain sh -c 'echo > /main/forbidden' || fail "a file that nobody forbids"
pod admin "" "capabilities: {add: [SYS_ADMIN]}, seccompProfile: {type: Unconfined}"
pod freeadmin "" "capabilities: {add: [SYS_ADMIN]}, seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}"
is_under admin "$default"
is_under freeadmin unconfined
inside freeadmin mount -t tmpfs none /main || fail "without a profile CAP_SYS_ADMIN cannot mount"
inside admin mount -t tmpfs none /main && fail "a mount under the default profile"
inside admin mount -o remount,rw /proc/sys && fail "a remount under the default profile"
inside admin umount /proc/sys || fail "umount"
inside admin sh -c 'echo 1 > /proc/sys/kernel/sysrq' && fail "a sysctl of the node was written"
inside admin sh -c 'echo 4096 > /proc/sys/kernel/shmmni' || fail "a sysctl of the pod was not written"
inside plain sh -c 'sleep 100 & kill $! && wait $!; [ $? = 143 ]' || fail "a container cannot signal its own processes"
holdctl logs "toolbox-$node" > /dev/null || fail "logs"

step "profiles that are not there"
pod missing "securityContext: {appArmorProfile: {type: Localhost, localhostProfile: nosuch}}" ""
wait_for 60 "a missing profile is told" waits_because missing "apparmor profile not found nosuch"
[ "$(holdctl get pod "missing-$node" -o jsonpath='{.status.containerStatuses[0].state.waiting.reason}')" = CreateContainerError ] ||
  fail "reason: $(holdctl get pod "missing-$node" -o jsonpath='{.status.containerStatuses[0].state.waiting}')"
echo "profile nosuch flags=(attach_disconnected) { file, network, capability, signal, }" | apparmor_parser --replace --skip-cache --quiet
is_under missing "nosuch (enforce)"
unload holdfast-default
wait_for 30 "the profile comes back" loaded holdfast-default
pod again "" ""
is_under again "$default"

step "without the parser"
parser=$(command -v apparmor_parser)
mv "$parser" "$parser.away"
systemctl restart holdfastd
wait_for 60 "the agent answers" running plain
pod former "" ""
is_under former "$default"
unload holdfast-default
sleep 15
pod none "" ""
pod asked "" "appArmorProfile: {type: RuntimeDefault}"
is_under none unconfined
wait_for 60 "who asks for it is told" waits_because asked "apparmor has no profile of type RuntimeDefault"
journalctl -u holdfastd | grep -F "containers that name no profile run unconfined" || fail "the log does not say so"
mv "$parser.away" "$parser"
is_under asked "$default"

[ $failures -eq 0 ] || { journalctl -u holdfastd --no-pager | tail -n 50; dmesg | grep -i apparmor | tail -n 40; echo "$failures failures"; exit 1; }
echo "note: apparmor scenario passed"
