// tf.Example and tf.SequenceExample: the decoder, the writer, and the batch parser, which must
// agree with the decoder.
#include "muster/formats/example.h"
#include "muster/formats/example_parser.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

using formats::FeatureColumn;
using formats::FeatureForm;
using formats::FeatureKind;
using formats::FeatureMap;

// A field of the wire with its length in front.
static std::string field(int number, const std::string& body) {
  std::string text(1, static_cast<char>(number << 3 | 2));
  size_t length = body.size();
  for (; length > 127; length >>= 7) text += static_cast<char>((length & 127) | 128);
  return text + static_cast<char>(length) + body;
}

std::vector<std::string> seeds() {
  const FeatureMap features = {{"x", std::vector<float>{0.5f, 2, -1}},
                               {"n", std::vector<int64_t>{1, -1, 300}},
                               {"s", std::vector<std::string>{"a", "", "text"}},
                               {"none", std::monostate()}};
  const std::string example = formats::encode_example({features});
  return {example, example + example,
          formats::encode_sequence_example(
              {features, {{"steps", {std::vector<float>{1}, std::vector<float>{2, 3}}}}})};
}

// A text in two bytes, a step in two, and a map in as many parts as it has entries.
std::vector<std::string> attacks() {
  std::string empties, parts;
  for (int i = 0; i < 60'000; ++i) empties += field(1, "");
  for (int i = 0; i < 30'000; ++i) parts += field(1, field(1, field(1, std::to_string(i))));
  const std::string key = field(1, "k");
  const std::string texts = field(1, field(1, key + field(2, field(1, empties))));
  const std::string steps = field(2, field(1, key + field(2, empties)));
  return {texts, steps, parts};
}

std::vector<std::string> seed_folders() { return {}; }

namespace {

// Every feature of the message in batches of two rows, of both forms.
void check_batch(Bytes bytes, const FeatureMap& features) {
  for (const FeatureForm form : {FeatureForm::kVariable, FeatureForm::kFixed}) {
    std::vector<formats::FeaturePlan> plans;
    std::vector<FeatureColumn> columns;
    std::vector<std::vector<float>> floats;
    std::vector<std::vector<int64_t>> integers;
    for (const auto& [key, feature] : features) {
      if (formats::kind_of(feature) == FeatureKind::kNone) continue;
      const size_t count = formats::size_of(feature);
      formats::FeaturePlan plan{.key = key, .kind = formats::kind_of(feature), .form = form};
      if (form == FeatureForm::kFixed) plan.shape = {static_cast<int64_t>(count)};
      plans.push_back(std::move(plan));
      columns.emplace_back();
      // Exactly the required memory, so that a sanitizer sees a write after it.
      columns.back().floats = floats.emplace_back(2 * count).data();
      columns.back().integers = integers.emplace_back(2 * count).data();
    }
    const formats::ExamplePlan plan = formats::ExamplePlan::compile(plans).value();
    formats::ExampleBatch batch(plan, columns);
    for (int row = 0; row < 2; ++row) {
      require(batch.add(bytes).ok(), "what the decoder reads the parser reads");
    }
    size_t i = 0;
    for (const auto& [key, feature] : features) {
      if (formats::kind_of(feature) == FeatureKind::kNone) continue;
      const FeatureColumn& column = columns[i];
      const auto count = formats::size_of(feature);
      if (formats::kind_of(feature) == FeatureKind::kBytes) {
        require(column.ends.size() == 2 * count + 1, "as many strings");
      }
      if (form == FeatureForm::kVariable) {
        require(column.row_lengths == std::vector<int64_t>(2, static_cast<int64_t>(count)),
                "as many values");
      }
      if (const auto* expected = std::get_if<std::vector<int64_t>>(&feature)) {
        const auto& values = form == FeatureForm::kFixed ? integers[i] : column.integer_values;
        require(std::equal(expected->begin(), expected->end(), values.begin()) &&
                    std::equal(expected->begin(), expected->end(),
                               values.begin() + static_cast<ptrdiff_t>(count)),
                "the same numbers");
      }
      ++i;
    }
  }
}

// Keys and shapes the message need not have: an answer, whichever.
void ask_for_others(Bytes bytes) {
  std::vector<float> x(3);
  std::vector<int64_t> n(3);
  std::vector<FeatureColumn> columns(4);
  columns[0].floats = x.data();
  columns[1].integers = n.data();
  const formats::ExamplePlan plan =
      formats::ExamplePlan::compile(
          {{.key = "x", .kind = FeatureKind::kFloat, .shape = {3}},
           {.key = "n", .kind = FeatureKind::kInt64, .shape = {3}},
           {.key = "s", .kind = FeatureKind::kBytes, .shape = {3}},
           {.key = "steps", .kind = FeatureKind::kFloat, .form = FeatureForm::kVariable}})
          .value();
  const Status added = formats::ExampleBatch(plan, columns).add(bytes);
  if (added.ok()) require(columns[2].ends.size() == 4, "as many strings as the shape has");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  const uint64_t most = parse_memory_limit(size);
  if (const auto example = fuzz::metered(most, [&] { return formats::decode_example(bytes); });
      example.ok()) {
    const std::string again = formats::encode_example(example.value());
    fuzz::require(
        formats::encode_example(formats::decode_example(bytes_of(again)).value()) == again,
        "an example that was written is read back");
    fuzz::check_batch(bytes, example.value().features);
  }
  if (const auto sequence =
          fuzz::metered(most, [&] { return formats::decode_sequence_example(bytes); });
      sequence.ok()) {
    const std::string again = formats::encode_sequence_example(sequence.value());
    fuzz::require(formats::encode_sequence_example(
                      formats::decode_sequence_example(bytes_of(again)).value()) == again,
                  "a sequence example that was written is read back");
  }
  fuzz::ask_for_others(bytes);
  return 0;
}
