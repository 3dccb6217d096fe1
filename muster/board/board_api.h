// Answers the requests of the board's page: JSON about the runs of a store, and the images and
// sounds of their records. GET requests only; docs/board.md lists the paths. Thread safety: any
// thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/base/file_system.h"
#include "muster/board/query.h"
#include "muster/board/run_store.h"
#include "muster/serve/http.h"

namespace muster::inline v0_1::board {

class BoardApi {
 public:
  // Both must outlive the API.
  BoardApi(RunStore& store, FileSystem& files);

  // Answers a path that begins with "/api/". Throws nothing: an error is an answer {"error": ...}
  // with the status 400, 404 or 500.
  serve::HttpAnswer answer(const std::string& path, const std::string& query);

 private:
  serve::HttpAnswer route(const std::string& path, const Query& query);
  serve::HttpAnswer state(const Query& query);
  serve::HttpAnswer chart(const Query& query);
  serve::HttpAnswer points(const Query& query);
  serve::HttpAnswer records(const Query& query);
  serve::HttpAnswer histograms(const Query& query);
  serve::HttpAnswer texts(const Query& query);
  serve::HttpAnswer curves(const Query& query);
  serve::HttpAnswer blob(const Query& query);
  serve::HttpAnswer graph(const Query& query);
  serve::HttpAnswer hparams();
  serve::HttpAnswer facts(const Query& query);
  serve::HttpAnswer compare(const Query& query);
  serve::HttpAnswer searches();
  serve::HttpAnswer live();
  serve::HttpAnswer tasks();
  serve::HttpAnswer profiles();
  serve::HttpAnswer profile(const Query& query);
  // What the tasks of a run do: of a run in a bucket what they did at most some seconds ago.
  nlohmann::json live_run(const std::string& directory, double now);

  // The run of the number that the query gives under this name.
  std::shared_ptr<StoredRun> run_of(const Query& query, const std::string& name = "run") const;
  std::string tag_of(const Query& query) const;

  RunStore& store_;
  FileSystem& files_;
  struct Looked {
    double at = 0;  // Unix time
    std::shared_ptr<const nlohmann::json> run{};
  };
  std::mutex mutex_;
  std::map<std::string, Looked> looked_;  // at runs in buckets, by directory
};

}  // namespace muster::inline v0_1::board
