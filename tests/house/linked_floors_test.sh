#!/usr/bin/env bash
# linked_floors_test.sh SCRIPT AR COMPILER [FLAG...]: the script finds each kind of break, in a house of four archives.
set -euo pipefail
script=$1 ar=$2
shift 2
compiler=("$@")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
cat >FLOORS <<'FLOORS'
0 base ground core
1 plan ground core
2 net  ground wires
3 data tensor core
part core
part wires core
FLOORS

archive() {  # folder, source
  printf '%s\n' "$2" >"$1.cc"
  "${compiler[@]}" -fPIC -c "$1.cc" -o "$1.o"
  rm -f "lib$1.a"
  "$ar" rc "lib$1.a" "$1.o"
}
house() {
  archive base 'int printed(); namespace muster { int low() { return printed(); } }'
  archive plan 'namespace muster { int low(); int middle() { return low(); } }'
  archive net 'namespace muster { int middle(); int wire() { return middle(); } }'
  archive data 'namespace muster { int low(); int data() { return low(); } }'
}
for folder in base plan net data; do printf '%s %s\n' "$folder" "$root/lib$folder.a"; done >archives
expect() {  # what the script says; nothing: the house is in order
  local said code=0
  said=$(bash "$script" "$root" archives "${compiler[@]}") || code=$?
  if [ -z "$1" ]; then [ "$code" = 0 ] && [ -z "$said" ] || { printf 'a house in order is blamed: %s\n' "$said"; exit 1; }
  else [ "$code" = 1 ] && [[ $said == *"$1"* ]] || { printf 'expected "%s", got %s: %s\n' "$1" "$code" "$said"; exit 1; }; fi
}

house
expect ''
archive base 'namespace muster { int middle(); int low() { return middle(); } }'
expect 'base (floor 0, part core) needs muster::middle(), which no lower floor of its parts defines'
house
archive data 'namespace muster { int wire(); int data() { return wire(); } }'
expect 'data (floor 3, part core) needs muster::wire(), which'
house
archive plan 'namespace muster { int gone(); int middle() { return gone(); } }'
expect 'plan (floor 1, part core) needs muster::gone(), which'
house
archive data 'namespace muster { int low() { return 2; } int data() { return 3; } }'
expect '_ZN6muster3lowEv'
