// Writes runs for the tests and the benchmark of the board:
//   board_runs many FOLDER RUNS POINTS   runs with two scalars of so many points each
//   board_runs kinds FOLDER              two runs with each kind of summary, and their evaluations
//   board_runs hostile FOLDER            scripts in tags and texts, numbers that are none, damage
//   board_runs live FOLDER SECONDS       a run that grows by ten points a second
//   board_runs tasks FOLDER              what three workers tell: one is slow, and one has failed
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/formats/event.h"
#include "muster/formats/hparams.h"
#include "muster/formats/image.h"
#include "muster/formats/tfrecord.h"
#include "muster/formats/wav.h"
#include "muster/summary/event_writer.h"
#include "muster/summary/live_status.h"

namespace muster {
namespace {

constexpr double kStart = 1.7e9;  // Unix time of the first event

// Events are gathered here, with times that tests know.
class EventFile {
 public:
  explicit EventFile(const std::string& folder,
                     const std::string& name = "events.out.tfevents.1700000000.test") {
    std::filesystem::create_directories(folder);
    path_ = folder + "/" + name;
    add({.wall_time = kStart, .file_version = std::string(formats::kEventFileVersion)});
  }
  ~EventFile() { std::ofstream(path_, std::ios::binary) << bytes_; }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add(const formats::Event& event) { add_bytes(formats::encode_event(event).value()); }
  void add_bytes(const std::string& payload) {
    formats::append_tfrecord(bytes_, bytes_of(payload));
  }
  void add(int64_t step, std::vector<formats::SummaryValue> values) {
    add({.wall_time = kStart + static_cast<double>(step),
         .step = step,
         .values = std::move(values)});
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string path_, bytes_;
};

void write_many(const std::string& folder, int runs, int points) {
  for (int run = 0; run < runs; ++run) {
    EventFile file(folder + "/run_" + std::to_string(run / 10) + std::to_string(run % 10));
    unsigned random = 12345U + static_cast<unsigned>(run);
    for (int step = 1; step <= points; ++step) {
      random = random * 1664525U + 1013904223U;
      const double noise = random / 4294967296.0 - 0.5;
      const double part = static_cast<double>(step) / points;
      const auto loss =
          static_cast<float>(2.3 * std::exp(-3 * part) + 0.02 * run / runs + 0.2 * noise);
      const auto accuracy =
          static_cast<float>(0.1 + 0.85 * (1 - std::exp(-4 * part)) + 0.05 * noise);
      file.add(step, {{"loss", loss}, {"accuracy", accuracy}});
    }
  }
}

formats::Histogram histogram_at(int step) {
  formats::Histogram histogram{.min = -2, .max = 2};
  for (int bucket = 0; bucket < 20; ++bucket) {
    const double right = -2 + 0.2 * (bucket + 1);
    const double center = right - 0.1 - 0.02 * step;
    histogram.limits.push_back(right);
    histogram.counts.push_back(std::round(200 * std::exp(-center * center * (1 + step * 0.1))));
    histogram.count += histogram.counts.back();
  }
  return histogram;
}

formats::ImageSummary image_at(int step) {
  std::vector<uint8_t> pixels;
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 32; ++x) {
      for (const int part : {x * 8, y * 8, step * 12})
        pixels.push_back(static_cast<uint8_t>(part & 255));
    }
  }
  return {32, 32, 3, formats::encode_png(pixels, 32, 32, 3).value()};
}

std::vector<float> tone_at(int step) {
  std::vector<float> samples;
  for (int at = 0; at < 800; ++at)
    samples.push_back(static_cast<float>(0.5 * std::sin(at * 0.02 * step)));
  return samples;
}

formats::TensorSummary curve_at(int step) {
  std::string content;
  const int count = 11;
  std::vector<float> rows[6];
  for (int place = 0; place < count; ++place) {
    const auto recall = static_cast<float>(1 - place / 10.0);
    const auto precision = static_cast<float>(std::min(1.0, 0.5 + 0.02 * step + 0.04 * place));
    const float values[6] = {100 * recall, 100 * recall * (1 - precision), 50, 10, precision,
                             recall};
    for (int row = 0; row < 6; ++row) rows[row].push_back(values[row]);
  }
  for (const auto& row : rows) {
    for (const float value : row) append_little_endian(content, value);
  }
  return {.plugin = "pr_curves",
          .type = formats::TensorType::kFloat32,
          .shape = {6, count},
          .content = content};
}

void write_kinds(const std::string& folder) {
  for (const std::string name : {"first", "second"}) {
    const double rate = name == "first" ? 0.1 : 0.01;
    EventFile file(folder + "/" + name);
    file.add(0,
             {formats::hparams_session_start(
                 {{"rate", rate}, {"units", 64.0}, {"model", "cnn"}, {"augment", name == "first"}},
                 "", kStart)});
    file.add({.wall_time = kStart,
              .graph = formats::GraphDef{
                  {{.name = "net/input", .op = "Input", .output_shapes = {{-1, 28, 28, 1}}},
                   {.name = "net/conv",
                    .op = "Conv2D",
                    .inputs = {"net/input"},
                    .output_shapes = {{-1, 26, 26, 32}},
                    .parameters = 320},
                   {.name = "net/branch/dense",
                    .op = "Dense",
                    .inputs = {"net/conv"},
                    .output_shapes = {{-1, 10}},
                    .parameters = 216330},
                   {.name = "net/branch/scale",
                    .op = "Rescaling",
                    .inputs = {"net/branch/dense"},
                    .output_shapes = {{-1, 10}}},
                   {.name = "net/add",
                    .op = "Add",
                    .inputs = {"net/branch/scale", "net/conv:1"},
                    .output_shapes = {{-1, 10}}}}}});
    for (int step = 1; step <= 20; ++step) {
      const auto loss = static_cast<float>((name == "first" ? 2.0 : 1.8) / step);
      std::vector<formats::SummaryValue> values = {{"loss", loss},
                                                   {"train/accuracy", 1 - loss / 3}};
      if (step % 5 == 0) {
        values.push_back({"weights/kernel", histogram_at(step)});
        values.push_back({"digits/image", image_at(step)});
        values.push_back(
            {"tone",
             formats::AudioSummary{
                 8000, 1, 800, formats::encode_wav(tone_at(step), 1, 8000).value(), "audio/wav"}});
        values.push_back({"note", "step **" + std::to_string(step) + "** of " + name});
        values.push_back({"table", formats::TensorSummary{.plugin = "text",
                                                          .type = formats::TensorType::kString,
                                                          .shape = {2, 2},
                                                          .strings = {"a", "b", "1", "2"}}});
        values.push_back({"pr", curve_at(step)});
      }
      file.add(step, std::move(values));
    }
    file.add(20, {formats::hparams_session_end(formats::SessionResult::kSuccess, kStart + 20)});
    EventFile eval(folder + "/" + name + "/eval");
    for (int step = 5; step <= 20; step += 5)
      eval.add(step, {{"loss", static_cast<float>(2.2 / step)},
                      {"accuracy", static_cast<float>(0.5 + 0.02 * step)}});
    std::ofstream(folder + "/" + name + "/checkpoint")
        << "model_checkpoint_path: \"model.ckpt-20\"\n";
    std::ofstream(folder + "/" + name + "/model.ckpt-10.safetensors") << std::string(1000, 'x');
    std::ofstream(folder + "/" + name + "/model.ckpt-20.safetensors") << std::string(2000, 'x');
    std::ofstream(folder + "/" + name + "/run_end.json")
        << R"({"reason": "max_steps", "global_step": 20})";
    std::filesystem::create_directories(folder + "/" + name + "/export/best/1700000000");
    std::ofstream(folder + "/" + name + "/export/best/1700000000/signatures.json") << "{}";
  }
}

void write_search(const std::string& folder) {
  std::ofstream(folder + "/search.json")
      << R"({"search": {"maximize": true, "metric": "accuracy", "algorithm": 0, "parameters": []},
             "seed": 1, "first": 1, "trials": [
               {"number": 1, "values": {"rate": "0.1"}, "state": "done", "failure": "",
                "measurements": [[10, 0.5], [20, 0.75]], "exit_code": 0, "log": "1/log.txt"},
               {"number": 2, "values": {"rate": "0.5"}, "state": "failed", "failure": "loss is NaN",
                "measurements": [], "exit_code": 1, "log": ""}]})";
  std::filesystem::create_directories(folder + "/first/report");
  std::ofstream(folder + "/first/report/report.md")
      << "# people.csv\n\n| column | values |\n|---|---:|\n| age | 17 to 90 "
         "|\n\n<script>x</script>\n";
  std::ofstream(folder + "/first/report/held_out_predictions.csv")
      << "label,prediction,probability of no,probability of yes\nyes,yes,0.1,0.9\nno,no,0.8,0.2\n"
         "yes,no,0.7,0.3\nno,yes,0.4,0.6\n";
  std::ofstream(folder + "/first/report/confusion.csv")
      << "class,said no,said yes\nno,1,1\nyes,1,1\n";
}

void write_hostile(const std::string& folder) {
  const std::string script =
      "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">";
  {
    EventFile file(folder + "/" + "<img src=x onerror=alert(1)>");
    for (int step = 1; step <= 10; ++step) {
      const float odd = step == 3   ? std::numeric_limits<float>::quiet_NaN()
                        : step == 5 ? std::numeric_limits<float>::infinity()
                        : step == 7 ? -std::numeric_limits<float>::infinity()
                                    : static_cast<float>(step);
      file.add(step, {{script, odd}, {"huge", 3e38F}, {"tiny", 1e-45F}});
      file.add(step, {{script + "/text", script},
                      {"javascript:alert(1)", formats::ImageSummary{1, 1, 3, script}},
                      {"sound", formats::AudioSummary{1, 1, 1, script, "text/html"}}});
    }
    file.add(-5, {{"negative", 1.0F}});
    file.add(std::numeric_limits<int64_t>::max(), {{"far", 1.0F}});
    file.add({.wall_time = std::numeric_limits<double>::quiet_NaN(),
              .step = 1,
              .values = {{"when", 1.0F}}});
    file.add_bytes(std::string(100, '\xff'));
    file.add({.wall_time = kStart,
              .graph = formats::GraphDef{{{.name = script, .op = script, .inputs = {script}},
                                          {.name = "loop", .op = "Loop", .inputs = {"loop"}}}}});
    file.add(1, {formats::hparams_session_start({{script, script}}, script, kStart)});
  }
  {
    EventFile file(folder + "/damaged");
    for (int step = 1; step <= 100; ++step) {
      if (step == 30) file.bytes() += std::string(5000, 'x');
      file.add(step, {{"loss", 1.0F / static_cast<float>(step)}});
      if (step == 60) file.bytes()[file.bytes().size() - 10] ^= 1;
    }
    file.bytes().resize(file.bytes().size() - 7);
  }
}

void write_live(const std::string& folder, int seconds) {
  summary::EventWriter writer(folder + "/live", local_file_system(), system_clock());
  for (int step = 1; step <= seconds * 10; ++step) {
    writer.add_scalar("loss", 1.0 / step, step);
    writer.flush();
    usleep(100'000);
  }
}

void write_tasks(const std::string& folder) {
  using plan::Activity;
  const double now = system_clock().wall_seconds();
  for (int64_t process = 0; process < 3; ++process) {
    const float input = process == 1 ? .03F : .002F;
    summary::LiveStatus status{
        .task = "worker " + std::to_string(process),
        .process = process,
        .processes = 4,
        .host = "here",
        .command = {"./train", "--lr=1 or 2"},
        .version = "0.1",
        .started = now - 100,
        .written = now,
        .every = 3600,
        .earlier_starts = process == 1 ? 1 : 0,
        .last_step = 500,
        .saving = process == 0 ? 100 : -1,
        .memory = 200 << 20,
        .log = {{now - 2, "info", "step 120: loss 0.5"},
                {now - 1, "warning", "<script>document.title='bad'</script>"}}};
    if (process == 0) {
      status.measures = {{"staleness/worker_1/mean", 1.5}};
      status.device_memory = int64_t{3} << 30;
      status.device_reserved = int64_t{4} << 30;
    }
    if (process == 2) {
      status.end = "failed";
      status.error = "the loss is not a number";
      status.exit_code = 1;
    }
    plan::ActivityNow& replica = status.replicas.emplace_back(
        plan::ActivityNow{.task = status.task,
                          .activity = process == 1 ? Activity::kInput : Activity::kCommunication,
                          .seconds = 0.01,
                          .step = 120,
                          .bucket = process == 1 ? 0 : 2,
                          .buckets = process == 1 ? 0 : 3,
                          .epoch = 2});
    for (int64_t s = 81; s <= 120; ++s) {
      plan::StepSeconds& step = replica.last.emplace_back(plan::StepSeconds{.step = s});
      step.seconds[static_cast<size_t>(Activity::kInput)] = input;
      step.seconds[static_cast<size_t>(Activity::kCompute)] = .01F;
      step.seconds[static_cast<size_t>(Activity::kCommunication)] = .032F - input;
    }
    const auto spent = [&](Activity activity, float seconds) {
      replica.whole.seconds[static_cast<size_t>(activity)] = seconds;
    };
    spent(Activity::kStarting, 8);
    spent(Activity::kInput, 400 * input);
    spent(Activity::kCompute, 50);
    spent(Activity::kEvaluating, 30);
    (void)summary::write_live_status(local_file_system(), folder, status);
  }
  // Tasks that do not train.
  for (const bool evaluates : {false, true}) {
    summary::LiveStatus status{.task = evaluates ? "evaluator" : "ps 0",
                               .process = -1,
                               .host = "here",
                               .command = {"./train", "--lr=1 or 2"},
                               .version = "0.1",
                               .started = now - 100,
                               .written = now,
                               .every = 3600,
                               .memory = 90 << 20};
    if (evaluates) {
      status.measures = {{"lag in seconds", 4}, {"lag in steps", 20}};
    } else {
      status.measures = {{"connections", 6}, {"received MB/s", 12.25}, {"updates/s", 31}};
    }
    plan::ActivityNow& replica = status.replicas.emplace_back(
        plan::ActivityNow{.task = status.task,
                          .activity = evaluates ? Activity::kEvaluating : Activity::kServing,
                          .seconds = 5,
                          .step = evaluates ? 100 : 120});
    for (int64_t batch = 0; evaluates && batch < 20; ++batch) {
      plan::StepSeconds& step = replica.last.emplace_back(plan::StepSeconds{.step = 100});
      step.seconds[static_cast<size_t>(Activity::kEvaluating)] = .04F;
    }
    (void)summary::write_live_status(local_file_system(), folder, status);
  }
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 4 && words[0] == "many") {
    write_many(words[1], std::stoi(words[2]), std::stoi(words[3]));
  } else if (words.size() == 2 && words[0] == "kinds") {
    write_kinds(words[1]);
    write_search(words[1]);
  } else if (words.size() == 2 && words[0] == "hostile") {
    write_hostile(words[1]);
  } else if (words.size() == 3 && words[0] == "live") {
    write_live(words[1], std::stoi(words[2]));
  } else if (words.size() == 2 && words[0] == "tasks") {
    write_tasks(words[1]);
  } else {
    std::fputs(
        "usage: board_runs many FOLDER RUNS POINTS | kinds FOLDER | hostile FOLDER | live FOLDER "
        "SECONDS | tasks FOLDER\n",
        stderr);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run({argv + 1, argv + argc}); }
