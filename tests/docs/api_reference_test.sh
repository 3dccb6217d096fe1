#!/usr/bin/env bash
# api_reference_test.sh SOURCE: docs/api/build.sh accepts this tree, finds each planted break, and what it writes can be
# read.
set -uo pipefail
source=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$source" && cp -r --parents FLOORS cmake docs/api muster/*.h muster/*/*.h "$root" && cd "$root" || exit 1
failed=0

expect() {  # ok|text of the complaint, what
  local wanted=$1 what=$2 code=0
  bash docs/api/build.sh >log 2>&1 || code=$?
  if { [ "$wanted" = ok ] && [ $code != 0 ]; } ||
    { [ "$wanted" != ok ] && { [ $code != 1 ] || ! grep -qF -- "$wanted" log; }; }; then
    printf '%s: ended with %d, expected %s\n' "$what" $code "$wanted"
    cat log
    failed=1
  fi
}

said() {  # text, page
  grep -qF -- "$1" "build/docs/html/$2" || {
    printf '%s does not say: %s\n' "$2" "$1"
    failed=1
  }
}

expect ok "this tree"
said 'trains, evaluates and predicts with a model function' classmuster_1_1Estimator.html
said 'muster/estimator/estimator.h' classmuster_1_1Estimator.html
if grep -rqF 'v0_1' build/docs/html; then
  printf 'the version'\''s inline namespace is shown\n'
  failed=1
fi
# Inside of quotes Doxygen shows what escapes elsewhere.
said 'a variable is "&lt;scope&gt;/&lt;layer&gt;/&lt;slot&gt;"' classmuster_1_1CallContext.html
if grep -rnE '\\(&|[#@%*\\-])' --include='*.html' build/docs/html >stray; then
  printf 'backslashes are shown:\n%s\n' "$(cut -c1-300 stray)"
  failed=1
fi
# A parameter that is commented out has its name.
grep -q 'void.*begin.*info' <(sed 's/<[^>]*>//g' build/docs/html/classmuster_1_1Hook.html) || {
  printf 'Hook::begin has no name for its parameter\n'
  failed=1
}

# What is planted from here on needs no more than one floor around it, which is read in a moment.
find muster -path 'muster/*/*' -name '*.h' ! -path 'muster/base/*' -delete
sed -i -n -E '\#^muster/base/|^muster/[a-z]*\.h$#p' cmake/face/headers.txt
echo muster/base/planted.h >>cmake/face/headers.txt
touch muster/base/planted.h
printf '# API\n\nmuster::Error\n' >docs/api/index.md
expect ok "one floor alone"

plant() { printf '// A planted header.\n#pragma once\nnamespace muster::inline v0_1 {\n%b\n}\n' "$1" >muster/base/planted.h; }
plant '// Fields speak for themselves.\nstruct Planted {\n  int size() const;\n  int field;\n  explicit Planted(int field);\n};\n// Two\n// lines.\nint one();\nint two();'
expect ok "what needs no comment of its own"
said 'Two lines.' namespacemuster.html
plant 'int lonely();'
expect 'muster/base/planted.h:4: warning: Member lonely()' "a function without a contract"
plant 'struct Lonely {\n  int a;\n};'
expect 'Compound muster::Lonely has no comment' "a class without a contract"
plant '// A class.\nclass Kept {\n public:\n  void lonely(int x);\n};'
expect 'Member lonely(int x)' "a method without a contract"
plant '// A class.\nclass Kept {\n public:\n  int a_ = 0;  // its size\n\n  // --- a divider ---\n  void lonely(int x);\n};'
expect 'Member lonely(int x)' "a method under a divider"
plant '// Makes "<name>/100%" of\n// "a <b>,\n// c", and <d>.\nint quoted();\nint quoted_too();'
expect ok "quotes, one of them over two lines"
said 'Makes "&lt;name&gt;/100%" of "a &lt;b&gt;, c", and &lt;d&gt;.' namespacemuster.html
sed -i '/planted/d' cmake/face/headers.txt
mkdir -p muster/base/internal
printf 'int hidden();\n' >muster/base/internal/hidden.h
printf 'int for_tests();\n' >muster/base/temp_directory.h
expect ok "private headers, and those for tests"
sed -i 's/muster::Error/muster::Nowhere/' docs/api/index.md
expect 'there is no muster::Nowhere' "a link that leads nowhere"
exit $failed
