// Trains on binary records of the program's own format, from a main() of its own. A record holds
// three measurements of a machine, and whether the machine failed on the next day. If FILE does not
// exist, the program writes one with invented records.
//
// Expected: 95 of 100 answers for the records that it did not train on are right.
#include <fcntl.h>
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/types.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

using namespace muster;

namespace {

struct Record {
  std::array<float, 3> measurements;
  int32_t failed;  // 0 or 1
};

// The records of a file. Each one is read when it is needed, so the file may be larger than the
// memory. Several threads may read at once, because pread() does not move the file's position.
class Records : public Source {
 public:
  explicit Records(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)),
        size_(static_cast<int64_t>(std::filesystem::file_size(path) / sizeof(Record))) {}
  ~Records() override { close(file_); }

  std::string kind() const override { return "records"; }
  int64_t size() const override { return size_; }
  Element element(int64_t index) const override {
    Record record;
    const auto offset = static_cast<off_t>(static_cast<size_t>(index) * sizeof record);
    if (pread(file_, &record, sizeof record, offset) != sizeof record)
      throw Error(ErrorKind::kCorrupt, fmt::format("cannot read record {}", index));
    const auto& [temperature, pressure, vibration] = record.measurements;
    return Element::tuple({torch::tensor({temperature, pressure, vibration}),  // features
                           torch::tensor(int64_t{record.failed}, kInt64)});    // label
  }

 private:
  const int file_;
  const int64_t size_;
};

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("failures", [] {
    return Sequential({Dense(16, {.activation = activations::relu}), Dense(2)});
  });
  Tensor logits = model(features);  // [batch, 2]: a score for "works" and one for "fails"
  Tensor answer = logits.argmax(-1);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"failed", answer}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval)
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, answer)}});
  auto adam = context.optimizer(optim::adam({.learning_rate = 0.01}));
  return EstimatorSpec::train(loss, adam.minimize(loss));
}

// Machines that are hot and vibrate fail.
void invent(const std::string& path) {
  Random random(derive_key(1, {id_of("machines")}));
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 20000; ++i) {
    Record record{};
    for (float& value : record.measurements) value = static_cast<float>(random.normal());
    record.failed = record.measurements[0] + record.measurements[2] > 1 ? 1 : 0;
    file.write(reinterpret_cast<const char*>(&record), sizeof record);
  }
}

}  // namespace

int main(int argc, char** argv) {
  guard_main();  // first: Ctrl-C saves, and an error ends the program with its exit code
  if (argc != 3) {
    fmt::print(stderr, "usage: own_data FILE MODEL_DIR\n");
    return 2;
  }
  if (!std::filesystem::exists(argv[1])) invent(argv[1]);

  const Dataset records = Dataset::from_source(std::make_shared<Records>(argv[1]));
  const auto training = [&] {
    return records.skip(4000).shuffle(16000).repeat(5).global_batch(64);
  };
  const auto held_out = [&] { return records.take(4000).batch(1000); };
  Estimator classifier(
      model_fn, {.model_dir = argv[2], .train_distribute = distribute::multi_worker_mirrored()});
  const auto result = train_and_evaluate(classifier, {.input_fn = training},
                                         {.input_fn = held_out, .steps = std::nullopt});
  if (result) print_result(*result);  // only the chief has a result
}
