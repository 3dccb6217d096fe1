// tf.Examples and SequenceExamples of anything: what is read can be written and read again, and the
// parser of batches finds what the decoder finds.
#include "muster/formats/example.h"
#include "muster/formats/example_parser.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  using namespace formats;  // NOLINT(google-build-using-namespace)
  return {encode_example({{{"a", std::vector<int64_t>{1, -1}},
                           {"b", std::vector<float>{0.5F, 2.0F}},
                           {"c", std::vector<std::string>{"x", ""}}}}),
          encode_example({}),
          encode_sequence_example(
              {{{"a", std::vector<int64_t>{3}}},
               {{"steps", {std::vector<float>{1.0F}, std::vector<float>{2.0F, 3.0F}}}}})};
}

std::vector<std::string> seed_folders() { return {}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;           // NOLINT(google-build-using-namespace)
  using namespace muster::formats;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  const Result<Example> example = decode_example(bytes);
  if (example.ok()) {
    const std::string written = encode_example(example.value());
    const Result<Example> again = decode_example(bytes_of(written));
    fuzz::require(again.ok(), "what was written can be read");
    fuzz::require(encode_example(again.value()) == written, "and is the same");
  }
  const Result<SequenceExample> sequence = decode_sequence_example(bytes);
  if (sequence.ok()) {
    const std::string written = encode_sequence_example(sequence.value());
    fuzz::require(decode_sequence_example(bytes_of(written)).ok(), "steps can be read again");
  }
  (void)classify_message(bytes);

  static const ExamplePlan plan =
      ExamplePlan::compile(
          {{.key = "a",
            .kind = FeatureKind::kInt64,
            .shape = {2},
            .default_value = std::vector<int64_t>{0}},
           {.key = "b", .kind = FeatureKind::kFloat, .form = FeatureForm::kVariable},
           {.key = "c",
            .kind = FeatureKind::kBytes,
            .form = FeatureForm::kSequence,
            .allow_missing = true}})
          .value();
  std::vector<FeatureColumn> columns(3);
  int64_t integers[4] = {};
  columns[0].integers = integers;
  ExampleBatch batch(plan, columns);
  const bool first = batch.add(bytes).ok();
  if (first) {
    fuzz::require(example.ok(), "the parser takes what the decoder takes");
    fuzz::require(batch.add(bytes).ok(), "an example that was parsed can be parsed again");
  }
  return 0;
}
