#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/muster/commands.h"
#include "apps/muster/files.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"

namespace muster::app {
namespace {

struct FilesFlags {
  std::vector<std::string> paths{};
  bool recursive = false;
  bool json = false;
  int64_t offset = 0;
  std::optional<int64_t> bytes{};
  std::string request_payer{};
  std::string billing_project{};
};

constexpr const char* kPlaces =
    "A path is a local path or a URI: s3://BUCKET/KEY, gs://BUCKET/OBJECT, http(s)://HOST/FILE "
    "(read\n"
    "only). Quote patterns in URIs, so that the shell does not expand them. docs/buckets.md says\n"
    "where credentials are read from.\n";

std::string with_places(const std::string& examples) {
  return fmt::format("{}\nExamples:\n{}", kPlaces, examples);
}

void add_recursive(CLI::App& command, const std::shared_ptr<FilesFlags>& flags,
                   const std::string& help) {
  command.add_flag("-r,--recursive", flags->recursive, help);
}

void add_payers(CLI::App& command, const std::shared_ptr<FilesFlags>& flags) {
  command::add_flag(command,
                    {"request-payer",
                     &flags->request_payer,
                     "Pay for requests to requester-pays buckets of s3://, like AWS_REQUEST_PAYER",
                     {},
                     "WHO",
                     {"requester"}});
  command::add_flag(
      command,
      {"billing-project",
       &flags->billing_project,
       "Project that pays for requests to requester-pays buckets of gs://, like GS_USER_PROJECT",
       {},
       "PROJECT"});
}

// Stores read the paying project from the environment when their first path is asked for.
void set_payers(const FilesFlags& flags) {
  if (!flags.request_payer.empty())
    setenv("AWS_REQUEST_PAYER", flags.request_payer.c_str(), /*overwrite=*/1);
  if (!flags.billing_project.empty())
    setenv("GS_USER_PROJECT", flags.billing_project.c_str(), /*overwrite=*/1);
}

int copy(const FilesFlags& flags) {
  if (flags.paths.size() < 2) {
    throw invalid_argument("muster cp got one path",
                           "name sources and a target: muster cp FROM... TO");
  }
  const std::vector<std::string> from(flags.paths.begin(), flags.paths.end() - 1);
  const auto begun = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  double shown = -1;
  const CopyProgress done = copy_paths(
      file_systems(), from, flags.paths.back(), flags.recursive, [&](const CopyProgress& at) {
        if (!log::shows_status() || seconds() - shown < 0.2) return;
        shown = seconds();
        log::status(fmt::format("copying: {} of {} files, {} of {}, {}/s", at.files, at.of_files,
                                human_bytes(at.bytes), human_bytes(at.of_bytes),
                                human_bytes(static_cast<uint64_t>(static_cast<double>(at.bytes) /
                                                                  std::max(shown, 1e-3)))));
      });
  log::status("");
  fmt::print("copied {} file{}, {}\n", done.files, done.files == 1 ? "" : "s",
             human_bytes(done.bytes));
  return 0;
}

int concatenate(const FilesFlags& flags) {
  std::optional<uint64_t> count;
  if (flags.bytes) count = static_cast<uint64_t>(*flags.bytes);
  read_paths(file_systems(), flags.paths, static_cast<uint64_t>(flags.offset), count,
             [](Bytes bytes) {
               if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size())
                 throw from_errno(errno, "cannot write to standard output");
             });
  return 0;
}

}  // namespace

void add_files(CLI::App& app, Action& action) {
  auto flags = std::make_shared<FilesFlags>();
  auto* ls = app.add_subcommand("ls", "List files and folders, also in buckets");
  command::add_arguments(*ls, "PATH", &flags->paths, "Files, folders and patterns; default: .");
  add_recursive(*ls, flags, "Include folders with all of their content");
  add_payers(*ls, flags);
  command::add_flag(*ls, {"json", &flags->json, "Print one JSON document, for programs"});
  ls->footer(
      with_places("  muster ls gs://my-bucket/runs\n"
                  "  muster ls -r s3://my-bucket/data\n"
                  "  muster ls 's3://my-bucket/data/train-*.tfrecord'"));
  ls->callback([flags, &action] {
    action = [flags] {
      if (flags->paths.empty()) flags->paths = {"."};
      set_payers(*flags);
      fputs(list_paths(file_systems(), flags->paths, flags->recursive, flags->json).c_str(),
            stdout);
      return 0;
    };
  });

  auto* cp = app.add_subcommand("cp", "Copy files and folders, also from and to buckets");
  command::add_arguments(
      *cp, "PATH", &flags->paths,
      "Files, patterns and, with -r, folders; the last path is the target: a file or a folder")
      ->required();
  add_recursive(*cp, flags, "Include folders with all of their content");
  add_payers(*cp, flags);
  cp->footer(
      "Each file appears complete or not at all, and replaces an existing file. Like cp and "
      "gsutil,\n"
      "-r copies a folder into the last PATH if that is a folder, and otherwise to that name: the\n"
      "same command twice makes digits, then digits/digits.\n" +
      with_places("  muster cp model.safetensors gs://my-bucket/weights/\n"
                  "  muster cp -r s3://my-bucket/runs/mine runs/\n"
                  "  muster cp 's3://my-bucket/data/*.csv' data/\n"
                  "  muster cp https://example.com/train.csv s3://my-bucket/data/"));
  cp->callback([flags, &action] {
    action = [flags] {
      set_payers(*flags);
      return copy(*flags);
    };
  });

  auto* cat = app.add_subcommand("cat", "Print the bytes of files, also in buckets");
  command::add_arguments(*cat, "PATH", &flags->paths, "Files and patterns")->required();
  command::add_flag(*cat, {"offset", &flags->offset, "First byte to print", {.at_least = 0}});
  command::add_flag(*cat, {"bytes",
                           &flags->bytes,
                           "Number of bytes to print of each file; default: all",
                           {.at_least = 0}});
  add_payers(*cat, flags);
  cat->footer(
      with_places("  muster cat gs://my-bucket/runs/mine/checkpoint\n"
                  "  muster cat --bytes=100 s3://my-bucket/data/train.csv\n"
                  "  muster cat 's3://my-bucket/runs/mine/evaluations/*'"));
  cat->callback([flags, &action] {
    action = [flags] {
      set_payers(*flags);
      return concatenate(*flags);
    };
  });
}

}  // namespace muster::app
