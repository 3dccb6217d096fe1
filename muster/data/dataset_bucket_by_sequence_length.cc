#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/node.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

namespace in = data::internal;

namespace {

void check_buckets(const BucketOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& hint) {
    return invalid_argument("bucket_by_sequence_length(): " + what, hint);
  };
  if (options.boundaries.empty()) throw refuse("there are no boundaries", "give at least one");
  if (options.batch_sizes.size() != options.boundaries.size() + 1) {
    throw refuse(fmt::format("there are {} batch sizes for {} boundaries",
                             options.batch_sizes.size(), options.boundaries.size()),
                 "give one for each bucket: one more than there are boundaries");
  }
  for (size_t i = 0; i < options.boundaries.size(); ++i) {
    const int64_t before = i == 0 ? 0 : options.boundaries[i - 1];
    if (options.boundaries[i] > before) continue;
    throw refuse(fmt::format("boundary {} is {}, after {}", i, options.boundaries[i], before),
                 "boundaries ascend, and the first is at least 1");
  }
  for (const int64_t size : options.batch_sizes) {
    if (size < 1) throw refuse(fmt::format("a batch size is {}", size), "pass at least 1");
  }
}

// A text that distinguishes two sets of buckets, for files that keep their results.
std::string text_of(const BucketOptions& options) {
  std::string text = fmt::format(
      "({}; {}{}{}{}", fmt::join(options.boundaries, ", "), fmt::join(options.batch_sizes, ", "),
      options.pad_to_bucket_boundary ? "; to boundary" : "", options.no_padding ? "; as it is" : "",
      options.padding.drop_remainder ? "; whole" : "");
  for (const Shape& shape : options.padding.padded_shapes) text += "; " + describe(shape);
  for (const double value : options.padding.padding_values) text += fmt::format("; {}", value);
  return text + ")";
}

// The padded shapes of a bucket whose largest length is `length`: it replaces every size that is
// not given.
std::vector<Shape> shapes_up_to(int64_t length, std::vector<Shape> shapes, const Dataset& window) {
  if (shapes.empty()) {
    const Element first = window.iterator()->next().value_or(Element());
    for (const Value& value : first.values()) {
      const size_t axes = value.is_strings() ? value.strings().shape().size()
                                             : static_cast<size_t>(value.tensor().dim());
      shapes.emplace_back(axes, -1);
    }
  }
  for (Shape& shape : shapes) std::replace(shape.begin(), shape.end(), int64_t{-1}, length);
  return shapes;
}

int64_t bucket_of(int64_t length, const BucketOptions& options) {
  const std::vector<int64_t>& boundaries = options.boundaries;
  const auto bucket =
      std::upper_bound(boundaries.begin(), boundaries.end(), length) - boundaries.begin();
  if (options.pad_to_bucket_boundary && length >= boundaries.back()) {
    throw invalid_argument(
        fmt::format("the length {} is not below the last boundary, {}", length, boundaries.back()),
        "with pad_to_bucket_boundary the last bucket has no shape: filter() what is longer, or add "
        "a boundary");
  }
  return bucket;
}

Dataset batch_of(int64_t bucket, const Dataset& window, const BucketOptions& options) {
  const auto at = static_cast<size_t>(bucket);
  const int64_t size = options.batch_sizes[at];
  if (options.no_padding) {
    return window.batch(size, {.drop_remainder = options.padding.drop_remainder});
  }
  PaddingOptions padding = options.padding;
  if (options.pad_to_bucket_boundary) {
    padding.padded_shapes =
        shapes_up_to(options.boundaries[at] - 1, std::move(padding.padded_shapes), window);
  }
  return window.padded_batch(size, padding);
}

}  // namespace

Dataset Dataset::bucket_by_sequence_length(KeyFunction length, const BucketOptions& options) const {
  if (length == nullptr) {
    throw invalid_argument("bucket_by_sequence_length() got an empty function");
  }
  check_buckets(options);
  const auto buckets = std::make_shared<const BucketOptions>(options);
  return Dataset(in::make_node(
      in::GroupByWindow{
          .key = [length = std::move(length),
                  buckets](const Element& element) { return bucket_of(length(element), *buckets); },
          .reduce = [buckets](int64_t bucket,
                              const Dataset& window) { return batch_of(bucket, window, *buckets); },
          .size = [buckets](
                      int64_t bucket) { return buckets->batch_sizes[static_cast<size_t>(bucket)]; },
          .name = options.name,
          .call = "bucket_by_sequence_length",
          .params = text_of(options)},
      {node_}));
}

}  // namespace muster::inline v0_1
