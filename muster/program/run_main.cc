#include "muster/program/run_main.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/tensor/threads.h"
#include "muster/train/stop_signal.h"

namespace muster {
namespace {

int code_of(const Error& error) {
  if (error.kind() == ErrorKind::kCancelled) return stop_signal() == SIGINT ? 130 : 143;
  return exit_code(error.kind());
}

int report(const Error& error) {
  // A wish that was granted is no error.
  if (error.kind() == ErrorKind::kCancelled) {
    log::info(error.message() + (error.hint().empty() ? "" : "; " + error.hint()));
  } else {
    log::error(error.what());
  }
  log::flush();
  return code_of(error);
}

void add_flags(CLI::App& app, Flags& flags) {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  app.add_option("--data_dir", flags.data_dir, "Where the data is")->default_str(flags.data_dir);
  app.add_option("--model_dir", flags.model_dir,
                 "Where checkpoints and events go; a run continues what it finds there")
      ->default_str(flags.model_dir);
  app.add_option("--epochs", flags.epochs, "Passes over the training data")
      ->default_str(text(flags.epochs));
  app.add_option("--max_steps", flags.max_steps, "The step to end at, instead of --epochs");
  app.add_option("--batch_size", flags.batch_size, "Examples a step, over all workers")
      ->default_str(text(flags.batch_size));
  app.add_option("--learning_rate", flags.learning_rate, "Of the optimizer")
      ->default_str(text(flags.learning_rate));
  app.add_option("--seed", flags.seed,
                 "Decides initial values and order; the same seed gives the same bits")
      ->check(CLI::NonNegativeNumber)
      ->default_str(text(flags.seed));
  app.add_option("--save_checkpoints_steps", flags.save_checkpoints_steps,
                 "Save (and evaluate) every so many steps");
  app.add_flag("--trace", flags.trace, "Print where a step's time went when training ends");
}

void check(const Flags& flags) {
  const auto require = [](bool holds, const char* flag, auto value) {
    if (!holds) {
      throw invalid_argument(fmt::format("--{} is {}; it must be more than 0", flag, value));
    }
  };
  require(flags.epochs > 0, "epochs", flags.epochs);
  require(flags.batch_size > 0, "batch_size", flags.batch_size);
  require(flags.learning_rate > 0, "learning_rate", flags.learning_rate);
  if (flags.max_steps) require(*flags.max_steps > 0, "max_steps", *flags.max_steps);
  if (flags.save_checkpoints_steps) {
    require(*flags.save_checkpoints_steps > 0, "save_checkpoints_steps",
            *flags.save_checkpoints_steps);
  }
}

// GNU OpenMP reads its environment before main(), and by default a thread that waits for the others
// spins for milliseconds. Beside a busy neighbour that makes a program of two threads twenty times
// slower, so the program is started once more with a short spin. Whoever sets either variable knows
// better.
void spin_briefly() {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (set_threads(0) <= 1 || dlsym(RTLD_DEFAULT, "GOMP_parallel") == nullptr) return;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    words.push_back(text.c_str() + begin);
    begin += words.back().size() + 1;
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (words.empty() || setenv("GOMP_SPINCOUNT", "2000", 0) != 0) return;
  execv("/proc/self/exe", arguments.data());
  log::debug("could not start again with GOMP_SPINCOUNT: going on without");
}

}  // namespace

int run_main(int argc, char** argv, const std::function<void(const Flags&)>& program,
             const ProgramOptions& options) {
  Flags flags = options.defaults;
  CLI::App app(options.description);
  if (!options.examples.empty()) app.footer(options.examples);
  add_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  spin_briefly();
  install_stop_handlers();
  try {
    check(flags);
    program(flags);
    return 0;
  } catch (const Error& error) {
    return report(error);
  } catch (const c10::Error& error) {
    return report(internal_error(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return report(
        internal_error("out of memory", "use a smaller batch or a machine with more memory"));
  } catch (const std::exception& error) {
    return report(internal_error(error.what()));
  } catch (...) {
    return report(internal_error("an exception of an unknown type was thrown"));
  }
}

void print_result(const std::map<std::string, double>& metrics) {
  nlohmann::ordered_json result;
  if (metrics.count("global_step") != 0)
    result["global_step"] = static_cast<int64_t>(metrics.at("global_step"));
  if (metrics.count("loss") != 0) result["loss"] = metrics.at("loss");
  for (const auto& [name, value] : metrics) {
    if (name != "global_step" && name != "loss") result[name] = value;
  }
  std::printf("result: %s\n", result.dump().c_str());
  std::fflush(stdout);
}

}  // namespace muster
