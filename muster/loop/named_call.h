// The name of the program's call, if it is made of other calls: messages name it, and not the inner
// ones. Thread safety: belongs to the thread that made it.
#pragma once

#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::distribute {

// While it lives, calls of Strategy and Scope on this thread are parts of `name`,
// "Model::evaluate()". Workers that are in different calls learn so by these names, where they
// would wait for each other.
class MUSTER_PART_EXPORT NamedCall {
 public:
  explicit NamedCall(const char* name);
  ~NamedCall();
  NamedCall(const NamedCall&) = delete;
  NamedCall& operator=(const NamedCall&) = delete;

  // "Model::fit()"; of calls within each other "Model::save() in Model::fit()"; `own` without any.
  static std::string current(const char* own);
};

}  // namespace muster::inline v0_1::distribute
