// Reads the traces of hooks::profiler(), for tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::inline v0_1::testing {

struct TraceEvent {
  std::string name{};
  int64_t begin = 0, end = 0;  // nanoseconds
  nlohmann::json args{};
};

// By the names of process and thread, in the order of the file.
using TraceRows = std::map<std::pair<std::string, std::string>, std::vector<TraceEvent>>;

// Fails the test where an event has no named row, or overlaps another of its row without being
// inside of it.
inline TraceRows read_trace(const std::string& path) {
  const auto trace = nlohmann::json::parse(local_file_system().read_file(path).value());
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  TraceRows rows;
  std::map<std::pair<int, int>, std::vector<int64_t>> open;  // ends of spans under way
  for (const auto& event : trace.at("traceEvents")) {
    const std::pair<int, int> row{event.at("pid"), event.at("tid")};
    const std::string name = event.at("name");
    if (event.at("ph") == "M") {
      if (name == "process_name") processes[row.first] = event.at("args").at("name");
      if (name == "thread_name") threads[row] = event.at("args").at("name");
      continue;
    }
    EXPECT_EQ(event.at("ph"), "X");
    const auto ns = [&](const char* key) {
      return std::llround(event.at(key).get<double>() * 1000);
    };
    const int64_t begin = ns("ts"), end = begin + ns("dur");
    EXPECT_GE(begin, 0);
    EXPECT_GE(end, begin);
    std::vector<int64_t>& ends = open[row];
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    if (!ends.empty()) {
      EXPECT_LE(end, ends.back()) << name << " overlaps another";
    }
    ends.push_back(end);
    rows[{processes.at(row.first), threads.at(row)}].push_back(
        {.name = name, .begin = begin, .end = end, .args = event.at("args")});
  }
  return rows;
}

inline std::vector<std::string> names_of(const std::vector<TraceEvent>& events) {
  std::vector<std::string> names;
  for (const TraceEvent& event : events) names.push_back(event.name);
  return names;
}

}  // namespace muster::inline v0_1::testing
