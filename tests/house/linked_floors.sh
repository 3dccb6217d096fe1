#!/usr/bin/env bash
# linked_floors.sh ROOT NM ARCHIVES: what a linker would say that links each archive without an undefined symbol, where
# it has no other archives of the house than those of lower floors, of the parts that FLOORS says. And whether each
# function and class is defined in one archive. ARCHIVES is a file of lines "folder path"; symbols of others than
# muster:: are not asked for. Exits with 1 after a line for each break.
set -euo pipefail
root=$1 nm=$2 archives=$3
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# "@ folder archive", then its symbols: name and kind.
while read -r folder path; do
  printf '@ %s %s\n' "$folder" "${path##*/}"
  "$nm" -g -P "$path" | awk 'NF > 1 { print $1, $2 }'
done <"$archives" >"$list"

awk '
  function may(from, to) {
    return archive_folder[from] == archive_folder[to] ||
      (floor[archive_folder[to]] < floor[archive_folder[from]] &&
       index(knows[part[archive_folder[from]]], " " part[archive_folder[to]] " ") > 0)
  }
  function place(archive) {
    return archive " (floor " floor[archive_folder[archive]] ", part " part[archive_folder[archive]] ")"
  }
  FILENAME ~ /FLOORS$/ && /^[0-9]/ { floor[$2] = $1 + 0; part[$2] = $4; next }
  FILENAME ~ /FLOORS$/ && /^part / { knows[$2] = " "; for (i = 2; i <= NF; ++i) knows[$2] = knows[$2] $i " "; next }
  FILENAME ~ /FLOORS$/ { next }
  $1 == "@" { archive = $3; archive_folder[archive] = $2; if (!($2 in floor)) { print $2 " is not in FLOORS"; broken = 1 } next }
  $1 !~ /6muster/ { next }
  $2 == "U" { if (!((archive, $1) in asked)) { asked[archive, $1] = 1; needs[++count] = archive " " $1 } next }
  $2 ~ /^[wv]$/ { next }
  {
    if (!((archive, $1) in has)) {
      has[archive, $1] = 1
      where[$1] = where[$1] " " archive
      # What stands in a header may be in each; this is in one source.
      if ($2 ~ /^[TDBRSG]$/ && ($1 in strong)) {
        print place(strong[$1]) " and " place(archive) " both define " $1; broken = 1
      } else if ($2 ~ /^[TDBRSG]$/) strong[$1] = archive
    }
  }
  END {
    for (i = 1; i <= count; ++i) {
      split(needs[i], need, " ")
      if ((need[1], need[2]) in has) continue
      found = 0
      n = split(where[need[2]], places, " ")
      for (j = 1; j <= n && !found; ++j) found = may(need[1], places[j])
      if (found) continue
      broken = 1
      print place(need[1]) " needs " need[2] ", which " (n ? place(places[1]) " defines" : "no archive defines")
    }
    exit broken
  }' "$root/FLOORS" "$list" | if command -v c++filt >/dev/null; then c++filt; else cat; fi
