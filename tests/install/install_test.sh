#!/usr/bin/env bash
# install_test.sh BUILD SOURCE WORKERS [PREFIX_PATH]: installs BUILD, builds a project that knows only the installed
# files (and LibTorch of PREFIX_PATH, when it is not the system's), trains with it on one process, then on WORKERS.
set -euo pipefail
build=$1 source=$2 prefix_path=${3:-}
source "$(dirname "${BASH_SOURCE[0]}")/prefix.sh" "$build"

# Nothing but our own names leaves the libraries, so nothing clashes with other libraries of a program.
libraries=0
for library in $(find "$prefix" -name 'libmuster-*.so'); do
  libraries=$((libraries + 1))
  foreign=$(nm -DC --defined-only "$library" | grep -v 'muster::' || true)
  if [ -n "$foreign" ]; then
    printf 'error: %s exports what is not ours:\n%s\n' "$library" "$foreign" >&2
    exit 1
  fi
done
[ "$libraries" = 10 ]

# Every link of the documents leads to a file that is installed, outside of blocks of code.
docs=$prefix/share/doc/muster
links=0
while read -r document target; do
  links=$((links + 1))
  [ -e "$(dirname "$document")/${target%%#*}" ] || { printf 'error: %s links %s\n' "$document" "$target" >&2; exit 1; }
done < <(awk 'FNR == 1 { inside = 0 } /^```/ { inside = !inside } !inside { print FILENAME, $0 }' "$docs"/*.md "$docs"/docs/*.md |
  awk '{ file = $1; while (match($0, /\]\([^)# ][^) ]*\)/)) {
    target = substr($0, RSTART + 2, RLENGTH - 3); if (target !~ /^https?:/) print file, target
    $0 = substr($0, RSTART + RLENGTH) } }')
[ "$links" -gt 100 ]  # they were found

mkdir "$work/project"
cp "$source/tests/install/outside/CMakeLists.txt" "$source/examples/tour/digits.cc" "$work/project"
cmake -S "$work/project" -B "$work/project/build" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix;$prefix_path" \
  -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/project/build"

cd "$work"
muster data digits --out data --train 600 --test 100
project/build/digits --data_dir=data --model_dir=model --max_steps=5 | tee one.log
muster run --workers=2 -- project/build/digits --data_dir=data --model_dir=model --max_steps=10 | tee two.log
grep -q '^result: {"global_step":5,' one.log
grep -q 'result: {"global_step":10,' two.log
muster inspect checkpoint model >inspected.log  # a pipe to grep -q would break it off
grep -q 'global_step: 10' inspected.log
# It finds the commands for jobs where they are installed.
XDG_STATE_HOME=$work/state muster jobs list | grep -q 'no jobs' || { echo 'error: muster jobs does not answer' >&2; exit 1; }
# It finds the program that looks at LibTorch where it is installed.
muster doctor | tee doctor.log
grep -q '^ok  *LibTorch  ' doctor.log
# The examples are all configured where they are installed, and build there. One takes the opt-in header for modules of LibTorch.
own=bring_your_own_module
cmake -S "$docs/examples" -B examples -G Ninja "-DCMAKE_PREFIX_PATH=$prefix;$prefix_path"
cmake --build examples --target "$own"
"examples/bin/$own" --data_dir=data --model_dir=own --max_steps=3 | grep '^result: {"global_step":3,'
# What bash loads by itself completes words.
bash -c 'source "$0" && COMP_WORDS=(muster ru) COMP_CWORD=1 && _muster && [ "${COMPREPLY[*]}" = run ]' \
  "$prefix/share/bash-completion/completions/muster"
