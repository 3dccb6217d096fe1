#!/usr/bin/env bash
# linked_floors.sh ROOT ARCHIVES COMPILER [FLAG...]: links all archives of the house as one library, where no symbol may
# be defined twice. Then links those of each folder with --no-undefined, where there is no other archive than those of
# lower floors, of the parts that FLOORS says. ARCHIVES is a file of lines "folder path". Exits with 1 after a line for
# each break.
set -euo pipefail
export LC_ALL=C
root=$1 archives=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=("$@")
link() {  # linker flags, archives of which everything is linked, files that give what these need
  "${compiler[@]}" -shared -o "$work/linked.so" -Wl,--no-undefined,-s$1 -Wl,--whole-archive $2 -Wl,--no-whole-archive \
    -Wl,--start-group $3 -Wl,--end-group 2>&1
}
undefined="undefined (symbol: |reference to [\`'])"

# What others have, as LibTorch, is undefined there; a label stands for each of it from now on.
link ,--warn-unresolved-symbols,--no-demangle "$(awk '{ print $2 }' "$archives")" '' >"$work/all" || true
if grep -E 'duplicate symbol|multiple definition' "$work/all"; then exit 1; fi
# Newer mold wants thread-local ones in a thread-local section.
sed -nE "s/.*$undefined([A-Za-z0-9_.]+)'?\$/\2/p" "$work/all" | sort -u | sed '/6muster/d' >"$work/others"
awk '{ print $2 }' "$archives" | xargs readelf -sW | awk '$4 == "TLS" && $7 == "UND" { print $8 }' | sort -u >"$work/thread_local"
{
  comm -23 "$work/others" "$work/thread_local" | sed 's/.*/.globl &\n&:/'
  echo '.section .tbss,"awT",@nobits'
  comm -12 "$work/others" "$work/thread_local" | sed 's/.*/.globl &\n.type &,@tls_object\n&:/'
} >"$work/others.s"
"${compiler[@]}" -c -o "$work/others.o" "$work/others.s"

# A line for each folder: its place, its archives, those of lower floors.
awk '
  FILENAME ~ /FLOORS$/ && /^[0-9]/ { floor[$2] = $1 + 0; part[$2] = $4; next }
  FILENAME ~ /FLOORS$/ && /^part / { knows[$2] = " "; for (i = 2; i <= NF; ++i) knows[$2] = knows[$2] $i " "; next }
  FILENAME ~ /FLOORS$/ { next }
  !($1 in own) { folders[++count] = $1 }
  { own[$1] = own[$1] " " $2 }
  END {
    for (i = 1; i <= count; ++i) {
      folder = folders[i]; lower = ""
      for (j = 1; j <= count; ++j) {
        other = folders[j]
        if (floor[other] < floor[folder] && index(knows[part[folder]], " " part[other] " ")) lower = lower own[other]
      }
      print folder " (floor " floor[folder] ", part " part[folder] ")|" own[folder] "|" lower
    }
  }' "$root/FLOORS" "$archives" >"$work/folders"

while IFS='|' read -r place own lower; do
  link ,--demangle "$own" "$lower $work/others.o" >"$work/linked" && continue
  needed=$(sed -nE "s/.*$undefined(.*)/\2/p" "$work/linked" | sed "s/'\$//" | sort -u)
  [ -n "$needed" ] || cat "$work/linked"
  sed "s/.*/$place needs &, which no lower floor of its parts defines/" <<<"$needed"
done <"$work/folders" >"$work/said"
cat "$work/said"
[ ! -s "$work/said" ]
