// Makes a project to start from: the files of apps/muster/new_project/ with a name that the user
// chooses. Thread safety: functions of their arguments and the files of this machine.
#pragma once

#include <string>
#include <vector>

namespace muster::app {

// One file of the project. In its path and text the name is "my_project".
struct TemplateFile {
  std::string path{};
  std::string text{};
};
// The files that are built into the binary, sorted by path.
const std::vector<TemplateFile>& new_project_template();

struct NewProject {
  std::string folder{};
  std::string name{};
  std::vector<std::string> files{};  // paths inside of the folder
};

// Makes `folder` and writes the project into it; its last part is the name. Throws InvalidArgument
// for an invalid name, an existing file, and a folder that is not empty: nothing is written then.
// If a write fails, the files written before are removed, and the file system's error is thrown.
NewProject write_new_project(const std::string& folder);

// Returns a text about the new project and the next commands. They depend on whether the muster
// binary `self` is installed under a prefix or still in its build folder.
std::string describe(const NewProject& made, const std::string& self);

}  // namespace muster::app
