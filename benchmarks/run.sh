#!/usr/bin/env bash
# Runs all benchmarks, or the named ones, on what is built in build/release; ./dev bench builds first, what
# run.sh --targets [NAME...] says.
# The report (Markdown, as benchmarks/figures.md holds it) goes to the terminal and build/bench/report.md,
# the figures to build/bench/figures.jsonl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=build/release/bin
out=build/bench
all=(tax summaries evaluation mnist originals busy resnet gpu linear tabular trees workers parallel start saves servers layers optimizers predictor onnx serve input records buckets csv columns images loopback all_reduce network)
names=() quick=() images=() beside=() part=() targets=
for word in "$@"; do
  case $word in
    --targets) targets=yes ;;
    --quick) quick=(--quick) ;;
    --images=*) images=("$word") ;;
    --only=* | --model=*) part=("$word") ;;
    --beside=*) beside=("$word/build/release/bin") ;;
    *)
      if [[ " ${all[*]} " != *" $word "* ]]; then
        printf 'error: there is no benchmark "%s"\nhint: take some of: %s, --images=DIR, --beside=DIR, --only=PART, --model=PART, and --quick\n' \
          "$word" "${all[*]}" >&2
        exit 2
      fi
      names+=("$word")
      ;;
  esac
done
[ ${#names[@]} -gt 0 ] || names=("${all[@]}")

# The programs of a benchmark; all of them want the digits that `muster` makes.
programs_of() {
  case $1 in
    network) echo all_reduce_benchmark overlap_benchmark parallel_benchmark ;;
    *) echo "$1_benchmark" ;;
  esac
}
if [ -n "$targets" ]; then
  { echo muster && for name in "${names[@]}"; do programs_of "$name" | tr ' ' '\n'; done; } | sort -u
  exit
fi

# Which kernels OpenBLAS takes is a large part of every figure.
blas() {
  local library program
  read -r program _ <<<"$(programs_of "${names[0]}")"
  library=$(ldd "$bin/$program" | sed -n 's/.*=> \(.*libopenblas[^ ]*\).*/\1/p' | head -n 1)
  [ -n "$library" ] || { echo "not OpenBLAS, or none" && return; }
  echo "$(basename "$(readlink -f "$library")")${OPENBLAS_CORETYPE:+, OPENBLAS_CORETYPE=$OPENBLAS_CORETYPE}"
}

mkdir -p "$out"
"$bin/muster" data digits --out "$out/digits" >"$out/digits.log"
figures=$out/figures.jsonl
: >"$figures"

model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
[ -z "$(git status --porcelain 2>/dev/null)" ] || commit="$commit, with changes"
{
  printf '    machine   %s, %s cores, Linux %s\n' "$model" "$(nproc)" "$(uname -r)"
  printf '    date      %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')"
  printf '    commit    %s\n' "$commit"
  printf '    command   ./dev bench%s\n' "${*:+ $*}"
  printf '    BLAS      %s\n' "$(blas)"
  printf '    load      %s before\n' "$(cut -d' ' -f1-3 /proc/loadavg)"
  for name in "${names[@]}"; do
    if [ "$name" = layers ]; then
      printf '\n### One step of the layers alone\n\n'
      OMP_NUM_THREADS=1 taskset -c "$(($(nproc) - 1))" "$bin/layers_benchmark" | sed 's/^/    /'
    elif [ "$name" = optimizers ]; then
      printf '\n### The update of 25 million weights by each optimizer\n\n'
      OMP_NUM_THREADS=1 taskset -c "$(($(nproc) - 1))" "$bin/optimizers_benchmark" | sed 's/^/    /'
    elif [ "$name" = serve ]; then
      OMP_NUM_THREADS=1 "$bin/serve_benchmark"
    elif [ "$name" = evaluation ]; then
      printf '\n### An evaluation beside its forward passes, one thread\n\n'
      OMP_NUM_THREADS=1 taskset -c "$(($(nproc) - 1))" "$bin/evaluation_benchmark" "${quick[@]}" 2>/dev/null | sed 's/^/    /'
    elif [ "$name" = predictor ]; then
      OMP_NUM_THREADS=1 taskset -c "$(($(nproc) - 1))" "$bin/predictor_benchmark"
    elif [ "$name" = records ]; then
      printf '\n### TFRecord files of tf.Examples to batches, one thread\n\n'
      OMP_NUM_THREADS=1 taskset -c "$(($(nproc) - 1))" "$bin/records_benchmark" "${quick[@]}" | sed 's/^/    /'
    elif [ "$name" = buckets ]; then
      printf '\n### TFRecords from a bucket, and saving to one, beside curl\n\n'
      "$bin/buckets_benchmark" "${quick[@]}" | sed 's/^/    /'
    elif [ "$name" = images ] || [ "$name" = resnet ]; then
      "$bin/${name}_benchmark" --json="$figures" "${images[@]}" "${part[@]}" "${quick[@]}"
    elif [ "$name" = loopback ]; then
      printf '\n### What TCP itself costs two workers\n\n'
      "$bin/loopback_benchmark" | sed 's/^/    /'
    elif [ "$name" = all_reduce ] || [ "$name" = linear ] || [ "$name" = onnx ] || [ "$name" = tabular ] || [ "$name" = trees ]; then
      "$bin/${name}_benchmark" --json="$figures" "${part[@]}" "${quick[@]}"
    elif [ "$name" = network ]; then
      printf '\n### all_reduce between two hosts, over a link of 1 Gbit/s\n'
      benchmarks/network.sh "$bin" "$out/digits" "$figures" "${quick[@]}"
    elif [ "$name" = input ] || [ "$name" = csv ] || [ "$name" = columns ]; then
      "$bin/${name}_benchmark" --json="$figures" "${quick[@]}"
    elif [ "$name" = saves ]; then
      "$bin/saves_benchmark" "${part[@]}" "${quick[@]}" 2>/dev/null
    elif [ "$name" = start ]; then
      "$bin/start_benchmark" "${quick[@]}"
    elif [ "$name" = originals ]; then
      "$bin/${name}_benchmark" --data_dir="$out/digits" --json="$figures" "${part[@]}" "${quick[@]}"
    else
      "$bin/${name}_benchmark" --data_dir="$out/digits" --json="$figures" "${beside[@]}" "${part[@]}" "${quick[@]}"
    fi
  done
} | tee "$out/report.md"
printf '\nreport: %s   figures: %s\n' "$out/report.md" "$figures"
