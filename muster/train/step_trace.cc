#include "muster/train/step_trace.h"

#include <numeric>

namespace muster::inline v0_1 {
namespace {

constexpr std::array<const char*, StepTrace::kParts> kNames{
    "input", "forward", "backward", "reduction", "update", "hooks", "saving", "evaluating"};

}  // namespace

double StepTrace::since_last() {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  return seconds;
}

void StepTrace::lap(Part part) {
  const auto begin = last_;
  seconds_[part] += since_last();
  if (recorder_ != nullptr)
    recorder_->add(distribute::SpanRecorder::kSteps, kNames[part], begin, last_);
}

void StepTrace::lap(const distribute::StepTimes& times) {
  const double total = since_last();
  seconds_[kBackward] += times.backward.count();
  seconds_[kReduction] += times.reduction.count();
  seconds_[kUpdate] += total - times.backward.count() - times.reduction.count();
}

double StepTrace::total() const { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

std::string StepTrace::report() const {
  const double total = this->total();
  const double steps = steps_ > 0 ? static_cast<double>(steps_) : 1.0;
  std::string text = fmt::format("where a step's time goes ({} steps)\n  {:<10} {:>10} {:>8}\n",
                                 steps_, "part", "ms a step", "share");
  for (size_t part = 0; part < kParts; ++part) {
    text +=
        fmt::format("  {:<10} {:>10.3f} {:>7.1f}%\n", kNames[part], seconds_[part] / steps * 1e3,
                    total > 0 ? seconds_[part] / total * 100 : 0.0);
  }
  text += fmt::format("  {:<10} {:>10.3f}", "total", total / steps * 1e3);
  return text;
}

}  // namespace muster::inline v0_1
