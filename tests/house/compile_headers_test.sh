#!/usr/bin/env bash
# compile_headers_test.sh SCRIPT COMPILER [FLAG...]: the script passes a good tree and finds each planted break.
set -uo pipefail
script=$1 compiler=$2
shift 2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/muster/base" "$root/muster/tensor"
printf '0 base ground\n3 tensor tensor\n' >"$root/FLOORS"
failed=0

expect() {  # ok|break, mode, what
  local wanted=$1 mode=$2 what=$3 got=ok
  shift 3
  bash "$script" "$mode" "$root" "$compiler" "${flags[@]}" >"$root/log" 2>&1 || got=break
  if [ "$got" != "$wanted" ]; then
    printf '%s: %s, expected %s\n' "$what" "$got" "$wanted"
    cat "$root/log"
    failed=1
  fi
}

flags=("$@")
printf '#pragma once\n#include <string>\ninline std::string a() { return {}; }\n' >"$root/muster/base/a.h"
# Stands for LibTorch, so that the test is quick and needs none: with this header's guard, as the real one has.
mkdir -p "$root/fake/ATen/core"
printf '#ifdef TORCH_ASSERT_ONLY_METHOD_OPERATORS\n#error operators\n#endif\n' >"$root/fake/ATen/Functions.h"
{ printf '#pragma once\nstruct Tensor {};\n' && seq -f 'extern int x%.0f;' 300000; } >"$root/fake/ATen/core/Tensor.h"
flags+=(-I "$root/fake")
printf '#pragma once\n#include <ATen/core/Tensor.h>\ninline Tensor t() { return {}; }\n' >"$root/muster/tensor/t.h"
printf '#include "muster/base/a.h"\n#include "muster/tensor/t.h"\n' >"$root/muster/muster.h"
for mode in ground tensor weight alone; do expect ok $mode "a good tree"; done

seq -f 'extern int y%.0f;' 500000 >"$root/fake/heavy.h"
printf '#include <heavy.h>\n' >>"$root/muster/muster.h"
expect break weight "a heavy header in muster.h"
printf '#include "muster/base/a.h"\n' >"$root/muster/muster.h"

printf '#include "muster/tensor/t.h"\n' >"$root/muster/base/b.h"
expect break ground "LibTorch reached through another header"
rm "$root/muster/base/b.h"

printf '#include "muster/base/gone.h"\n' >"$root/muster/base/b.h"
expect break ground "a header that does not compile"
rm "$root/muster/base/b.h"

printf '#include <ATen/Functions.h>\n' >"$root/muster/tensor/u.h"
expect break tensor "all operators in a public header"
rm "$root/muster/tensor/u.h"

printf 'inline std::string c() { return {}; }\n' >"$root/muster/base/c.h"
expect break alone "a header that needs another before it"
exit $failed
