#include "muster/train/internal/example_audit.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/log.h"

namespace muster::inline v0_1::internal {
namespace {

std::string audit_folder(const std::string& model_dir) { return join_path(model_dir, "audit"); }

}  // namespace

ExampleAudit::ExampleAudit(FileSystem& fs, const std::string& model_dir, const Start& start)
    : fs_(fs), folder_(audit_folder(model_dir)), pass_(start.pass), before_(start.position) {
  segment_.attempt = start.attempt;
  segment_.new_order = start.step > 0 && start.pass == 0 && start.position.elements_total == 0;
  segment_.task = start.task;
  segment_.tasks = start.tasks;
  segment_.from_step = start.step;
  begin(start.step);
}

int64_t ExampleAudit::next_attempt(FileSystem& fs, const std::string& model_dir) {
  int64_t last = 0;
  const auto names = fs.list_directory(audit_folder(model_dir));
  if (!names.ok()) return 1;
  for (const std::string& name : names.value())
    last = std::max(last, formats::attempt_of_audit_file(name));
  return last + 1;
}

void ExampleAudit::begin(int64_t step) {
  segment_.first_step = step + 1;
  segment_.last_step = step;
  segment_.used.clear();
  segment_.left_out.clear();
  segment_.epochs.clear();
  segment_.rows = 0;
}

void ExampleAudit::note(int64_t step, const Position& position, int64_t rows, bool left_out) {
  if (step < segment_.last_step || (step == segment_.last_step && !left_out)) {
    flush();
    ++segment_.attempt;
    segment_.from_step = step - 1;
    // The input does not go back with the weights.
    begin(step - 1);
  }
  auto& ranges = left_out ? segment_.left_out : segment_.used;
  const int64_t epoch = pass_ + before_.epoch;
  if (position.epoch == before_.epoch) {
    formats::add_range(ranges, {epoch, before_.element_in_epoch, position.element_in_epoch});
  } else {
    // All examples before the place where the last epoch began. Epochs between are as long as the
    // first, since a repeat() passes over the same data.
    const int64_t ended = position.epoch - before_.epoch;
    const int64_t begun_at = before_.elements_total - before_.element_in_epoch;
    const int64_t size = (position.elements_total - position.element_in_epoch - begun_at) / ended;
    formats::add_range(ranges, {epoch, before_.element_in_epoch, size});
    for (int64_t i = 1; i < ended; ++i) formats::add_range(ranges, {epoch + i, 0, size});
    formats::add_range(ranges, {epoch + ended, 0, position.element_in_epoch});
    for (int64_t i = 0; i < ended; ++i) segment_.epochs[epoch + i] = size;
  }
  segment_.last_step = std::max(segment_.last_step, step);
  if (!left_out) segment_.rows += rows;
  before_ = position;
}

void ExampleAudit::continue_at(int64_t step, const Position& position) {
  if (step <= segment_.last_step) return;
  // Each example is a row.
  note(step, position, position.elements_total - before_.elements_total, /*left_out=*/false);
}

void ExampleAudit::note_end() {
  if (before_.element_in_epoch > 0)
    segment_.epochs[pass_ + before_.epoch] = before_.element_in_epoch;
}

void ExampleAudit::flush() {
  if (segment_.last_step < segment_.first_step && segment_.left_out.empty() &&
      segment_.epochs.empty())
    return;
  Status status = fs_.make_directories(folder_);
  const std::string path = join_path(folder_, formats::audit_file_name(segment_));
  if (status.ok()) status = fs_.write_atomically(path, formats::encode_audit_segment(segment_));
  if (!status.ok()) {
    log::warning(
        fmt::format("steps {} to {} have no record of their examples yet, which is tried "
                    "again at the next save: {}",
                    segment_.first_step, segment_.last_step, status.error().message()));
    return;
  }
  segment_.new_order = false;
  begin(segment_.last_step);
}

}  // namespace muster::inline v0_1::internal
