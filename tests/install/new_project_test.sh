#!/usr/bin/env bash
# new_project_test.sh BUILD WORKERS [PREFIX_PATH]: does with `muster new` of an installed BUILD what a user does, by
# the commands it prints: builds the project without a warning, tests it, trains it on one process and on WORKERS,
# and goes on with it.
set -euo pipefail
build=$1 prefix_path=${2:-}
source "$(dirname "${BASH_SOURCE[0]}")/prefix.sh" "$build"
cd "$work"
# Where LibTorch is, when it is not the system's; the commands name where Muster is.
export CMAKE_PREFIX_PATH=${prefix_path//;/:}

muster new spirals | tee new.log
# The printed commands, up to the run of the program.
sed -n '/^Next:/,$p' new.log | sed -n 's/^  //p' >commands.sh
grep -q '^cd spirals$' commands.sh
grep -q "^cmake .*-DCMAKE_PREFIX_PATH=$prefix .*&& cmake --build build\$" commands.sh
bash -euo pipefail commands.sh 2>&1 | tee first.log
# LibTorch 2.6's own CMake files warn of a library nobody needs.
if grep -E 'warning:|CMake Warning' first.log | grep -v '/TorchConfig.cmake:'; then
  echo 'error: the project builds with warnings' >&2
  exit 1
fi

# An image, by an engine that looks at what it is given, and writes down how it is called.
mkdir engine
cat >engine/podman <<'ENGINE'
#!/bin/sh
echo "$@" >>"$0.calls"
[ "$1" = build ] || exit 0
for folder; do :; done
test -e "$folder/.muster/prefix/include/muster/muster.h" && ls "$folder"/.muster/prefix/lib*/libmuster-core.so &&
  grep -x libtorch-dev "$folder/.muster/packages" && grep '^COPY .muster/prefix' "$folder/Dockerfile"
ENGINE
chmod +x engine/podman
PATH=$PWD/engine:$PATH muster image spirals --tag=registry.example/spirals:1 --push
grep -qE '^build --build-arg DEBIAN=debian:[a-z]+-slim --tag registry.example/spirals:1 spirals$' engine/podman.calls
grep -qx 'push registry.example/spirals:1' engine/podman.calls
[ ! -e spirals/.muster ]
# One that is stopped ends with all it has started, and what it needed of this machine is gone.
mkdir stuck
cat >stuck/podman <<'ENGINE'
#!/bin/sh
[ "$1" = build ] || exit 0
sleep 600 &
echo $! >"$0.new" && mv "$0.new" "$0.child"
wait
ENGINE
chmod +x stuck/podman
PATH=$PWD/stuck:$PATH muster image spirals &
image=$!
for ((i = 0; i < 600; i++)); do [ ! -e stuck/podman.child ] || break; sleep 0.1; done
kill -TERM $image
code=0
wait $image || code=$?
[ $code = 143 ]
[ ! -e spirals/.muster ]
for ((i = 0; i < 300; i++)); do kill -0 "$(cat stuck/podman.child)" 2>/dev/null || break; sleep 0.1; done
[ $i -lt 300 ]

cd spirals
ctest --test-dir build --output-on-failure
# accuracy FILE: what the last result line says, in ten thousandths.
accuracy() { sed -n 's/.*result: .*"accuracy":0*\([01]\)\.\?\([0-9]*\).*/\1\20000/p' "$1" | tail -1 | cut -c1-5; }
at_least() {  # FILE, ten thousandths
  local reached
  reached=$(accuracy "$1")
  [ "$((10#$reached))" -ge "$2" ] || { echo "error: the accuracy of $1 is $reached, below $2" >&2 && exit 1; }
}
at_least ../first.log 9500
grep -q 'the first test point is of class [012] (probability [01]\.[0-9]*)' ../first.log

muster run --workers=2 -- build/spirals --model_dir=several --max_steps=600 | tee ../several.log
grep -q 'result: {"global_step":600,' ../several.log
at_least ../several.log 9000
# The same command again, further.
muster run --workers=2 -- build/spirals --model_dir=several --max_steps=700 2>&1 | tee ../further.log
grep -q 'continuing after step 600' ../further.log
grep -q 'result: {"global_step":700,' ../further.log
muster inspect checkpoint several >../inspected.log  # a pipe to grep -q would break it off
grep -q 'global_step: 700' ../inspected.log

build/spirals --help >../help.log
# Older CLI11 writes =64, newer [64].
grep -qE -- '--hidden_units INT(=64| \[64\])' ../help.log
code=0
build/spirals --hidden_unit=8 2>../wrong.log || code=$?
[ $code = 2 ]
grep -q 'did you mean --hidden_units?' ../wrong.log
