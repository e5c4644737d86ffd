#!/bin/bash
# Scenario in a full systemd guest: SELinux, which the build machine lacks. Under which label a container, its execs, probes
# and hooks are, what labels its files have, what an enforcing kernel refuses between pods, and what becomes of labels
# that the policy does not know. Debian's policy comes without the reference policy's module for containers: it is built
# from Debian's own source, as docs/launch.md tells, and packaging/selinux goes beside it.
# kernel: security=selinux selinux=1 enforcing=0 log_buf_len=8M
# programs: system_runtime_launch container_probe
# named: yes
set -u
cd /payload
node=$(uname -n)
kernel=/sys/fs/selinux
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
step() { printf '\n== %s (%s s)\n' "$*" $SECONDS; }

wait_for() { # wait_for SECONDS WHAT COMMAND…
  local deadline=$((SECONDS + $1)) what=$2; shift 2
  while ! "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || { fail "$what: not in time"; return 1; }
    sleep 0.2
  done
}

knows() { echo -n "$1" 2> /dev/null > $kernel/context; }  # whether the policy knows a label
label_of() { getfattr --absolute-names --only-values -h -n security.selinux "$1" 2> /dev/null | tr -d '\0'; }
process_label() { tr -d '\0' < "/proc/$1/attr/current"; }
pid_at() { pgrep -f "sleep 100000" | while read -r p; do [ "$(process_label "$p" | cut -d: -f4-)" != "$1" ] || echo "$p"; done | head -n 1; }  # pid_at LEVEL: of a container
denied() { dmesg | grep 'avc:  denied' | grep 'permissive=0' | grep "$1" | grep -q "$2"; }
labelled() { # labelled DIRECTORY TYPE: all that lies below has it
  local labels all=$(find "$1" | wc -l)
  labels=$(find "$1" -print0 | xargs -0 getfattr --absolute-names -h -d -m security.selinux | grep '^security')
  [ "$(grep -c "object_r:$2:s0" <<< "$labels")" = "$all" ] || fail "of $all files below $1 have: $(sort <<< "$labels" | uniq -c | head -n 3)"
}
inside() { local pod=$1; shift; holdctl exec "$pod-$node" -- "$@"; }
label_in() { inside "$1" cat "${2:-/proc/self/attr/current}" | tr -d '\0'; }
ready() { holdctl wait --for=condition=Ready --timeout=1s "pod/$1-$node"; }
waits_because() { holdctl get pod "$1-$node" -o jsonpath='{.status.containerStatuses[0].state.waiting}' | grep -qF "$2"; }
event() { holdctl describe pod "$1-$node" | grep -qF "$2"; }
uid_of() { holdctl get pod "$1-$node" -o jsonpath='{.metadata.uid}'; }
volume_of() { echo "/var/lib/holdfast/pods/$(uid_of "$1")/volumes/kubernetes.io~empty-dir/main"; }

artifact() { # artifact TAR TEXT: an OCI artifact of one file with that text
  local work file file_size config config_size manifest manifest_size
  work=$(mktemp -d) && mkdir -p "$work/blobs/sha256"
  put() { # put VARIABLE: what comes becomes a blob, VARIABLE its digest, VARIABLE_size its size
    cat > "$work/new" && printf -v "$1" %s "$(sha256sum < "$work/new" | cut -d' ' -f1)" && printf -v "$1_size" %s "$(stat -c %s "$work/new")"
    mv "$work/new" "$work/blobs/sha256/${!1}"
  }
  put file <<< "$2"
  put config <<< '{}'
  put manifest <<JSON
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.example.files",
 "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": "sha256:$config", "size": $config_size},
 "layers": [{"mediaType": "application/octet-stream", "digest": "sha256:$file", "size": $file_size,
             "annotations": {"org.opencontainers.image.title": "file"}}]}
JSON
  cat > "$work/index.json" <<JSON
{"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:$manifest", "size": $manifest_size}]}
JSON
  echo '{"imageLayoutVersion": "1.0.0"}' > "$work/oci-layout"
  tar -cf "$1" -C "$work" blobs index.json oci-layout && rm -r "$work"
}

pod() { # pod NAME POD-FIELDS CONTAINER-SECURITY-CONTEXT [NODE-DIRECTORY [IMAGE]]: its container, its hook and its probe write down what they are under
  holdctl apply -f - <<POD
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 0
  $2
  containers:
  - name: main
    image: ${5:-busybox}
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "cat /proc/self/attr/current > /main/label; echo secret > /main/file; echo mine > /dev/shm/mine; echo heard; exec sleep 100000"]
    lifecycle: {postStart: {exec: {command: [sh, -c, "cat /proc/self/attr/current > /main/hook"]}}}
    readinessProbe: {exec: {command: [sh, -c, "cat /proc/self/attr/current > /main/new; mv /main/new /main/probe"]}, periodSeconds: 5, timeoutSeconds: 30}
    volumeMounts: [{name: artifact, mountPath: /artifact}, {name: main, mountPath: /main}, {name: memory, mountPath: /memory}, {name: files, mountPath: /files}, {name: node, mountPath: /node}, {name: image, mountPath: /image}]
    securityContext: {$3}
  volumes:
  - {name: main, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: files, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: node, hostPath: {path: ${4:-/srv/node}}}
  - {name: image, image: {reference: busybox, pullPolicy: IfNotPresent}}
  - {name: artifact, image: {reference: artifact, pullPolicy: IfNotPresent}}
POD
}

is_under() { # is_under NAME LABEL: the container, a hook, a probe, an exec, and the container as an exec sees it
  local name=$1 label=$2 what
  wait_for 120 "$name is ready" ready "$name" || { holdctl describe pod "$name-$node"; return; }
  for what in /main/label /main/hook /main/probe /proc/self/attr/current; do
    [ "$(label_in "$name" $what)" = "$label" ] || fail "$name: $what is '$(label_in "$name" $what)', not '$label'"
  done
  echo "$name: $label"
}

uname -r
[ -e $kernel/enforce ] || { echo "the kernel has no SELinux"; exit 1; }
own=$(process_label self)
domain=$(cut -d: -f3 <<< "$own")
echo "systemd's services are under $own, enforcing: $(cat $kernel/enforce)"
case $own in *:*:*) ;; *) echo "no policy is loaded"; exit 1 ;; esac

sysctl -qw kernel.printk_ratelimit=0  # every denial is wanted

step "launches and labels of files"
# Where they lay when the test was built it looks for its programs.
build=$(grep -aoE '/[[:print:]]+/bin/container_probe' bin/system_runtime_launch | head -n 1)
mkdir -p "$(dirname "${build%/bin/*}")" && ln -sfn /payload "${build%/bin/*}"
TEST_TMPDIR=/var/tmp/ bin/system_runtime_launch --gtest_filter='SelinuxTest.*:RelabelTest.*' || fail "system_runtime_launch"

mkdir -p /srv/node && echo hello > /srv/node/file
step "quickstart"
# A default route, which Services need.
ip link add uplink type dummy && ip address add 192.0.2.10/24 dev uplink && ip link set uplink up &&
  ip route add default via 192.0.2.1 || fail "uplink"
./quickstart || { fail "quickstart"; exit 1; }
artifact /tmp/artifact.tar "of an artifact"
holdctl image import /tmp/artifact.tar --name artifact || fail "import of the artifact"

if ! knows system_u:system_r:container_t:s0; then
  step "a policy without labels for containers"
  pod none "" ""
  pod asked "securityContext: {seLinuxOptions: {level: 's0:c1,c2'}}" ""
  is_under none "$own"
  wait_for 60 "who asks for a label is told" waits_because asked "the node's SELinux policy has no labels for containers"
  waits_because asked CreateContainerError || fail "reason"
  holdctl delete pod "asked-$node" > /dev/null

  step "the reference policy's module for containers, and ours"
  mkdir /tmp/policy && cd /tmp/policy || exit 1
  tar -xf /usr/src/selinux-policy-src.tar.zst --strip-components 4 --wildcards '*/policy/modules/services/container.[tf]*' || { fail "no source of the policy"; exit 1; }
  make -f /usr/share/selinux/devel/Makefile NAME=default container.pp || { fail "container.pp"; exit 1; }
  # A second type of containers. Then, since the guest's disk has no labels and systemd and this script are under the kernel's
  # own: what the policy says of init, when it starts an engine, is said of them. Engine and they are not enforced, so that
  # what is refused is refused to containers.
  cat > scenario.cil <<CIL
(type other_container_t)
(roletype system_r other_container_t)
(typeattributeset domain (other_container_t))
(typeattributeset mcs_constrained_type (other_container_t))
(typeattributeset container_domain (other_container_t))
(typeattributeset container_system_domain (other_container_t))
(typeattributeset container_net_domain (other_container_t))
(allow other_container_t container_file_t (file (entrypoint)))
(typetransition $domain container_engine_exec_t process container_engine_t)
(typepermissive container_engine_t)
(typepermissive $domain)
CIL
  semodule -i container.pp -i /payload/selinux/holdfast.cil -i scenario.cil || { fail "semodule"; exit 1; }
  cd /payload || exit 1
  restorecon -Rx /usr/local/lib/holdfast /var/lib/holdfast
  systemctl restart holdfast-keeper holdfastd
  wait_for 120 "the agent answers" ready web-1
fi
knows system_u:system_r:container_t:s0 || { fail "the policy knows no container_t"; exit 1; }

step "labels of our own programs and files"
engine=$(process_label "$(systemctl show -P MainPID holdfastd)")
for unit in holdfastd holdfast-keeper; do
  label=$(process_label "$(systemctl show -P MainPID $unit)")
  [ "$(cut -d: -f3 <<< "$label")" = container_engine_t ] || fail "$unit is under $label"
done
labelled /var/lib/holdfast/images/layers container_ro_file_t
labelled /var/lib/holdfast/images/blobs container_ro_file_t
# What the agent makes itself it labels so, too: a layer, and the directory that layers are made in.
systemctl stop holdfastd && rm -r /var/lib/holdfast/images/ingest && systemctl start holdfastd
wait_for 120 "the agent answers" ready web-1
labelled /var/lib/holdfast/images/ingest container_ro_file_t
cp images/busybox.tar /tmp/fresh.tar && tar -rf /tmp/fresh.tar -C /srv node/file
before=$(ls /var/lib/holdfast/images/layers | wc -l)
holdctl image import /tmp/fresh.tar --name fresh --cmd /bin/sh || fail "import"
[ "$(ls /var/lib/holdfast/images/layers | wc -l)" -gt "$before" ] || fail "no layer was made"
labelled /var/lib/holdfast/images/layers container_ro_file_t

step "labels of pods that ask for nothing"
pod one "" ""
pod two "" ""
for name in one two; do
  wait_for 120 "$name is ready" ready $name || { holdctl describe pod "$name-$node"; dmesg | grep -i avc | tail -n 40; exit 1; }
  level=$(label_in $name | cut -d: -f4-)
  grep -qE '^s0:c[0-9]+,c[0-9]+$' <<< "$level" || fail "$name: level '$level'"
  is_under $name "system_u:system_r:container_t:$level"
  wanted=system_u:object_r:container_file_t:$level
  volume=$(volume_of $name)
  for file in "$volume" "$volume/file" "$volume/label"; do
    [ "$(label_of "$file")" = "$wanted" ] || fail "$file is '$(label_of "$file")', not '$wanted'"
  done
  pid=$(pid_at "$level")
  for file in / /bin/busybox /dev /dev/null /dev/pts /dev/shm /dev/shm/mine /dev/mqueue /etc/hosts /etc/resolv.conf /etc/hostname /dev/termination-log \
              /main /memory /files /files/labels /files/..data /files/..data/labels; do
    [ "$(label_of "/proc/$pid/root$file")" = "$wanted" ] || fail "$name: $file is '$(label_of "/proc/$pid/root$file")', not '$wanted'"
  done
  inside $name grep -q " / / .*context=" /proc/self/mountinfo || fail "$name: $(inside $name grep ' / / ' /proc/self/mountinfo)"
done
[ "$(label_of "$(volume_of one)")" != "$(label_of "$(volume_of two)")" ] || fail "two pods have one pair"
[ "$(label_of /srv/node)" = "$(label_of /srv)" ] || fail "a directory of the node was labelled: $(label_of /srv/node)"

step "a relabelling of the node's files leaves pods their labels"
before=$(label_of "$(volume_of one)/file")
restorecon -Rx /var/lib/holdfast
[ "$(label_of "$(volume_of one)/file")" = "$before" ] || fail "$before became $(label_of "$(volume_of one)/file")"

step "what an enforcing kernel refuses"
pod thief "" "" "$(volume_of one)"
pod host $'hostPID: true\n  hostIPC: true\n  hostNetwork: true' ""
wait_for 120 "thief" ready thief || holdctl describe pod "thief-$node"
wait_for 120 "host" ready host || holdctl describe pod "host-$node"
victim=$(pid_at "$(label_of "$(volume_of one)" | cut -d: -f4-)")
[ "$(inside thief cat /node/file)" = secret ] || fail "while nothing is enforced another pod's file can be read"
inside host kill -CONT "$victim" || fail "while nothing is enforced another pod's process can be signalled"
inside host cat "/proc/$victim/cmdline" > /dev/null || fail "while nothing is enforced another pod's command can be read"
inside host kill -CONT 1 || fail "while nothing is enforced the node's processes can be signalled"
shm=$(label_of /dev/shm)
[ "${shm#*container_file_t}" = "$shm" ] || fail "the node's /dev/shm was labelled: $shm"
echo 1 > $kernel/enforce
inside one cat /main/file | grep -q secret || fail "a pod cannot read its own file"
inside one sh -c 'echo more >> /main/file && echo x > /dev/shm/x && echo y > /memory/y && echo z > /z && cat /files/labels /etc/hosts /image/bin/busybox > /dev/null' || fail "a pod cannot use what is its own"
[ "$(inside one cat /artifact/file)" = "of an artifact" ] || fail "a pod cannot read an artifact"
inside one sh -c 'cp /bin/busybox /main/busybox && /main/busybox true && cp /bin/busybox /busybox && /busybox true' || fail "a pod cannot run what it wrote"
inside thief cat /node/file && fail "another pod's file was read"
inside thief sh -c 'echo x > /node/x' && fail "a file was written to another pod's volume"
inside one cat /node/file && fail "a file of the node was read"
inside thief true && inside host true || fail "execs"
inside host kill -CONT "$victim" && fail "another pod's process was signalled"
inside host cat "/proc/$victim/cmdline" > /dev/null && fail "another pod's command was read"
inside host kill -CONT 1 && fail "a process of the node was signalled"
for image in busybox fresh; do
  pod "late-$image" "" "allowPrivilegeEscalation: false, runAsUser: 1000, capabilities: {drop: [ALL]}" "" $image
  wait_for 120 "a pod of $image that starts meanwhile" ready "late-$image" || holdctl describe pod "late-$image-$node"
  is_under "late-$image" "system_u:system_r:container_t:$(label_of "$(volume_of "late-$image")" | cut -d: -f4-)"
  holdctl logs "late-$image-$node" | grep -q heard || fail "what it writes does not reach its log"
done
dmesg | grep 'avc:  denied' | grep permissive=0 | tail -n 12
# Of denials between containers the policy wants nothing in the log.
denied "scontext=system_u:system_r:container_t:$(label_in one | cut -d: -f4-)" 'name="file".*tclass=file' || fail "the denial of the node's file is not in the kernel's log"
echo 0 > $kernel/enforce
[ "$(inside thief cat /node/file)" = "$(printf 'secret\nmore')" ] || fail "it was not SELinux that refused another pod's file"
inside host kill -CONT "$victim" || fail "it was not SELinux that refused another pod's process"

step "what is asked for"
pod level "securityContext: {seLinuxOptions: {level: 's0:c7,c8'}}" ""
pod type "securityContext: {seLinuxOptions: {level: 's0:c7,c8'}}" "seLinuxOptions: {type: other_container_t, level: 's0:c9'}"
pod only "" "seLinuxOptions: {type: other_container_t}"
pod mighty "" "privileged: true"
pod shared "shareProcessNamespace: true" ""
is_under level system_u:system_r:container_t:s0:c7,c8
[ "$(label_of "$(volume_of level)/file")" = system_u:object_r:container_file_t:s0:c7,c8 ] || fail "$(label_of "$(volume_of level)/file")"
is_under type system_u:system_r:other_container_t:s0:c9
# Nothing is asked of the kernel for a privileged one: the policy's own rule for what an engine runs.
is_under mighty "${engine/container_engine_t/spc_t}"
for name in only shared; do  # hostUsers: false is with SelinuxTest: not all of these volumes can have an id map on this kernel
  level=$(label_of "$(volume_of $name)" | cut -d: -f4-)
  type=container_t; [ $name != only ] || type=other_container_t
  is_under $name "system_u:system_r:$type:$level"
done
level=$(label_of "$(volume_of shared)" | cut -d: -f4-)
[ "$(label_in shared /proc/1/attr/current)" = "system_u:system_r:container_t:$level" ] || fail "the pod's init is under $(label_in shared /proc/1/attr/current)"

step "labels that are none"
pod nosuch "" "seLinuxOptions: {type: nosuch_t}"
pod form "securityContext: {seLinuxOptions: {level: 'c1,c2'}}" ""
wait_for 60 "an unknown type is told" waits_because nosuch "the policy of the node's kernel knows no such label"
waits_because nosuch CreateContainerError || fail "nosuch: reason"
wait_for 60 "a level of a wrong form is told" event form "the format of 'level' \"c1,c2\" is not correct" ||
  holdctl describe pod "form-$node"

step "the pair stays a pod's"
level=$(label_of "$(volume_of one)" | cut -d: -f4-)
systemctl restart holdfastd
wait_for 120 "the agent answers" ready one
[ "$(label_in one)" = "system_u:system_r:container_t:$level" ] || fail "an exec after a restart is under $(label_in one)"
inside one rm /main/label /main/hook /main/probe || fail "rm"
restarts() { [ "$(holdctl get pod "one-$node" -o jsonpath='{.status.containerStatuses[0].restartCount}')" -ge 1 ]; }
kill -9 "$(pid_at "$level")"
wait_for 60 "the container is started again" restarts
is_under one "system_u:system_r:container_t:$level"

[ $failures -eq 0 ] || { journalctl -u holdfastd --no-pager | tail -n 50; dmesg | grep -i avc | tail -n 40; echo "$failures failures"; exit 1; }
# What our programs would have been refused: container_engine_t of the reference policy is made for others.
echo "note: refused to container_engine_t if it were enforced: $(dmesg | grep 'avc:  denied' | grep 'scontext=[^ ]*:container_engine_t' |
  sed -n 's/.*denied  { \(.*\) } .*tcontext=[^:]*:[^:]*:\([^:]*\):.*tclass=\([^ ]*\).*/\2:\3 \1/p' | sort -u | wc -l) kinds of access"
dmesg | grep 'avc:  denied' | grep 'scontext=[^ ]*:container_engine_t' |
  sed -n 's/.*denied  { \(.*\) } .*tcontext=[^:]*:[^:]*:\([^:]*\):.*tclass=\([^ ]*\).*/\2:\3 \1/p' | sort | uniq -c
echo "note: selinux scenario passed"
