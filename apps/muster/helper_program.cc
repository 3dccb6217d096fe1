#include "apps/muster/helper_program.h"

#include <unistd.h>

#include <filesystem>

namespace muster::app {

HelperProgram find_helper_program(const std::string& own_folder, const std::string& name) {
  HelperProgram found;
  for (const std::string& folder : {own_folder, own_folder + "/../libexec/muster"}) {
    const std::string path = std::filesystem::path(folder + "/" + name).lexically_normal().string();
    if (access(path.c_str(), F_OK) == 0) {
      found.path = path;
      break;
    }
    found.looked_in.push_back(std::filesystem::path(folder).lexically_normal().string());
  }
  return found;
}

}  // namespace muster::app
