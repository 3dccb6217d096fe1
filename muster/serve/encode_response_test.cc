// Answers as JSON, in the forms clients of TensorFlow Serving read.
#include "muster/serve/encode_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/serve/internal/test_model.h"

namespace muster::inline v0_1::serve {
namespace {

using internal::floats;
using ::testing::HasSubstr;

TEST(EncodeResponse, OneOutputHasNoNameAndSeveralHave) {
  const Arrays one = {{"y", floats({2, 2}, {1, 2.5, -3, 4e20F})}};
  EXPECT_EQ(encode_predictions(one, 2), R"({"predictions": [[1.0, 2.5], [-3.0, 4e+20]]})");
  EXPECT_EQ(encode_columns(one), R"({"outputs": [[1.0, 2.5], [-3.0, 4e+20]]})");
  Arrays two = one;
  two["id"] = make_array(ElementType::kInt64, {2}, std::vector<int64_t>{7, -8});
  EXPECT_EQ(encode_predictions(two, 2),
            R"({"predictions": [{"id": 7, "y": [1.0, 2.5]}, {"id": -8, "y": [-3.0, 4e+20]}]})");
  EXPECT_EQ(encode_columns(two),
            R"({"outputs": {"id": [7, -8], "y": [[1.0, 2.5], [-3.0, 4e+20]]}})");
}

TEST(EncodeResponse, FloatsReadBackAsTheSameBits) {
  const std::vector<float> values = {0.1F, 1.0F / 3, 16777217.0F, -0.0F, 1e-45F, 3.4028235e38F};
  const auto json =
      nlohmann::json::parse(encode_columns({{"y", floats({6}, values)}})).at("outputs");
  for (size_t at = 0; at < values.size(); ++at) {
    EXPECT_TRUE(json[at].is_number_float()) << json[at];
    EXPECT_EQ(std::signbit(json[at].get<float>()), std::signbit(values[at]));
    EXPECT_EQ(json[at].get<float>(), values[at]);
  }
}

TEST(EncodeResponse, NumbersThatAreNotFiniteAreWrittenAsTensorFlowServingDoes) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(encode_columns({{"y", floats({3}, {std::nanf(""), infinity, -infinity})}}),
            R"({"outputs": [NaN, Infinity, -Infinity]})");
}

TEST(EncodeResponse, BytesAreTextsOrBase64) {
  const Array words{ElementType::kBytes, {2}, {}, {"caf\xc3\xa9 \"x\"", "\xff"}};
  EXPECT_EQ(encode_columns({{"word", words}}),
            "{\"outputs\": [\"caf\xc3\xa9 \\\"x\\\"\", {\"b64\": \"/w==\"}]}");
  EXPECT_EQ(encode_columns({{"png_bytes", {ElementType::kBytes, {1}, {}, {"a"}}}}),
            R"({"outputs": [{"b64": "YQ=="}]})");
}

TEST(EncodeResponse, ClassesAndRegressions) {
  const auto signatures = internal::TestModel().signatures();
  EXPECT_EQ(
      encode_classes(signatures.at("classes"), {{"scores", floats({2, 2}, {1, 0, 0.25, 0.75})}}),
      R"({"results": [[["cat", 1.0], ["dog", 0.0]], [["cat", 0.25], ["dog", 0.75]]]})");
  EXPECT_EQ(encode_classes(Signature(), {{"scores", floats({1, 1}, {1})}}),
            R"({"results": [[["0", 1.0]]]})");
  EXPECT_EQ(encode_regressions({{"outputs", floats({2, 1}, {1, 2})}}),
            R"({"results": [1.0, 2.0]})");
  EXPECT_EQ(encode_regressions({{"outputs", floats({2}, {1, 2})}}), R"({"results": [1.0, 2.0]})");
}

TEST(EncodeResponse, RowsNeedARowForEachInstance) {
  EXPECT_THAT(error_of([] {
                encode_predictions({{"total", floats({}, {3})}}, 2);
              }).message(),
              HasSubstr("output 'total' has no row for each of the 2 instances"));
  EXPECT_EQ(encode_columns({{"total", floats({}, {3})}}), R"({"outputs": 3.0})");
}

TEST(EncodeResponse, AnErrorIsJsonWhateverItSays) {
  EXPECT_EQ(encode_error("a \"b\"\n\xff"), "{\"error\": \"a \\\"b\\\"\\n\xef\xbf\xbd\"}\n");
}

}  // namespace
}  // namespace muster::inline v0_1::serve
