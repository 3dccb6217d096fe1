#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "apps/muster/commands.h"
#include "apps/muster/digits.h"
#include "muster/command/command_line.h"

namespace muster::app {

void add_data(CLI::App& app, Action& action) {
  auto* data = app.add_subcommand("data", "Make example data sets; needs no network");
  data->require_subcommand(1);
  data->footer("Example:\n  muster data digits --out digits");
  auto* digits = data->add_subcommand(
      "digits", "Make images of distorted digits, in MNIST's files and format");
  auto options = std::make_shared<DigitOptions>();
  const auto flag = [&](const Flag& it) { return command::add_flag(*digits, it); };
  const FlagLimits count{.at_least = 1, .at_most = 4294967295};
  flag({"out", &options->out, "Folder to write to", {}, "DIR"})->required();
  flag({"train", &options->train, "Number of training images", count});
  flag({"test", &options->test, "Test images", count});
  flag({"seed", &options->seed, "Seed of the images"});
  flag({"force", &options->force, "Replace existing data"});
  digits->footer(
      "Makes 28x28 grey images of 0 to 9, with equally many of each digit. The same seed gives the "
      "same bytes\n"
      "on every machine. If the same data exists already, the command does nothing.\n"
      "\n"
      "Examples:\n"
      "  muster data digits --out digits\n"
      "  muster data digits --out small --train 2000 --test 500 --seed 7");
  digits->callback([options, &action] {
    action = [options] {
      const auto start = std::chrono::steady_clock::now();
      if (!write_digits(*options)) {
        fmt::print("{}: {} training and {} test images exist already (seed {})\n", options->out,
                   options->train, options->test, options->seed);
        return 0;
      }
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      fmt::print("{}: {} training and {} test images written (seed {}, {:.1f} s)\n", options->out,
                 options->train, options->test, options->seed, time.count());
      return 0;
    };
  });
}

}  // namespace muster::app
