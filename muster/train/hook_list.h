// The hooks of one replica in one run, called in the order that hook.h promises.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/train/hook.h"
#include "muster/train/results.h"

namespace muster::inline v0_1 {

class HookList {
 public:
  HookList() = default;
  HookList(const HookList&) = delete;
  HookList& operator=(const HookList&) = delete;

  // Adds `hooks` after the existing ones. REQUIRES: begin() was not called.
  void add(const std::vector<std::shared_ptr<Hook>>& hooks);
  bool empty() const { return hooks_.empty(); }
  // Whether a hook wants the run to stop.
  bool stop() const { return control_.stop_requested(); }

  // How many steps after the current one a hook wants recorded.
  int64_t profile_steps() const { return profiles_ ? control_.requests_->profile_steps : 0; }

  // Each calls all hooks. The `control` of an info is set here.
  void begin(RunInfo info);
  void before_step(int64_t global_step);
  void after_step(StepInfo info);
  // In place of after_step(): the step was dropped. A request to stop that before_step() made was
  // for that step, and is forgotten; the next step may make it again.
  void step_left_out();
  void before_save(int64_t global_step);
  void after_save(int64_t global_step, const std::string& prefix);
  void after_evaluate(const Evaluation& evaluation);
  void after_pause(Seconds time);
  void after_profile(int64_t global_step, const formats::Timeline& timeline);
  void end(int64_t global_step);
  // Calls the hooks that began and did not end, the last one first. Never throws.
  void on_error(const Error& error) noexcept;

 private:
  std::vector<std::shared_ptr<Hook>> hooks_;
  size_t begun_ = 0;  // for this many begin() returned
  size_t ended_ = 0;  // and for this many end() was called, from the first on
  const RunControl control_;
  bool stop_before_step_ = false;  // the earlier value of stop()
  bool profiles_ = false;          // steps of this run can be recorded
};

}  // namespace muster::inline v0_1
