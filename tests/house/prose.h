// The words that do not come back: docs/style.md threw them out of documents, help texts and the
// comments of installed headers. Thread safety: pure functions of the files.
#pragma once

#include <string>
#include <vector>

#include "tests/house/rules.h"

namespace muster::house {

// Reads Markdown files below `root` (without code and quotations in backquotes), the comments of
// the headers in cmake/face/headers.txt, and the texts in the sources of apps/ and muster/.
// docs/style.md, which quotes these words, CHANGELOG.md and tests are not read. Each finding says
// what to write instead. Throws std::runtime_error if headers.txt cannot be read.
std::vector<Finding> check_prose(const std::string& root);

}  // namespace muster::house
