#include "muster/train/save_together.h"

#include <algorithm>
#include <vector>

#include "muster/files/shared_patience.h"

namespace muster::inline v0_1 {

bool internal::saved_or_counted(CheckpointWriter& writer, FailedSaves* may_fail,
                                const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    if (may_fail == nullptr || writer.rest_failed()) throw;
    // Saving takes long: the run may have lost the directory meanwhile.
    writer.check();
    may_fail->note(error);
    return false;
  }
  return true;
}

bool internal::agree_on_saved(distribute::Replica& replica, bool saved, bool patient) {
  replica.group().barrier("saved");
  if (!patient) return true;
  const std::vector<std::string> told =
      replica.group().gather_text("save", replica.is_chief() && !saved ? "failed" : "");
  return std::ranges::all_of(told, [](const std::string& each) { return each.empty(); });
}

Saved save_together(distribute::Replica& replica, const std::function<CheckpointWriter&()>& writer,
                    const std::function<CheckpointInParts()>& make,
                    const std::function<void(const std::string& prefix)>& saved,
                    const SaveWay& way) {
  Saved made;
  if (way.aside != nullptr) {
    way.aside->begin(replica.is_chief() ? &writer() : nullptr, make, saved, way.may_fail,
                     way.in_parts);
    if (replica.is_chief()) made.await = [pending = way.aside] { return pending->await(); };
    return made;
  }
  if (replica.is_chief()) {
    CheckpointWriter& to = writer();
    to.check();
    if (internal::saved_or_counted(to, way.may_fail, [&] {
          const SharedPatience patience;
          CheckpointInParts all = make();
          if (all.rest) all.rest(all.checkpoint).value();
          made.prefix = to.save(all.checkpoint);
        })) {
      if (way.may_fail != nullptr) way.may_fail->forget();
      if (saved) saved(made.prefix);
    }
  }
  made.saved = internal::agree_on_saved(replica, !made.prefix.empty(), way.may_fail != nullptr);
  return made;
}

}  // namespace muster::inline v0_1
