// Invariant of TF_CONFIG's errors: for every wrong text, the example in the error works, and in it
// this process is still the same task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/random.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {
namespace {

using nlohmann::json;
using testing::HasSubstr;

int below(Random& random, int n) {
  return static_cast<int>(random.uniform_below(static_cast<uint64_t>(n)));
}

template <typename T>
T one_of(Random& random, const std::vector<T>& all) {
  return all[static_cast<size_t>(below(random, static_cast<int>(all.size())))];
}

json tasks_of(Random& random, const std::string& job, int count) {
  const bool sparse = below(random, 5) == 0;
  json tasks = sparse ? json::object() : json::array();
  for (int i = 0; i < count; ++i) {
    const std::string address = job + std::to_string(i) + ":" + std::to_string(2000 + i);
    if (sparse) {
      tasks[std::to_string(3 * i)] = address;
    } else {
      tasks.push_back(address);
    }
  }
  return tasks;
}

// A TF_CONFIG that a strategy for several workers takes.
json valid_config(Random& random) {
  json cluster = json::object();
  const int leader = below(random, 4);
  if (leader < 2) cluster["chief"] = tasks_of(random, "chief", 1);
  if (leader == 2) cluster["master"] = tasks_of(random, "master", 1);
  const int workers = below(random, 4) + (leader == 3 ? 1 : 0);
  if (workers > 0) cluster["worker"] = tasks_of(random, "worker", workers);
  if (below(random, 3) == 0) cluster["ps"] = tasks_of(random, "ps", 1 + below(random, 2));
  if (below(random, 6) == 0) cluster["evaluator"] = tasks_of(random, "evaluator", 1);
  std::vector<json> tasks;
  for (const auto& [job, all] : cluster.items()) {
    int i = 0;
    for (const auto& [key, address] : all.items())
      tasks.push_back({{"type", job}, {"index", all.is_array() ? i++ : std::stoi(key)}});
  }
  json config = {{"cluster", cluster}, {"task", one_of(random, tasks)}};
  if (below(random, 4) == 0) config["model_dir"] = "/m's";
  if (below(random, 4) == 0) config["environment"] = "cloud";
  if (below(random, 6) == 0) config["service"] = {{"k", 1}};
  return config;
}

const std::vector<json>& junk() {
  static const std::vector<json> all = {nullptr,
                                        true,
                                        -1,
                                        0,
                                        7,
                                        123456,
                                        1.5,
                                        "",
                                        " ",
                                        "chief",
                                        "ps",
                                        "worker",
                                        "evaluator",
                                        "host",
                                        "host:6:6",
                                        "host:0",
                                        "[host:6:6]:7",
                                        "::1",
                                        "[::1]:5",
                                        "http://h:8/x",
                                        "it's:7",
                                        "chief0:2000",
                                        "99999999999",
                                        json::array(),
                                        json::array({1}),
                                        json::array({"a:1", "b:1"}),
                                        json::array({"a:1", "a:1", ""}),
                                        json::object(),
                                        {{"0", "a:1"}, {"00", "b:1"}},
                                        {{"2147483647", "a:1"}},
                                        {{"x", "a:1"}},
                                        {{"worker", json::array({"a:1", "b:1"})}},
                                        {{"ps", json::array({"a:1"})}},
                                        {{"gpu", json::array({"a:1", "b"})}},
                                        {{"type", "worker"}, {"index", 9}}};
  return all;
}

// Changes one place of the text, as people do: another value, another key, a key too few or too
// many.
void damage(Random& random, json& config) {
  const std::vector<std::string> keys = {"chief",   "master", "worker",  "workers", "ps",
                                         "p",       "gpu",    "cluster", "Cluster", "evaluator",
                                         "my job",  "task",   "type",    "typ",     "index",
                                         "service", "taks",   "0",       "17",      "model_dir"};
  json* place = &config;
  for (int depth = below(random, 4); depth > 0 && place->is_structured() && !place->empty();
       --depth)
    place = &*std::next(place->begin(), below(random, static_cast<int>(place->size())));
  const int kind = below(random, 5);
  if (kind == 0 || place->is_primitive()) {
    *place = one_of(random, junk());
  } else if (place->is_array()) {
    place->push_back(kind < 3 && !place->empty() ? (*place)[0] : one_of(random, junk()));
  } else if (kind == 1 && !place->empty()) {
    place->erase(std::next(place->begin(), below(random, static_cast<int>(place->size()))));
  } else if (kind == 2 && !place->empty()) {
    const auto old = std::next(place->begin(), below(random, static_cast<int>(place->size())));
    const json value = *old;
    place->erase(old);
    (*place)[one_of(random, keys)] = value;
  } else {
    (*place)[one_of(random, keys)] = one_of(random, junk());
  }
}

std::string example_in(const Error& error) {
  const std::string& hint = error.hint();
  const size_t begin = hint.find("TF_CONFIG='");
  if (begin == std::string::npos) return "no example in: " + hint;
  return hint.substr(begin + 11, hint.find('\'', begin + 11) - begin - 11);
}

// The address of the task that the text names, if no other task has the same one.
std::string own_address(const std::string& text) {
  try {
    const TfConfig config = parse_tf_config(text);
    if (!config.task_type || !config.task_index || config.task_type == "evaluator") return "";
    const Task own{*config.task_type, *config.task_index};
    if (!config.cluster.has_task(own)) return "";
    check_addresses(config);
    const std::string& address = config.cluster.address(own);
    return address.ends_with(":0") ? "" : address;
  } catch (const Error&) {
    return "";
  }
}

void expect_law(const std::string& text, const ResolveOptions& options) {
  SCOPED_TRACE(text);
  try {
    resolve_cluster(Environment({{"TF_CONFIG", text}}), options);
    return;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    const std::string example = example_in(error);
    SCOPED_TRACE(error.message() + "\n" + example);
    ResolvedCluster again;
    ASSERT_NO_THROW(again = resolve_cluster(Environment({{"TF_CONFIG", example}}), options));
    if (const std::string own = own_address(text); !own.empty()) {
      EXPECT_EQ(own_address(example), own);
    }
  }
}

// The same of the two readers that know nothing of training.
void expect_law_of_readers(const std::string& text, bool worker_leads) {
  SCOPED_TRACE(text);
  try {
    const TfConfig config = parse_tf_config(text);
    read_run_config(config, {}, worker_leads);
  } catch (const Error& error) {
    const std::string example = example_in(error);
    SCOPED_TRACE(error.message() + "\n" + example);
    TfConfig corrected;
    ASSERT_NO_THROW(corrected = parse_tf_config(example));
    EXPECT_NO_THROW(check_addresses(corrected));
    const bool has_chief =
        corrected.cluster.has_job("chief") || corrected.cluster.has_job("master");
    EXPECT_NO_THROW(
        read_run_config(corrected, {}, worker_leads || (!has_chief && !corrected.cluster.empty())));
  }
}

TEST(Corrections, EveryExampleIsAcceptedForTheSameTask) {
  constexpr int kCases = 4000;
  for (int i = 0; i < kCases && !testing::Test::HasFailure(); ++i) {
    Random random(derive_key(7, {static_cast<uint64_t>(i)}));
    json config = valid_config(random);
    for (int n = 1 + below(random, 3); n > 0; --n) damage(random, config);
    std::string text = config.dump();
    if (below(random, 20) == 0) text.resize(text.size() / 2);
    expect_law(text, {.worker_zero_may_be_chief = true});
    expect_law(text, {.worker_zero_may_be_chief = false});
    expect_law(text, {.wants_servers = true});
    expect_law(text, {.model_dir = "/other"});
    expect_law_of_readers(text, false);
  }
}

TEST(Corrections, ValidOnesNeedNone) {
  for (int i = 0; i < 200; ++i) {
    Random random(derive_key(8, {static_cast<uint64_t>(i)}));
    const std::string text = valid_config(random).dump();
    EXPECT_NO_THROW(
        resolve_cluster(Environment({{"TF_CONFIG", text}}), {.worker_zero_may_be_chief = true}))
        << text;
  }
}

std::string example_for(const std::string& text, const ResolveOptions& options = {}) {
  return example_in(error_of([&] {
    resolve_cluster(Environment({{"TF_CONFIG", text}}), options);
  }));
}

TEST(Corrections, KnownCases) {
  const auto config = [](const std::string& cluster, const std::string& task) {
    return R"({"cluster":{)" + cluster + R"(},"task":{)" + task + "}}";
  };
  const std::string worker1 = R"("type":"worker","index":1)";
  // A port too many.
  EXPECT_EQ(example_for(
                config(R"("chief":["c:1"],"worker":["host:6:6"])", R"("type":"worker","index":0)")),
            config(R"("chief":["c:1"],"worker":["host:6"])", R"("type":"worker","index":0)"));
  // Several chiefs, together with another mistake.
  EXPECT_EQ(
      example_for(config(R"("chief":["a:1","b"],"worker":["c:1"])", R"("type":"chief","index":1)")),
      config(R"("chief":["a:1"],"worker":["c:1","b:2222"])", worker1));
  // A type that the cluster has not.
  EXPECT_EQ(example_for(config(R"("worker":["a:1","b:1"])", R"("type":"ps","index":1)")),
            config(R"("chief":["a:1"],"worker":["b:1"])", R"("type":"chief","index":0)"));
  EXPECT_EQ(example_for(config(R"("chief":["a:1"],"worker":["b:1","c:1"])",
                               R"("type":"wroker","index":1)")),
            config(R"("chief":["a:1"],"worker":["b:1","c:1"])", worker1));
  // A job that training does not know.
  EXPECT_EQ(
      example_for(config(R"("chief":["a:1"],"gpu":["b:1","c:1"])", R"("type":"gpu","index":1)")),
      config(R"("chief":["a:1"],"worker":["b:1","c:1"])", worker1));
  // A character that a shell would read as the end of the text.
  EXPECT_EQ(example_for(R"({"service":3,"environment":"it's"})"), R"({"environment":"it\u0027s"})");
}

TEST(Corrections, ANumberAsTypeIsText) {
  EXPECT_EQ(parse_tf_config(R"({"task":{"type":123456,"index":0}})").task_type, "123456");
  EXPECT_EQ(
      read_run_config(
          parse_tf_config(
              R"({"cluster":{"chief":["a:1"],"123456":["b:1"]},"task":{"type":123456,"index":0}})"))
          .task_type,
      "123456");
  EXPECT_THAT(error_of([] {
                read_run_config(parse_tf_config(
                    R"({"cluster":{"chief":["a:1"]},"task":{"type":123456,"index":0}})"));
              }).message(),
              HasSubstr("task.type is \"123456\""));
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
