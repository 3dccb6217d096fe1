#!/usr/bin/env bash
# Two hosts, each a network namespace of its own, train to the same bits as two workers of one host:
# once with one replica on each host, once with two. Usage: two_hosts_test.sh BIN_DIR
# Ends with 77, skipped, where namespaces are not permitted.
set -euo pipefail

# The namespaces live as long as this process; nothing of them is left behind.
if [ "${2:-}" != inside ]; then
  for tool in ip unshare; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no '$tool' (Debian: iproute2, util-linux)"; exit 77; }
  done
  unshare --net --mount --pid --fork true 2>/dev/null || { echo "skipped: network namespaces are not permitted here"; exit 77; }
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$1" inside
fi
bin=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
fail() {
  echo "error: $1" >&2
  tail -n 30 "$out"/*.log >&2
  exit 1
}

. "$(dirname "$0")/make_two_hosts.sh"

export OMP_NUM_THREADS=1
# Without it, a coordinator that others can reach is refused.
export MUSTER_JOB_TOKEN="a token of this test, known to both hosts"
common=(--epochs=2 --seed=3)

# on_two_hosts STRATEGY: trains with a worker on each, and prints the result.
on_two_hosts() {
  local cluster='"cluster":{"worker":["10.7.7.1:2222","10.7.7.2:2222"]}'
  TF_CONFIG="{$cluster,\"task\":{\"type\":\"worker\",\"index\":1}}" timeout 100 ip netns exec other \
    "$bin/custom_loop" "${common[@]}" --strategy="$1" >"$out/there.log" 2>&1 &
  TF_CONFIG="{$cluster,\"task\":{\"type\":\"worker\",\"index\":0}}" timeout 100 \
    "$bin/custom_loop" "${common[@]}" --strategy="$1" >"$out/here.log" 2>&1 || fail "worker 0 ended with $?"
  wait $! || fail "worker 1 ended with $?"
  sed -n 's/^result: //p' "$out/here.log"
}

expect_same() {
  [ -n "$2" ] && [ "$2" = "$3" ] || fail "$1: '$2' on two hosts, '$3' on one"
  echo "$1: $2"
}

one=$(timeout 100 "$bin/custom_loop" "${common[@]}" --strategy=mirrored:2 2>"$out/one.log" | sed -n 's/^result: //p')
expect_same "a replica on each host" "$(on_two_hosts multi_worker)" "$one"
grep -q "2 replicas train together, connected over TCP" "$out/here.log" || fail "two hosts did not talk over TCP"

one=$(timeout 100 "$bin/custom_loop" "${common[@]}" --strategy=mirrored:4 2>"$out/one.log" | sed -n 's/^result: //p')
expect_same "two replicas on each host" "$(on_two_hosts multi_worker:2)" "$one"
grep -q "4 replicas train together, connected over shared memory inside hosts, TCP between them (2 hosts)" "$out/here.log" ||
  fail "the ranks of a host did not share memory"
