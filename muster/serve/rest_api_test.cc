// The paths, without a network.
#include "muster/serve/rest_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"
#include "muster/serve/internal/test_model.h"

namespace muster::inline v0_1::serve {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

class RestApiTest : public ::testing::Test {
 protected:
  RestApiTest() {
    std::filesystem::create_directory(folder_ / "7");
    versions_.poll();
  }

  HttpAnswer ask(const std::string& method, const std::string& path, const std::string& body = "") {
    return api_.answer({method, path, body, system_clock().now() + std::chrono::seconds(60)});
  }

  TempDirectory folder_;
  ServingMetrics metrics_;
  std::shared_ptr<internal::TestModel> model_ = std::make_shared<internal::TestModel>();
  ModelVersions versions_{folder_.path(), [this](const std::string&) { return model_; }, 1,
                          BatcherOptions{.max_requests = 1}, metrics_};
  RestApi api_{"m", versions_, metrics_};
};

TEST_F(RestApiTest, Verbs) {
  for (const char* path : {"/v1/models/m:predict", "/v1/models/m/versions/7:predict"}) {
    const HttpAnswer answer = ask("POST", path, R"({"instances": [[1, 2]]})");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "{\"predictions\": [[2.0, 4.0]]}\n");
  }
  // Other keys are ignored.
  EXPECT_EQ(ask("POST", "/v1/models/m:predict", R"({"id": [{}], "instances": [[1, 2]]})").body,
            "{\"predictions\": [[2.0, 4.0]]}\n");
  EXPECT_EQ(ask("POST", "/v1/models/m:predict", R"({"inputs": {"x": [[1, 2]]}})").body,
            "{\"outputs\": [[2.0, 4.0]]}\n");
  EXPECT_EQ(ask("POST", "/v1/models/m:classify", R"({"examples": [{"x": [1, 2]}]})").body,
            "{\"results\": [[[\"cat\", 2.0], [\"dog\", 4.0]]]}\n");
  EXPECT_EQ(ask("POST", "/v1/models/m:regress", R"({"examples": [{"x": [1, 2]}]})").body,
            "{\"results\": [2.0]}\n");
  EXPECT_EQ(ask("POST", "/v1/models/m:predict", R"({"instances": [{"b64": "AP8="}]})").body,
            "{\"predictions\": [[2.0, 2.0]]}\n");
}

// Whatever the model calls its examples, the error shows the client their place in the request.
TEST_F(RestApiTest, AnErrorNamesTheExampleByItsPlaceInTheRequest) {
  const auto body_of = [&](const char* path, const char* body) {
    const HttpAnswer answer = ask("POST", path, body);
    EXPECT_EQ(answer.status, 400);
    return answer.body;
  };
  // "NjY2" are the bytes 666.
  EXPECT_EQ(body_of("/v1/models/m:predict", R"({"instances": [{"b64": "AP8="}, {"b64": "NjY2"}]})"),
            "{\"error\": \"instances[1]: it is 666; give none\"}\n");
  EXPECT_EQ(body_of("/v1/models/m:predict", R"({"inputs": {"examples": [{"b64": "NjY2"}]}})"),
            "{\"error\": \"inputs[0]: it is 666; give none\"}\n");
}

TEST_F(RestApiTest, StatusAndMetadata) {
  const auto status = nlohmann::json::parse(ask("GET", "/v1/models/m").body);
  EXPECT_EQ(status, nlohmann::json::parse(R"({"model_version_status": [{"version": "7",
      "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]})"));
  EXPECT_EQ(nlohmann::json::parse(ask("GET", "/v1/models/m/versions/7").body), status);
  const auto metadata = nlohmann::json::parse(ask("GET", "/v1/models/m/metadata").body);
  EXPECT_EQ(metadata["model_spec"]["version"], "7");
  const auto& signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"];
  EXPECT_EQ(signature["method_name"], "tensorflow/serving/predict");
  EXPECT_EQ(signature["inputs"]["x"], nlohmann::json::parse(R"({"dtype": "DT_FLOAT", "name": "x",
      "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}],
                       "unknown_rank": false}})"));
  EXPECT_EQ(ask("GET", "/v1/models/m/versions/7/metadata").body,
            ask("GET", "/v1/models/m/metadata").body);
}

TEST_F(RestApiTest, UnknownModelsAndPaths) {
  EXPECT_EQ(ask("GET", "/v1/models/mm").body,
            "{\"error\": \"there is no model 'mm' here; did you mean 'm'?\"}\n");
  EXPECT_THAT(ask("POST", "/v1/models/other:predict").body, HasSubstr("this server has 'm'"));
  for (const char* path :
       {"/", "/v1/models/", "/v1/models/m/", "/v1/models/m/versions", "/v1/models/m/versions/8",
        "/v1/models/m/versions/x", "/v1/models/m/versions/07", "/v1/models/m/versions/+7",
        "/v1/models/m/versions/../7", "/v1/models/m/labels/stable", "/v1/models/m:explain",
        "/v1/models/m:", "/v1/models/m/versions/7/versions/7", "/v1/models/m/metadata/x"}) {
    const HttpAnswer answer = ask("GET", path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_TRUE(nlohmann::json::parse(answer.body).contains("error")) << path;
  }
  const HttpAnswer get = ask("GET", "/v1/models/m:predict");
  EXPECT_EQ(get.status, 405);
  EXPECT_THAT(get.headers, Contains(Pair("Allow", "POST")));
  EXPECT_EQ(ask("POST", "/v1/models/m").status, 405);
  EXPECT_EQ(ask("POST", "/metrics").status, 405);
}

TEST_F(RestApiTest, KindsOfErrorsAreStatuses) {
  EXPECT_EQ(ask("POST", "/v1/models/m:predict", "{").status, 400);
  const HttpAnswer blamed = ask("POST", "/v1/models/m:predict", R"({"instances": [[666, 2]]})");
  EXPECT_EQ(blamed.status, 400);
  EXPECT_EQ(blamed.body, "{\"error\": \"x is 666\"}\n");
  const HttpAnswer busy = answer_of(Error(ErrorKind::kUnavailable, "many", "later"));
  EXPECT_EQ(busy.status, 429);
  EXPECT_THAT(busy.headers, Contains(Pair("Retry-After", "1")));
  EXPECT_EQ(answer_of(Error(ErrorKind::kTimeout, "late")).status, 503);
  EXPECT_EQ(answer_of(internal_error("bug")).status, 500);
}

TEST_F(RestApiTest, HealthAndMetrics) {
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_EQ(ask("GET", "/readyz").status, 200);
  ask("POST", "/v1/models/m:predict", R"({"instances": [[1, 2], [3, 4]]})");
  metrics_.observe_request("predict", 200, 0.003);
  for (const char* path : {"/metrics", "/monitoring/prometheus/metrics"}) {
    EXPECT_THAT(
        ask("GET", path).body,
        AllOf(HasSubstr("muster_serve_requests_total{verb=\"predict\",code=\"200\"} 1\n"),
              HasSubstr("muster_serve_request_seconds_bucket{verb=\"predict\",le=\"0.005\"} 1\n"),
              HasSubstr("muster_serve_request_seconds_bucket{verb=\"predict\",le=\"0.0025\"} 0\n"),
              HasSubstr("muster_serve_batch_rows_bucket{le=\"2\"} 1\n"),
              HasSubstr("muster_serve_batch_rows_sum 2\n"),
              HasSubstr("# TYPE muster_serve_batch_rows histogram\n"),
              HasSubstr("\nmuster_serve_model_version 7\n")));
  }
  const std::string all = ask("GET", "/metrics").body;
  for (const char* name :
       {"requests_total", "request_seconds", "batch_requests", "batch_rows", "waiting_requests",
        "open_connections", "model_version", "loads_total", "failed_loads_total"}) {
    EXPECT_THAT(all, HasSubstr(std::string("# TYPE muster_serve_") + name + " "));
  }
  api_.stop_wanting();
  EXPECT_EQ(ask("GET", "/readyz").status, 503);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
}

}  // namespace
}  // namespace muster::inline v0_1::serve
