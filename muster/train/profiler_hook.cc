#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/files/file_systems.h"
#include "muster/formats/timeline.h"
#include "muster/train/hooks.h"

namespace muster::inline v0_1::hooks {
namespace {

class Profiler : public Hook {
 public:
  explicit Profiler(const ProfilerOptions& options)
      : options_(options),
        timer_(options.every, "hooks::profiler", clock_or_system(options.clock)),
        fs_(options.fs != nullptr ? *options.fs : file_systems()) {
    if (options.steps_in_a_row < 1) {
      throw invalid_argument(fmt::format(
          "hooks::profiler got steps_in_a_row = {}; it must be 1 or more", options.steps_in_a_row));
    }
    if (options.every.steps && *options.every.steps < options.steps_in_a_row) {
      throw invalid_argument(
          fmt::format("hooks::profiler got every.steps = {} and steps_in_a_row = {}",
                      *options.every.steps, options.steps_in_a_row),
          "record no more steps in a row than there are between two files");
    }
  }

  void begin(const RunInfo& info) override {
    if (info.mode != Mode::kTrain) {
      throw invalid_argument(
          "hooks::profiler records training, and was given to something else",
          "give it to TrainSpec.hooks, TrainOptions.hooks or EstimatorSpec::training_hooks");
    }
    timer_.reset();
    control_ = info.control;
    if (!(is_chief_ = info.is_chief)) return;
    directory_ = options_.output_dir.empty() ? info.model_dir : options_.output_dir;
    fs_.make_directories(directory_).value();
  }

  // All workers can still agree on the step after this one.
  void before_step(int64_t global_step) override {
    if (is_chief_ && timer_.due(global_step + 1)) control_.request_profile(options_.steps_in_a_row);
  }

  void after_profile(int64_t global_step, const formats::Timeline& timeline) override {
    const std::string path = join_path(directory_, fmt::format("timeline-{}.json", global_step));
    fs_.write_atomically(path, formats::trace_event_json(timeline)).value();
    log::event("profile_written", {{"global_step", global_step}, {"path", path}},
               "wrote a profile: " + path);
  }

 private:
  const ProfilerOptions options_;
  SecondOrStepTimer timer_;
  FileSystem& fs_;
  std::string directory_;
  RunControl control_;
  bool is_chief_ = false;
};

}  // namespace

std::shared_ptr<Hook> profiler(const ProfilerOptions& options) {
  return std::make_shared<Profiler>(options);
}

}  // namespace muster::inline v0_1::hooks
