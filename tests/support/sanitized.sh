# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests that run whole nodes with the agent of build/asan: it finds what no unit test can, what goes wrong
# between parts that meet in the agent alone. (Under ThreadSanitizer this cannot be done: Debian's gRPC is not compiled
# for it, and each answer of the agent is a race then.)
#   sanitized COMMAND…: runs it with that agent beside the other programs of build/dev in $bin (a sanitizer cannot be
#   linked statically, as the keeper is); fails by what the sanitizers report as well, and shows it.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
bin=$work/bin
mkdir "$bin" "$work/reports"
cp "$top"/build/dev/bin/{hold*,kube_api_probe} "$bin"
cp "$top/build/asan/bin/holdfastd" "$bin"
# The agent is killed again and again: what it holds then is no leak.
export ASAN_OPTIONS=detect_leaks=0:log_path=$work/reports/address
export UBSAN_OPTIONS=print_stacktrace=1:log_path=$work/reports/undefined
export HOLDFAST_PATIENCE=${HOLDFAST_PATIENCE:-4}

sanitized() {
  local code=0 report
  "$@" || code=1
  for report in "$work"/reports/*; do
    [ -e "$report" ] || continue
    code=1
    echo "FAILED $(basename "$report")"
    head -n 80 "$report"
  done
  return $code
}
