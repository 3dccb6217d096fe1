#!/usr/bin/env bash
# package_test.sh BUILD [PREFIX_PATH]: packs BUILD as Debian packages and looks at them as dpkg and a user's CMake do.
set -euo pipefail
build=$1 prefix_path=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# This test unpacks each package again, so packages are not compressed.
(cd "$build" && cpack -G DEB -D CPACK_DEBIAN_COMPRESSION_TYPE=none -B "$work/package" >"$work/cpack.log" 2>&1) || fail "$(cat "$work/cpack.log")"
for name in libmuster-core libmuster-keras libmuster-tabular libmuster-servers libmuster-stores libmuster-tensorflow libmuster-kerasfiles libmuster-onnx libmuster-parallel libmuster-tpu libmuster-dev muster \
  muster-board muster-jobs muster-serve muster-train muster-model; do
  ls "$work/package/${name}_"*.deb >/dev/null || fail "no package $name: $(cat "$work/cpack.log")"
done

# depends NAME WANTED...: besides what its binaries link, a package needs what is built with it, and its own kind.
depends() {
  local name=$1 said wanted
  shift
  said=$(dpkg-deb --field "$work/package/${name}_"*.deb Depends)
  for wanted in "$@"; do
    [[ ", $said" == *", $wanted"* ]] || fail "the package $name does not depend on $wanted: $said"
  done
}
depends libmuster-core libc6 libre2
depends libmuster-stores libcurl libmuster-core libpugixml
depends libmuster-keras libmuster-core
depends libmuster-kerasfiles libhdf5 libmuster-core
depends libmuster-onnx libonnx1 libmuster-core libmuster-tensorflow
depends libmuster-dev libtorch-dev nlohmann-json3-dev libmuster-core libmuster-keras libmuster-stores
depends muster-serve muster libonnx1 libopenblas0-openmp libprotobuf libsimdjson
depends muster-model muster libonnx1 libprotobuf
depends muster-jobs libyaml-cpp muster
[[ ! $(dpkg-deb --field "$work/package/muster_"*.deb Depends) =~ yaml ]] || fail "muster depends on what reads jobs"
core=$(dpkg-deb --field "$work/package/libmuster-core_"*.deb Depends)
keras=$(dpkg-deb --field "$work/package/libmuster-keras_"*.deb Depends)
[[ ! $keras =~ hdf5|libmuster-(servers|stores|tabular) ]] || fail "libmuster-keras depends on more than core: $keras"
[[ ! $core =~ curl|pugixml|yaml|hdf5|libmuster ]] || fail "libmuster-core depends on more than it is made of: $core"

# Each file is in one package, and together they are what is installed.
for package in "$work/package"/*.deb; do
  dpkg-deb --contents "$package" | awk '$1 !~ /^d/ { print $6 }' >>"$work/files"
  dpkg-deb --extract "$package" "$work/root"
done
twice=$(sort "$work/files" | uniq -d)
[ -z "$twice" ] || fail "two packages have $twice"
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
diff <(cd "$work/root/usr" && find . -type f -o -type l | sort) <(cd "$work/prefix" && find . -type f -o -type l | sort) ||
  fail "the packages (<) hold other files than cmake --install (>)"

"$work/root/usr/bin/muster" --version
# find NAME WORDS: what a project says that looks for Muster so.
find_muster() {
  mkdir -p "$work/$1"
  cat >"$work/$1/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.18)
project(outside LANGUAGES CXX)
find_package(muster REQUIRED $2)
get_target_property(library muster::core_library IMPORTED_LOCATION)
if(NOT EXISTS \${library})
  message(FATAL_ERROR "\${library} is not there")
endif()
CMAKE
  cmake -S "$work/$1" -B "$work/$1/build" -G Ninja "-DCMAKE_PREFIX_PATH=$work/root/usr;$prefix_path" >"$work/configure.log" 2>&1
}
find_muster all 'COMPONENTS core keras tabular servers stores tensorflow kerasfiles onnx parallel tpu' || fail "$(cat "$work/configure.log")"
# A machine that has no package of one part is told which one is missing.
find "$work/root" -name 'libmuster-keras.so*' -delete
find_muster rest '' || fail "$(cat "$work/configure.log")"
! find_muster keras 'COMPONENTS core keras' || fail 'a part that is not there was found'
tr -s ' \n' ' ' <"$work/configure.log" | grep -q "part 'keras' of Muster is not in .*apt-get install libmuster-keras" ||
  fail "$(cat "$work/configure.log")"
du -h "$work/package"/*.deb
