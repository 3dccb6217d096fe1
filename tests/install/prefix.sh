# For tests, to be sourced with BUILD: installs BUILD into $prefix, a folder in $work, which goes when the shell ends.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$1" --prefix "$prefix" >"$work/install.log"
export PATH=$prefix/bin:$PATH OMP_NUM_THREADS=1
