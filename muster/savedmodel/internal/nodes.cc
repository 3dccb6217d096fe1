#include "muster/savedmodel/internal/nodes.h"

#include "muster/base/bytes.h"

namespace muster::inline v0_1::saved_model::internal {

std::string Nodes::of_same(const std::string& operation,
                           const std::vector<std::string>& inputs) const {
  const BundleDtype dtype = graph_.dtype(inputs.front());
  return graph_.add(operation, inputs, {{"T", type_value(dtype)}}, dtype);
}

std::string Nodes::test(const std::string& operation,
                        const std::vector<std::string>& inputs) const {
  return graph_.add(operation, inputs, {{"T", type_value(graph_.dtype(inputs.front()))}},
                    BundleDtype::kBool);
}

std::string Nodes::both(const std::string& a, const std::string& b) const {
  return graph_.add("LogicalAnd", {a, b}, {}, BundleDtype::kBool);
}

std::string Nodes::where(const std::string& condition, const std::string& a,
                         const std::string& b) const {
  const BundleDtype dtype = graph_.dtype(a);
  return graph_.add("SelectV2", {condition, a, b}, {{"T", type_value(dtype)}}, dtype);
}

std::string Nodes::cast(const std::string& value, BundleDtype dtype) const {
  const BundleDtype from = graph_.dtype(value);
  if (from == dtype) return value;
  return graph_.add("Cast", {value}, {{"SrcT", type_value(from)}, {"DstT", type_value(dtype)}},
                    dtype);
}

std::string Nodes::int64(int64_t number) const {
  std::string bytes;
  append_little_endian(bytes, number);
  return graph_.constant(kId, {}, bytes);
}

std::string Nodes::sizes(const std::string& value) const {
  return graph_.add("Shape", {value},
                    {{"T", type_value(graph_.dtype(value))}, {"out_type", type_value(kId)}}, kId);
}

std::string Nodes::pack(const std::vector<std::string>& scalars) const {
  return graph_.add("Pack", scalars,
                    {{"N", integer_value(static_cast<int64_t>(scalars.size()))},
                     {"T", type_value(kId)},
                     {"axis", integer_value(0)}},
                    kId);
}

std::string Nodes::element(const std::string& vector, int64_t i) const {
  return graph_.add("GatherV2", {vector, int64(i), int64(0)},
                    {{"Tparams", type_value(kId)},
                     {"Tindices", type_value(kId)},
                     {"Taxis", type_value(kId)},
                     {"batch_dims", integer_value(0)}},
                    kId);
}

std::string Nodes::all(const std::string& flags, int64_t axes) const {
  std::vector<int64_t> every;
  for (int64_t axis = 0; axis < axes; ++axis) every.push_back(axis);
  return graph_.add("All", {flags, graph_.int64s(every)},
                    {{"Tidx", type_value(kId)}, {"keep_dims", flag_value(false)}},
                    BundleDtype::kBool);
}

std::string Nodes::checked(const std::string& value, const std::string& condition,
                           const std::string& message) const {
  // It has no output; others wait for the node, by its name.
  const std::string check = graph_.add(
      "Assert", {condition, text(message)},
      {{"T", type_values({kText})}, {"summarize", integer_value(3)}}, BundleDtype::kBool);
  const BundleDtype dtype = graph_.dtype(value);
  return graph_.add("Identity", {value, "^" + check}, {{"T", type_value(dtype)}}, dtype);
}

std::string Nodes::dense(const std::string& indices, const std::string& sizes,
                         const std::string& values, const std::string& other) const {
  const BundleDtype dtype = graph_.dtype(values);
  return graph_.add("SparseToDense", {indices, sizes, values, other},
                    {{"T", type_value(dtype)},
                     {"Tindices", type_value(kId)},
                     {"validate_indices", flag_value(true)}},
                    dtype);
}

}  // namespace muster::inline v0_1::saved_model::internal
