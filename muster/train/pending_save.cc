#include "muster/train/pending_save.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/save_together.h"

namespace muster::inline v0_1 {

void PendingSave::begin(CheckpointWriter* writer, const std::function<CheckpointInParts()>& make,
                        std::function<void(const std::string& prefix)> saved, FailedSaves* may_fail,
                        bool in_parts) {
  any_ = true;
  patient_ = may_fail != nullptr || in_parts;
  in_parts_ = needs_group_ = in_parts;
  prefix_.clear();
  if (writer == nullptr) return;
  saved_ = std::move(saved);
  may_fail_ = may_fail;
  writer->check();
  internal::saved_or_counted(*writer, may_fail, [&] {
    CheckpointInParts made = make();
    step_ = made.checkpoint.global_step;
    writer->begin(std::move(made.checkpoint), std::move(made.rest));
    writer_ = writer;
  });
}

void PendingSave::write_part(int64_t step, std::function<void()> write) {
  if (part_.valid()) part_.get();
  part_ = internal::write_aside(step, [write = std::move(write)]() mutable {
    write();
    return std::string();
  });
}

void PendingSave::leave_group(bool is_chief) {
  needs_group_ = false;
  if (!is_chief) any_ = patient_ = false;
}

void PendingSave::expect(bool may_fail) {
  any_ = true;
  patient_ = may_fail;
}

void PendingSave::look() {
  if (is_done()) (void)await();
}

std::string PendingSave::await() {
  if (writer_ == nullptr) return prefix_;
  CheckpointWriter& writer = *std::exchange(writer_, nullptr);
  const bool may_go_on = internal::saved_or_counted(writer, may_fail_, [&] {
    try {
      prefix_ = writer.finish();
    } catch (const Error& error) {
      const bool lost = in_parts_ && error.kind() == ErrorKind::kPeerLost && !writer.rest_failed();
      if (!lost) throw;
      log::warning(error.message());
    }
  });
  if (!may_go_on || prefix_.empty()) return "";
  if (may_fail_ != nullptr) may_fail_->forget();
  if (saved_) saved_(prefix_);
  return prefix_;
}

std::optional<bool> PendingSave::settle(distribute::Replica& replica, const std::string& waiter) {
  if (!any_) return std::nullopt;
  if (writer_ != nullptr) {
    internal::tell_if_it_waits([&](Seconds time) { return writer_->is_done_within(time); }, waiter,
                               step_, &waits_);
  }
  const bool saved = !await().empty();
  any_ = needs_group_ = false;
  const bool agreed = internal::agree_on_saved(replica, saved, patient_);
  // Where no save may fail, the replicas only meet: the chief has thrown the error before.
  return agreed && (saved || !replica.is_chief());
}

}  // namespace muster::inline v0_1
