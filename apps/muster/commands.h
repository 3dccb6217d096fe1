// The sub-commands of `muster`. Each function adds the options of its command to the command line.
// When the user asks for the command, it sets `action`, which then returns the exit code and may
// throw Error.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::app {

using Action = std::function<int()>;

// `all` is the command line, without the program's name; it must outlive the action. `program` are
// the arguments after "--" in it; `own_folder` is the folder of the muster binary.
void add_run(CLI::App& app, const std::vector<std::string>& all,
             const std::vector<std::string>& program, const std::string& own_folder,
             Action& action);
void add_data(CLI::App& app, Action& action);
// `self` is the path of the muster binary.
void add_new(CLI::App& app, const std::string& self, Action& action);
void add_certificates(CLI::App& app, Action& action);
// The commands that muster-jobs has, so that --help lists them.
void add_commands_of_jobs(CLI::App& app);
void add_completion(CLI::App& app, const std::string& own_folder, Action& action);
// Returns the completion of the words of `app`, a command, and of the commands below it.
std::string completion_of(const CLI::App& app);
void add_audit(CLI::App& app, Action& action);
void add_top(CLI::App& app, Action& action);
// `all` is the command line, without the program's name; it must outlive the action, as in
// add_export().
void add_diff(CLI::App& app, const std::vector<std::string>& all, const std::string& own_folder,
              Action& action);
void add_inspect(CLI::App& app, const std::vector<std::string>& all, const std::string& own_folder,
                 Action& action);
// ls, cp and cat.
void add_files(CLI::App& app, Action& action);
void add_export(CLI::App& app, const std::vector<std::string>& all, const std::string& own_folder,
                Action& action);
// `words` is the command line, without the program's name; it must outlive the action.
void add_serve(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
               Action& action);
// `words` as for add_serve().
void add_train(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
               Action& action);
// `words` as for add_serve().
void add_board(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
               Action& action);
// `words` as for add_serve().
void add_sim(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
             Action& action);
void add_doctor(CLI::App& app, const std::string& own_folder, Action& action);

}  // namespace muster::app
