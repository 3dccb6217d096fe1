// Applications on one core: ResNet-50 and ResNet-18 on images of 128x128 in batches of 16, and a
// small GPT on 8 texts of 128 bytes, by SGD with momentum. Each --model is a comparison that takes
// some minutes: steps by an Estimator and by keras::Model::fit() compared with PyTorch with
// torchvision's networks in channels-last memory; the same, and an LSTM, compared with PyTorch of
// today and Keras; steps compared with a loop written by hand over the same layers, and in
// bfloat16; the largest memory; photos that are decoded during the steps; predictions; two workers
// compared with two that only wait at a barrier; and a loop of LibTorch through data_parallel().
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "benchmarks/resnet/contestants.h"
#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "muster/base/error.h"

namespace muster::bench::resnet {
namespace {

struct Options {
  std::string json, model, images, beside;
  bool quick = false;
};

// A step of a large network takes a second, and the steps before a turn as long.
Plan plan_of(const Options& options) {
  Plan plan{.launches = 1, .pairs = 8, .turns = 1, .steps = 8, .warm_up = 2, .lead_in = 2};
  if (options.quick) plan.pairs = 6, plan.steps = 3;
  return plan;
}

// Where steps take a tenth of a second, samples are many enough to see half a percent.
Plan fine_plan(const Options& options) {
  return options.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2, .steps = 15, .warm_up = 5}
                       : Plan{.launches = 2, .pairs = 20, .turns = 2, .steps = 15, .warm_up = 5};
}

bool has_pytorch() { return has_python("torch", "python3-torch"); }

Contestant pytorch(const Entry& entry, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"networks_torch.py", "--model=" + entry.network,
                               fmt::format("--side={}", entry.side)});
  Contestant peer = python_peer("PyTorch, channels last", flags);
  peer.rows = entry.rows();
  return peer;
}

std::string title_of(const Entry& entry) {
  if (entry.network == "lstm") {
    return fmt::format("LSTM of 128 units, {} sequences of {} steps of 128 features", kSequences,
                       kSteps);
  }
  if (entry.network == "gpt")
    return fmt::format("GPT of 4 blocks, width 256, {} texts of {} bytes", kTexts, kTime);
  return fmt::format("{}, images of {}x{}, batch {}",
                     entry.network == "resnet18" ? "ResNet-18" : "ResNet-50", entry.side,
                     entry.side, kBatch);
}

// Compares, prints the table, and how fast the first one was against each other one.
void measure(const std::string& name, const std::string& title,
             const std::vector<Contestant>& contestants, const Plan& plan, const Options& options) {
  const std::vector<Result> results = compare(contestants, plan);
  print_table("resnet_" + name, title, results, results.size() - 1, options.json);
  for (size_t other = 1; other < results.size(); ++other)
    print_speed_against(results[0], results[other]);
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

// Training by an Estimator, by fit() and by PyTorch.
void measure_network(const std::string& network, const Options& options) {
  Entry entry{.network = network};
  std::vector<Contestant> contestants{contestant("Muster, Estimator::train", entry)};
  entry.way = "fit";
  contestants.push_back(contestant("Muster, keras::Model::fit", entry));
  if (has_pytorch()) contestants.push_back(pytorch(entry));
  measure(network, "One core: " + title_of(entry), contestants, plan_of(options), options);
}

// The same, compared with PyTorch and Keras of ./dev peers.
void measure_originals(const std::string& network, const Options& options) {
  const Entry entry{.network = network};
  const std::string model = "--model=" + network;
  std::vector<Contestant> contestants{contestant("Muster, Estimator::train", entry)};
  const auto add = [&](const char* name, const char* environment,
                       const std::vector<std::string>& arguments) {
    add_peer(name, environment, arguments, entry.rows(), &contestants);
  };
  add("PyTorch 2.15, eager", "today", {"networks_torch.py", model});
  add("PyTorch 2.15, compiled", "today", {"networks_torch.py", model, "--compile"});
  if (network == "lstm") add("Keras 2.15", "tensorflow", {"networks_keras.py", model});
  add("Keras 3 on TensorFlow", "today", {"networks_keras.py", model});
  compare_with_first("originals_" + network, title_of(entry), contestants,
                     network == "lstm" ? fine_plan(options) : plan_of(options), options.json);
}

// The cost of an Estimator compared with the loop it replaces. Both begin with the same weights and
// batches.
void measure_loop(const Options& options) {
  Entry entry;
  Contestant estimator = contestant("Estimator::train", entry);
  entry.way = "loop";
  Contestant loop = contestant("loop by hand, Muster's layers", entry);
  estimator.same = loop.same = "resnet50";
  measure("loop", "One core, beside a loop by hand: " + title_of(entry), {estimator, loop},
          plan_of(options), options);
}

// fit() compared with an Estimator with the same parts, on images so small that a step is short.
void measure_fit(const Options& options) {
  Entry entry{.network = "resnet18", .side = 32};
  const Contestant estimator = contestant("Estimator::train", entry);
  entry.way = "fit";
  measure("fit", "One core, fit() beside an Estimator: " + title_of(entry),
          {contestant("keras::Model::fit", entry), estimator}, fine_plan(options), options);
}

void measure_bfloat16(const Options& options) {
  if (!__builtin_cpu_supports("avx512bf16")) {
    fmt::print(
        "bfloat16: skipped; the processor has no AVX512-BF16, so products of bfloat16 are "
        "computed in float32.\n");
    return;
  }
  Entry entry;
  const Contestant wide = contestant("float32", entry);
  entry.precision = "bfloat16";
  measure("bfloat16", "One core, in bfloat16: " + title_of(entry),
          {contestant("bfloat16", entry), wide}, plan_of(options), options);
}

void measure_memory(const Options& options) {
  Entry entry;
  std::vector<Contestant> contestants{contestant("Muster", entry)};
  entry.recompute = true;
  contestants.push_back(contestant("Muster, each block recomputed", entry));
  if (has_pytorch()) contestants.push_back(pytorch(entry));
  // Steps are alike, so a few show the most that they need.
  const std::vector<Result> results =
      compare(contestants, {.launches = 1, .pairs = 1, .turns = 1, .steps = 3, .warm_up = 1});
  print_memory("resnet_memory", "The most memory of a process: " + title_of(entry), results, 0,
               options.json);
  if (results.size() > 2) {
    fmt::print("Muster: {:.0f} % of PyTorch's memory.\n",
               100 * results[0].peak_mib / results[2].peak_mib);
  }
}

void measure_photos(const Options& options) {
  if (options.images.empty()) {
    fmt::print(
        "photos: left out; --images names folders of photos, or MUSTER_TEST_DATA has "
        "images/train.\n");
    return;
  }
  Entry entry{.photos = options.images};
  const Contestant beside = contestant("photos, decoded beside the steps", entry);
  entry.decoded = true;
  const Contestant before = contestant("the same, decoded before", entry);
  const Plan plan = plan_of(options);
  const std::vector<Result> results = compare({beside, before}, plan);
  print_table("resnet_photos", "One core, photos as input: " + title_of(entry), results, 1,
              options.json);
  print_speed_against(results[0], results[1]);
  // Decoding at the same time as the steps on the same core takes a part of its time.
  const Estimate e = estimate_ratio(results[0].cpu, results[1].cpu);
  fmt::print(
      "Photos cost {:+.1f} % of a step's CPU time (95 % interval {:+.1f} to {:+.1f} %); aim: below "
      "3 "
      "%.\n{} samples of {} steps.\n",
      100 * (e.median - 1), 100 * (e.low - 1), 100 * (e.high - 1), plan.samples(),
      plan.steps_per_sample());
}

void measure_predictions(const Options& options) {
  for (const char* network : {"resnet18", "resnet50"}) {
    const Entry entry{.way = "predict", .network = network};
    std::vector<Contestant> contestants{contestant("keras::Model::predict_on_batch", entry)};
    if (!options.beside.empty()) {
      Contestant other = contestants[0];
      other.name += ", other build";
      other.argv[0] = std::filesystem::path(options.beside) / "resnet_benchmark";
      contestants.push_back(other);
    }
    if (has_pytorch()) contestants.push_back(pytorch(entry, {"--predict"}));
    measure(fmt::format("predict_{}", network), "One core, predictions: " + title_of(entry),
            contestants, plan_of(options), options);
  }
}

void measure_workers(const Options& options) {
  Entry entry{.network = "resnet18"};
  Contestant together = contestant("ResNet-18, two workers", entry);
  entry.barrier = true;
  Contestant alone = contestant("ResNet-18, a barrier only", entry);
  for (Contestant* each : {&together, &alone}) {
    each->workers = 2;
    each->rows = 2 * kBatch;
  }
  measure("workers", "Two workers of one thread, each: " + title_of(entry), {together, alone},
          plan_of(options), options);
}

// A loop over LibTorch's modules, through data_parallel(): on one worker compared with the loop
// alone; on two compared with a barrier alone and with DistributedDataParallel over Gloo.
void measure_data_parallel(const Options& options) {
  Entry entry{.way = "data_parallel", .network = "resnet18"};
  Contestant through = contestant("LibTorch, data_parallel()", entry);
  entry.way = "libtorch";
  const Contestant alone = contestant("LibTorch, the loop alone", entry);
  measure("data_parallel", "One worker, a loop of LibTorch: " + title_of(entry), {through, alone},
          plan_of(options), options);
  entry.barrier = true;
  std::vector<Contestant> contestants{through, contestant("LibTorch, a barrier only", entry)};
  const std::vector<std::string> flags{"networks_torch.py", "--model=resnet18"};
  const auto add = [&](const char* name, const char* flag) {
    std::vector<std::string> arguments = flags;
    arguments.emplace_back(flag);
    add_peer(name, "today", arguments, kBatch, &contestants);
  };
  add("PyTorch 2.15, DDP over Gloo", "--ddp");
  add("PyTorch 2.15, a barrier only", "--barrier");
  for (Contestant& each : contestants) {
    each.workers = 2;
    each.rows = 2 * kBatch;
  }
  measure("data_parallel_workers", "Two workers of one thread, each: " + title_of(entry),
          contestants, plan_of(options), options);
}

void run(const Options& options) {
  const std::pair<const char*, std::function<void()>> parts[] = {
      {"resnet50", [&] { measure_network("resnet50", options); }},
      {"resnet18", [&] { measure_network("resnet18", options); }},
      {"gpt", [&] { measure_network("gpt", options); }},
      {"loop", [&] { measure_loop(options); }},
      {"fit", [&] { measure_fit(options); }},
      {"bfloat16", [&] { measure_bfloat16(options); }},
      {"memory", [&] { measure_memory(options); }},
      {"photos", [&] { measure_photos(options); }},
      {"predict", [&] { measure_predictions(options); }},
      {"workers", [&] { measure_workers(options); }},
      {"data_parallel", [&] { measure_data_parallel(options); }},
      {"original_resnet50", [&] { measure_originals("resnet50", options); }},
      {"original_gpt", [&] { measure_originals("gpt", options); }},
      {"original_lstm", [&] { measure_originals("lstm", options); }}};
  for (const auto& [name, part] : parts) {
    if (options.model.empty() || options.model == name) part();
  }
}

}  // namespace
}  // namespace muster::bench::resnet

int main(int argc, char** argv) {
  namespace resnet = muster::bench::resnet;
  resnet::Options options;
  resnet::Entry entry;
  bool take_part = false;
  if (const char* data = std::getenv("MUSTER_TEST_DATA"))
    options.images = std::string(data) + "/images/train";
  CLI::App app("A benchmark; ./dev bench runs all of them.");
  app.add_option("--json", options.json, "Where to append the figures as lines of JSON");
  app.add_flag("--quick", options.quick, "Few samples, to see that it works");
  app.add_option("--images", options.images, "Folders of photos, one for each class");
  app.add_option("--beside", options.beside,
                 "Folder of the same programs, built from other source, for predict");
  app.add_option("--model", options.model, "Only this one")
      ->check(CLI::IsMember({"resnet50", "resnet18", "gpt", "loop", "fit", "bfloat16", "memory",
                             "photos", "predict", "workers", "data_parallel", "original_resnet50",
                             "original_gpt", "original_lstm"}));
  app.add_flag("--take_part", take_part)->group("");
  resnet::add_options(app, entry);
  CLI11_PARSE(app, argc, argv);
  try {
    if (take_part) {
      resnet::take_part(entry);
    } else {
      resnet::run(options);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
