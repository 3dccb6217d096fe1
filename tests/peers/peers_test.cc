// Muster computes the same as TensorFlow and Keras: the cases of golden/, or of the folder that
// MUSTER_PEER_CASES names (./dev check peers makes new ones).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/file_system.h"
#include "tests/peers/peer_case.h"

namespace muster {
namespace {

std::vector<std::string> case_files() {
  const Environment environment = Environment::process();
  const std::string folder =
      environment.get("MUSTER_PEER_CASES")
          .value_or(
              join_path(environment.get("MUSTER_SOURCE_DIR").value_or("."), "tests/peers/golden"));
  std::vector<std::string> files;
  const auto add = [&files](const std::string& path) {
    if (path.size() > 5 && path.compare(path.size() - 5, 5, ".json") == 0) files.push_back(path);
  };
  for (const std::string& name : local_file_system().list_directory(folder).value()) {
    const std::string path = join_path(folder, name);
    add(path);
    const auto inside = local_file_system().list_directory(path);
    if (!inside.ok()) continue;
    for (const std::string& file : inside.value()) add(join_path(path, file));
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Peers : public ::testing::TestWithParam<std::string> {};

TEST_P(Peers, Agree) { EXPECT_THAT(differences(read_peer_case(GetParam())), ::testing::IsEmpty()); }

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  const std::string& path = info.param;
  const size_t slash = path.rfind('/');
  const size_t before = path.rfind('/', slash - 1);
  std::string name = path.substr(before + 1, path.size() - before - 6);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Peers, ::testing::ValuesIn(case_files()), test_name);

}  // namespace
}  // namespace muster
