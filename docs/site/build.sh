#!/usr/bin/env bash
# build.sh: the site of the tree in the current folder, to build/docs/site, with the API reference in its folder api.
set -euo pipefail
bash docs/api/build.sh
python3 docs/site/pages.py
# Links into the API's pages are files that mkdocs does not make: docs/site/check.py follows all links of the site.
mkdocs build --quiet --clean --config-file docs/site/mkdocs.yml 2> >(grep -v 'contains a link to .*api/' >&2)
cp -r build/docs/html build/docs/site/api
python3 docs/site/api_guides.py
printf 'docs: build/docs/site/index.html\n'
