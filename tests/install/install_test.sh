#!/usr/bin/env bash
# install_test.sh BUILD SOURCE: installs BUILD, builds a project that knows only the installed files, trains with
# it on one process and on two.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" --component library >"$work/install.log"

# Nothing but our own names leaves the library, so nothing clashes with a program's gRPC or protobuf.
library=$(find "$prefix" -name libmuster.so)
foreign=$(nm -DC --defined-only "$library" | grep -v 'muster::' || true)
if [ -n "$foreign" ]; then
  printf 'error: the library exports what is not ours:\n%s\n' "$foreign" >&2
  exit 1
fi

mkdir "$work/project"
cp "$source/tests/install/outside/CMakeLists.txt" "$source/examples/tour/digits.cc" "$work/project"
cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/project/build"

export PATH=$prefix/bin:$PATH OMP_NUM_THREADS=1
cd "$work"
muster data digits --out data --train 600 --test 100
project/build/digits --data_dir=data --model_dir=model --max_steps=5 | tee one.log
muster run --workers=2 -- project/build/digits --data_dir=data --model_dir=model --max_steps=10 | tee two.log
grep -q '^result: {"global_step":5,' one.log
grep -q 'result: {"global_step":10,' two.log
muster inspect checkpoint model | grep -q 'global_step: 10'
