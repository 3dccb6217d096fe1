#!/usr/bin/env bash
# All-reduces, and training steps, between two hosts, each a network namespace of this machine, over a link of 1 Gbit/s
# (tc tbf) each way. Usage: network.sh BIN_DIR DATA_DIR FIGURES [--quick]
set -euo pipefail
if [ "${BENCH_NETWORK:-}" != inside ]; then
  command -v ip >/dev/null && command -v tc >/dev/null && unshare --net --mount --pid --fork true 2>/dev/null ||
    { echo "network namespaces or iproute2 are not there: left out"; exit 0; }
  BENCH_NETWORK=inside exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi
. "$(dirname "$0")/../tests/network/make_two_hosts.sh"
mount -t sysfs none /sys  # statistics of this namespace's interfaces
# The link counts the bytes of frames: 1448 of data in 1514, and as much again for what TCP says about them.
tc qdisc add dev here root tbf rate 1gbit burst 128kb latency 50ms
tc -n other qdisc add dev there root tbf rate 1gbit burst 128kb latency 50ms
export BENCH_ADDRESSES="10.7.7.1 10.7.7.2"
export MUSTER_JOB_TOKEN="a token of this benchmark, for both hosts"
"$1/all_reduce_benchmark" --interface=here --rate=125e6 --json="$3" "${@:4}"
"$1/overlap_benchmark" --data_dir="$2" --json="$3" "${@:4}"
"$1/parallel_benchmark" --only=hosts --data_dir="$2" --json="$3" "${@:4}"
