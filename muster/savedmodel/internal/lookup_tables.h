// Tables that look words up, and the files that list the words: the assets of a SavedModel. For
// sources alone. Thread safety: one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/savedmodel/internal/tensorflow_graph.h"

namespace muster::inline v0_1::saved_model::internal {

// A file in assets/, and the node that gets its path when the model is loaded.
struct Asset {
  std::string node{};
  std::string bytes{};
};

class LookupTables {
 public:
  explicit LookupTables(TensorflowGraph& graph) : graph_(graph) {}

  // Adds a table that gives each word its place, and returns the node. `name` is what the words are
  // of: the file is assets/<name>.txt, a word on each line. Words that a line cannot hold, which
  // are empty or break the line, are in the graph instead. Equal lists share a table.
  std::string add(const std::string& name, const std::vector<std::string>& words);
  // Looks up texts of any shape: int64. A text that is not a word gives `unknown`.
  std::string find(const std::string& table, const std::string& texts, int64_t unknown);

  // The files by their names.
  const std::map<std::string, Asset>& assets() const { return assets_; }
  // Adds the node that fills all tables, and returns its name; empty if there are none.
  std::string add_initializer();

 private:
  std::string add_asset(const std::string& name, const std::vector<std::string>& words);

  TensorflowGraph& graph_;
  std::map<std::vector<std::string>, std::string> tables_;
  std::map<std::string, Asset> assets_;
  std::vector<std::string> filling_;  // the nodes that fill the tables
};

}  // namespace muster::inline v0_1::saved_model::internal
