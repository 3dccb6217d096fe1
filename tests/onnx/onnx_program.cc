// Exports models to ONNX with the numbers that they compute; tools/peers/onnx_files.py compares
// them with onnxruntime.
//   onnx_program layers CASES OUT    the layers of the cases in a folder
//   onnx_program models OUT [NAME]   applications, canned Estimators and boosted trees, or one
//   onnx_program kinds OUT CENSUS    a model of each kind; CENSUS has the CSV files of the census
//   onnx_program requests OUT CENSUS  SavedModels that take tf.Examples, with requests
//   onnx_program back FOLDER         runs the ONNX files below a folder in Muster, and compares
//   onnx_program nodes FOLDER        the node tests of the Python package onnx
//   onnx_program times EXPORT ROWS   milliseconds that Servable takes for so many rows, by one
//   thread
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/strings.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/onnx/onnx_model.h"
#include "muster/savedmodel/saved_model.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "tests/onnx/exported_cases.h"
#include "tests/onnx/exported_requests.h"
#include "tests/onnx/imported_cases.h"

namespace muster::inline v0_1 {
namespace {

// 1 if `act` throws; says why.
int failure_of(const std::string& name, const std::function<void()>& act) {
  try {
    act();
    return 0;
  } catch (const std::exception& error) {
    std::printf("%s: %s\n", name.c_str(), error.what());
    return 1;
  }
}

void convert(const std::string& folder, const ServableSource::Tensors& rows = {}) {
  (void)onnx::export_onnx(file_systems(), folder, join_path(folder, "model.onnx"));
  (void)saved_model::export_saved_model(file_systems(), folder, folder);
  write_batches(folder, rows);
}

int write_layers(const std::string& cases, const std::string& out) {
  int failed = 0;
  for (const ExportedCase& exported : layer_cases(cases)) {
    failed += failure_of(exported.name, [&] {
      const std::string folder = join_path(out, exported.name);
      file_systems().make_directories(folder).value();
      write_servable(file_systems(), folder, exported.source);
      convert(folder);
    });
  }
  return failed;
}

int write_models(const std::string& out, const std::string& only) {
  int failed = 0;
  for (const std::string& name : exported_models()) {
    if (!only.empty() && name != only) continue;
    failed += failure_of(name, [&] { convert(export_one_model(name, join_path(out, name))); });
  }
  return failed;
}

int write_kinds(const std::string& out, const std::string& census) {
  int failed = failure_of("census_trees", [&] {
    const CensusTrees trees = export_census_trees(census, join_path(out, "census_trees"));
    convert(trees.folder, trees.rows);
  });
  for (const char* name : {"wide_and_deep", "resnet18", "gpt", "rnn_lstm"})
    failed += write_models(out, name);
  return failed;
}

int write_requests(const std::string& out, const std::string& census) {
  int failed = 0;
  for (const std::string& name : request_models(census)) {
    failed += failure_of(name, [&] {
      const std::string folder = join_path(out, name);
      export_with_requests(name, folder, census);
      const auto newest = newest_version(folder);
      const std::string version = newest ? join_path(folder, std::to_string(*newest)) : folder;
      convert(version);
    });
  }
  return failed;
}

// The models in the folders of `out`, and in those one below.
int compare_imports(const std::string& out) {
  int failed = 0, models = 0;
  const std::function<void(const std::string&, const std::string&)> look =
      [&](const std::string& folder, const std::string& name) {
        bool is_model = false;
        for (const char* file : {"model.onnx", "saved_model.pb"}) {
          if (!file_systems().exists(join_path(folder, file)).value()) continue;
          is_model = true;
          ++models;
          failed += failure_of(name + "/" + file, [&] {
            for (const std::string& line : import_differences(folder, file))
              throw std::runtime_error("DIFFERS " + line);
          });
        }
        if (is_model) return;
        for (const DirectoryEntry& entry : file_systems().list_entries(folder).value()) {
          if (entry.info.is_directory) look(join_path(folder, entry.name), name + "/" + entry.name);
        }
      };
  look(out, "");
  std::printf("Muster: %d models, %d differ\n", models, failed);
  return models == 0 ? 1 : failed;
}

int run_nodes(const std::string& folder) {
  const NodeTests tests = run_node_tests(folder);
  int others = 0;
  for (const auto& [reason, times] : tests.unsupported) {
    others += times;
    std::printf("not supported: %s: %d\n", reason.c_str(), times);
  }
  for (const std::string& line : tests.differing) std::printf("DIFFERS %s\n", line.c_str());
  std::printf("node tests: %d pass, %zu differ, %d are not supported\n", tests.passed,
              tests.differing.size(), others);
  return tests.passed > 0 && tests.differing.empty() ? 0 : 1;
}

// Prints the median of several calls.
void print_time(const std::string& folder, int64_t rows) {
  set_threads(1);
  const Servable model(folder);
  Servable::Tensors batch;
  for (const auto& [name, info] : model.signature(kServingDefault).inputs) {
    Shape shape = info.shape;
    shape[0] = rows;
    batch[name] = torch::full(shape, at::isFloatingType(info.dtype) ? 0.5 : 1, info.dtype);
  }
  std::vector<double> times;
  for (int i = 0; i < 23; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    (void)model.run(kServingDefault, batch);
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - begin;
    if (i >= 2) times.push_back(taken.count());
  }
  std::ranges::sort(times);
  std::printf("%.3f\n", times[times.size() / 2]);
}

}  // namespace
}  // namespace muster::inline v0_1

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "layers" && argc == 4) return muster::write_layers(argv[2], argv[3]) == 0 ? 0 : 1;
  if (what == "models" && argc >= 3)
    return muster::write_models(argv[2], argc > 3 ? argv[3] : "") == 0 ? 0 : 1;
  if (what == "kinds" && argc == 4) return muster::write_kinds(argv[2], argv[3]) == 0 ? 0 : 1;
  if (what == "requests" && argc == 4) return muster::write_requests(argv[2], argv[3]) == 0 ? 0 : 1;
  if (what == "back" && argc == 3) return muster::compare_imports(argv[2]) == 0 ? 0 : 1;
  if (what == "nodes" && argc == 3) return muster::run_nodes(argv[2]);
  if (what == "times" && argc == 4) {
    muster::print_time(argv[2], std::atoll(argv[3]));
    return 0;
  }
  std::fputs(
      "onnx_program layers CASES OUT | models OUT [NAME] | kinds OUT CENSUS | requests OUT CENSUS "
      "| "
      "back FOLDER | nodes FOLDER | times EXPORT ROWS\n",
      stderr);
  return 2;
}
