#!/usr/bin/env bash
# package_test.sh BUILD WORKERS: packs BUILD as a .deb and looks at it as dpkg and a user's CMake do.
set -euo pipefail
build=$1 workers=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

(cd "$build" && cpack -G DEB -B "$work/package" >"$work/cpack.log") || fail "$(cat "$work/cpack.log")"
package=$(find "$work/package" -maxdepth 1 -name 'muster_*.deb')
[ -n "$package" ] || fail "no package: $(cat "$work/cpack.log")"

# Besides what programs are built with, it needs what its binaries link.
depends=$(dpkg-deb --field "$package" Depends)
wanted_packages=(libtorch-dev nlohmann-json3-dev libopenblas0-openmp libc6)
# One that trains on several workers talks by gRPC.
[ "$workers" = 1 ] || wanted_packages+=(libgrpc++)
for wanted in "${wanted_packages[@]}"; do
  [[ $depends == *"$wanted"* ]] || fail "the package does not depend on $wanted: $depends"
done

dpkg-deb --extract "$package" "$work/root"
cmake --install "$build" --prefix "$work/prefix" --component library >"$work/install.log"
diff <(cd "$work/root/usr" && find . -type f -o -type l | sort) <(cd "$work/prefix" && find . -type f -o -type l | sort) ||
  fail "the package (<) holds other files than cmake --install (>)"

"$work/root/usr/bin/muster" --version
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(outside LANGUAGES CXX)
find_package(muster REQUIRED)
get_target_property(library muster::library IMPORTED_LOCATION)
if(NOT EXISTS ${library})
  message(FATAL_ERROR "${library} is not there")
endif()
CMAKE
cmake -S "$work/project" -B "$work/project/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/root/usr" >"$work/configure.log" 2>&1 ||
  fail "$(cat "$work/configure.log")"
echo "$(basename "$package"): $(du -h "$package" | cut -f1), depends on $depends"
