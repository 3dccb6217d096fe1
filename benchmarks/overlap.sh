#!/usr/bin/env bash
# How much of the reduction backward hides, between two hosts: namespaces of this machine, a link of 1 Gbit/s (tc tbf)
# each way, examples/mnist on both. Usage: overlap.sh BIN_DIR DATA_DIR
# What can be hidden is the time of the reduction alone, or that of backward where it is less.
set -euo pipefail
if [ "${3:-}" != inside ]; then
  command -v ip >/dev/null && command -v tc >/dev/null && unshare --net --mount --pid --fork true 2>/dev/null ||
    { echo "network namespaces or iproute2 are not there: left out"; exit 0; }
  exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$1" "$2" inside
fi
. "$(dirname "$0")/../tests/network/make_two_hosts.sh"
tc qdisc add dev here root tbf rate 1gbit burst 128kb latency 50ms
tc -n other qdisc add dev there root tbf rate 1gbit burst 128kb latency 50ms
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export OMP_NUM_THREADS=1
cluster='"cluster":{"worker":["10.7.7.1:2222","10.7.7.2:2222"]}'

printf '| examples a step and host | backward | reduction alone | not hidden | hidden of what can be |\n|---:|---:|---:|---:|---:|\n'
for batch in 128 256 512 1024; do
  run=("$1/mnist" --data_dir="$2" --batch_size=$((2 * batch)) --max_steps=100 --save_checkpoints_steps=0 --trace)
  TF_CONFIG="{$cluster,\"task\":{\"type\":\"worker\",\"index\":1}}" timeout 300 ip netns exec other \
    "${run[@]}" --model_dir="$out/there-$batch" >"$out/there.log" 2>&1 &
  TF_CONFIG="{$cluster,\"task\":{\"type\":\"worker\",\"index\":0}}" timeout 300 \
    "${run[@]}" --model_dir="$out/here-$batch" >"$out/here.log" 2>&1 || { tail -n 20 "$out"/*.log >&2; exit 1; }
  wait $!
  # "gradients of 1.4 MB, ...: a message takes 90.1 us, a MB 8395 us", and the table of --trace.
  awk -v batch="$batch" '
    /gradients of/ {
      for (i = 1; i <= NF; ++i) {
        if ($i == "of" && megabytes == "") megabytes = $(i + 1)
        if ($i == "takes") latency = $(i + 1)
      }
      a_megabyte = $(NF - 1)
    }
    $1 == "backward" { backward = $2 }
    $1 == "reduction" { reduction = $2 }
    END {
      alone = (latency + megabytes * a_megabyte) / 1000
      can = alone < backward ? alone : backward
      printf "| %d | %.1f ms | %.1f ms | %.1f ms | %.0f %% |\n", batch, backward, alone, reduction, 100 * (alone - reduction) / can
    }' "$out/here.log"
done
