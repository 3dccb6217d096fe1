#!/usr/bin/env bash
# install_test.sh BUILD SOURCE WORKERS [PREFIX_PATH]: installs BUILD, builds a project that knows only the installed
# files (and LibTorch of PREFIX_PATH, when it is not the system's), trains with it on one process, then on WORKERS.
set -euo pipefail
build=$1 source=$2 workers=$3 prefix_path=${4:-}
source "$(dirname "${BASH_SOURCE[0]}")/prefix.sh" "$build"

# Nothing but our own names leaves the library, so nothing clashes with a program's gRPC or protobuf.
library=$(find "$prefix" -name libmuster.so)
foreign=$(nm -DC --defined-only "$library" | grep -v 'muster::' || true)
if [ -n "$foreign" ]; then
  printf 'error: the library exports what is not ours:\n%s\n' "$foreign" >&2
  exit 1
fi

mkdir "$work/project"
cp "$source/tests/install/outside/CMakeLists.txt" "$source/examples/tour/digits.cc" "$work/project"
cmake -S "$work/project" -B "$work/project/build" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix;$prefix_path" \
  -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/project/build"

cd "$work"
muster data digits --out data --train 600 --test 100
project/build/digits --data_dir=data --model_dir=model --max_steps=5 | tee one.log
muster run --workers="$workers" -- project/build/digits --data_dir=data --model_dir=model --max_steps=10 | tee two.log
grep -q '^result: {"global_step":5,' one.log
grep -q 'result: {"global_step":10,' two.log
muster inspect checkpoint model >inspected.log  # a pipe to grep -q would break it off
grep -q 'global_step: 10' inspected.log
# It finds the program that looks at LibTorch where it is installed.
muster doctor | tee doctor.log
grep -q '^ok  *LibTorch  ' doctor.log
# The opt-in header for modules of LibTorch is there too.
own=bring_your_own_module
mkdir "$own"
sed "s/digits/$own/g" "$source/tests/install/outside/CMakeLists.txt" >"$own/CMakeLists.txt"
cp "$source/examples/$own/$own.cc" "$own"
cmake -S "$own" -B "$own/build" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix;$prefix_path" -DCMAKE_BUILD_TYPE=Release
cmake --build "$own/build"
"$own/build/$own" --data_dir=data --model_dir=own --max_steps=3 | grep '^result: {"global_step":3,'
# What bash loads by itself completes words.
bash -c 'source "$0" && COMP_WORDS=(muster ru) COMP_CWORD=1 && _muster && [ "${COMPREPLY[*]}" = run ]' \
  "$prefix/share/bash-completion/completions/muster"
