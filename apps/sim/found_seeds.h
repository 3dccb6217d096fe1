// Expectations of tests on the first seed of a scenario that breaks a law. Thread safety: none.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "apps/sim/seed_search.h"
#include "muster/base/log_sink.h"

namespace muster::sim {

// What the tasks log is no output of these tests.
struct Silence {
  Silence() {
    log::set_sink([](const log::Line&) {});
  }
  ~Silence() { log::set_sink({}); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
};

// No seed breaks a law; the message shows the first that does.
inline void expect_no_failure(const Scenario& scenario, uint64_t seeds) {
  const Silence silence;
  const auto found = find_failure(scenario, 0, seeds, 2);
  if (!found) return;
  ADD_FAILURE() << replay(scenario, found->seed, shrink(scenario, found->seed, found->faults));
}

// One of the seeds breaks a law that `law` matches; it does so again, and with fewer faults or
// none.
template <typename Law>
void expect_failure(const Scenario& scenario, uint64_t seeds, Law law) {
  const Silence silence;
  std::optional<FailingSeed> found;
  std::set<std::string> others;
  for (uint64_t first = 0; first < seeds; first = found->seed + 1) {
    found = find_failure(scenario, first, seeds - first, 2);
    if (!found || testing::Matches(law)(found->law)) break;
    others.insert(found->law);
  }
  ASSERT_TRUE(found) << "the bug was not found; these laws were broken: "
                     << testing::PrintToString(others);
  EXPECT_THAT(found->law, law);
  Trace trace(/*kept=*/true);
  EXPECT_EQ(scenario.run(found->seed, found->faults, trace), found->law);
  EXPECT_THAT(trace.lines(), testing::Contains(testing::HasSubstr("broken law: " + found->law)));
  const auto fewer = shrink(scenario, found->seed, found->faults);
  EXPECT_LE(fewer.size(), found->faults.size());
  Trace none;
  EXPECT_NE(scenario.run(found->seed, fewer, none), "");
  // None of those that are left can be taken away.
  for (size_t i = 0; i < fewer.size(); ++i) {
    auto without = fewer;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(scenario.run(found->seed, without, none), "") << fewer[i].text;
  }
}

}  // namespace muster::sim
