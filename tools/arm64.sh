#!/usr/bin/env bash
# arm64.sh ROOT PACKAGE...: Debian packages of arm64, with what they depend on, unpacked into the folder ROOT, for the
# release and from the mirrors that this machine's apt uses. Nothing of this machine changes, so nobody need be root.
set -euo pipefail
root=$1
shift
wanted=$(printf '%s\n' "$@" | sort -u)
[ "$wanted" != "$(cat "$root/packages" 2>/dev/null)" ] || exit 0

mkdir -p "$root.apt"/{state/lists/partial,cache/archives/partial} "$root"
apt=$(cd "$root.apt" && pwd)
: >"$apt/status"
arm64_apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Install-Recommends=0 \
    -o Dir::State="$apt/state" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
    -o Dir::Log="$apt" -o Debug::NoLocking=1 -o APT::Sandbox::User= "$@"
}
arm64_apt update
mapfile -t packages <<<"$wanted"
arm64_apt install -y --download-only "${packages[@]}"
for file in "$apt"/cache/archives/*.deb; do dpkg-deb --extract "$file" "$root"; done
# A link to /lib/... means the one in here.
find "$root" -type l -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
  ln -sfnr "$root$target" "$link"
done
printf '%s\n' "$wanted" >"$root/packages"
