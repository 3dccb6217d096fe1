#include "muster/formats/failure_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/uri.h"
#include "muster/collectives/collective_history.h"
#include "muster/files/file_systems.h"
#include "muster/train/internal/failure_report.h"

namespace muster::inline v0_1::internal {

void report_failure(FileSystem* fs, const std::string& model_dir, const std::string& task,
                    int64_t step, const Error& error) noexcept {
  if (model_dir.empty() || error.kind() == ErrorKind::kCancelled) return;
  // A store that does not answer, perhaps the reason of the failure, must not delay the end.
  if (is_remote(model_dir)) return;
  try {
    formats::FailureReport report{.task = task,
                                  .step = step,
                                  .error = error.message(),
                                  .wall_seconds = system_clock().wall_seconds()};
    for (const CollectiveCall& call : last_collectives()) {
      report.calls.push_back({.transport = call.transport,
                              .rank = call.rank,
                              .size = call.size,
                              .number = static_cast<int64_t>(call.number),
                              .call = call.call,
                              .before = call.before,
                              .seconds = call.seconds,
                              .failure = call.failure});
    }
    FileSystem& files = fs != nullptr ? *fs : file_systems();
    const std::string folder = join_path(model_dir, "failures");
    std::string name = task + ".json";
    std::ranges::replace(name, ' ', '-');
    Status status = files.make_directories(folder);
    if (status.ok()) {
      status = files.write_atomically(join_path(folder, name),
                                      std::string_view(formats::encode_failure_report(report)));
    }
    if (!status.ok())
      log::warning("cannot write the report of this failure: " + status.error().message());
  } catch (const std::exception& failure) {
    log::warning(fmt::format("cannot write the report of this failure: {}", failure.what()));
  }
}

}  // namespace muster::inline v0_1::internal
