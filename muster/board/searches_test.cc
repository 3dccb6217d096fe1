#include "muster/board/searches.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::board {
namespace {

TEST(Searches, TrialsWithTheirBestMeasurements) {
  const TempDirectory folder;
  const auto write = [&](const std::string& text) {
    local_file_system().write_atomically(folder / kSearchFile, text).value();
  };
  EXPECT_TRUE(search_json(local_file_system(), folder.path()).is_null());
  // As jobs/search.cc writes it.
  write(R"({"search": {"maximize": false, "metric": "loss", "algorithm": 0, "parameters": []},
            "seed": 1, "first": 1, "trials": [
    {"number": 1, "values": {"rate": "0.1"}, "state": "done", "measurements": [[10, 3.5], [20, 1.5],
     [30, 2]], "failure": "", "exit_code": 0, "log": "1/log.txt"},
    {"number": 2, "values": {"rate": "9"}, "state": "failed", "measurements": [],
     "failure": "loss is NaN", "exit_code": 1, "log": ""}]})");
  const nlohmann::json search = search_json(local_file_system(), folder.path());
  EXPECT_EQ(search["metric"], "loss");
  ASSERT_EQ(search["trials"].size(), 2U);
  EXPECT_EQ(search["trials"][0]["best"], 1.5);
  EXPECT_EQ(search["trials"][0]["best_step"], 20);
  EXPECT_EQ(search["trials"][0]["last"], 2);
  EXPECT_EQ(search["trials"][0]["measurements"], 3);
  EXPECT_EQ(search["trials"][0]["curve"], nlohmann::json::parse("[[10,3.5],[20,1.5],[30,2]]"));
  EXPECT_TRUE(search["trials"][1]["best"].is_null());
  EXPECT_EQ(search["trials"][1]["failure"], "loss is NaN");
  for (const char* damaged : {"", "{}", "[]", "{\"search\": 3}",
                              R"({"search": {"maximize": 1, "metric": "x"}, "trials": []})"}) {
    write(damaged);
    EXPECT_TRUE(search_json(local_file_system(), folder.path()).is_null()) << damaged;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::board
