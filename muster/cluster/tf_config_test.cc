#include "muster/cluster/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/error_of.h"

namespace muster::inline v0_1::cluster {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// The hint of every error carries a TF_CONFIG in single quotes that the rules accept.
void expect_example_works(const Error& error) {
  const std::string& hint = error.hint();
  size_t begin = hint.find("TF_CONFIG='");
  ASSERT_NE(begin, std::string::npos) << hint;
  begin += 11;
  const std::string example = hint.substr(begin, hint.find('\'', begin) - begin);
  TfConfig config = parse_tf_config(example);
  EXPECT_NO_THROW(check_addresses(config)) << example;
  const bool worker_leads = !config.cluster.has_job("chief") && !config.cluster.has_job("master");
  EXPECT_NO_THROW(read_run_config(config, {}, worker_leads)) << example;
}

// --- values taken from the golden cases; they come with the data, not with the sources ---

std::optional<json> golden() {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  if (!data) return std::nullopt;
  std::ifstream file(std::filesystem::path(data) / ".." / "golden" / "tfconfig_cases.json");
  if (!file) return std::nullopt;
  return json::parse(file);
}

#define GOLDEN_OR_SKIP(group)                                                            \
  std::optional<json> all = golden();                                                    \
  if (!all) GTEST_SKIP() << "set MUSTER_TEST_DATA to a folder beside the golden values"; \
  const json& cases = (*all)[group];                                                     \
  ASSERT_FALSE(cases.empty())

ClusterSpec spec_of(const json& cluster) {
  return parse_tf_config(json{{"cluster", cluster}}.dump()).cluster;
}

template <typename T>
std::optional<T> value_or_null(const json& object, const std::string& key) {
  return object.contains(key) && !object[key].is_null() ? std::optional<T>(object[key].get<T>())
                                                        : std::nullopt;
}

TEST(Golden, RunConfig) {
  GOLDEN_OR_SKIP("estimator_run_config");
  for (const json& c : cases) {
    SCOPED_TRACE(c["name"].get<std::string>());
    auto read = [&] {
      return read_run_config(parse_tf_config(c["tf_config"].dump()),
                             value_or_null<std::string>(c["kwargs"], "model_dir"));
    };
    if (c.contains("error")) {
      Error error = error_of(read);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      expect_example_works(error);
      continue;
    }
    const json& expected = c["result"];
    RunConfigCluster got = read();
    EXPECT_EQ(got.cluster, spec_of(expected["cluster_spec"]));
    EXPECT_EQ(json(got.task_type), expected["task_type"]);
    EXPECT_EQ(got.task_id, expected["task_id"]);
    EXPECT_EQ(json(got.master), expected["master"]);
    EXPECT_EQ(json(got.evaluation_master), expected["evaluation_master"]);
    EXPECT_EQ(got.is_chief, expected["is_chief"]);
    EXPECT_EQ(got.num_worker_replicas, expected["num_worker_replicas"]);
    EXPECT_EQ(got.num_ps_replicas, expected["num_ps_replicas"]);
    EXPECT_EQ(got.global_id_in_cluster, value_or_null<int>(expected, "global_id_in_cluster"));
    EXPECT_EQ(got.model_dir, value_or_null<std::string>(expected, "model_dir"));
    EXPECT_EQ(got.service.empty() ? json() : json::parse(got.service), expected["service"]);
  }
}

TEST(TfConfig, RoundTrip) {
  const std::string text =
      R"({"cluster":{"chief":["a:1"],"worker":{"1":"b:1","4":"c:1"}},"task":{"type":"worker","index":4},)"
      R"("environment":"cloud","rpc_layer":"grpc","session_master":"s","eval_session_master":"e","model_dir":"/m",)"
      R"("service":{"k":[1,2]}})";
  TfConfig config = parse_tf_config(text);
  EXPECT_EQ(config.cluster.address({"worker", 4}), "c:1");
  EXPECT_EQ(json::parse(to_json_text(config)), json::parse(text));
  EXPECT_EQ(to_json_text(parse_tf_config("")), "{}");
  EXPECT_EQ(to_json_text(parse_tf_config(" \n")), "{}");
}

TEST(TfConfig, NumbersInTextsAndNullsAreUnderstood) {
  TfConfig config = parse_tf_config(
      R"({"cluster":null,"task":{"type":"worker","index":" 3 "},"service":null,"model_dir":null})");
  EXPECT_EQ(config.task_index, 3);
  EXPECT_TRUE(config.cluster.empty());
  EXPECT_FALSE(config.model_dir);
  EXPECT_FALSE(parse_tf_config(R"({"task":{"type":null,"index":null}})").task_index);
  EXPECT_EQ(parse_tf_config(R"({"task":{"index":2.0}})").task_index, 2);
}

TEST(TfConfig, SparseClusterOfKubeflow) {
  TfConfig config = parse_tf_config(
      R"({"sparseCluster":{"worker":{"2":"w2:2222"},"ps":["p0:2222"]},"task":{"type":"worker","index":2}})");
  EXPECT_EQ(config.cluster.address({"worker", 2}), "w2:2222");
  EXPECT_EQ(config.cluster.address({"ps", 0}), "p0:2222");
}

TEST(TfConfig, BadTextIsQuotedWithItsPlace) {
  struct Case {
    std::string text;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases = {
      {"{\"cluster\": {\"chief\": [\"a:1\"]\n  \"worker\": []}}",
       {"TF_CONFIG", "line 2", "worker"}},
      {"not json", {"TF_CONFIG", "line 1"}},
      {"[1]", {"[1]", "must be a JSON object"}},
      {R"({"cluster": ["a:1"]})", {"cluster is [\"a:1\"]", "object of jobs"}},
      {R"({"cluster": {"worker": "a:1"}})", {"cluster.worker is \"a:1\"", "list of addresses"}},
      {R"({"cluster": {"worker": ["a:1", ""]}})",
       {"cluster.worker[1] is \"\"", "worker:1 is empty"}},
      {R"({"cluster": {"worker": ["a:1", "  "]}})", {"cluster.worker[1]", "is empty"}},
      {R"({"cluster": {"worker": [1]}})", {"cluster.worker[0] is 1", "host:port"}},
      {R"({"cluster": {"worker": {"x": "a:1"}}})",
       {"cluster.worker.x is \"a:1\"", "\"x\" is not a task index"}},
      {R"({"cluster": {"worker": {"-1": "a:1"}}})", {"cluster.worker.-1", "not a task index"}},
      {R"({"cluster": {"worker": {"1": "a:1", "01": "b:1"}}})", {"index 1 occurs twice"}},
      {R"({"cluster": {"worker": ["a:1"]}, "sparseCluster": {"ps": {"0": "b:1"}}})",
       {"sparseCluster", "already"}},
      {R"({"task": "worker"})", {"task is \"worker\"", "object"}},
      {R"({"task": {"type": true}})", {"task.type is true", "text"}},
      {R"({"task": {"index": "one"}})", {"task.index is \"one\"", "whole number"}},
      {R"({"task": {"index": 1.5}})", {"task.index is 1.5"}},
      {R"({"task": {"index": true}})", {"task.index is true"}},
      {R"({"task": {"index": 99999999999}})", {"task.index is 99999999999"}},
      {R"({"task": {"index": 18446744073709551615}})", {"task.index is 18446744073709551615"}},
      {R"({"task": {"index": 1e300}})", {"task.index is 1e+300", "whole number"}},
      {R"({"model_dir": 1})", {"model_dir is 1"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    Error error = error_of([&] { parse_tf_config(c.text); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    for (const std::string& part : c.says) EXPECT_THAT(error.message(), HasSubstr(part));
    expect_example_works(error);
  }
}

TEST(TfConfig, HintsCorrectTheUsersOwnText) {
  const auto hint = [](const std::string& text) {
    return error_of([&] { check_addresses(parse_tf_config(text)); }).hint();
  };
  const std::string task = R"("task":{"type":"worker","index":1})";
  const auto cluster = [&](const std::string& workers) {
    return R"({"cluster":{"worker":)" + workers + "}," + task + "}";
  };
  EXPECT_THAT(
      hint(R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":"one"}})"),
      HasSubstr(R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":0}})"));
  for (const auto& [given, meant] : std::vector<std::pair<std::string, std::string>>{
           {R"("a:1, b:1")", R"(["a:1","b:1"])"},
           {R"([2222,2223])", R"(["localhost:2222","localhost:2223"])"},
           {R"(["a:1","http://b:7/x"])", R"(["a:1","b:7"])"},
           {R"(["a:1","b"])", R"(["a:1","b:2222"])"},
           {R"(["a:1","b:99999"])", R"(["a:1","b:2222"])"},
           {R"(["a:1","::1"])", R"(["a:1","[::1]:2222"])"},
           {R"(["a:1","a:1","a:1"])", R"(["a:1","a:2","a:3"])"},
           {R"(["a:1",""])", R"(["a:1","worker1:2222"])"},
           {R"(["a","a"])", R"(["a:2222","a:2223"])"}}) {
    EXPECT_THAT(hint(cluster(given)), HasSubstr("TF_CONFIG='" + cluster(meant) + "'")) << given;
  }
  // A job whose name is not a host name either.
  EXPECT_THAT(hint(R"({"cluster":{"worker":["a:1"],"my job":["b c"]}})"),
              HasSubstr(R"("my job":["host0:2222"])"));
  // Two mistakes at once.
  EXPECT_THAT(
      hint(R"({"Cluster":{"worker":"a:1,a:1"},"task":{"type":"worker","index":4}})"),
      HasSubstr(R"({"cluster":{"worker":["a:1","a:2"]},"task":{"type":"worker","index":0}})"));
}

TEST(TfConfig, AddressesAreChecked) {
  struct Case {
    std::string worker;
    std::string says;
  };
  for (const Case& c : {Case{"host", "not of the form host:port"}, Case{":22", "not of the form"},
                        Case{"host:", "port \"\""},
                        Case{"host:99999", "port \"99999\" is not a number from 1 to 65535"},
                        Case{"host:-1", "port \"-1\""}, Case{"host:22x", "port \"22x\""},
                        Case{"grpc://host:22", "not of the form"},
                        Case{"ho st:22", "not of the form"}, Case{"a:b:1", "not of the form"},
                        Case{"chief:1", "cluster.chief[0] has the same address"}}) {
    SCOPED_TRACE(c.worker);
    json text = {{"cluster", {{"chief", {"chief:1"}}, {"worker", {"ok:1", c.worker}}}}};
    Error error = error_of([&] { check_addresses(parse_tf_config(text.dump())); });
    EXPECT_THAT(error.message(), AllOf(HasSubstr("cluster.worker[1]"),
                                       HasSubstr("\"" + c.worker + "\""), HasSubstr(c.says)));
    expect_example_works(error);
  }
  EXPECT_NO_THROW(check_addresses(
      parse_tf_config(R"({"cluster":{"worker":["[::1]:22","10.0.0.1:65535","a-b.c:0"]}})")));
}

// --- the rules of RunConfig that the golden cases leave out ---

TEST(RunConfig, ErrorsQuoteTheCulpritAndShowAWorkingExample) {
  struct Case {
    std::string text;
    std::string says;
  };
  const std::string one = R"("cluster":{"chief":["a:1"]})";
  const std::string two = R"("cluster":{"chief":["a:1"],"worker":["b:1"]})";
  for (
      const Case& c : {
          Case{R"({"task":{"type":"chief","index":0}})", "task.type is \"chief\""},
          Case{R"({"task":{"type":"worker","index":1}})", "task.index is 1"},
          Case{
              R"({"cluster":{"chief":["a:1"],"master":["b:1"]},"task":{"type":"chief","index":0}})",
              "cluster.master is [\"b:1\"]"},
          Case{R"({"cluster":{"master":["b:1"]},"task":{"type":"evaluator","index":0}})",
               "task.type is \"evaluator\""},
          Case{R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}})",
               "one \"chief\""},
          Case{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":0}})", "one \"chief\""},
          Case{R"({"cluster":{"chief":[]},"task":{"type":"chief","index":0}})", "one \"chief\""},
          Case{
              R"({"cluster":{"chief":["a:1","b:1"],"worker":["c:1"]},"task":{"type":"chief","index":1}})",
              "cluster.chief is [\"a:1\",\"b:1\"]"},
          Case{R"({"cluster":{"master":["a:1","b:1"]},"task":{"type":"master","index":0}})",
               "cluster.master"},
          Case{"{" + one + R"(,"task":{"index":0}})", "task.type is missing"},
          Case{"{" + one + R"(,"task":{"type":"","index":0}})", "task.type is missing"},
          Case{"{" + one + "}", "task.type is missing"},
          Case{"{" + one + R"(,"task":{"type":"chief"}})", "task.index is missing"},
          Case{"{" + one + R"(,"task":{"type":"chief","index":-2}})", "task.index is -2"},
          Case{"{" + one + R"(,"task":{"type":"worker","index":0}})", "task.type is \"worker\""},
          Case{"{" + two + R"(,"task":{"type":"worker","index":7}})", "task.index is 7"},
          Case{R"({"service":3})", "service is 3"},
          Case{R"({"model_dir":""})", "model_dir is \"\""},
      }) {
    SCOPED_TRACE(c.text);
    Error error = error_of([&] { read_run_config(parse_tf_config(c.text)); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(c.says));
    expect_example_works(error);
  }
}

TEST(RunConfig, TheCorrectedExampleKeepsTheUsersAddresses) {
  Error error = error_of([] {
    read_run_config(parse_tf_config(
        R"({"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}})"));
  });
  EXPECT_THAT(
      error.hint(),
      HasSubstr(
          R"({"cluster":{"chief":["a:1"],"worker":["b:1"]},"task":{"type":"worker","index":0}})"));
}

TEST(RunConfig, MisspeltKeysAreNotPassedOver) {
  const auto wrong = [](const std::string& text) {
    return error_of([&] { parse_tf_config(text); });
  };
  const Error capital =
      wrong(R"({"Cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}})");
  EXPECT_EQ(capital.message(), "TF_CONFIG: there is no key \"Cluster\"");
  EXPECT_EQ(capital.hint(),
            R"(did you mean "cluster", for example TF_CONFIG=)"
            R"('{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}')");
  EXPECT_EQ(wrong(R"({"cluster":{"chief":["a:1"]},"task":{"typ":"chief","index":0}})").message(),
            "TF_CONFIG: there is no key \"task.typ\"");
  // Words of other readers are none of ours.
  parse_tf_config(R"({"job":{"scale":1},"task":{"type":"worker","index":0,"trial":"1"}})");
}

TEST(RunConfig, ModelDirMustAgree) {
  TfConfig config = parse_tf_config(R"({"model_dir":"/a"})");
  EXPECT_EQ(read_run_config(config).model_dir, "/a");
  EXPECT_EQ(read_run_config({}, "/b").model_dir, "/b");
  EXPECT_THAT(error_of([&] { read_run_config(config, "/b"); }).message(),
              AllOf(HasSubstr("/a"), HasSubstr("/b")));
  EXPECT_THAT(error_of([&] { read_run_config({}, ""); }).message(),
              HasSubstr("model_dir is empty"));
}

TEST(RunConfig, LocalMasters) {
  RunConfigCluster got =
      read_run_config(parse_tf_config(R"({"session_master":"m","eval_session_master":"e"})"));
  EXPECT_EQ(got.master, "m");
  EXPECT_EQ(got.evaluation_master, "e");
  EXPECT_TRUE(got.is_chief);
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
