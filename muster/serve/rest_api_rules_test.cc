// The rules of TensorFlow Serving's REST API, as its documentation and its source say them:
// requests that its clients send get the answers and the status codes that they expect. What
// differs stands in docs/serving.md, and in the last test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"
#include "muster/serve/internal/test_model.h"
#include "muster/serve/rest_api.h"

namespace muster::inline v0_1::serve {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The models of that documentation: half_plus_three, and one of three named inputs.
class DocumentedModel : public Model {
 public:
  DocumentedModel() {
    const ArrayInfo number{ElementType::kFloat32, {-1}};
    const Infos three{{"tag", {ElementType::kBytes, {-1}}},
                      {"signal", {ElementType::kFloat32, {-1, 5}}},
                      {"sensor", {ElementType::kFloat32, {-1, 2, 2}}}};
    Infos out = three;
    out["tag_bytes"] = three.at("tag");
    signatures_["serving_default"] = {Verb::kPredict, {{"x", number}}, {{"y", number}}, {}, false};
    signatures_["tensorflow/serving/regress"] = {
        Verb::kRegress, {{"x", number}}, {{"outputs", number}}, {}, false};
    signatures_["three"] = {Verb::kPredict, three, out, {}, false};
    signatures_["classify_objects"] = {
        Verb::kClassify,
        {{"image", {ElementType::kBytes, {-1}}}, {"caption", {ElementType::kBytes, {-1}}}},
        {{"scores", {ElementType::kFloat32, {-1, 2}}}},
        {"image", "caption"},
        false};
    signatures_["classify_numbers"] = {Verb::kClassify,
                                       {{"x", number}},
                                       {{"scores", {ElementType::kFloat32, {-1, 1}}}},
                                       {"x"},
                                       false};
  }

  const std::map<std::string, Signature>& signatures() const override { return signatures_; }

  Arrays run(const std::string& signature, const Arrays& inputs) override {
    if (signature == "three") {
      Arrays outputs = inputs;
      outputs["tag_bytes"] = inputs.at("tag");
      return outputs;
    }
    if (signature == "classify_objects") {
      std::vector<float> lengths;
      for (size_t row = 0; row < inputs.at("image").texts.size(); ++row) {
        for (const char* name : {"image", "caption"})
          lengths.push_back(static_cast<float>(inputs.at(name).texts[row].size()));
      }
      return {{"scores", internal::floats({inputs.at("image").rows(), 2}, lengths)}};
    }
    const Array& x = inputs.at("x");
    std::vector<float> values(static_cast<size_t>(x.size()));
    std::memcpy(values.data(), x.data.data(), x.data.size());
    for (float& value : values) value = value / 2 + 3;
    if (signature == "classify_numbers")
      return {{"scores", internal::floats({x.rows(), 1}, values)}};
    return {{signature == "serving_default" ? "y" : "outputs", internal::floats(x.shape, values)}};
  }

 private:
  using Infos = std::map<std::string, ArrayInfo>;
  std::map<std::string, Signature> signatures_;
};

struct Case {
  std::string verb, body;
  int status = 200;
  std::string answer = "";  // JSON; of an error a part of its message
};

class TensorFlowServingTest : public ::testing::Test {
 protected:
  TensorFlowServingTest() {
    std::filesystem::create_directory(folder_ / "123");
    versions_.poll();
  }

  HttpAnswer ask(const std::string& method, const std::string& path, const std::string& body = "") {
    return api_.answer({method, path, body, system_clock().now() + std::chrono::seconds(60)});
  }

  void check(const std::vector<Case>& cases) {
    for (const auto& [verb, body, status, expected] : cases) {
      const HttpAnswer answer = ask("POST", "/v1/models/m:" + verb, body);
      EXPECT_EQ(answer.status, status) << body << "\n" << answer.body;
      const json read = json::parse(answer.body);
      if (status == 200) {
        EXPECT_EQ(read, json::parse(expected)) << body;
      } else {
        ASSERT_TRUE(read.is_object() && read.size() == 1 && read.contains("error")) << read;
        EXPECT_THAT(read["error"].get<std::string>(), HasSubstr(expected)) << body;
      }
    }
  }

  TempDirectory folder_;
  ServingMetrics metrics_;
  ModelVersions versions_{folder_.path(),
                          [](const std::string&) { return std::make_shared<DocumentedModel>(); }, 1,
                          BatcherOptions{.max_requests = 1}, metrics_};
  RestApi api_{"m", versions_, metrics_};
};

TEST_F(TensorFlowServingTest, PredictByRowsAndByColumns) {
  const std::string rows =
      R"([{"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
          {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]}])";
  const std::string columns =
      R"({"tag": ["foo", "bar"], "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]],
          "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]]})";
  // An output whose name ends with _bytes is base64.
  json row_answer = json::parse(rows), column_answer = json::parse(columns);
  const json bytes = json::parse(R"([{"b64": "Zm9v"}, {"b64": "YmFy"}])");
  for (size_t i = 0; i < 2; ++i) row_answer[i]["tag_bytes"] = bytes[i];
  column_answer["tag_bytes"] = bytes;
  check(
      {{"predict", R"({"instances": [1.0, 2.0, 5.0]})", 200, R"({"predictions": [3.5, 4.0, 5.5]})"},
       {"predict", R"({"instances": [{"x": 1.0}, {"x": 2}]})", 200,
        R"({"predictions": [3.5, 4.0]})"},
       {"predict", R"({"inputs": [1.0, 2.0, 5.0]})", 200, R"({"outputs": [3.5, 4.0, 5.5]})"},
       {"predict", R"({"inputs": {"x": [1e0, -2]}})", 200, R"({"outputs": [3.5, 2.0]})"},
       {"predict", R"({"signature_name": "three", "instances": )" + rows + "}", 200,
        json{{"predictions", row_answer}}.dump()},
       {"predict", R"({"signature_name": "three", "inputs": )" + columns + "}", 200,
        json{{"outputs", column_answer}}.dump()}});
}

TEST_F(TensorFlowServingTest, SignaturesByNameAndByDefault) {
  check(
      {{"predict", R"({"signature_name": "serving_default", "instances": [1]})", 200,
        R"({"predictions": [3.5]})"},
       {"predict", R"({"signature_name": "", "instances": [1]})", 200, R"({"predictions": [3.5]})"},
       {"regress", R"({"signature_name": "tensorflow/serving/regress",
                         "examples": [{"x": 1.0}, {"x": 2.0}]})",
        200, R"({"results": [3.5, 4.0]})"},
       // Predict takes a signature of any method.
       {"predict", R"({"signature_name": "tensorflow/serving/regress", "instances": [1]})", 200,
        R"({"predictions": [3.5]})"},
       {"predict", R"({"signature_name": "other", "instances": [1]})", 400, "'other'"},
       {"predict", R"({"signature_name": 3, "instances": [1]})", 400, "'signature_name'"},
       {"classify", R"({"signature_name": "serving_default", "examples": [{"x": 1.0}]})", 400,
        "is for predict, not for classify"},
       {"classify", R"({"examples": [{"x": 1.0}]})", 400, "no 'signature_name'"}});
}

TEST_F(TensorFlowServingTest, ClassifyTakesExamplesWithContextAndBase64) {
  const std::string named = R"({"signature_name": "classify_objects", "examples": )";
  const std::string answer =
      R"({"results": [[["image", 11.0], ["caption", 7.0]], [["image", 19.0], ["caption", 9.0]]]})";
  check({{"classify", named + R"([{"image": {"b64": "aW1hZ2UgYnl0ZXM="}, "caption": "seaside"},
                 {"image": {"b64": "YXdlc29tZSBpbWFnZSBieXRlcw=="}, "caption": "mountains"}]})",
          200, answer},
         {"classify", named + R"([{"image": ["ab"]}], "context": {"caption": "c"}})", 200,
          R"({"results": [[["image", 2.0], ["caption", 1.0]]]})"},
         // Base64 may come without its padding, and in lines.
         {"classify", named + R"([{"image": {"b64": "aW1hZ2Ug\nYnl0ZXM"}, "caption": "seaside"},
                 {"image": {"b64": "YXdlc29tZSBpbWFnZSBieXRlcw"}, "caption": "mountains"}]})",
          200, answer},
         {"classify", named + R"([{"image": {"b64": "a"}, "caption": ""}]})", 400, "b64"},
         {"classify", named + R"([{"image": {"b64": "ab=c"}, "caption": ""}]})", 400, "b64"},
         {"classify", named + R"([{"image": {"b65": "aaaa"}, "caption": ""}]})", 400, "b64"},
         {"classify", named + R"([{"image": "a", "caption": "b"}], "context": {"caption": "c"}})",
          400, "'caption' twice"},
         {"classify", named + R"([{"image": "a"}]})", 400, "no 'caption'"},
         {"classify", named + "[]}", 400, "no rows"},
         {"classify", named + R"({"image": "a"}})", 400, "'examples'"},
         {"classify", named + R"(["a"]})", 400, "examples[0]"},
         {"classify", R"({"signature_name": "classify_objects"})", 400, "'examples'"}});
}

TEST_F(TensorFlowServingTest, RequestsThatAreWrongAreRefusedWith400) {
  check({{"predict", "", 400, "empty"},
         {"predict", "{", 400, "JSON"},
         {"predict", "[]", 400, "object"},
         {"predict", R"({"instances": [1], "inputs": [1]})", 400, "both"},
         {"predict", "{}", 400, "neither 'instances'"},
         {"predict", R"({"instances": []})", 400, "no rows"},
         {"predict", R"({"instances": 1})", 400, "'instances'"},
         {"predict", R"({"instances": [1, {"x": 1}]})", 400, "instances[1]"},
         {"predict", R"({"instances": [{"x": 1}, 1]})", 400, "instances[1]"},
         {"predict", R"({"instances": [1, [1]]})", 400, "instances[1]"},
         {"predict", R"({"instances": ["1"]})", 400, "instances[0]"},
         {"predict", R"({"instances": [true]})", 400, "instances[0]"},
         {"predict", R"({"instances": [null]})", 400, "instances[0]"},
         {"predict", R"({"instances": [{"x": 1, "z": 1}]})", 400, "'z'"},
         {"predict", R"({"signature_name": "three", "instances": ["foo"]})", 400, "instances[0]"},
         {"predict", R"({"signature_name": "three", "inputs": ["foo"]})", 400, "'inputs'"},
         {"predict", R"({"signature_name": "three", "inputs": {"tag": ["foo"]}})", 400, "'sensor'"},
         {"predict", R"({"instances": [1e39]})", 400, "float32"}});
}

TEST_F(TensorFlowServingTest, ModelsAndVersions) {
  const json status = json::parse(R"({"model_version_status": [{"version": "123",
      "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]})");
  for (const char* path : {"/v1/models/m", "/v1/models/m/versions/123"})
    EXPECT_EQ(json::parse(ask("GET", path).body), status) << path;
  EXPECT_EQ(ask("POST", "/v1/models/m/versions/123:predict", R"({"instances": [1]})").status, 200);
  for (const char* path : {"/v1/models/half", "/v1/models/m/versions/124"})
    EXPECT_EQ(ask("GET", path).status, 404) << path;
  for (const char* path : {"/v1/models/half:predict", "/v1/models/m/versions/124:predict"})
    EXPECT_EQ(ask("POST", path, R"({"instances": [1]})").status, 404) << path;
}

// Each line stands in the table of docs/serving.md, "Compared with TensorFlow Serving".
TEST_F(TensorFlowServingTest, WhatDiffersIsDocumented) {
  check({// It takes NaN.
         {"predict", R"({"instances": [NaN]})", 400, "NaN"},
         // It ignores inputs that it does not know, in columns alone.
         {"predict", R"({"inputs": {"x": [1], "z": [1]}})", 400, "'z'"},
         // It lets inputs have different numbers of rows.
         {"predict", R"({"signature_name": "three", "inputs": {"tag": ["a", "b"],
             "signal": [[1, 2, 3, 4, 5]], "sensor": [[[1, 2], [3, 4]]]}})",
          400, "rows"},
         // It needs the name of the signature, and a point in numbers of a float feature.
         {"regress", R"({"examples": [{"x": 1}]})", 200, R"({"results": [3.5]})"},
         // It refuses whole numbers that float32 rounds.
         {"predict", R"({"instances": [16777217]})", 200, R"({"predictions": [8388611.0]})"}});
  // It says 400 to paths and methods that it does not know.
  EXPECT_EQ(ask("POST", "/v1/models/m:explain").status, 404);
  EXPECT_EQ(ask("GET", "/v1/models/m:predict").status, 405);
}

}  // namespace
}  // namespace muster::inline v0_1::serve
