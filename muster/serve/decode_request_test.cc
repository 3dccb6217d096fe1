// Bodies of requests: accepted ones, and the errors of wrong ones.
#include "muster/serve/decode_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "muster/base/error_of.h"
#include "muster/serve/internal/test_model.h"

namespace muster::inline v0_1::serve {
namespace {

using internal::floats;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, Signature> some_signatures() {
  auto signatures = internal::TestModel().signatures();
  signatures["kinds"] = {Verb::kPredict,
                         {{"b", {ElementType::kBool, {-1}}},
                          {"s", {ElementType::kBytes, {-1, -1}}},
                          {"u", {ElementType::kUint8, {-1, 1, 2}}}},
                         {},
                         {},
                         false};
  return signatures;
}

DecodedRequest decoded(std::string_view body, Verb verb = Verb::kPredict) {
  return decode_request(verb, body, some_signatures());
}

std::string fault(std::string_view body, Verb verb = Verb::kPredict) {
  const Error error = error_of([&] { decoded(body, verb); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
  return error.message() + "; " + error.hint();
}

TEST(DecodeRequest, RowsAndColumnsAreTheSameArrays) {
  const Array x = floats({2, 2}, {1, 2.5, -3, 4e2});
  for (const char* body : {R"({"instances": [[1, 2.5], [-3, 4e2]]})",
                           R"({"instances": [{"x": [1, 2.5]}, {"x": [-3, 4e2]}]})",
                           R"({"inputs": {"x": [[1, 2.5], [-3, 4e2]]}})",
                           R"({"inputs": [[1, 2.5], [-3, 4e2]], "signature_name": ""})"}) {
    const DecodedRequest request = decoded(body);
    EXPECT_EQ(request.signature, "serving_default") << body;
    EXPECT_EQ(request.inputs.at("x"), x) << body;
    EXPECT_EQ(request.rows, 2) << body;
    EXPECT_EQ(request.columnar, std::string_view(body).find("inputs") != std::string_view::npos);
  }
  const DecodedRequest two =
      decoded(R"({"instances": [{"x": [1, 2], "id": 9007199254740993}], "signature_name": "two"})");
  EXPECT_EQ(two.inputs.at("id"),
            make_array(ElementType::kInt64, {1}, std::vector<int64_t>{9007199254740993}));
}

TEST(DecodeRequest, NullIsAMissingNumberWhereTheModelSaysSo) {
  auto signatures = some_signatures();
  for (auto& [name, info] : signatures.at("serving_default").inputs) info.may_be_missing = true;
  const DecodedRequest request =
      decode_request(Verb::kPredict, R"({"instances": [[1, null]]})", signatures);
  float values[2];
  std::memcpy(values, request.inputs.at("x").data.data(), sizeof values);
  EXPECT_EQ(values[0], 1);
  EXPECT_TRUE(std::isnan(values[1]));
}

TEST(DecodeRequest, OneValueOfARowMayBeBareWhereTheModelSaysSo) {
  const std::map<std::string, Signature> signatures{
      {"serving_default",
       {.inputs = {{"age", {.shape = {-1, 1}, .may_be_bare = true}},
                   {"job",
                    {.type = ElementType::kBytes,
                     .shape = {-1, 1},
                     .may_be_missing = true,
                     .may_be_bare = true}},
                   {"xy", {.shape = {-1, 2}, .may_be_bare = true}}}}}};
  const auto decoded = [&](const char* body) {
    return decode_request(Verb::kPredict, body, signatures);
  };
  for (const char* body :
       {R"({"instances": [{"age": 1, "job": "cook", "xy": [1, 2]},
                          {"age": [2], "job": null, "xy": [3, 4]}]})",
        R"({"inputs": {"age": [1, [2]], "job": ["cook", null], "xy": [[1, 2], [3, 4]]}})"}) {
    const DecodedRequest request = decoded(body);
    EXPECT_EQ(request.inputs.at("age"), floats({2, 1}, {1, 2})) << body;
    EXPECT_THAT(request.inputs.at("job").shape, ElementsAre(2, 1));
    EXPECT_THAT(request.inputs.at("job").texts, ElementsAre("cook", ""));
  }
  EXPECT_THAT(
      message_of([&] { (void)decoded(R"({"instances": [{"age": 1, "job": "a", "xy": 3}]})"); }),
      HasSubstr("instances[0]['xy'] is a whole number, a list was expected"));
}

TEST(DecodeRequest, KindsOfValues) {
  const DecodedRequest request = decoded(
      R"({"signature_name": "kinds", "inputs": {"b": [true, false], "u": [[[0, 255]], [[1, 2]]],
          "s": [["\u00e9", {"b64": "AP8="}], ["", {"b64": ""}]]}})");
  EXPECT_THAT(request.inputs.at("s").texts,
              ElementsAre("\xc3\xa9", std::string("\0\xff", 2), "", ""));
  EXPECT_THAT(request.inputs.at("s").shape, ElementsAre(2, 2));
  EXPECT_EQ(request.inputs.at("u"),
            make_array(ElementType::kUint8, {2, 1, 2}, std::vector<uint8_t>{0, 255, 1, 2}));
  EXPECT_EQ(request.inputs.at("b"),
            make_array(ElementType::kBool, {2}, std::vector<uint8_t>{1, 0}));
}

TEST(DecodeRequest, ExamplesAreFeaturesOrSerialized) {
  const DecodedRequest features =
      decoded(R"({"examples": [{"x": [1, 2]}, {"x": [3, 4]}]})", Verb::kClassify);
  EXPECT_EQ(features.signature, "classes") << "the only one for classify";
  EXPECT_EQ(features.inputs.at("x"), floats({2, 2}, {1, 2, 3, 4}));
  const DecodedRequest shared =
      decoded(R"({"examples": [{}, {}], "context": {"x": [1, 2]}})", Verb::kRegress);
  EXPECT_EQ(shared.inputs.at("x"), floats({2, 2}, {1, 2, 1, 2}));
  for (const char* body : {R"({"instances": [{"b64": "AP8="}, "abc"]})",
                           R"({"instances": [{"examples": {"b64": "AP8="}}, {"examples": "abc"}]})",
                           R"({"inputs": {"examples": [{"b64": "AP8="}, "abc"]}})"}) {
    EXPECT_THAT(decoded(body).inputs.at(kExamplesInput).texts,
                ElementsAre(std::string("\0\xff", 2), "abc"))
        << body;
  }
}

TEST(DecodeRequest, MissingAndUnknownInputsAreNamed) {
  EXPECT_THAT(fault(""), HasSubstr("the body is empty"));
  EXPECT_THAT(fault("[]"), HasSubstr("the body is a list, a JSON object was expected"));
  EXPECT_THAT(fault(R"({"instance": [[1, 2]]})"),
              HasSubstr("neither 'instances' (rows) nor 'inputs' (columns); it has 'instance'"));
  EXPECT_THAT(fault(R"({"instances": [], "inputs": []})"), HasSubstr("has both"));
  EXPECT_THAT(fault(R"({"instances": [], "instances": []})"), HasSubstr("'instances' twice"));
  EXPECT_THAT(fault(R"({"instances": []})"), HasSubstr("no rows"));
  EXPECT_THAT(fault(R"({"instances": 3})"), HasSubstr("'instances' is a whole number"));
  EXPECT_THAT(fault(R"({"inputs": {"x": [[1, 2]]}, "signature_name": "serving_defult"})"),
              AllOf(HasSubstr("has no signature 'serving_defult'"), HasSubstr("serving_default")));
  EXPECT_THAT(fault(R"({"inputs": {}, "signature_name": "two"})"),
              HasSubstr("inputs has no 'id'; signature 'two' takes 'id' int64[-1], 'x' float32"));
  EXPECT_THAT(fault(R"({"instances": [{"x": [1, 2]}, {"X": [1, 2]}]})"),
              AllOf(HasSubstr("no input 'X'"), HasSubstr("instances[1]")));
  EXPECT_THAT(fault(R"({"instances": [{"x": [1, 2], "x": [1, 2]}]})"), HasSubstr("'x' twice"));
  EXPECT_THAT(fault(R"({"instances": [[1, 2]]})", Verb::kClassify),
              HasSubstr("no 'examples', which classify takes; it has 'instances'"));
  EXPECT_THAT(fault(R"({"examples": [], "signature_name": "value"})", Verb::kClassify),
              HasSubstr("'value' is for regress, not for classify"));
  EXPECT_THAT(fault(R"({"signature_name": 3, "inputs": []})"), HasSubstr("a text was expected"));
  EXPECT_THAT(fault(R"({"signature_name": "two", "inputs": {"id": [1], "x": [[1, 2], [1, 2]]}})"),
              HasSubstr("input 'id' has 1 rows and 'x' has 2"));
}

TEST(DecodeRequest, ValuesOfAnotherFormAreNamedWithTheirPlace) {
  EXPECT_THAT(fault(R"({"instances": [[1, 2], [3]]})"),
              HasSubstr("instances[1] has 1 value, expected 2; input 'x' is float32[-1, 2]"));
  EXPECT_THAT(fault(R"({"instances": [[1, 2], [3, "4"]]})"),
              HasSubstr("instances[1][1] is a text, a number was expected"));
  EXPECT_THAT(fault(R"({"instances": [[1, [2]]]})"), HasSubstr("instances[0][1] is a list"));
  EXPECT_THAT(fault(R"({"instances": [1, 2]})"), HasSubstr("instances[0] is a whole number"));
  EXPECT_THAT(fault(R"({"instances": [[1, null]]})"), HasSubstr("[0][1] is null"));
  EXPECT_THAT(fault(R"({"instances": [[1, 1e39]]})"), HasSubstr("is 1e+39, which float32 does"));
  EXPECT_THAT(fault(R"({"instances": [[1, 1e999]]})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(fault(R"({"instances": [[1, 100000000000000000000]]})"),
              AllOf(HasSubstr("64 bits"), HasSubstr("1e20")));
  EXPECT_THAT(fault(R"({"instances": [[1, NaN]]})"),
              AllOf(HasSubstr("at line 1, column 20"), HasSubstr("NaN and infinity")));
  const std::string kinds = R"({"signature_name": "kinds", "inputs": {"b": [true], "u": )";
  EXPECT_THAT(fault(kinds + R"([[[0, 256]]], "s": [[]]}})"),
              HasSubstr("inputs['u'][0][0][1] is 256, which uint8 does not hold"));
  EXPECT_THAT(fault(kinds + R"([[[0, 1.5]]], "s": [[]]}})"),
              HasSubstr("is a number, a whole number"));
  EXPECT_THAT(fault(kinds + R"([[[0, 1]]], "s": [["a"], ["b", "c"]]}})"),
              HasSubstr("2 values, expected 1, as in the lists before"));
  EXPECT_THAT(fault(kinds + R"([[[0, 1]]], "s": [[{"b64": "A"}]]}})"), HasSubstr("not base64"));
  EXPECT_THAT(fault(kinds + R"([[[0, 1]]], "s": [[{"b64": "A=B="}]]}})"), HasSubstr("not base64"));
}

TEST(DecodeRequest, AByteOrderMarkIsPassedOver) {
  EXPECT_EQ(decoded("\xef\xbb\xbf{\"instances\": [[1, 2]]}").rows, 1);
}

TEST(DecodeRequest, TenMegabytesOfBracketsAreRefusedAtOnce) {
  for (const char* bracket : {"[", "{\"a\":"}) {
    std::string body;
    while (body.size() < 10'000'000) body += bracket;
    EXPECT_THAT(fault(body), HasSubstr("nested deeper than"));
    EXPECT_THAT(fault("{\"instances\": " + body), HasSubstr("nested deeper than"));
  }
  const std::string deep(65, '['), close(65, ']');
  EXPECT_THAT(fault("{\"instances\": " + deep + "1" + close + "}"),
              HasSubstr("nested deeper than 64 levels"));
  // Wide is not deep.
  std::string rows = R"({"instances": [[1, 2])";
  for (int row = 1; row < 100'000; ++row) rows += ",[1,2]";
  EXPECT_EQ(decoded(rows + "]}").rows, 100'000);
}

}  // namespace
}  // namespace muster::inline v0_1::serve
