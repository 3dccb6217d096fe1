#!/usr/bin/env bash
# compile_user.sh ROOT COMPILER [FLAG...]: a program needs <muster/muster.h> alone, and where one is wrong the compiler
# says in a sentence what it may write.
set -euo pipefail
root=$1 compiler=$2
shift 2
flags=("$@" -std=c++20 -I "$root" -fsyntax-only)
folder=$(dirname "${BASH_SOURCE[0]}")

"$compiler" "${flags[@]}" -Wall -Wextra -Wno-parentheses -Werror "$folder/user_program.cc"

if said=$("$compiler" "${flags[@]}" "$folder/wrong_program.cc" 2>&1); then
  echo 'wrong_program.cc compiles'
  exit 1
fi
for words in 'an input function takes nothing, or a const InputContext&, and returns a Dataset' \
  'run() passes its arguments to the function'; do
  grep -qF "$words" <<<"$said" || {
    printf 'the compiler does not say "%s":\n%s\n' "$words" "$said"
    exit 1
  }
done
