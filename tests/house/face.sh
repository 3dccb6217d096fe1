#!/usr/bin/env bash
# face.sh headers ROOT COMPILER [FLAG...]: what is installed is what a user's #include of muster.h, torch.h or the
#   header of a part reaches, as the compiler sees it: cmake/face/headers.txt.
# face.sh symbols ROOT NM LIBRARY...: classes and functions that the shared libraries export, of muster:: and by part:
#   cmake/face/symbols.txt. A method counts as its class, so a new one is no change.
# Prints how the list differs, and exits with 1. RENEW=1 writes the list anew.
set -euo pipefail
export LC_ALL=C
what=$1 root=$2 tool=$3
shift 3
list=$root/cmake/face/$what.txt

headers() {
  local header tops=()
  tops=("$root"/muster/*.h)
  for header in "${tops[@]}"; do echo "#include \"muster/${header##*/}\""; done |
    "$tool" "$@" -std=c++20 -I "$root" -M -x c++ - | tr ' ' '\n' | sed -n "s|^$root/muster/|muster/|p" | sort -u
}

# What stands in a header (weak) is where a compiler did not inline it, which says nothing.
# A symbol's class begins with a capital, and namespaces do not; what follows the class is of the class.
symbols() {
  local library part
  for library in "$@"; do
    part=${library##*libmuster-}
    part=${part%%.so*}
    "$tool" -D -C --defined-only "$library" | sed -nE 's/^[0-9a-f]* *[TDBRGS] //p' | awk -v part="$part" '
      {
        name = $0
        gsub(/\[abi:[a-z0-9]+\]/, "", name)
        sub(/^((non-)?virtual thunk to|(vtable|typeinfo name|typeinfo|VTT|guard variable) for) /, "", name)
        sub(/::operator [^(]*/, "::operator", name)  # a conversion
        # Arguments, of templates and of functions, say nothing more.
        plain = ""; depth = 0
        for (i = 1; i <= length(name); ++i) {
          c = substr(name, i, 1)
          if (c == "<") ++depth; else if (c == ">") --depth
          else if (c == "(" && depth == 0) break
          else if (depth == 0) plain = plain c
        }
        n = split(plain, words, " "); plain = words[n]
        if (plain !~ /^muster::v[0-9_]+::/) next
        sub(/^muster::v[0-9_]+::/, "", plain)
        n = split(plain, steps, "::"); out = ""
        for (i = 1; i <= n; ++i) {
          out = out (i > 1 ? "::" : "") steps[i]
          if (steps[i] ~ /^[A-Z]/) break
        }
        print part, out
      }'
  done | sort -u
}

actual=$(mktemp)
trap 'rm -f "$actual"' EXIT
"$what" "$@" >"$actual"
[ -s "$actual" ] || { echo "no $what found" && exit 1; }
if [ "${RENEW:-}" = 1 ]; then
  cp "$actual" "$list"
elif ! diff -u --label "cmake/face/$what.txt" --label 'as built' "$list" "$actual"; then
  printf 'The public face changed. If that is meant, write the list anew: RENEW=1 bash tests/house/face.sh, as ctest -V -R face shows it.\n'
  exit 1
fi
