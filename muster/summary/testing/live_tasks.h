// Records of tasks that train, for tests of those who read them. Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <string>

#include "muster/summary/live_status.h"

namespace muster::inline v0_1::summary {

// Worker `process` of `processes`, at step 10. Each of its steps takes 0.1 s, of which `input`
// seconds are input and the rest communication. `written` is the time of the record, in seconds.
inline LiveStatus live_task(int64_t process, int64_t processes, float input, double written) {
  LiveStatus status{.task = "worker " + std::to_string(process),
                    .process = process,
                    .processes = processes,
                    .written = written};
  plan::ActivityNow& replica = status.replicas.emplace_back(plan::ActivityNow{
      .task = status.task, .activity = plan::Activity::kInput, .seconds = 0.5, .step = 10});
  for (int64_t s = 1; s <= 10; ++s) {
    plan::StepSeconds& step = replica.last.emplace_back(plan::StepSeconds{.step = s});
    step.seconds[static_cast<size_t>(plan::Activity::kInput)] = input;
    step.seconds[static_cast<size_t>(plan::Activity::kCommunication)] = .1F - input;
  }
  return status;
}

}  // namespace muster::inline v0_1::summary
