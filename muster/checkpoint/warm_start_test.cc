#include "muster/checkpoint/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/internal/test_checkpoints.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/testing/memory_store.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::files;
using ::testing::HasSubstr;

constexpr double kInitial = -1;

class Store final : public VariableStore {
 public:
  Variable& get_or_create(const VariableSpec& spec) override {
    variables_.push_back(std::make_unique<Variable>(
        spec, torch::full(spec.shape, kInitial, torch::TensorOptions(spec.dtype))));
    variables_.back()->value().set_requires_grad(spec.trainable);
    return *variables_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : variables_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }
  const Tensor& operator[](const std::string& name) const { return find(name)->value(); }

 private:
  std::vector<std::unique_ptr<Variable>> variables_;
};

// Numbers that say where they are from.
Tensor ramp(const Shape& shape, double from) {
  return (torch::arange(c10::multiply_integers(shape), at::kFloat) + from).view(shape);
}

// A checkpoint of two layers with statistics and an optimizer's slots.
Checkpoint base() {
  Checkpoint checkpoint{.global_step = 7};
  checkpoint.tensors = {{"net/dense/kernel", ramp({3, 4}, 100)},
                        {"net/dense/bias", ramp({4}, 200)},
                        {"net/head/kernel", ramp({4, 2}, 300)},
                        {"net/norm/moving_mean", ramp({4}, 400)},
                        {"Adam/m/net/dense/kernel", ramp({3, 4}, 500)},
                        {"Adam/iterations", torch::tensor(int64_t{7})}};
  return checkpoint;
}

class WarmStartTest : public ::testing::Test {
 protected:
  WarmStartTest() { manager_.save(base()); }

  void add(const std::string& name, Shape shape, bool trainable = true) {
    store_.get_or_create({.name = name, .shape = std::move(shape), .trainable = trainable});
  }
  void add_model() {
    add("net/dense/kernel", {3, 4});
    add("net/dense/bias", {4});
    add("net/norm/moving_mean", {4}, false);
  }
  WarmStartReport start(const WarmStartFrom& from) {
    return warm_start(files(), from.settings(), store_, /*seed=*/3);
  }
  // With the checkpoint of this test.
  WarmStartSettings settings() const { return {.ckpt_to_initialize_from = directory_.path()}; }
  bool is_initial(const std::string& name) { return store_[name].eq(kInitial).all().item<bool>(); }
  // A file with these lines.
  std::string vocabulary(const std::string& name, const std::vector<std::string>& words) {
    std::ofstream file(directory_ / name);
    for (const std::string& word : words) file << word << "\n";
    return directory_ / name;
  }

  TempDirectory directory_;
  CheckpointManager manager_{directory_.path()};
  Store store_;
};

TEST_F(WarmStartTest, TakesWhatTrains) {
  add_model();
  add("net/new/step", {2}, false);
  const std::string prefix = *manager_.latest();
  for (const std::string& from : {directory_.path(), prefix, prefix + ".safetensors"}) {
    torch::NoGradGuard no_grad;
    store_.find("net/dense/kernel")->value().fill_(0);
    const WarmStartReport report = start(from);
    EXPECT_TRUE(store_["net/dense/kernel"].equal(ramp({3, 4}, 100))) << from;
    EXPECT_EQ(report.taken.size(), 2u);
  }
  EXPECT_TRUE(store_["net/dense/bias"].equal(ramp({4}, 200)));
  const WarmStartReport report = start(directory_.path());
  EXPECT_EQ(report.checkpoint, prefix);
  EXPECT_THAT(report.initialised, ElementsAre("net/norm/moving_mean", "net/new/step"));
  EXPECT_TRUE(is_initial("net/norm/moving_mean"));
  EXPECT_TRUE(store_["net/dense/kernel"].requires_grad());
}

TEST_F(WarmStartTest, AListReachesStatisticsAndAnExpressionBeginsWithTheName) {
  add_model();
  add("head/kernel", {4, 2});
  WarmStartSettings chosen = settings();
  chosen.vars_to_warm_start = {"net/d.*/b", "net/norm"};
  start(chosen);
  EXPECT_TRUE(is_initial("net/dense/kernel"));
  EXPECT_TRUE(is_initial("head/kernel"));
  EXPECT_TRUE(store_["net/dense/bias"].equal(ramp({4}, 200)));
  EXPECT_TRUE(store_["net/norm/moving_mean"].equal(ramp({4}, 400)));
  // It is under another name there.
  chosen.vars_to_warm_start = "head";
  chosen.var_name_to_prev_var_name = {{"head/kernel", "net/head/kernel"}};
  const WarmStartReport report = start(chosen);
  ASSERT_EQ(report.taken.size(), 1u);
  EXPECT_EQ(report.taken[0].previous_name, "net/head/kernel");
  EXPECT_TRUE(store_["head/kernel"].equal(ramp({4, 2}, 300)));
}

// --- vocabularies ---

struct Remap {
  bool oov_first{};
  int64_t axis{};
};
class VocabularyTest : public WarmStartTest, public ::testing::WithParamInterface<Remap> {};

// The reference goes word by word, through the text of the files.
TEST_P(VocabularyTest, EveryWordKeepsItsRow) {
  const auto [oov_first, axis] = GetParam();
  const std::vector<std::string> old_words{"ant", "bee", "cat", "dog", "not counted"};
  const std::vector<std::string> new_words{"dog", "eel", "ant", "", "bee", "fox"};
  const int64_t old_size = 4, old_rows = 6, oov = 2;
  const auto rows = static_cast<int64_t>(new_words.size()) + oov;
  const auto turned = [&, axis = axis](const Tensor& by_rows) {
    return axis == 0 ? by_rows : by_rows.t().contiguous();
  };
  const Tensor old = ramp({old_rows, 3}, 10);
  Checkpoint checkpoint = base();
  checkpoint.tensors["words"] = turned(old);
  manager_.save(checkpoint);
  add("words", axis == 0 ? Shape{rows, 3} : Shape{3, rows});
  const Tensor fresh = ramp({rows, 3}, 900);
  WarmStartSettings chosen = settings();
  chosen.vars_to_warm_start = std::vector<std::string>{};
  chosen.var_name_to_vocab_info["words"] = {
      .new_vocab = vocabulary("new.txt", new_words),
      .num_oov_buckets = oov,
      .old_vocab = vocabulary("old.txt", old_words),
      .old_vocab_size = old_size,
      .backup_initializer = [&](const Shape&, DType, RandomKey) { return turned(fresh); },
      .axis = axis,
      .oov_first = oov_first};
  const WarmStartReport report = start(chosen);

  Tensor expected = fresh.clone();
  for (int64_t w = 0; w < rows - oov; ++w) {
    for (int64_t o = 0; o < old_size; ++o) {
      if (new_words[static_cast<size_t>(w)] != old_words[static_cast<size_t>(o)]) continue;
      expected[w + (oov_first ? oov : 0)] = old[o + (oov_first ? old_rows - old_size : 0)];
    }
  }
  EXPECT_TRUE(store_["words"].equal(turned(expected))) << store_["words"];
  ASSERT_EQ(report.taken.size(), 1u);
  EXPECT_EQ(report.taken[0].words_found, 3);
  EXPECT_EQ(report.taken[0].words, 6);
}
INSTANTIATE_TEST_SUITE_P(Cases, VocabularyTest,
                         ::testing::Values(Remap{false, 0}, Remap{true, 0}, Remap{false, 1},
                                           Remap{true, 1}));

TEST_F(WarmStartTest, NewWordsAreZerosAndRowsBeyondTheSizeAreNotWords) {
  add("net/dense/kernel", {2, 4});
  WarmStartSettings chosen = settings();
  chosen.var_name_to_vocab_info["net/dense/kernel"] = {
      .new_vocab = vocabulary("new.txt", {"z", "b", "a"}),
      .new_vocab_size = 2,
      .old_vocab = vocabulary("old.txt", {"a", "b", "c"})};
  start(chosen);
  EXPECT_TRUE(
      store_["net/dense/kernel"].equal(torch::stack({torch::zeros({4}), ramp({3, 4}, 100)[1]})));
}

// --- errors ---

TEST_F(WarmStartTest, AnotherArchitectureSaysWhatFits) {
  add("model/dense/kernel", {3, 4});
  add("net/head/kernel", {4, 5});
  add("net/dense/bias", {4});
  add("model/wide/kernel", {9, 9});
  const Error error = error_of([&] { start(directory_.path()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(
      error.message(),
      AllOf(HasSubstr("model.ckpt-7': 3 of 4 variables do not fit"),
            // Not the slot of Adam, which has that shape too.
            HasSubstr("model/dense/kernel float32[3, 4]: the checkpoint holds no "
                      "\"model/dense/kernel\"; of that shape it holds 'net/dense/kernel'\n"),
            HasSubstr("net/head/kernel float32[4, 5]: the checkpoint holds \"net/head/kernel\" as "
                      "float32[4, 2]; it holds nothing of that shape"),
            HasSubstr("model/wide/kernel float32[9, 9]: the checkpoint holds no")));
  EXPECT_THAT(error.hint(), HasSubstr("var_name_to_prev_var_name"));
}

TEST_F(WarmStartTest, NamesAndPatternsThatAreNoneAreToldBeforeAnythingIsRead) {
  add_model();
  const auto told = [&](const std::function<void(WarmStartSettings&)>& change) {
    WarmStartSettings wrong = settings();
    change(wrong);
    const Error error = error_of([&] { start(wrong); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    return std::string(error.what());
  };
  EXPECT_THAT(told([](auto& s) { s.vars_to_warm_start = {"dense"}; }),
              HasSubstr("\"dense\" matches none of the model's variables: 'net/dense/kernel', "));
  EXPECT_THAT(told([](auto& s) { s.vars_to_warm_start = "net/norm"; }),
              HasSubstr("only trainable variables, a list {\"...\"} chooses from all"));
  EXPECT_THAT(told([](auto& s) { s.vars_to_warm_start = "net/("; }),
              HasSubstr("vars_to_warm_start has \"net/(\""));
  EXPECT_THAT(told([](auto& s) {
                s.var_name_to_prev_var_name = {{"net/dense/kernal", "k"}};
              }),
              HasSubstr("did you mean \"net/dense/kernel\"?"));
  EXPECT_THAT(told([](auto& s) {
                s.vars_to_warm_start = "net/dense/b";
                s.var_name_to_prev_var_name = {{"net/dense/kernel", "k"}};
              }),
              HasSubstr("renames \"net/dense/kernel\", which vars_to_warm_start does not choose"));
  EXPECT_THAT(told([](auto& s) {
                s.var_name_to_prev_var_name = {{"net/dense/kernel", ""}};
              }),
              HasSubstr("of \"net/dense/kernel\" is empty"));
  EXPECT_THAT(told([](auto& s) { s.ckpt_to_initialize_from = ""; }),
              HasSubstr("ckpt_to_initialize_from is empty"));
  EXPECT_TRUE(is_initial("net/dense/kernel"));
}

TEST_F(WarmStartTest, VocabulariesThatDoNotGoTogetherAreReported) {
  add("net/dense/kernel", {4, 4});
  const auto told = [&](const std::function<void(VocabInfo&)>& change) {
    VocabInfo info{.new_vocab = vocabulary("new.txt", {"a", "b", "c", "d"}),
                   .old_vocab = vocabulary("old.txt", {"a", "b", "c"})};
    change(info);
    WarmStartSettings wrong = settings();
    wrong.var_name_to_vocab_info["net/dense/kernel"] = info;
    return std::string(error_of([&] { start(wrong); }).what());
  };
  EXPECT_THAT(told([](auto& v) { v.new_vocab_size = 5; }),
              AllOf(HasSubstr("InvalidArgument: var_name_to_vocab_info of \"net/dense/kernel\""),
                    HasSubstr("new.txt' has 4 lines; VocabInfo.new_vocab_size is 5")));
  EXPECT_THAT(told([](auto& v) { v.num_oov_buckets = 1; }),
              HasSubstr("the model's is net/dense/kernel float32[4, 4], the checkpoint's "
                        "float32[3, 4]; the variable has 4 rows, the vocabulary"));
  EXPECT_THAT(told([&](auto& v) { v.old_vocab = v.new_vocab; }),
              HasSubstr("which has 3 rows; the vocabulary"));
  EXPECT_THAT(told([](auto& v) { v.axis = 1; }),
              HasSubstr("they may differ in their number of columns alone"));
  EXPECT_THAT(told([&](auto& v) {
                v.old_vocab = vocabulary("twice.txt", {"a", "b", "a"});
              }),
              HasSubstr("names \"a\" twice, in lines 1 and 3"));
  EXPECT_THAT(told([&](auto& v) { v.old_vocab = directory_ / "none.txt"; }),
              HasSubstr("NotFound: "));
  EXPECT_THAT(told([](auto& v) { v.axis = 2; }), HasSubstr("VocabInfo.axis is 2"));
  EXPECT_THAT(told([](auto& v) { v.new_vocab_size = 0; }),
              HasSubstr("VocabInfo.new_vocab_size is 0"));
  EXPECT_THAT(told([](auto& v) { v.num_oov_buckets = -1; }),
              HasSubstr("VocabInfo.num_oov_buckets is -1"));
  EXPECT_THAT(told([](auto& v) { v.old_vocab.clear(); }), HasSubstr("VocabInfo.old_vocab is"));
}

TEST_F(WarmStartTest, ACheckpointThatIsNotThereOrNotOursIsReported) {
  add_model();
  const TempDirectory other;
  const auto told = [&](const std::string& from) { return error_of([&] { start(from); }); };
  EXPECT_EQ(told(other / "none").kind(), ErrorKind::kNotFound);
  EXPECT_THAT(told(other.path()).what(), HasSubstr("NotFound: there is no checkpoint in the"));
  testing::overwrite(other / "model.ckpt-9.index", "x");
  EXPECT_THAT(told(other / "model.ckpt-9").what(),
              HasSubstr("InvalidArgument: not supported: '" + (other / "model.ckpt-9") +
                        "' is a checkpoint in TensorFlow's own format"));
  testing::overwrite(other / "theirs.keras", "x");
  EXPECT_THAT(
      told(other / "theirs.keras").what(),
      AllOf(HasSubstr("not supported: '" + (other / "theirs.keras") + "' is a file of Keras"),
            HasSubstr("muster::kerasfiles")));
}

// A failed look is never reported as a missing checkpoint.
TEST_F(WarmStartTest, ALookThatFailsIsNotTakenForNothing) {
  add_model();
  MemoryStore store;
  const std::string run = "mem://bucket/run";
  CheckpointManager(run, {.fs = &store}).save(base());
  int64_t at = 0;
  do {
    store.set_plan({.fail_at = at, .writes_only = false});
    try {
      warm_start(store, WarmStartFrom(run).settings(), store_, /*seed=*/3);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << at << ": " << error.what();
    }
  } while (store.requests() > at++);
}

}  // namespace
}  // namespace muster::inline v0_1
