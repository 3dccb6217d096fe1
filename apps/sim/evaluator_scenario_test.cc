#include "apps/sim/evaluator_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/sim/found_seeds.h"
#include "muster/base/fault_file_system.h"

namespace muster::sim {
namespace {

using testing::HasSubstr;

TEST(EvaluatorScenario, NoSeedBreaksALaw) { expect_no_failure(EvaluatorScenario(), 100); }

// A chief that sees no lease deletes what an evaluator reads.
class SeesNoLease : public FaultFileSystem {
 public:
  using FaultFileSystem::FaultFileSystem;
  Result<std::vector<std::string>> list_directory(const std::string& path) override {
    auto names = FaultFileSystem::list_directory(path);
    if (names.ok())
      std::erase_if(names.value(),
                    [](const std::string& name) { return name.ends_with(".lease"); });
    return names;
  }
};

TEST(EvaluatorScenario, FindsAChiefThatIgnoresLeases) {
  expect_failure(
      EvaluatorScenario({.chief_files = [](FileSystem& files) -> std::unique_ptr<FileSystem> {
        return std::make_unique<SeesNoLease>(files);
      }}),
      200, HasSubstr("stays while it is evaluated"));
}

TEST(EvaluatorScenario, FindsAChiefThatHandsOverEarly) {
  expect_failure(EvaluatorScenario({.hands_over_early = true}), 200,
                 HasSubstr("an evaluator ends only after the last step is saved"));
}

TEST(EvaluatorScenario, FindsAnEvaluatorThatSkipsCheckpoints) {
  expect_failure(EvaluatorScenario({.skips_checkpoints = true}), 200,
                 HasSubstr("every checkpoint is evaluated"));
}

}  // namespace
}  // namespace muster::sim
