// The sub-commands of `muster`. Each adds its options to the command line and, when it is the one
// that was asked for, leaves in `action` what to do; the action returns the exit code and may throw
// Error.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::app {

using Action = std::function<int()>;

// `program`: what followed "--" on the command line; `own_folder`: where the muster binary lies.
void add_run(CLI::App& app, const std::vector<std::string>& program, const std::string& own_folder,
             Action& action);
void add_data(CLI::App& app, Action& action);
// `self`: the muster binary.
void add_new(CLI::App& app, const std::string& self, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, const std::string& own_folder, Action& action);

}  // namespace muster::app
