// Parsing serialized tf.SequenceExamples into batches: features of the whole example, its context,
// and lists of features, one for each step. Files are read as in example.h:
//
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

// Added to the key of a list of features, this is the key of the numbers of values of its steps.
inline constexpr const char* kStepLengths = "/step_lengths";

// Parses sequence examples by a specification. Thread safety: a value; calls may come from several
// threads at once.
class MUSTER_EXPORT SequenceExampleParser {
 public:
  // Throws InvalidArgument, naming the key, for what ExampleParser refuses, and for a
  // FixedLenFeature among the sequences: steps are FixedLenSequenceFeature or VarLenFeature.
  SequenceExampleParser(const FeatureSpec& context, const FeatureSpec& sequences);

  // Strings [n], of n serialized sequence examples, give a tuple of two dicts: the context as
  // ExampleParser gives it, and of the sequences
  //   FixedLenSequenceFeature  "key": [n, steps, shape...], steps of the longest example
  //   VarLenFeature            "key": [n, steps, values], values of the longest step, filled up
  //                            with 0 or ""; "key/step_lengths": int64[n, steps], how many each
  //                            has, 0 behind the last step
  //   both                     "key/row_lengths": int64[n], how many steps each example has
  // A scalar string gives the same without the axis of n.
  //
  // Throws InvalidArgument when the element is no strings of such a shape. Names the row for what
  // is wrong with an example: Corrupt when it is no tf.SequenceExample; InvalidArgument for a
  // missing list (listing those there are) unless it may be missing: a VarLenFeature may; and,
  // naming the step, for another kind of values and another number of them than the shape has. Also
  // for a list that, filled up, takes more than the memory of this machine, with its steps, its
  // longest step and both sizes.
  Element operator()(const Element& serialized) const;

 private:
  struct Compiled;
  ExampleParser context_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::inline v0_1::data
