// A key-value store in a directory, for tasks of a test that are processes of one machine.
// Thread safety: any thread of any process.
#pragma once

#include <string>

#include "muster/collectives/rendezvous.h"

namespace muster::inline v0_1::testing {

class FileStore : public KeyValueStore {
 public:
  // `directory` exists. Keys may hold any character but NUL.
  explicit FileStore(std::string directory);

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t amount) override;
  bool check(const std::string& key) override;
  bool erase(const std::string& key) override;

 private:
  std::string path(const std::string& key) const;

  const std::string directory_;
};

}  // namespace muster::inline v0_1::testing
