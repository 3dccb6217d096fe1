#include "muster/data/internal/held_memory.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/memory_size.h"
#include "muster/base/strings.h"
#include "muster/data/internal/data_lost.h"

namespace muster::inline v0_1::data::internal {
namespace {

constexpr uint64_t kLittle = uint64_t{1} << 26;  // needs no look at the machine

}  // namespace

HeldMemory::HeldMemory(std::string stage, std::string hint, uint64_t limit)
    : stage_(std::move(stage)), hint_(std::move(hint)), limit_(limit) {}

bool HeldMemory::add(uint64_t bytes) {
  bytes_ += bytes;
  ++elements_;
  if (limit_ == 0 && bytes_ > kLittle) limit_ = memory_size() / 4 * 3;
  return limit_ == 0 || bytes_ <= limit_;
}

void HeldMemory::check(int64_t elements, uint64_t bytes_each) const {
  const double needed = static_cast<double>(elements) * static_cast<double>(bytes_each);
  if (needed <= static_cast<double>(kLittle)) return;
  const uint64_t limit = limit_ == 0 ? memory_size() / 4 * 3 : limit_;
  if (limit == 0 || needed <= static_cast<double>(limit)) return;
  throw invalid_argument(fmt::format("{} would hold {} elements, {} bytes each, and has {} for "
                                     "them",
                                     stage_, elements, bytes_each, human_bytes(limit)),
                         hint_);
}

std::exception_ptr HeldMemory::error() const {
  return std::make_exception_ptr(DataLost(
      invalid_argument(fmt::format("{} holds {} elements of {} in all, and has {} for them", stage_,
                                   elements_, human_bytes(bytes_), human_bytes(limit_)),
                       hint_)));
}

}  // namespace muster::inline v0_1::data::internal
