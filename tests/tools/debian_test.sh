#!/usr/bin/env bash
# debian_test.sh SOURCE: when tools/debian.sh is killed with -9, nothing of what it started stays.
# Instead of another Debian there is an empty folder, and instead of chroot a program that goes on for long.
set -euo pipefail
source=$1
unshare --mount --pid --fork true 2>/dev/null || {
  echo "skipped: name spaces of mounts and processes need root"
  exit 77
}
work=$(mktemp -d)
script= inside=
end() {
  [ -z "$script" ] || kill -KILL "$script" 2>/dev/null || true
  [ -z "$inside" ] || kill -KILL "$inside" 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT

system=$work/build/debian-13/root  # where debian.sh looks for the other Debian
mkdir -p "$work/tools" "$work/bin" "$system"/{proc,dev,sys,etc}
cp "$source/tools/debian.sh" "$work/tools/"
mkfifo "$work/alive"
# What holds the pipe open is what is still alive.
printf '#!/bin/sh\nexec >%s/alive\necho started\nexec sleep 300\n' "$work" >"$work/bin/chroot"
chmod +x "$work/bin/chroot"

PATH=$work/bin:$PATH MUSTER_TEST_DATA= bash "$work/tools/debian.sh" 13 >"$work/log" 2>&1 &
script=$!
exec 3< <(exec timeout 60 cat "$work/alive")
if ! IFS= read -r -t 30 -u 3 line || [ "$line" != started ]; then
  printf 'nothing was started; the script said:\n%s\n' "$(cat "$work/log")"
  exit 1
fi
inside=$(cut -d' ' -f1 "/proc/$script/task/$script/children")
kill -KILL "$script"
wait "$script" 2>/dev/null || true
script=
code=0
IFS= read -r -t 20 -u 3 line || code=$?
if [ "$code" != 1 ]; then  # 1: the end of the pipe; more: the time is over
  printf 'what tools/debian.sh started goes on without it:\n%s\n' "$(ps -o pid,args -p "$inside" || true)"
  exit 1
fi
echo "all of it is gone"
