#include "apps/sim/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace muster::sim {

Stage::Process& Stage::make_process() {
  return processes_.emplace_back(simulated, static_cast<int>(processes_.size()));
}

void Stage::start(Process& process, std::function<void()> body) {
  simulated.start(process, [this, body = std::move(body)] {
    try {
      body();
    } catch (const Broken& broken) {
      fail(broken.law);
    } catch (const std::exception& error) {
      fail(fmt::format("nothing else is thrown: {}", error.what()));
    }
  });
}

void Stage::fail(const std::string& law) {
  if (over_) return;  // what ends is not judged
  if (broken_.empty()) broken_ = law;
  note("broken law: " + law);
}

void Stage::run(double until, const std::function<bool()>& done) {
  const auto ends = [&] { return !broken_.empty() || done(); };
  while (!ends()) {
    const double now = simulated.seconds();
    if (now >= until) return fail(fmt::format("the run ends within {:g} s", until));
    if (!events_.empty() && events_.begin()->first <= now) {
      const auto event = events_.extract(events_.begin());
      event.mapped()();
      continue;
    }
    const double next = events_.empty() ? until : std::min(until, events_.begin()->first);
    // One nanosecond more than nothing: the sum of seconds is rounded.
    outside_.wait_until(simulated.now() + from_seconds(next - now) + Duration(1), [&] {
      return ends() || (!events_.empty() && events_.begin()->first < next);  // a new event
    });
  }
}

void Stage::end() {
  if (over_) return;
  over_ = true;
  for (Process& process : processes_) process.freeze_until(simulated.now());
  for (Process& process : processes_) simulated.join(process);
}

}  // namespace muster::sim
