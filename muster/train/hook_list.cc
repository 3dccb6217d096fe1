#include "muster/train/hook_list.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <typeinfo>

#include "muster/base/class_name.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1 {
namespace {

// Makes a call of a hook. Its error says which call that was.
template <typename Call>
void tell(const Hook& hook, const char* call, std::optional<int64_t> step, const Call& make) {
  try {
    make();
  } catch (...) {
    const std::string place = fmt::format("in {}::{}()", class_name(typeid(hook)), call);
    rethrow_with_place("a hook", step ? fmt::format("{} at step {}", place, *step) : place,
                       [](const std::string&) { return std::string(); });
  }
}

}  // namespace

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
  info.control = control_;
  profiles_ = info.is_chief && info.mode == Mode::kTrain;
  for (const auto& hook : hooks_) {
    tell(*hook, "begin", std::nullopt, [&] { hook->begin(info); });
    ++begun_;
  }
}

void HookList::before_step(int64_t global_step) {
  stop_before_step_ = stop();
  control_.requests_->profile_steps = 0;
  for (const auto& hook : hooks_)
    tell(*hook, "before_step", global_step, [&] { hook->before_step(global_step); });
}

void HookList::after_step(StepInfo info) {
  info.control = control_;
  for (const auto& hook : hooks_)
    tell(*hook, "after_step", info.global_step, [&] { hook->after_step(info); });
}

void HookList::step_left_out() { control_.requests_->stop = stop_before_step_; }

void HookList::before_save(int64_t global_step) {
  for (const auto& hook : hooks_)
    tell(*hook, "before_save", global_step, [&] { hook->before_save(global_step); });
}

void HookList::after_save(int64_t global_step, const std::string& prefix) {
  for (const auto& hook : hooks_)
    tell(*hook, "after_save", global_step, [&] { hook->after_save(global_step, prefix); });
}

void HookList::after_evaluate(const Evaluation& evaluation) {
  for (const auto& hook : hooks_) {
    tell(*hook, "after_evaluate", evaluation.global_step, [&] {
      hook->after_evaluate(evaluation.global_step, evaluation.name, evaluation.results);
    });
  }
}

void HookList::after_pause(Seconds time) {
  for (const auto& hook : hooks_)
    tell(*hook, "after_pause", std::nullopt, [&] { hook->after_pause(time); });
}

void HookList::after_profile(int64_t global_step, const formats::Timeline& timeline) {
  for (const auto& hook : hooks_) {
    tell(*hook, "after_profile", global_step, [&] { hook->after_profile(global_step, timeline); });
  }
}

void HookList::end(int64_t global_step) {
  while (ended_ < begun_) {
    Hook& hook = *hooks_[ended_++];
    tell(hook, "end", global_step, [&] { hook.end(global_step); });
  }
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
