#include "muster/export/request_columns.h"

#include <atomic>

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

std::atomic<ReadRequestColumns> reads{nullptr};

}  // namespace

void register_request_columns(ReadRequestColumns read) { reads = read; }

std::shared_ptr<const RequestColumns> read_request_columns(const nlohmann::json& recipe) {
  const ReadRequestColumns read = reads;
  if (read != nullptr) return read(recipe);
  throw invalid_argument(
      "the exported model reads feature columns, and this program is not linked with them",
      "link the part: find_package(muster COMPONENTS tabular) and target_link_libraries(... "
      "muster::tabular)");
}

}  // namespace muster::inline v0_1
