// The store, the API and who may ask, together: what a browser is answered.
#include "muster/board/board_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/await.h"
#include "muster/base/temp_directory.h"
#include "muster/board/internal/test_events.h"
#include "muster/formats/hparams.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;
using serve::HttpAnswer;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class BoardServerTest : public ::testing::Test {
 protected:
  std::string run_folder(const std::string& name) {
    std::filesystem::create_directories(folder_ / name);
    return (folder_ / name) + "/" + kTestFile;
  }
  HttpAnswer get(const std::string& path, const std::string& query = {},
                 const std::string& host = "127.0.0.1:6006", const std::string& cookie = {}) {
    return server_->answer(
        {.method = "GET", .path = path, .query = query, .host = host, .cookie = cookie});
  }
  json ask(const std::string& path, const std::string& query = {}) {
    const HttpAnswer answer = get("/api/" + path, query);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body);
  }
  // The number of a tag, as the page learns it.
  std::string tag(const std::string& name) {
    const json state = ask("state");
    for (const json& each : state["tags"])
      if (each["name"] == name) return std::to_string(each["number"].get<int>());
    ADD_FAILURE() << "no tag " << name << " in " << state.dump();
    return "0";
  }
  static std::string header(const HttpAnswer& answer, const std::string& name) {
    for (const auto& [each, value] : answer.headers)
      if (each == name) return value;
    return "";
  }

  TempDirectory folder_;
  RunStore store_{
      {folder_.path()}, local_file_system(), {.poll_time = std::chrono::milliseconds(10)}};
  BoardApi api_{store_, local_file_system()};
  std::optional<BoardServer> server_{std::in_place, api_, BoardAccess{}};
};

TEST_F(BoardServerTest, RunsBelowTheFolderWithTheirTags) {
  append_to(run_folder("a"), losses(1, 5));
  append_to(run_folder("a/eval"), losses(5, 5));
  append_to(run_folder("b/deep/er"), record_at(1, {{"note", std::string("x")}}));
  append_to(run_folder(".hidden"), losses(1, 1));
  store_.read_all();
  const json state = ask("state");
  ASSERT_EQ(state["runs"].size(), 3U);
  EXPECT_EQ(state["runs"][0]["name"], "a");
  EXPECT_EQ(state["runs"][1]["name"], "a/eval");
  EXPECT_EQ(state["runs"][2]["name"], "b/deep/er");
  EXPECT_EQ(state["runs"][0]["last_step"], 5);
  EXPECT_EQ(state["tags"][0]["runs"], json::array({0, 1}));
  EXPECT_EQ(state["tags"][1]["kind"], "text");
  EXPECT_EQ(state["read_bytes"], state["bytes"]);
  EXPECT_EQ(ask("state", "since=" + state["version"].dump()).size(), 1U) << "nothing new";
}

TEST_F(BoardServerTest, ChartsHaveExactPointsAndZoomIntoThinnedSeries) {
  std::string bytes;
  for (int step = 1; step <= 20'000; ++step)
    bytes += record_at(step, {{"loss", step == 12'345 ? 100.0F : 1.0F}});
  append_to(run_folder("a"), bytes);
  append_to(run_folder("b"), losses(1, 3));
  store_.read_all();
  const json whole = ask("chart", "tag=" + tag("loss") + "&runs=0-1&intervals=100");
  EXPECT_EQ(whole["exact"], false);
  EXPECT_EQ(whole["x"].size(), 200U);
  EXPECT_EQ(std::ranges::count(whole["lines"][0]["values"], json(100.0)), 1);
  const json part = ask("chart", "tag=" + tag("loss") + "&runs=0&from=12344&to=12346");
  EXPECT_EQ(part["exact"], true);
  EXPECT_EQ(part["x"], json::array({12344, 12345, 12346}));
  EXPECT_EQ(part["lines"][0]["values"], json::array({1, 100, 1}));
  const json relative = ask("chart", "tag=" + tag("loss") + "&runs=0&x=relative&from=10&to=11.5");
  EXPECT_EQ(relative["x"], json::array({10, 11}));
}

TEST_F(BoardServerTest, PointsAreThoseOfTheFiles) {
  append_to(run_folder("a \"b\""),
            losses(1, 2) + record_at(3, {{"loss", std::numeric_limits<float>::quiet_NaN()}}));
  store_.read_all();
  const std::string query = "tag=" + tag("loss") + "&runs=0";
  EXPECT_EQ(get("/api/points", query).body,
            "run,step,wall_time,value\n"
            "\"a \"\"b\"\"\",1,1700000001.000000,1\n"
            "\"a \"\"b\"\"\",2,1700000002.000000,0.5\n"
            "\"a \"\"b\"\"\",3,1700000003.000000,nan\n");
  const json points = ask("points", query + "&format=json");
  EXPECT_EQ(
      points[2],
      json::parse(R"({"run": "a \"b\"", "step": 3, "wall_time": 1700000003.0, "value": "NaN"})"));
}

TEST_F(BoardServerTest, RecordsAreReadAgain) {
  append_to(run_folder("a"),
            record_at(1, {{"i", formats::ImageSummary{1, 1, 3, "\x89PNG\r\n\x1a\nrest"}},
                          {"s", formats::AudioSummary{1, 1, 1, "<html>", "text/html"}},
                          {"t", std::string("words")},
                          {"h", formats::Histogram{.min = 0,
                                                   .max = 2,
                                                   .count = 3,
                                                   .sum = 3,
                                                   .limits = {0, 1, 2, 3},
                                                   .counts = {0, 1, 2, 0}}}}));
  store_.read_all();
  const HttpAnswer image = get("/api/blob", "tag=" + tag("i") + "&run=0&record=0");
  EXPECT_EQ(image.type, "image/png");
  EXPECT_THAT(image.body, HasSubstr("rest"));
  EXPECT_EQ(get("/api/blob", "tag=" + tag("s") + "&run=0&record=0").type,
            "application/octet-stream");
  EXPECT_EQ(get("/api/blob", "tag=" + tag("i") + "&run=0&record=1").status, 404);
  EXPECT_EQ(get("/api/blob", "tag=" + tag("i") + "&run=0&record=0&number=1").status, 404);
  EXPECT_EQ(ask("texts", "tag=" + tag("t") + "&run=0")[0]["texts"], json::array({"words"}));
  EXPECT_EQ(ask("histograms", "tag=" + tag("h") + "&run=0")[0]["counts"], json::array({0, 1, 2}));
  EXPECT_EQ(ask("records", "tag=" + tag("t") + "&run=0")[0]["step"], 1);
  EXPECT_EQ(get("/api/texts", "tag=" + tag("i") + "&run=0").body, "[]");
}

TEST_F(BoardServerTest, HyperparametersHaveTheLastScalars) {
  append_to(run_folder("a"),
            record_at(0, {formats::hparams_session_start({{"rate", 0.5}}, "", kTestStart)}) +
                losses(1, 4));
  append_to(run_folder("a/eval"), losses(2, 2));
  store_.read_all();
  const json sessions = ask("hparams");
  ASSERT_EQ(sessions.size(), 1U);
  EXPECT_EQ(sessions[0]["hparams"], json::parse(R"({"rate": 0.5})"));
  EXPECT_EQ(sessions[0]["metrics"], json::parse(R"({"loss": 0.25, "eval/loss": 0.5})"));
}

TEST_F(BoardServerTest, WrongRequestsAreNamed) {
  EXPECT_EQ(get("/api/chart", "tag=0&runs=0").status, 404) << "no tag yet";
  append_to(run_folder("a"), losses(1, 2));
  store_.read_all();
  const std::string loss = "tag=" + tag("loss");
  for (const std::string& query :
       {loss, loss + "&runs=7", loss + "&runs=0&x=depth", loss + "&runs=0&intervals=0",
        loss + "&runs=0&from=nan", loss + "&runs=%", std::string("runs=0")})
    EXPECT_EQ(get("/api/chart", query).status, 400) << query;
  EXPECT_EQ(get("/api/texts", loss + "&run=0").status, 404) << "a scalar has no texts";
  EXPECT_EQ(get("/api/facts", "run=1").status, 400);
  EXPECT_EQ(get("/api/other").status, 404);
  EXPECT_EQ(server_->answer({.method = "POST", .path = "/", .host = "localhost"}).status, 405);
}

TEST_F(BoardServerTest, OnlyTheOwnHostIsAnswered) {
  for (const std::string host :
       {"localhost:6006", "127.0.0.1:6006", "127.0.0.1", "[::1]:6006", "[::1]", "LOCALHOST"})
    EXPECT_EQ(get("/api/state", "", host).status, 200) << host;
  for (const std::string host : {"evil.example", "127.0.0.1.evil.example:6006", "", "10.0.0.1"})
    EXPECT_EQ(get("/api/state", "", host).status, 403) << host;
  EXPECT_THAT(header(get("/api/state"), "Content-Security-Policy"),
              StartsWith("default-src 'none'"));
  EXPECT_EQ(header(get("/"), "X-Content-Type-Options"), "nosniff");
}

TEST_F(BoardServerTest, ATokenIsAskedForWhereItIsSet) {
  const std::string token(64, 'a');
  server_.emplace(api_, BoardAccess{.host = "0.0.0.0", .token = token});
  EXPECT_EQ(get("/", "").status, 403);
  EXPECT_EQ(get("/api/state", "").status, 403);
  EXPECT_EQ(get("/api/state", "token=" + std::string(64, 'b')).status, 403);
  EXPECT_EQ(get("/api/state", "token=%").status, 400);
  EXPECT_EQ(get("/api/state", "token=" + token, "machine.example:6006").status, 200);
  const HttpAnswer first = get("/", "token=" + token, "machine.example:6006");
  EXPECT_EQ(first.status, 303);
  EXPECT_EQ(header(first, "Location"), "/");
  const std::string cookie = header(first, "Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_EQ(get("/api/state", "", "machine.example:6006",
                "other=1; " + cookie.substr(0, cookie.find(';')))
                .status,
            200);
}

TEST_F(BoardServerTest, ARunThatGrowsIsFollowed) {
  store_.start();
  const std::string path = run_folder("live");
  append_to(path, losses(1, 3));
  const auto last_step = [this] {
    const json state = ask("state");
    return state["runs"].empty() ? 0 : state["runs"][0]["last_step"].get<int>();
  };
  EXPECT_TRUE(comes_true([&] { return last_step() == 3; }));
  append_to(path, losses(4, 9));
  EXPECT_TRUE(comes_true([&] { return last_step() == 9; }));
}

TEST(RunStoreTest, SeveralFoldersHaveTheirNamesInFront) {
  const TempDirectory folder;
  for (const std::string name : {"x/a", "y/a"}) {
    std::filesystem::create_directories(folder / name);
    append_to((folder / name) + "/" + kTestFile, losses(1, 1));
  }
  RunStore store({folder / "x", folder / "y/", folder / "gone"}, local_file_system());
  store.read_all();
  ASSERT_EQ(store.runs().size(), 2U);
  EXPECT_EQ(store.runs()[0]->name, "x/a");
  EXPECT_EQ(store.runs()[1]->name, "y/a");
  EXPECT_EQ(store.troubles().size(), 1U);
}

}  // namespace
}  // namespace muster::inline v0_1::board
