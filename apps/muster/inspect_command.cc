#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/model/model_flags.h"
#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"
#include "apps/muster/inspect.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"

namespace muster::app {
namespace {

struct InspectFlags {
  std::string path{};
  std::vector<std::string> paths{};
  std::string tag{};
  RecordsOptions records;
  bool json = false;
};

int show(const Inspection& inspection) {
  fputs(inspection.text.c_str(), stdout);
  fflush(stdout);
  if (inspection.damage) throw *inspection.damage;
  return 0;
}

// Returns the flag that every kind of file has.
Flag json_flag(InspectFlags& flags) {
  return {"json", &flags.json, "Print one JSON document, for programs"};
}

void add_checkpoint(CLI::App& inspect, const std::shared_ptr<InspectFlags>& flags, Action& action) {
  auto* checkpoint = inspect.add_subcommand(
      "checkpoint", "Show variables, global step and input position; check digests");
  command::add_argument(
      *checkpoint,
      {"PATH", &flags->path, "A model_dir, a prefix, or a .safetensors, .h5 or .keras file"})
      ->required();
  command::add_flag(*checkpoint, json_flag(*flags));
  checkpoint->footer(
      "Examples:\n"
      "  muster inspect checkpoint model\n"
      "  muster inspect checkpoint model/model.ckpt-100 --json\n"
      "  muster inspect checkpoint weights.safetensors");
  checkpoint->callback([flags, &action] {
    action = [flags] { return show(inspect_checkpoint(file_systems(), flags->path, flags->json)); };
  });
}

void add_export(CLI::App& inspect, const std::shared_ptr<InspectFlags>& flags, Action& action) {
  auto* exported = inspect.add_subcommand(
      "export", "Show signatures and files of an exported model; check digests");
  command::add_argument(
      *exported, {"PATH", &flags->path,
                  "Folder of a version, or its parent folder, which means the newest version"})
      ->required();
  command::add_flag(*exported, json_flag(*flags));
  exported->footer(
      "Examples:\n"
      "  muster inspect export model/export\n"
      "  muster inspect export model/export/1732400000 --json");
  exported->callback([flags, &action] {
    action = [flags] { return show(inspect_export(file_systems(), flags->path, flags->json)); };
  });
}

void add_events(CLI::App& inspect, const std::shared_ptr<InspectFlags>& flags, Action& action) {
  auto* events = inspect.add_subcommand(
      "events", "Show the tags of TensorBoard event files, or all points of one tag");
  command::add_argument(*events,
                        {"PATH", &flags->path, "Event file, or a folder such as a model_dir"})
      ->required();
  command::add_flag(*events, {"tag", &flags->tag, "Print every point of this tag"});
  command::add_flag(*events, json_flag(*flags));
  events->footer(
      "Examples:\n"
      "  muster inspect events model\n"
      "  muster inspect events model --tag loss\n"
      "  muster inspect events model/eval --json");
  events->callback([flags, &action] {
    action = [flags] {
      const auto tag = flags->tag.empty() ? std::nullopt : std::optional(flags->tag);
      return show(inspect_events(file_systems(), flags->path, tag, flags->json));
    };
  });
}

void add_records(CLI::App& inspect, const std::shared_ptr<InspectFlags>& flags, Action& action) {
  auto* records = inspect.add_subcommand(
      "records", "Show sizes, features and content of TFRecord files; check all checksums");
  command::add_arguments(*records, "FILE", &flags->paths,
                         "TFRecord files, uncompressed or compressed as gzip or zlib")
      ->required();
  command::add_flag(
      *records,
      {"limit", &flags->records.limit, "Number of records to show of each file", {.at_least = 0}});
  command::add_flag(*records, {"skip",
                               &flags->records.skip,
                               "Number of records to skip before the first one shown",
                               {.at_least = 0}});
  command::add_flag(*records, json_flag(*flags));
  records->footer(
      "Features are listed if the records are tf.Examples or tf.SequenceExamples; other records "
      "are\n"
      "shown as bytes. Damaged files are shown as far as they can be read.\n"
      "\n"
      "Examples:\n"
      "  muster inspect records train.tfrecord\n"
      "  muster inspect records train-*.tfrecord.gz --limit 0\n"
      "  muster inspect records train.tfrecord --skip 1000 --limit 1 --json");
  records->callback([flags, &action] {
    action = [flags] {
      return show(inspect_records(file_systems(), flags->paths, flags->records, flags->json));
    };
  });
}

void add_failures(CLI::App& inspect, const std::shared_ptr<InspectFlags>& flags, Action& action) {
  auto* failures =
      inspect.add_subcommand("failures", "Show what each task of a run did when the run failed");
  command::add_argument(*failures, {"MODEL_DIR", &flags->path, "Folder of the run"})->required();
  command::add_flag(*failures, json_flag(*flags));
  failures->footer(
      "Each task that notices a failure leaves its last collectives in model_dir/failures. A task\n"
      "that was killed leaves no report.\n"
      "\n"
      "Examples:\n"
      "  muster inspect failures model");
  failures->callback([flags, &action] {
    action = [flags] { return show(inspect_failures(file_systems(), flags->path, flags->json)); };
  });
}

}  // namespace

void add_inspect(CLI::App& app, const std::vector<std::string>& all, const std::string& own_folder,
                 Action& action) {
  auto* inspect = app.add_subcommand("inspect",
                                     "Show what is inside checkpoints, exported models, event "
                                     "files, TFRecord files and reports of "
                                     "failures");
  inspect->require_subcommand(1);
  inspect->footer(
      "Examples:\n"
      "  muster inspect checkpoint model\n"
      "  muster inspect export model/export\n"
      "  muster inspect model model.onnx\n"
      "  muster inspect events model --tag loss\n"
      "  muster inspect records train.tfrecord\n"
      "  muster inspect failures model\n"
      "\n"
      "Exit codes: 0 no damage found, 1 something is damaged, 2 not found.");
  auto flags = std::make_shared<InspectFlags>();
  add_checkpoint(*inspect, flags, action);
  add_export(*inspect, flags, action);
  add_events(*inspect, flags, action);
  add_records(*inspect, flags, action);
  add_failures(*inspect, flags, action);
  auto model_flags = std::make_shared<ModelFlags>();
  add_inspect_model(*inspect, *model_flags)->callback([model_flags, &all, own_folder, &action] {
    action = [&all, own_folder]() -> int { become_program(kModelProgram, all, own_folder); };
  });
}

}  // namespace muster::app
