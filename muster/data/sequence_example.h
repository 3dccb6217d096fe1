// Parses serialized tf.SequenceExamples into batches: features of the whole example, its context,
// and feature lists, with one feature for each step. Files are read as in example.h:
//   data::SequenceExampleParser parse(
//       {{"label", data::FixedLenFeature{{}, kInt64}}},
//       {{"frames", data::FixedLenSequenceFeature{{64}, kFloat32}}});
//   records.batch(32).map(parse, {.name = "parse"});
#pragma once

#include <memory>

#include "muster/base/export.h"
#include "muster/data/example.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// The suffix that makes the key of the lengths of the steps of a feature list.
inline constexpr const char* kStepLengths = "/step_lengths";

// Parses sequence examples by a specification. Thread safety: a value; calls may come from several
// threads at once.
class MUSTER_EXPORT SequenceExampleParser {
 public:
  // Throws InvalidArgument, naming the key, for what ExampleParser refuses, and for a
  // FixedLenFeature among the sequences: steps are FixedLenSequenceFeature or VarLenFeature.
  SequenceExampleParser(const FeatureSpec& context, const FeatureSpec& sequences);

  // Strings [n], of n serialized sequence examples, become a tuple of two dicts: the context, as
  // from ExampleParser, and the sequences:
  //   FixedLenSequenceFeature  "key": [n, steps, shape...], steps of the longest example
  //   VarLenFeature            "key": [n, steps, values], values of the longest step, filled up
  //                            with 0 or ""; "key/step_lengths": int64[n, steps], the number of
  //                            each step, 0 after the last step
  //   both                     "key/row_lengths": int64[n], how many steps each example has
  // A scalar string becomes the same without the axis of n.
  //
  // Throws InvalidArgument if the element is not strings of such a shape. Errors in an example name
  // its row: Corrupt if it is not a tf.SequenceExample; InvalidArgument for a missing list (the
  // error lists the present ones), unless the list may be missing, as a VarLenFeature may; and,
  // with the step, for values of another kind or another number of values than the shape has. Also
  // for a list that needs more than this machine's memory when padded; the error has its steps, its
  // longest step and both sizes.
  Element operator()(const Element& serialized) const;

 private:
  struct Compiled;
  ExampleParser context_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::inline v0_1::data
