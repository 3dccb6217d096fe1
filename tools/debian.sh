#!/usr/bin/env bash
# debian.sh NUMBER [arguments of ./dev test]: `./dev test` on another Debian, in a folder that holds one.
# build/debian-NUMBER/root is the system, made once by debootstrap; build/debian-NUMBER/build is what is built there.
# Mounts and processes live in name spaces of their own: both are gone when this ends, be it by kill -9.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
number=$1
shift
home=$source/build/debian-$number
root=$home/root

fail() {  # message, hint
  printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
  exit 2
}

case $number in
  12) codename=bookworm ;;
  13) codename=trixie ;;
  *) fail "there is no recipe for Debian '$number'" "take one of: 12 13" ;;
esac
[ "$(id -u)" = 0 ] || fail "a folder with another Debian needs root: debootstrap, chroot and mounts do" \
  "run as root, for example: sudo ./dev test --debian=$number"
need() {  # tools
  local tool
  for tool; do
    command -v "$tool" >/dev/null ||
      fail "'$tool' is not here" "on Debian: apt-get install debootstrap util-linux coreutils"
  done
}
need setpriv unshare chroot
# Ends with us: nobody else would stop it when we get no chance to.
dies_with_us=(setpriv --pdeathsig KILL)

# The mirror this machine's own packages come from.
mirror_of_apt() {
  apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
    sed -n 's/^Debian|//p' | head -n 1
}

make_root() {
  local mirror
  need debootstrap apt-get apt-config
  [ -e "/usr/share/debootstrap/scripts/$codename" ] ||
    fail "this debootstrap does not know $codename" "install a newer debootstrap"
  mirror=$(mirror_of_apt)
  [ -n "$mirror" ] || fail "apt's sources name no Debian mirror that was ever read" \
    "run on a Debian machine, after apt-get update"
  printf 'making Debian %s (%s) in %s, from the mirror of this machine\n' "$number" "$codename" "$root"
  mkdir -p "$home"
  # What an interrupted run left; debootstrap's own mounts never leave its name space.
  rm -rf --one-file-system "$root.partial"
  "${dies_with_us[@]}" unshare --mount debootstrap --variant=minbase --include=ca-certificates "$codename" "$root.partial" \
    "$mirror" >"$home/debootstrap.log" 2>&1 || {
    tail -n 20 "$home/debootstrap.log" >&2
    fail "debootstrap failed, see $home/debootstrap.log" "mend what it says and run again"
  }
  apt-config dump | { grep -E '^Acquire::.*[Pp]roxy' || true; } >"$root.partial/etc/apt/apt.conf.d/90proxy"
  mv "$root.partial" "$root"
}

[ -d "$root" ] || make_root
mkdir -p "$home/build" "$root/muster" "$root/data"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

data=${MUSTER_TEST_DATA:-}
[ -n "$data" ] || [ ! -d "$source/../shared/data" ] || data=$source/../shared/data
[ -z "$data" ] || data=$(cd "$data" && pwd)

# A build that is made once is quicker with sources joined.
inside=(MUSTER_UNITY="${MUSTER_UNITY:-ON}" PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}")
[ -z "$data" ] || inside+=(MUSTER_TEST_DATA=/data)
for name in MUSTER_JOBS http_proxy https_proxy no_proxy; do
  [ -z "${!name:-}" ] || inside+=("$name=${!name}")
done

# The source is read-only in there; only what it builds has a place to write. A process group of its own, so that
# Ctrl-C reaches us alone: with the first process of the name space all others end.
set -m
"${dies_with_us[@]}" unshare --mount --propagation private --pid --fork --kill-child bash -euc '
  root=$1 source=$2 build=$3 data=$4
  shift 4
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --bind -o ro /sys "$root/sys"
  mount --bind -o ro "$source" "$root/muster"
  mount --bind "$build" "$root/muster/build"
  [ -z "$data" ] || mount --bind -o ro "$data" "$root/data"
  exec chroot "$root" /usr/bin/env -i "$@"
' bash "$root" "$source" "$home/build" "$data" "${inside[@]}" /muster/dev test "$@" </dev/null &
everything=$!
end() {
  exec 2>/dev/null  # the shell would print the whole command as "Killed"
  kill -KILL "$everything" || true
  wait "$everything" || true
  exit "$1"
}
trap 'end 130' INT
trap 'end 143' TERM HUP
code=0
wait "$everything" || code=$?
exit $code
