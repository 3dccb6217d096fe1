// The rules of the source tree that can be read off the text: which folders may include which, and
// how large headers may be. Thread safety: pure functions of the files.
#pragma once

#include <string>
#include <vector>

namespace muster::house {

struct Finding {
  std::string file;  // from the root on
  int line = 0;      // 0: the file as a whole
  std::string what;
};

struct Report {
  std::vector<Finding> violations;
  std::vector<Finding> warnings;
};

// "muster/plan/a.h:3: ..."; a line each.
std::string to_string(const std::vector<Finding>& findings);

// Reads the table FLOORS and all sources below `root`. Throws std::runtime_error when FLOORS cannot
// be read.
Report check_house(const std::string& root);

}  // namespace muster::house
