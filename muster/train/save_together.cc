#include "muster/train/save_together.h"

#include <algorithm>
#include <vector>

#include "muster/files/shared_patience.h"

namespace muster::inline v0_1 {
namespace {

// Returns the prefix; "" for a save that failed and may.
std::string write_on_chief(CheckpointWriter& writer,
                           const std::function<std::string(CheckpointWriter&)>& write,
                           FailedSaves* may_fail) {
  writer.check();
  try {
    const SharedPatience patience;
    const std::string prefix = write(writer);
    if (may_fail != nullptr) may_fail->forget();
    return prefix;
  } catch (const Error& error) {
    if (may_fail == nullptr) throw;
    // Saving takes long: the run may have lost the directory meanwhile.
    writer.check();
    may_fail->note(error);
    return "";
  }
}

// Whether the chief has saved; all replicas learn it.
bool agree_on_saved(distribute::Replica& replica, bool saved) {
  const std::vector<std::string> told =
      replica.group().gather_text("save", replica.is_chief() && !saved ? "failed" : "");
  return std::ranges::all_of(told, [](const std::string& each) { return each.empty(); });
}

}  // namespace

Saved save_together(distribute::Replica& replica, const std::function<CheckpointWriter&()>& writer,
                    const std::function<std::string(CheckpointWriter&)>& write,
                    const std::function<void(const std::string& prefix)>& saved,
                    FailedSaves* may_fail) {
  Saved made;
  if (replica.is_chief()) {
    made.prefix = write_on_chief(writer(), write, may_fail);
    if (saved && !made.prefix.empty()) saved(made.prefix);
  }
  replica.group().barrier("saved");
  if (may_fail != nullptr) made.saved = agree_on_saved(replica, !made.prefix.empty());
  return made;
}

}  // namespace muster::inline v0_1
