#include "muster/train/hook_list.h"

#include <fmt/format.h>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"

namespace muster::inline v0_1 {

void check_hooks(const std::vector<std::shared_ptr<Hook>>& hooks, const char* field) {
  for (size_t h = 0; h < hooks.size(); ++h) {
    if (hooks[h]) continue;
    throw invalid_argument(fmt::format("{}[{}] is empty (nullptr)", field, h),
                           "give it std::make_shared<...>() of a class derived from Hook, or leave "
                           "it out");
  }
}

void HookList::add(const std::vector<std::shared_ptr<Hook>>& hooks) {
  hooks_.insert(hooks_.end(), hooks.begin(), hooks.end());
}

void HookList::begin(RunInfo info) {
  info.stop = &stop_;
  if (info.is_chief && info.mode == Mode::kTrain) info.profile_steps = &profile_steps_;
  for (const auto& hook : hooks_) {
    hook->begin(info);
    ++begun_;
  }
}

void HookList::before_step(int64_t global_step) {
  profile_steps_ = 0;
  for (const auto& hook : hooks_) hook->before_step(global_step);
}

void HookList::after_step(StepInfo info) {
  info.stop = &stop_;
  for (const auto& hook : hooks_) hook->after_step(info);
}

void HookList::before_save(int64_t global_step) {
  for (const auto& hook : hooks_) hook->before_save(global_step);
}

void HookList::after_save(int64_t global_step, const std::string& prefix) {
  for (const auto& hook : hooks_) hook->after_save(global_step, prefix);
}

void HookList::after_evaluate(const Evaluation& evaluation) {
  for (const auto& hook : hooks_)
    hook->after_evaluate(evaluation.global_step, evaluation.name, evaluation.results);
}

void HookList::after_pause(double seconds) {
  for (const auto& hook : hooks_) hook->after_pause(seconds);
}

void HookList::after_profile(int64_t global_step, const formats::Timeline& timeline) {
  for (const auto& hook : hooks_) hook->after_profile(global_step, timeline);
}

void HookList::end(int64_t global_step) {
  while (ended_ < begun_) hooks_[ended_++]->end(global_step);
}

void HookList::on_error(const Error& error) noexcept {
  while (begun_ > ended_) {
    try {
      hooks_[--begun_]->on_error(error);
    } catch (...) {
      log::warning("a hook failed in on_error(), while the run ended with an error: " +
                   current_error().message());
    }
  }
}

}  // namespace muster::inline v0_1
