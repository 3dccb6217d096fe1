#!/usr/bin/env bash
# compile_headers.sh MODE ROOT COMPILER [FLAG...]: what only a compiler can tell of the headers below ROOT/muster.
#   ground  all headers of the ground storey together reach no file of LibTorch
#   tensor  all public headers of the tensor storey, without those of modules, together reach no operator header of LibTorch
#   weight  muster/muster.h brings hardly more text than the one header of LibTorch it needs: 3 s of a compiler
#   alone   each header compiles by itself (KIND=ground: only those of the ground storey)
set -euo pipefail
mode=$1 root=$2 compiler=$3
shift 3
flags=("$@" -std=c++20 -I "$root" -x c++ -Wfatal-errors -fsyntax-only)
cd "$root"

folders() {
  awk -v storey="$1" '/^[0-9]/ && $3 == storey {print $2}' FLOORS
}

# headers STOREY [internal]: with "internal" the private ones too.
headers() {
  local folder
  for folder in $(folders "$1"); do
    [ -d "muster/$folder" ] || continue
    if [ "${2:-}" = internal ]; then
      find "muster/$folder" -name '*.h'
    else
      find "muster/$folder" -maxdepth 1 -name '*.h'
    fi
  done | sort
}

as_includes() { sed 's/.*/#include "&"/'; }

case $mode in
  ground)
    all=$(headers ground internal | as_includes | "$compiler" "${flags[@]}" -M -)
    reached=$(tr ' ' '\n' <<<"$all" | grep -E '/(ATen|torch|c10|c10d|caffe2)/' || true)
    if [ -n "$reached" ]; then
      printf 'headers of the ground storey reach LibTorch:\n%s\n' "$reached"
      exit 1
    fi
    ;;
  tensor)
    # With these two macros LibTorch refuses any header that brings all operators with it.
    {
      headers tensor | grep -vxE 'muster/tensor/libtorch\.h|muster/parallel/.*'
      find muster -maxdepth 1 -name '*.h' ! -name torch.h ! -name parallel.h
    } | as_includes |
      "$compiler" "${flags[@]}" -DAT_PER_OPERATOR_HEADERS -DTORCH_ASSERT_ONLY_METHOD_OPERATORS -
    ;;
  weight)
    lines() { printf '#include <%s>\n' "$@" | "$compiler" "${preprocess[@]}" -E - | grep -vc '^#'; }
    preprocess=()
    for flag in "${flags[@]}"; do [ "$flag" = -fsyntax-only ] || preprocess+=("$flag"); done
    ours=$(lines muster/muster.h) theirs=$(lines ATen/core/Tensor.h chrono)
    # <chrono> is all of <format> in newer standard libraries, so it is counted on both sides.
    printf 'muster/muster.h: %s lines; ATen/core/Tensor.h and chrono alone: %s\n' "$ours" "$theirs"
    if [ $((ours - theirs)) -gt 23500 ]; then
      echo 'that is over 23,500 lines more: what heavy header came in? see -H of the compiler'
      exit 1
    fi
    ;;
  alone)
    export compiler
    {
      headers ground internal
      if [ "${KIND:-all}" = all ]; then
        headers tensor internal
        find muster -maxdepth 1 -name '*.h'
      fi
    } | xargs -r -P "$(nproc)" -I{} bash -c '
      header=$1; shift
      printf "#include \"%s\"\n" "$header" | "$compiler" "$@" - || { echo "$header does not stand alone"; exit 1; }
    ' _ {} "${flags[@]}"
    ;;
  *)
    echo "unknown mode $mode"
    exit 2
    ;;
esac
