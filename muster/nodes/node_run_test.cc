#include "muster/nodes/node_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/error_of.h"

namespace muster::inline v0_1::nodes {
namespace {

using ::testing::HasSubstr;

TEST(ParseNodes, NumberAndCount) {
  const NodeOptions parsed = parse_nodes("1/3");
  EXPECT_EQ(parsed.node, 1);
  EXPECT_EQ(parsed.nodes, 3);
}

TEST(ParseNodes, TheMinimumOfAnElasticRunStandsBeforeTheNumberOfMachines) {
  EXPECT_EQ(parse_nodes("1/3").least, 0);
  const NodeOptions parsed = parse_nodes("1/2:3");
  EXPECT_EQ(parsed.node, 1);
  EXPECT_EQ(parsed.least, 2);
  EXPECT_EQ(parsed.nodes, 3);
  for (const char* text : {"0/0:3", "0/4:3", "0/-1:3"}) {
    const Error error = error_of([&] { parse_nodes(text); });
    EXPECT_THAT(error.message(), HasSubstr("the minimum of 3 machines is")) << text;
    EXPECT_THAT(error.hint(), HasSubstr("0/1:3"));
  }
}

TEST(ParseNodes, OtherTextsAreRefused) {
  for (const char* text :
       {"", "1", "/", "1/", "/3", "a/3", "1/b", "-1/3", "0/0", "1/3/5", "0/:3", "0/1:2:3"}) {
    const Error error = error_of([&] { parse_nodes(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << text;
    EXPECT_THAT(error.message(), HasSubstr(text));
  }
  const Error error = error_of([] { parse_nodes("3/3"); });
  EXPECT_EQ(error.message(), "--nodes=3/3: there is no machine 3 of 3");
  EXPECT_THAT(error.hint(), HasSubstr("2/3"));
}

TEST(CheckNodeOptions, WhatDoesNotGoTogetherIsRefused) {
  const launch::RunOptions good{.command = {"train"}};
  const NodeOptions node{.node = 0, .nodes = 2, .rendezvous = "127.0.0.1:29500"};
  EXPECT_NO_THROW(check_node_options(good, node));
  const auto refusal = [&](auto change) {
    launch::RunOptions options = good;
    NodeOptions of_node = node;
    change(options, of_node);
    return error_of([&] { check_node_options(options, of_node); }).message();
  };
  EXPECT_EQ(refusal([](auto&, auto& it) { it.rendezvous = ""; }), "--nodes needs --rendezvous");
  EXPECT_THAT(refusal([](auto& it, auto&) { it.min_workers = 1; }),
              HasSubstr("--workers=MIN:MAX with --nodes"));
  EXPECT_THAT(refusal([](auto&, auto& it) { it.rendezvous = "host"; }), HasSubstr("host"));
  EXPECT_EQ(refusal([](auto&, auto& it) { it.rendezvous = "host:0"; }), "--rendezvous is 'host:0'");
  for (const char* address : {"host", ":29500", "host:abc", "host:70000", "http://host:29500",
                              "0.0.0.0:29500", "[::]:29500"}) {
    EXPECT_THAT(refusal([&](auto&, auto& it) { it.rendezvous = address; }),
                HasSubstr(std::string("--rendezvous is '") + address + "', w"));
  }
  EXPECT_THAT(refusal([](auto& it, auto&) { it.chief = true, it.ps = 1; }), HasSubstr("--ps"));
  EXPECT_THAT(refusal([](auto& it, auto&) { it.tls = true; }), HasSubstr("--tls"));
  EXPECT_THAT(refusal([](auto& it, auto&) { it.chief = true, it.workers = 0; }),
              HasSubstr("--workers is 0"));
}

// The tasks of one machine of three, with a chief and an evaluator on the first.
TEST(PlanRun, APlaceAmongSeveralMachines) {
  launch::RunOptions options{.workers = 2, .chief = true, .evaluator = true, .command = {"train"}};
  const auto config = [](const launch::ProcessSpec& task) {
    for (const auto& [name, text] : task.environment) {
      if (name == "TF_CONFIG") return nlohmann::json::parse(text);
    }
    return nlohmann::json();
  };
  const launch::Machine machine{.cores = {0}, .usable = 1};
  for (int node = 0; node < 2; ++node) {
    options.place = launch::RunPlace{.node = node,
                                     .addresses = {{"a:1", "a:2", "a:3"}, {"b:1", "b:2"}},
                                     .job_id = "train-1",
                                     .run_id = "feed"};
    const launch::RunPlan plan = launch::plan_run(options, machine, {}, Environment({}));
    ASSERT_EQ(plan.processes.size(), node == 0 ? 4u : 2u);
    for (const launch::ProcessSpec& task : plan.processes) {
      const nlohmann::json cluster = config(task)["cluster"];
      EXPECT_EQ(cluster["chief"], nlohmann::json({"a:1"}));
      EXPECT_EQ(cluster["worker"], nlohmann::json({"a:2", "a:3", "b:1", "b:2"}));
    }
    EXPECT_EQ(plan.processes[node == 0 ? 1 : 0].name, node == 0 ? "worker 0" : "worker 2");
    EXPECT_EQ(config(plan.processes.back())["task"]["type"], node == 0 ? "evaluator" : "worker");
    using Pair = std::pair<std::string, std::string>;
    EXPECT_THAT(plan.processes[0].secrets,
                ::testing::ElementsAre(Pair("MUSTER_JOB_ID", "train-1")));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::nodes
