#include "muster/collectives/internal/operation.h"

#include <fmt/format.h>

namespace muster::inline v0_1::internal {
namespace {

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "all_reduce";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kAllGather:
      return "all_gather";
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kReduceScatter:
      return "reduce_scatter";
  }
  return "unknown operation";
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::kByte:
      return "bytes";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kBfloat16:
      return "bfloat16";
    case ElementType::kFloat16:
      return "float16";
  }
  return "unknown elements";
}

}  // namespace

int64_t size_of(ElementType type) {
  switch (type) {
    case ElementType::kByte:
      return 1;
    case ElementType::kBfloat16:
    case ElementType::kFloat16:
      return 2;
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
    case ElementType::kInt64:
      return 8;
  }
  throw internal_error("a collective has elements of no known type");
}

bool Operation::matches(const Operation& other) const {
  return kind == other.kind && type == other.type && root == other.root && count == other.count &&
         sequence == other.sequence;
}

std::string Operation::describe() const {
  std::string text = fmt::format("{} #{}", name_of(kind), sequence);
  if (kind != OperationKind::kBarrier) text += fmt::format(" of {} {}", count, name_of(type));
  if (kind == OperationKind::kBroadcast) text += fmt::format(" from rank {}", root);
  return text;
}

Error mismatch(int rank, const Operation& mine, int peer, const Operation& theirs) {
  return invalid_argument(
      fmt::format("ranks called different collectives: rank {} is in {}, rank {} in {}", rank,
                  mine.describe(), peer, theirs.describe()),
      "every rank must issue the same operations, in the same order, with the same sizes");
}

}  // namespace muster::inline v0_1::internal
