#!/usr/bin/env bash
# torch_checks_test.sh SOURCE CMAKE COMPILER NM: each check of cmake/MusterTorchChecks.cmake passes a good LibTorch and
# refuses a bad one with what to do.
set -uo pipefail
source=$1 cmake=$2 compiler=$3 nm=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

expect() {  # ok | what the refusal says, the call, [-DNAME=VALUE...]
  local wanted=$1 call=$2 got=ok said
  shift 2
  printf 'include(%s/cmake/MusterTorchChecks.cmake)\n%s\n' "$source" "$call" >"$work/check.cmake"
  # CMake breaks long messages into lines.
  said=$("$cmake" "-DCMAKE_NM=$nm" "$@" -P "$work/check.cmake" 2>&1) || got=$(tr -s ' \n' ' ' <<<"$said")
  if [ "$wanted" = ok ] && [ "$got" = ok ]; then return; fi
  if [ "$wanted" != ok ] && [[ $got == *"$wanted"*hint:* ]]; then return; fi
  printf '%s\n  expected: %s\n  got: %s\n' "$call" "$wanted" "$got"
  failed=1
}

library() {  # name, source
  printf '%s\n' "$2" >"$work/$1.cc"
  "$compiler" -shared -fPIC -o "$work/$1.so" "$work/$1.cc"
}

expect ok 'muster_check_torch_abi("" /t)'
expect ok 'muster_check_torch_abi("-D_GLIBCXX_USE_CXX11_ABI=1" /t)'
expect 'the LibTorch in /t was built with the old C++ ABI' 'muster_check_torch_abi("-D_GLIBCXX_USE_CXX11_ABI=0" /t)'

library uses 'int twice(int number) { return 2 * number; }'
expect "cannot read the symbols of $work/none.so" "muster_torch_has_filesystem($work/none.so has)"

has() {  # ON | OFF, library
  expect ok "muster_torch_has_filesystem($work/$2.so has)
    if(NOT has STREQUAL $1)
      message(FATAL_ERROR \"$2 has: \${has}\")
    endif()"
}
library files 'namespace std::filesystem { void remove_all(const char*) {} }'
has ON files
has OFF uses

mkdir -p "$work/cpu/lib" "$work/cuda/lib" "$work/cuda/share/cmake"
touch "$work/cuda/lib/libtorch_cuda.so"
expect ok "muster_check_torch_cuda($work/cpu)" -DCUDAToolkit_FOUND=OFF
expect 'is a CUDA build' "muster_check_torch_cuda($work/cpu $work/cuda)" -DCUDAToolkit_FOUND=OFF
expect 'is a CUDA build' "muster_check_torch_cuda($work/cuda/share/cmake)" -DCUDAToolkit_FOUND=OFF
expect ok "muster_check_torch_cuda($work/cuda)" -DCUDAToolkit_FOUND=ON
exit $failed
