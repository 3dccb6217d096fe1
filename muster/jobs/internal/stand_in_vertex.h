// A server that answers as Vertex AI, Cloud Logging and the metadata service of Google's machines
// do, for tests: new resources are checked field by field and kept in memory. Thread safety: any
// thread.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster::inline v0_1::jobs::internal {

class StandInVertex {
 public:
  StandInVertex();
  ~StandInVertex();

  // "http://127.0.0.1:40123"
  std::string address() const;
  // The last created resource, as it came.
  nlohmann::json created() const;
  // The method, path and query of the requests, the latest at the end.
  std::vector<std::string> requests() const;
  // The Authorization of the last request.
  std::string authorization() const;
  // Sets the fields of every job in answers to get from now on, in addition to its name.
  void set_state(const std::string& state, const std::string& error = {});
  // Answers every question from now on with this text.
  void set_answer(const std::string& text);
  // The entries that the log has, which every filter selects.
  void set_log(std::vector<nlohmann::json> entries);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::jobs::internal
