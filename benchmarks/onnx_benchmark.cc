// Exported models on one core: a Predictor, bare forward() of the same TorchScript module, and
// onnxruntime on the ONNX file, taking turns. Then the seconds and bytes of an export as ONNX, with
// those of torch.onnx for the same network.
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/applications/gpt.h"
#include "muster/applications/resnet.h"
#include "muster/estimator/predictor.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/keras/model.h"
#include "muster/layers/bidirectional.h"
#include "muster/layers/dense.h"
#include "muster/layers/functional.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/sequential.h"
#include "muster/onnx/onnx_model.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/trees/boosted_trees.h"

namespace muster::bench {
namespace {

struct Settings {
  std::string as, folder, output;  // of a contestant; empty: the program
  int64_t rows = 1;
  std::string only, json;
  bool quick = false;
};

Layer mlp() {
  return Sequential({Dense(256, {.activation = activations::relu}),
                     Dense(256, {.activation = activations::relu}), Dense(10)});
}

std::string export_layer(const std::string& folder, const Shape& shape, Layer layer,
                         DType dtype = kFloat32) {
  const SymbolicTensor x = Input(shape, {.dtype = dtype, .name = "x"});
  keras::Model model(Functional({x}, {layer(x)}));
  return model.export_model(folder);
}

std::string export_trees(const std::string& folder) {
  const Tensor place = torch::arange(20'000 * 20).reshape({20'000, 20}).to(at::kDouble);
  const Tensor x = place.mul(0.7311).sin().to(kFloat32);
  const Tensor label = (x.select(1, 0) * x.select(1, 1) + x.select(1, 2) > 0).to(kInt64);
  BoostedTreesClassifier model(
      {.n_trees = 100, .max_depth = 6},
      {.model_dir = folder + "/model", .save_summary_steps = 0, .progress_line = false});
  model.train([&] {
    return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"x", x}}), label}))
        .global_batch(5000);
  });
  return model.export_model(folder, raw_serving_input_receiver({{"x", {kFloat32, {20}}}})).value();
}

// A model, and how it is asked.
struct Subject {
  const char* name;
  const char* title;
  std::vector<int64_t> rows;
  int steps;  // of a turn, for the first number of rows
  std::function<std::string(const std::string& folder)> export_to;
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all{
      {"mlp",
       "64-256-256-10",
       {1, 64},
       200,
       [](const auto& to) { return export_layer(to, {64}, mlp()); }},
      {"resnet18",
       "ResNet-18 on images of 224 x 224",
       {1},
       3,
       [](const auto& to) {
         return export_layer(to, {224, 224, 3},
                             applications::ResNet18({.input_shape = {224, 224, 3}}));
       }},
      {"gpt",
       "a GPT block of width 256 on 128 tokens",
       {1},
       30,
       [](const auto& to) {
         return export_layer(
             to, {128},
             applications::GPT(
                 {.vocabulary_size = 256, .context = 128, .layers = 1, .heads = 4, .width = 256}),
             kInt64);
       }},
      {"lstm",
       "LSTM of 128 units on 64 steps of 64 numbers",
       {1, 32},
       30,
       [](const auto& to) {
         return export_layer(to, {64, 64}, LSTM(128));
       }},
      {"trees", "100 boosted trees of depth 6 on 20 numbers", {1, 1000}, 100, export_trees}};
  return all;
}

// Inputs that benchmarks/peers/onnx_turns.py makes too.
Tensor input_of(const TensorInfo& info, int64_t rows) {
  Shape shape = info.shape;
  shape[0] = rows;
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const Tensor place = torch::arange(count);
  const Tensor values =
      info.dtype == kInt64 ? place.remainder(7) : place.to(at::kDouble).mul(0.37).sin();
  return values.reshape(shape).to(info.dtype);
}

// The loss shows that all compute the same: the sum of one output.
void take_part(const Settings& settings) {
  set_threads(1);
  const Servable::Tensors batch = [&] {
    const Servable model(settings.folder);
    Servable::Tensors made;
    for (const auto& [name, info] : model.signature(kServingDefault).inputs)
      made[name] = input_of(info, settings.rows);
    return made;
  }();
  const auto turns = [](const std::function<Tensor()>& ask) {
    const double sum = ask().to(at::kDouble).sum().item<double>();
    StepPacer pacer;
    while (pacer.next(sum)) (void)ask();
  };
  if (settings.as == "predictor") {
    const Predictor predictor(settings.folder);
    return turns([&] { return predictor.predict_batch(batch).at(settings.output); });
  }
  torch::jit::Module module = torch::jit::load(settings.folder + "/model.pt");
  const torch::NoGradGuard no_grad;
  std::vector<c10::IValue> arguments;
  for (const auto& [name, value] : batch) arguments.emplace_back(value);
  turns([&] {
    const c10::IValue given = module.forward(arguments);
    return given.toGenericDict().at(settings.output).toTensor();
  });
}

void compare_subject(const Subject& subject, const Settings& settings, const std::string& scratch) {
  const std::string folder = subject.export_to(scratch + "/" + subject.name);
  const std::string path = folder + "/model.onnx";
  (void)onnx::export_onnx(file_systems(), folder, path);
  const std::string output = Servable(folder).signature(kServingDefault).outputs.rbegin()->first;
  for (const int64_t rows : subject.rows) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const auto own = [&](const char* name, const char* as) {
      return Contestant{.name = name,
                        .argv = {self, fmt::format("--as={}", as), "--folder=" + folder,
                                 "--output=" + output, fmt::format("--rows={}", rows)},
                        .rows = rows,
                        .same = "sum"};
    };
    std::vector<Contestant> contestants{own("Predictor", "predictor"),
                                        own("TorchScript, bare forward()", "torchscript")};
    Contestant peer =
        python_peer("onnxruntime, Python", {"onnx_turns.py", path, std::to_string(rows), output});
    peer.rows = rows;
    peer.same = "sum";
    if (in_environment("onnx", &peer)) contestants.push_back(std::move(peer));
    const int steps =
        rows == subject.rows.front() ? subject.steps : std::max(3, subject.steps / 10);
    const Plan plan{.launches = settings.quick ? 1 : 2,
                    .pairs = settings.quick ? 3 : 8,
                    .turns = 2,
                    .steps = steps,
                    .warm_up = steps,
                    .lead_in = std::max(1, steps / 10)};
    compare_with_first("onnx", fmt::format("{}, {} at a time, one core", subject.title, rows),
                       contestants, plan, settings.json);
  }
}

double seconds_of(const std::function<void()>& act) {
  const auto begin = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The networks of tools/peers/torch_onnx.py.
void compare_exports(const Settings& settings, const std::string& scratch) {
  set_threads(1);
  struct Network {
    const char* name;
    Shape shape;
    std::function<Layer()> make;
  };
  const std::vector<Network> networks{
      {"mlp", {64}, mlp},
      {"resnet18",
       {64, 64, 3},
       [] {
         return applications::ResNet18({.input_shape = {64, 64, 3}, .classes = 10});
       }},
      {"lstm", {20, 32}, [] {
         return Sequential({Bidirectional(LSTM(64, {.return_sequences = true})),
                            Bidirectional(LSTM(64)), Dense(5)});
       }}};
  fmt::print("\n### Exports as ONNX, one core\n\n");
  fmt::print(
      "| network | TorchScript and the checks of an export, s | ONNX from it, s | bytes |\n"
      "|---|---|---|---|\n");
  for (const Network& network : networks) {
    std::vector<double> exports, conversions;
    double bytes = 0;
    for (int i = 0; i < (settings.quick ? 1 : 5); ++i) {
      std::string folder;
      exports.push_back(seconds_of([&] {
        folder = export_layer(fmt::format("{}/exports/{}/{}", scratch, network.name, i),
                              network.shape, network.make());
      }));
      const std::string path = folder + "/model.onnx";
      conversions.push_back(
          seconds_of([&] { (void)onnx::export_onnx(file_systems(), folder, path); }));
      bytes = static_cast<double>(file_systems().file_size(path).value());
    }
    fmt::print("| {} | {:.3f} | {:.3f} | {:.0f} |\n", network.name, quantile(exports, 0.5),
               quantile(conversions, 0.5), bytes);
  }
  std::fflush(stdout);
  const std::string command = fmt::format(
      "PYTHONPATH=$(echo build/peers/onnx/lib/python3*/site-packages) CUDA_VISIBLE_DEVICES='' "
      "build/peers/today/bin/python tools/peers/torch_onnx.py '{}/torch' --times 2>/dev/null | "
      "grep -v '^.torch.onnx'",
      scratch);
  fmt::print("\ntorch.onnx of PyTorch 2.15, seconds and bytes:\n");
  std::fflush(stdout);
  if (std::system(command.c_str()) != 0)
    fmt::print("it is left out: ./dev peers today and ./dev peers onnx make its environments.\n");
}

void run(const Settings& settings) {
  const Scratch scratch;
  for (const Subject& subject : subjects()) {
    if (settings.only.empty() || settings.only == subject.name)
      compare_subject(subject, settings, scratch.path);
  }
  if (settings.only.empty() || settings.only == "exports") compare_exports(settings, scratch.path);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Settings settings;
  CLI::App app{"Runs exported models next to onnxruntime, and exports them next to torch.onnx."};
  app.add_option("--as", settings.as, "be the contestant predictor or torchscript");
  app.add_option("--folder", settings.folder, "the export that a contestant runs");
  app.add_option("--output", settings.output, "the output that a contestant sums");
  app.add_option("--rows", settings.rows, "the rows that a contestant asks for at a time");
  app.add_option("--only", settings.only, "mlp, resnet18, gpt, lstm, trees or exports");
  app.add_option("--json", settings.json, "append the figures to this file");
  app.add_flag("--quick", settings.quick, "few samples: to see that it works");
  CLI11_PARSE(app, argc, argv);
  try {
    if (settings.as.empty()) {
      muster::bench::run(settings);
    } else {
      muster::bench::take_part(settings);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
