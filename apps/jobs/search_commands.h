// Searches of `muster submit` in a folder of a test. For tests. Thread safety: as JobCommands.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "apps/jobs/job_commands.h"

namespace muster::app {

// A search with the given number of trials, in all and in parallel.
inline std::string search_of(int trials, int parallel) {
  return "scaleTier: BASIC\nhyperparameters:\n  goal: MAXIMIZE\n  maxTrials: " +
         std::to_string(trials) + "\n  maxParallelTrials: " + std::to_string(parallel) +
         "\n  algorithm: GRID_SEARCH\n  hyperparameterMetricTag: score\n  params:\n"
         "  - {parameterName: x, type: INTEGER, minValue: 1, maxValue: 9}\n";
}

// Reports as programs do that were written for Google's service: in a file.
constexpr const char* kReport =
    "echo '{\"global_step\": \"1\", \"'$CLOUD_ML_HP_METRIC_TAG'\": \"0.'$CLOUD_ML_TRIAL_ID'\"}' "
    "> $CLOUD_ML_HP_METRIC_FILE\n";

class SearchCommandTest : public JobCommands {
 protected:
  // Kills the process that runs the search.
  void kill_search(const std::string& name) const {
    const auto record =
        nlohmann::json::parse(read(state_ + "/muster/jobs/" + name + "/record.json"));
    ASSERT_EQ(kill(std::stoi(record["id"].get<std::string>()), SIGKILL), 0);
  }
};

}  // namespace muster::app
