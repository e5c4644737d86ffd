#!/bin/bash
# Scenario in a full systemd guest: quickstart from a bundle, again, every kind of restart with the
# pods untouched, a reboot, down without a trace.
set -u
cd /payload
phase_file=/var/lib/holdfast-vm-phase
node=$(uname -n)
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
  pkill -9 holdfast; untouched "kill -9 of everything"
  step "stop and start"
  systemctl stop holdfastd holdfast-keeper
  [ "$(identity)" = "$before" ] || fail "stopping agent and keeper touched the pods"
  systemctl start holdfast-keeper holdfastd; untouched "stop and start of both"
  answers
  holdctl get pods -o wide
  systemctl is-failed holdfastd holdfast-keeper holdfast-pods && fail "a unit has failed"
  step "reboot"
  date +%s > "$phase_file"
  sync
  [ $failures -eq 0 ] || exit 1
  exit 88
}

after_reboot() {
  step "after the reboot"
  # systemd kills what has not gone after 90 s: nothing of ours may need that.
  local shutdown=$(($(date +%s) - $(cut -d. -f1 /proc/uptime) - $(cat "$phase_file")))
  echo "note: shutdown to the next boot: $shutdown s"
  [ $shutdown -lt 60 ] || fail "something held the shutdown up for $shutdown s"
  timed "reboot to four pods ready" wait_for 120 "pods come back by themselves" all_ready
  holdctl get pods -o wide
  answers
  step "down"
  timed "quickstart down" ./quickstart down || fail "quickstart down"
  local object
  for object in /var/lib/holdfast /run/holdfast /etc/holdfast /usr/local/lib/holdfast /usr/local/bin/holdctl /var/log/pods \
                /var/log/containers /etc/systemd/system/holdfastd.service "$tree"; do
    [ ! -e "$object" ] || fail "left over: $object"
  done
  pgrep -a holdfast && fail "a process is left"
  ip -o link | grep -E ': hf' && fail "an interface is left"
  nft list ruleset | grep -q holdfast && fail "rules are left"
  grep -E 'holdfast|overlay' /proc/mounts && fail "a mount is left"
  return 0
}

if [ ! -e "$phase_file" ]; then first_boot; else after_reboot; fi
if [ $failures -gt 0 ]; then
  systemctl status --no-pager holdfastd holdfast-keeper holdfast-pods
  echo "$failures failures"; exit 1
fi
echo "note: systemd scenario passed"
