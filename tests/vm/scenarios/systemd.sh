#!/bin/bash
# Scenario in a full systemd guest: quickstart from a bundle, again, what the units forbid us and what of it reaches
# a container, core dumps, every kind of restart with the pods untouched, a reboot, down without a trace.
set -u
cd /payload
phase_file=/var/lib/holdfast-vm-phase
node=$(uname -n)
ours='^(holdfast|hf-)'  # names of our processes
tree=/sys/fs/cgroup/system.slice/holdfast-pods.service/kubepods
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
step() { printf '\n== %s\n' "$*"; }

timed() { # timed WHAT COMMAND…: how long it took, in the report
  local what=$1 began=$EPOCHREALTIME code=0; shift
  "$@" || code=$?
  awk -v what="$what" -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN{printf "note: %s: %.1f s\n", what, to - from}'
  return $code
}

# Those that lay ready end with their namespaces, which the kernel takes away after their last user.
has_no_link() { ! ip -o link | grep -qE ': hf'; }

identity() { # one line per container process: its cgroup, pid and start time
  find "$tree" -name cgroup.procs -path '*pod*' 2>/dev/null | sort | while read -r procs; do
    while read -r pid; do
      [ -r "/proc/$pid/stat" ] && echo "${procs%/cgroup.procs} $pid $(awk '{print $22}' "/proc/$pid/stat")"
    done < "$procs"
  done
}

wait_for() { # wait_for SECONDS WHAT COMMAND…
  local deadline=$((SECONDS + $1)) what=$2; shift 2
  while ! "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { fail "$what: not in time"; return 1; }
    sleep 0.2
  done
}

all_ready() {
  [ "$(holdctl get pods --no-headers | awk '$2=="1/1" && $3=="Running"' | wc -l)" = 4 ]
}

pods_have_ended() { [ -z "$(identity)" ]; }
come_back() { all_ready && [ "$(identity | wc -l)" = "$(echo "$before" | wc -l)" ]; }

untouched() { # untouched WHAT: the same processes as before, and everything answers
  wait_for 60 "$1: agent answers" all_ready
  [ "$(identity)" = "$before" ] || { fail "$1: pods were touched"; diff <(echo "$before") <(identity); before=$(identity); }
  echo "pods untouched by: $1"
}

answers() { # each web pod answers over its address
  local pod ip
  for pod in web-1 web-2 web-3; do
    ip=$(holdctl get pod "$pod-$node" -o jsonpath='{.status.podIP}')
    curl -sS --max-time 10 "http://$ip/" | grep -q "hello from $pod" || fail "$pod does not answer on $ip"
  done
  ip=$(holdctl get service web -o jsonpath='{.spec.clusterIP}')
  for ip in "$ip" 192.0.2.10:30080; do
    curl -sS --max-time 10 "http://$ip/" | grep -q "hello from web-" || fail "the service does not answer on $ip"
  done
}

# An address and a default route, as machines have; the guest has no network card.
make_uplink() {
  cat > /etc/systemd/system/uplink.service <<UNIT
[Unit]
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link add uplink type dummy && ip address add 192.0.2.10/24 dev uplink && ip link set uplink up && ip route add default via 192.0.2.1'
[Install]
WantedBy=multi-user.target
UNIT
  systemctl enable --now uplink
}

main_pid() { systemctl show -p MainPID --value "$1"; }

# --- what the units say, and whom it concerns ---

shown() { systemctl show -p "$2" --value "$1"; } # shown UNIT PROPERTY

units_are_in_force() {
  local unit pid group property
  for unit in holdfastd holdfast-keeper; do
    systemd-analyze security --no-pager "$unit" > "/tmp/security-$unit" 2>&1 || fail "systemd-analyze security $unit"
    echo "note: systemd-analyze security: $(sed -n 's/^[^A-Za-z]*\(Overall exposure level.*[0-9] [A-Z]*\).*/\1/p' "/tmp/security-$unit")"
  done
  pid=$(main_pid holdfastd) group=/sys/fs/cgroup$(shown holdfastd ControlGroup)
  for property in MemoryHigh LimitCORE RestrictAddressFamilies; do echo "holdfastd $property=$(shown holdfastd $property)"; done
  [ "$(shown holdfastd MemoryHigh)" != infinity ] || fail "holdfastd has no MemoryHigh"
  [ "$(cat "$group/memory.high")" = "$(shown holdfastd MemoryHigh)" ] || fail "memory.high is $(cat "$group/memory.high")"
  [ "$(shown holdfastd LimitCORE)" = 0 ] || fail "holdfastd has LimitCORE $(shown holdfastd LimitCORE)"
  awk '/^Max core file size/{exit $5 != "0" || $6 != "0"}' "/proc/$pid/limits" || fail "the agent's core limit: $(grep core "/proc/$pid/limits")"
  [ "$(awk '/^(NoNewPrivs|Seccomp):/{printf "%s ", $2}' "/proc/$pid/status")" = "1 2 " ] || fail "the agent: $(identity_of "/proc/$pid/status")"
  [ $((0x$(awk '/^CapBnd/{print $2}' "/proc/$pid/status") & 1 << 22)) = 0 ] || fail "the agent may have CAP_SYS_BOOT"
}

identity_of() { grep -E '^(Cap|NoNewPrivs|Seccomp|Speculation|Cpus_allowed_list|Mems_allowed_list)' "$1"; }
# The launcher sets limits of open files by a rule of its own (docs/launch.md).
limits_of() { grep -v '^Max open files ' "$1" | tr -s ' '; }

# What a container has must be what a service without any settings has: nothing of our units.
nothing_of_the_units_is_in_containers() { # nothing_of_the_units_is_in_containers WHEN
  local way
  systemd-run --quiet --pipe --wait cat /proc/self/status > /tmp/status.node
  systemd-run --quiet --pipe --wait cat /proc/self/limits > /tmp/limits.node
  holdctl apply -f - <<POD
apiVersion: v1
kind: Pod
metadata: {name: everything}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "cat /proc/self/status > /status; cat /proc/self/limits > /limits; ulimit -c unlimited && echo may > /core; exec sleep 100000"]
    securityContext: {privileged: true}
POD
  wait_for 60 "the privileged pod runs" inside test -s /core || { holdctl describe pod "everything-$node"; return; }
  inside cat /status > /tmp/status.start; inside cat /limits > /tmp/limits.start
  inside cat /proc/self/status > /tmp/status.exec; inside cat /proc/self/limits > /tmp/limits.exec
  for way in start exec; do
    diff <(identity_of /tmp/status.node) <(identity_of /tmp/status.$way) || fail "$1: a privileged container ($way) is not as the node"
    diff <(limits_of /tmp/limits.node) <(limits_of /tmp/limits.$way) || fail "$1: limits of the units are in a container ($way)"
  done
  echo "a privileged container: $(identity_of /tmp/status.start | tr -s '\t\n' ' ')"
  # One filter, ours, in an ordinary pod; no other, and no_new_privs is the pod's own choice.
  holdctl exec "toolbox-$node" -- cat /proc/self/status > /tmp/status.toolbox
  [ "$(awk '/^(NoNewPrivs|Seccomp|Seccomp_filters):/{printf "%s ", $2}' /tmp/status.toolbox)" = "0 2 1 " ] ||
    fail "$1: an ordinary container: $(identity_of /tmp/status.toolbox)"
  holdctl delete pod "everything-$node"
  wait_for 60 "the privileged pod is gone" all_ready
}

inside() { holdctl exec "everything-$node" -- "$@"; }

# Ended by SIGABRT with every limit raised, a process of ours still writes no core; another one does.
nobody_dumps_core() {
  local folder=/var/tmp/cores pid pattern role
  mkdir -p $folder && chmod 1777 $folder
  pattern=$(cat /proc/sys/kernel/core_pattern)
  echo "$folder/%p" > /proc/sys/kernel/core_pattern
  systemd-run --quiet --wait -p LimitCORE=infinity python3 -c 'import os; os.abort()'
  [ "$(find $folder -type f | wc -l)" = 1 ] || fail "not even an ordinary service dumps core here"
  for role in 'holdfastd --config' 'holdfast-keeper launch' 'holdfast-keeper log' 'holdfast-keeper hold'; do
    pid=$(pgrep -o -f "$role") || { fail "no process $role"; continue; }
    prlimit --pid "$pid" --core=unlimited:unlimited || fail "prlimit $role"
    kill -ABRT "$pid"
    untouched "SIGABRT of $role"
    [ ! -e "$folder/$pid" ] || fail "$role wrote $(stat -c %s "$folder/$pid") bytes of core"
  done
  echo "$pattern" > /proc/sys/kernel/core_pattern
}

# The agent does all its work within what its unit leaves it.
every_mode_works() {
  local mode
  modprobe -a ip_vs ip_vs_rr || fail "modprobe ip_vs"
  for mode in iptables ipvs nftables; do
    sed -i '/^proxyMode:/d' /etc/holdfast/config.yaml && echo "proxyMode: $mode" >> /etc/holdfast/config.yaml
    systemctl reload holdfastd
    wait_for 60 "mode $mode" in_mode $mode
    answers
  done
}

in_mode() { holdctl proxy dump > /tmp/dump && head -n 1 /tmp/dump | grep -qx "# proxy mode $1"; }

# Programs and manuals where a login shell looks, a group whose members may use them, advice about this agent and no other.
a_person_finds_it() { # a_person_finds_it WHAT-QUICKSTART-SAID
  local program page as_nobody=(setpriv --reuid 65534 --regid 65534)
  for program in holdctl holdfastd; do
    env -i bash -lc "command -v $program" > /dev/null || fail "$program is not on the PATH"
  done
  for page in man1/holdctl.1 man8/holdfastd.8 man8/holdfast-keeper.8; do
    [ -s "/usr/local/share/man/$page" ] || fail "no manual $page"
  done
  "${as_nobody[@]}" --groups "$(getent group holdfast | cut -d: -f3)" holdctl get pods > /dev/null || fail "a member of the group may not use holdctl"
  "${as_nobody[@]}" --clear-groups holdctl get pods > /dev/null 2>&1 && fail "anybody may use holdctl"
  [ "$(sed -n 's/^ *kill -9 \([0-9 ]*[0-9]\) .*/\1/p' "$1")" = "$(main_pid holdfastd)" ] || fail "advice: $(grep 'kill -9' "$1")"
}

first_boot() {
  systemctl --version | head -n 1; uname -r
  make_uplink || fail "uplink"
  step "quickstart"
  timed quickstart ./quickstart || { fail "quickstart"; return 1; }
  wait_for 60 "four pods ready" all_ready
  answers
  before=$(identity)
  [ "$(echo "$before" | wc -l)" -ge 4 ] || fail "no processes below $tree: $before"
  step "quickstart again"
  timed "quickstart again" ./quickstart > /tmp/again 2>&1 || { fail "quickstart again"; cat /tmp/again; }
  grep ^note: /tmp/again
  untouched "quickstart again"
  a_person_finds_it /tmp/again
  step "units"
  units_are_in_force
  nothing_of_the_units_is_in_containers "at first"
  untouched "a privileged pod beside them"
  nobody_dumps_core
  every_mode_works
  untouched "every proxy mode"
  step "restarts"
  systemctl daemon-reload; untouched daemon-reload
  systemctl daemon-reexec; untouched daemon-reexec
  systemctl restart holdfastd; untouched "restart of the agent"
  systemctl restart holdfast-keeper; untouched "restart of the keeper"
  systemctl restart holdfastd holdfast-keeper; untouched "restart of both"
  kill -9 "$(main_pid holdfastd)"; untouched "kill -9 of the agent"
  kill -9 "$(main_pid holdfast-keeper)"; untouched "kill -9 of the holder"
  pkill -9 -f 'holdfast-keeper launch'; untouched "kill -9 of the launcher"
  pkill -9 -f 'holdfast-keeper log'; untouched "kill -9 of the logger"
  pkill -9 "$ours"; untouched "kill -9 of everything"
  nothing_of_the_units_is_in_containers "after all that"
  untouched "a privileged pod beside them, after all that"
  step "stop and start"
  systemctl stop holdfastd holdfast-keeper
  [ "$(identity)" = "$before" ] || fail "stopping agent and keeper touched the pods"
  systemctl start holdfast-keeper holdfastd; untouched "stop and start of both"
  answers
  step "the pods' unit stopped by a person, beside the agent"
  systemctl stop holdfast-pods
  wait_for 30 "no process of a pod is left" pods_have_ended
  systemctl start holdfast-keeper
  timed "the pods' unit started again to four pods ready" wait_for 120 "pods come back" come_back
  answers
  holdctl get pods -o wide
  systemctl is-failed holdfastd holdfast-keeper holdfast-pods && fail "a unit has failed"
  step "reboot"
  echo "$(date +%s) $failures" > "$phase_file"
  sync
  exit 88
}

after_reboot() { # after_reboot TIME: when the machine was left
  step "after the reboot"
  # systemd kills what has not gone after 90 s: nothing of ours may need that.
  local shutdown=$(($(date +%s) - $(cut -d. -f1 /proc/uptime) - $1))
  echo "note: shutdown to the next boot: $shutdown s"
  [ $shutdown -lt 60 ] || fail "something held the shutdown up for $shutdown s"
  timed "reboot to four pods ready" wait_for 120 "pods come back by themselves" all_ready
  holdctl get pods -o wide
  answers
  step "down"
  timed "quickstart down" ./quickstart down || fail "quickstart down"
  local object
  for object in /var/lib/holdfast /run/holdfast /etc/holdfast /usr/local/lib/holdfast /usr/local/bin/holdctl /var/log/pods \
                /var/log/containers /etc/systemd/system/holdfastd.service /usr/local/share/man/man1/holdctl.1 "$tree"; do
    [ ! -e "$object" ] || fail "left over: $object"
  done
  pgrep -a "$ours" && fail "a process is left"
  wait_for 10 "no interface is left" has_no_link
  nft list ruleset | grep -q holdfast && fail "rules are left"
  grep -E 'holdfast|overlay' /proc/mounts && fail "a mount is left"
  return 0
}

if [ ! -e "$phase_file" ]; then
  first_boot
else
  read -r left_at failures < "$phase_file"
  after_reboot "$left_at"
fi
if [ $failures -gt 0 ]; then
  systemctl status --no-pager holdfastd holdfast-keeper holdfast-pods
  echo "$failures failures"; exit 1
fi
echo "note: systemd scenario passed"
