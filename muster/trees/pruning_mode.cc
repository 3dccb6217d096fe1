#include "muster/trees/pruning_mode.h"

#include "muster/base/unknown_name.h"

namespace muster::inline v0_1::trees {

PruningMode pruning_mode_of(const std::string& name) {
  if (name == "none") return PruningMode::kNone;
  if (name == "pre") return PruningMode::kPre;
  if (name == "post") return PruningMode::kPost;
  throw unknown_name("a boosted trees model", "pruning_mode", name, {"none", "pre", "post"});
}

}  // namespace muster::inline v0_1::trees
