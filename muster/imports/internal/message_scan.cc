#include "muster/imports/internal/message_scan.h"

#include <array>

#include "muster/formats/wire.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using formats::internal::WireReader;
using formats::internal::WireTag;
using formats::internal::WireType;

enum class Kind { kModel, kGraph, kNode, kAttribute, kFunction, kLeaf };

// A field that has messages.
struct Field {
  Kind in;
  uint32_t number;
  Kind kind;
  size_t least;  // bytes of each of them
};

// From onnx.proto. A node has an operation and a result, an attribute a name and a type, a tensor a
// dtype and a name.
constexpr std::array kFields = {
    Field{Kind::kModel, 7, Kind::kGraph, 0},        Field{Kind::kModel, 20, Kind::kGraph, 8},
    Field{Kind::kModel, 25, Kind::kFunction, 8},    Field{Kind::kGraph, 1, Kind::kNode, 6},
    Field{Kind::kGraph, 5, Kind::kLeaf, 4},         Field{Kind::kGraph, 15, Kind::kLeaf, 8},
    Field{Kind::kNode, 5, Kind::kAttribute, 6},     Field{Kind::kAttribute, 5, Kind::kLeaf, 4},
    Field{Kind::kAttribute, 6, Kind::kGraph, 8},    Field{Kind::kAttribute, 10, Kind::kLeaf, 4},
    Field{Kind::kAttribute, 11, Kind::kGraph, 8},   Field{Kind::kAttribute, 22, Kind::kLeaf, 8},
    Field{Kind::kAttribute, 23, Kind::kLeaf, 8},    Field{Kind::kFunction, 7, Kind::kNode, 6},
    Field{Kind::kFunction, 11, Kind::kAttribute, 6}};
constexpr int kMostNested = 100;  // as Protobuf

bool scan(WireReader reader, Kind kind, int depth) {
  if (depth > kMostNested) return false;
  WireTag tag;
  while (!reader.done()) {
    if (!reader.tag(&tag)) return false;
    const Field* field = nullptr;
    for (const Field& each : kFields) {
      if (each.in == kind && tag.is(each.number, WireType::kBytes)) field = &each;
    }
    if (field == nullptr) {
      if (!reader.skip(tag)) return false;
      continue;
    }
    Bytes body;
    if (!reader.bytes(&body) || body.size() < field->least) return false;
    if (field->kind != Kind::kLeaf && !scan(WireReader(body), field->kind, depth + 1)) return false;
  }
  return true;
}

}  // namespace

bool scan_messages(Bytes model) { return scan(WireReader(model), Kind::kModel, 0); }

}  // namespace muster::inline v0_1::onnx::internal
