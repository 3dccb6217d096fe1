#!/usr/bin/env bash
# needs_test.sh SOURCE: what ./dev installs and builds for a target or a folder, read from the CMakeLists.txt.
set -euo pipefail
cd "$1"
failed=0
files() { find muster apps examples tests/support -name CMakeLists.txt -print0; }
needs() { files | xargs -0 awk "$@" -f tools/needs.awk; }
of() { sed -n "s/^$1 //p"; }  # the lines of one kind

expect() {  # what is expected, what there is, of what
  [ "$1" = "$2" ] && return
  printf '%s: expected:\n%s\nbut there is:\n%s\n' "$3" "$1" "$2"
  failed=1
}

expect plan_test "$(needs -v folder=muster/plan | of asked)" 'tests of plan'
expect $'base\nplan\nplan_test' "$(needs -v folder=muster/plan | of target | sort)" 'targets of plan'
expect '' "$(needs -v folder=muster/plan | of word | grep -xE 'TORCH|OpenSSL::SSL' || true)" 'plan links neither LibTorch nor OpenSSL::SSL'
expect TORCH "$(needs -v want=mnist | of word | grep -x TORCH)" 'the example links LibTorch'
# A first result does without what no digit needs; whoever asks for the program gets all of it.
lean=$(needs -v want='muster mnist' -v lean=1 | of target)
for target in jobs ps keras trees canned features preprocessing applications; do
  expect '' "$(grep -x -- "$target" <<<"$lean" || true)" "$target in the quickstart"
done
tour=$(needs -v want='line digits prototypes' | of target)
expect $'digits\nline\nprototypes' "$(grep -vxF -- "$lean" <<<"$tour" | sort)" 'what the tour builds that the quickstart has not built'
expect $'jobs\nps' "$(needs -v want='muster mnist' | of target | grep -xE 'jobs|ps' | sort)" 'targets of muster and mnist'
code=0
needs -v want=no_such_target >/dev/null || code=$?
[ $code != 0 ] || expect 'a failure' 0 'a target that is not declared'

# Nothing is installed or configured for a typo.
code=0
said=$(bash dev build mnsit 2>&1) || code=$?
expect 2 "$code" 'the exit code of ./dev build mnsit'
expect "error: there is no target 'mnsit'" "$(head -n 1 <<<"$said")" './dev build mnsit'

# Each library of others that a folder names has its packages in the table of ./dev.
words=$(files | xargs -0 sed 's/#.*//' | grep -oE '[A-Za-z0-9_-]+::[A-Za-z0-9_+-]+|\bmuster_(beast|farmhash|httplib|re2)\b' | sort -u |
  grep -vE '^(muster::.*|Threads::Threads|GTest::.*)$')
[ "$(wc -l <<<"$words")" -ge 12 ] || expect 'a dozen libraries' "$words" 'words of CMakeLists.txt'
for word in $words; do
  grep -qF "[$word]=" dev || expect "[$word]=\"its packages\"" nothing 'the table of packages in ./dev'
done
exit $failed
