#include "muster/export/servable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/export/model_format.h"
#include "muster/export/request_columns.h"
#include "muster/export/write_servable.h"
#include "muster/formats/example.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tensors = Servable::Tensors;

// y = [x as a row] w + b. It asks for sizes, as C++ does: the trace must follow them.
class ServableTest : public ::testing::Test {
 protected:
  ServableTest() {
    weight_ = torch::arange(12, kFloat32).reshape({4, 3}) / 7;
    weight_.requires_grad_(true);
    bias_ = torch::tensor({1.0, -2.0, 0.5}, at::kFloat);
    source_.receiver = raw_serving_input_receiver({{"x", {kFloat32, {2, 2}}}});
    source_.weights = {{"net/dense/kernel", weight_}, {"net/dense/bias", bias_}};
    source_.global_step = 7;
    source_.function = [this](const Tensors& features) {
      const Tensor logits = logits_of(features.at("x"));
      const Tensor scores = logits.softmax(-1);
      return std::map<std::string, ExportOutput>{
          {"serving_default", PredictOutput({{"logits", logits}, {"scores", logits * 2}})},
          {"classes", ClassificationOutput(scores, {"a", "b", "c"})},
          {"sum", RegressionOutput(logits.sum(-1))}};
    };
  }

  Tensor logits_of(const Tensor& x) const {
    const int64_t rows = x.size(0);
    const Tensor ones = torch::ones({rows, 1});
    return x.reshape({rows, 4}).matmul(weight_) + ones * bias_;
  }

  std::string write(const std::string& name = "12") {
    const std::string folder = directory_ / name;
    local_file_system().make_directories(folder).value();
    write_servable(local_file_system(), folder, source_);
    return folder;
  }

  Error write_error() {
    return error_of([&] { write(); });
  }

  const TempDirectory directory_;
  Tensor weight_, bias_;
  ServableSource source_;
};

TEST_F(ServableTest, AnswersAsTheFunctionDoesAtEveryBatchSize) {
  const Servable model(write());
  EXPECT_EQ(model.version(), 12);
  EXPECT_EQ(model.global_step(), 7);
  const torch::NoGradGuard no_grad;
  for (const int64_t rows : {0, 1, 2, 17}) {
    const Tensor x = torch::randn({rows, 2, 2});
    const Tensor logits = logits_of(x);
    Tensors got = model.run("serving_default", {{"x", x}});
    ASSERT_EQ(got.size(), 2u);
    EXPECT_TRUE(got["logits"].allclose(logits, 1e-5, 1e-6));
    EXPECT_TRUE(got["scores"].allclose(logits * 2, 1e-5, 1e-6));
    EXPECT_TRUE(
        model.run("classes", {{"x", x}})["scores"].allclose(logits.softmax(-1), 1e-5, 1e-6));
    EXPECT_TRUE(model.run("sum", {{"x", x}})["outputs"].allclose(logits.sum(-1), 1e-5, 1e-5));
  }
}

TEST_F(ServableTest, TellsItsSignatures) {
  const Servable model(write());
  ASSERT_EQ(model.signatures().size(), 3u);
  const Signature& classes = model.signature("classes");
  EXPECT_EQ(classes.method, SignatureMethod::kClassify);
  EXPECT_EQ(classes.classes, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(classes.inputs.at("x").describe(), "float32[-1, 2, 2]");
  EXPECT_EQ(classes.outputs.at("scores").describe(), "float32[-1, 3]");
  EXPECT_EQ(model.signature("sum").outputs.at("outputs").describe(), "float32[-1]");
  EXPECT_FALSE(classes.takes_examples);
}

TEST_F(ServableTest, RefusesWhatTheSignatureDoesNotSay) {
  const Servable model(write());
  const auto said = [&](const std::string& signature, const Tensors& inputs) {
    const Error error = error_of([&] { model.run(signature, inputs); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return std::string(error.what());
  };
  const Tensor good = torch::zeros({1, 2, 2});
  EXPECT_THAT(said("clases", {{"x", good}}), HasSubstr("'clases'"));
  EXPECT_THAT(said("sum", {}), HasSubstr("the input \"x\" is missing"));
  EXPECT_THAT(said("sum", {{"x", good}, {"zzz", good}}),
              AllOf(HasSubstr("there is no input \"zzz\""), HasSubstr("it takes x float32")));
  // The name that was meant is missing, too.
  EXPECT_THAT(said("sum", {{"xs", good}}),
              AllOf(HasSubstr("there is no input \"xs\""), HasSubstr("did you mean 'x'?")));
  EXPECT_THAT(said("sum", {{"x", good.to(kFloat64)}}),
              HasSubstr("is float64[1, 2, 2], expected float32[-1, 2, 2]"));
  EXPECT_THAT(said("sum", {{"x", torch::zeros({1, 2, 3})}}), HasSubstr("float32[1, 2, 3]"));
  EXPECT_THAT(said("sum", {{"x", Tensor()}}), HasSubstr("\"x\""));
  EXPECT_THAT(error_of([&] { model.run_examples("sum", {""}); }).message(),
              HasSubstr("takes no serialized tf.Examples"));
}

TEST_F(ServableTest, RowsOfInputsMustAgree) {
  source_.receiver = raw_serving_input_receiver({{"x", {kFloat32, {4}}}, {"ids", {kInt64, {}}}});
  source_.function = [this](const Tensors& features) {
    return std::map<std::string, ExportOutput>{
        {"serving_default", PredictOutput(features.at("x").matmul(weight_) +
                                          bias_.index_select(0, features.at("ids")).unsqueeze(1))}};
  };
  const Servable model(write());
  EXPECT_THAT(error_of([&] {
                model.run("serving_default",
                          {{"x", torch::zeros({2, 4})}, {"ids", torch::zeros({3}, at::kLong)}});
              }).message(),
              HasSubstr("has 2 rows, others have 3"));
  // What only the data tell.
  const Error outside = error_of([&] {
    model.run("serving_default",
              {{"x", torch::zeros({1, 4})}, {"ids", torch::full({1}, 9, at::kLong)}});
  });
  EXPECT_EQ(outside.kind(), ErrorKind::kInvalidArgument);
}

TEST_F(ServableTest, ParsesExamples) {
  const Tensor other = torch::full({2}, 3.0);
  source_.receiver = parsing_serving_input_receiver(
      {{"a", data::FixedLenFeature{{2}, kFloat32}},
       {"b", data::FixedLenFeature{{2}, kFloat32, Value(other)}},
       {"n", data::FixedLenFeature{{}, kInt64, Value(torch::tensor(int64_t{5}))}}});
  source_.function = [this](const Tensors& features) {
    const Tensor x = torch::cat({features.at("a"), features.at("b")}, 1);
    return std::map<std::string, ExportOutput>{
        {"serving_default",
         PredictOutput(x.matmul(weight_) + features.at("n").to(kFloat32).unsqueeze(1))}};
  };
  const Servable model(write());
  EXPECT_TRUE(model.signature("serving_default").takes_examples);
  const auto example = [](std::vector<float> a) {
    return formats::encode_example({{{"a", std::move(a)}}});
  };
  const Tensor got =
      model.run_examples("serving_default", {example({1, 2}), example({-1, 0.5})})["output"];
  const Tensor x = torch::tensor({1.0, 2.0, 3.0, 3.0, -1.0, 0.5, 3.0, 3.0}, at::kFloat);
  EXPECT_TRUE(got.allclose(x.reshape({2, 4}).matmul(weight_.detach()) + 5, 1e-5, 1e-6));
  const auto fault_of = [&](const std::string& wrong) {
    return error_of([&] { model.run_examples("serving_default", {example({1, 2}), wrong}); });
  };
  EXPECT_EQ(fault_of("\xff").kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(fault_of("\xff").message(), HasSubstr("examples[1]: 1 bytes are not a tf.Example"));
  EXPECT_EQ(
      fault_of("\xff").hint(),
      "signature 'serving_default' takes 'a' float32[-1, 2], 'b' float32[-1, 2], 'n' int64[-1]");
  EXPECT_THAT(fault_of(formats::encode_example({})).message(),
              HasSubstr("examples[1]: the feature \"a\" is missing"));
  EXPECT_EQ(fault_of(formats::encode_example({{{"a", std::vector<int64_t>{1, 2}}}})).message(),
            "examples[1]: the feature \"a\" holds int64 values, not float");
  EXPECT_EQ(fault_of(example({1, 2, 3})).message(),
            "examples[1]: the feature \"a\" holds 3 values, but its shape [2] takes 2");
}

TEST_F(ServableTest, TextsBecomeIds) {
  source_.receiver = raw_serving_input_receiver(
      {{"town", {.dtype = kInt64, .texts = TextInput{{"Rome", "", "K\xc3\xb6ln"}, 3}}},
       {"age", {.dtype = kFloat32, .may_be_missing = true}}});
  source_.weights = {};
  source_.function = [](const Tensors& features) {
    return std::map<std::string, ExportOutput>{
        {"serving_default",
         PredictOutput({{"y", features.at("town") * 10 + features.at("age").nan_to_num(5.0)}})}};
  };
  const Servable model(write());
  const Signature& signature = model.signature("serving_default");
  EXPECT_EQ(signature.texts.at("town"), (TextInput{{"Rome", "", "K\xc3\xb6ln"}, 3}));
  EXPECT_EQ(signature.may_be_missing, (std::set<std::string>{"age"}));
  const Tensor ids =
      model.text_ids("town", Strings(std::vector<std::string>{"K\xc3\xb6ln", "Rome", "", "Oslo"}));
  EXPECT_TRUE(torch::equal(ids, torch::tensor({2, 0, 1, 3}, kInt64)));
  const Tensor age = torch::tensor({1.0F, std::nanf(""), 2.0F, 3.0F});
  EXPECT_TRUE(torch::equal(model.run("serving_default", {{"town", ids}, {"age", age}}).at("y"),
                           torch::tensor({21, 5, 12, 33}, kFloat32)));
  EXPECT_THAT(error_of([&] { (void)model.text_ids("age", Strings()); }).what(),
              HasSubstr("has no input of texts 'age'"));
}

TEST_F(ServableTest, ReceiversOfTextsSayWhatIsWrong) {
  const auto fails = [](const ServingFeature& feature) {
    return message_of([&] { (void)raw_serving_input_receiver({{"x", feature}}); });
  };
  EXPECT_THAT(fails({.dtype = kFloat32, .texts = TextInput{{"a"}, 1}}), HasSubstr("dtype float32"));
  EXPECT_THAT(fails({.dtype = kInt64, .texts = TextInput{}}), HasSubstr("has no words"));
  EXPECT_THAT(fails({.dtype = kInt64, .texts = TextInput{{"a", "a"}, 1}}),
              HasSubstr("a word twice"));
  EXPECT_THAT(fails({.dtype = kInt64, .may_be_missing = true}), HasSubstr("may be missing"));
}

TEST_F(ServableTest, AModelThatIsAnotherAtAnotherBatchSizeIsRefused) {
  source_.function = [this](const Tensors& features) {
    const Tensor logits = logits_of(features.at("x"));
    return std::map<std::string, ExportOutput>{
        {"serving_default",
         PredictOutput({{"good", logits}, {"odd", logits.size(0) > 6 ? logits * 2 : logits}})}};
  };
  const Error branch = write_error();
  EXPECT_EQ(branch.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(branch.message(), HasSubstr("\"odd\" differs"));
  EXPECT_THAT(branch.message(), HasSubstr("batch size of 8"));

  source_.function = [this](const Tensors& features) {
    std::vector<Tensor> rows;
    for (const Tensor& row : logits_of(features.at("x")).unbind(0)) rows.push_back(row * 2);
    return std::map<std::string, ExportOutput>{
        {"serving_default", PredictOutput({{"rows", torch::stack(rows)}})}};
  };
  const Error loop = write_error();
  EXPECT_EQ(loop.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(loop.message(), HasSubstr("'rows'"));
  EXPECT_THAT(loop.message(), HasSubstr("batch size of 1"));
}

// Numbers from 0 to 1 take one side of the branch, those of the wide rows both.
TEST_F(ServableTest, ABranchOnAValueIsRefused) {
  source_.function = [](const Tensors& features) {
    Tensor sum = features.at("x").sum({1, 2});
    if (sum.sum().item<double>() > 0) sum = sum * 2;
    return std::map<std::string, ExportOutput>{{"serving_default", PredictOutput({{"sum", sum}})}};
  };
  EXPECT_EQ(write_error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(write_error().message(), HasSubstr("\"sum\" differs"));
}

TEST_F(ServableTest, WhatIsComputedWithoutTensorsIsRefused) {
  source_.function = [this](const Tensors& features) {
    const Tensor logits = logits_of(features.at("x"));
    const std::vector<float> numbers(static_cast<size_t>(logits.size(0)), 3);
    return std::map<std::string, ExportOutput>{
        {"serving_default", PredictOutput({{"y", torch::tensor(numbers)}})}};
  };
  EXPECT_EQ(write_error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(write_error().message(), HasSubstr("\"y\""));
}

TEST_F(ServableTest, ReceiversSayWhatIsWrong) {
  const auto said = [](std::map<std::string, ServingFeature> features) {
    return error_of([&] { raw_serving_input_receiver(features); }).message();
  };
  EXPECT_THAT(said({}), HasSubstr("no feature"));
  EXPECT_THAT(said({{"x", {at::kComplexFloat, {}}}}), HasSubstr("\"x\" is of dtype"));
  EXPECT_THAT(said({{"x", {kFloat32, {2}, torch::zeros({2})}}}), HasSubstr("the example"));
  EXPECT_THAT(error_of([&] {
                parsing_serving_input_receiver({{"s", data::FixedLenFeature{{}, data::kString}}});
              }).message(),
              HasSubstr("\"s\" is of strings"));
  EXPECT_THAT(error_of([&] {
                parsing_serving_input_receiver({{"v", data::VarLenFeature{kFloat32}}});
              }).message(),
              HasSubstr("\"v\" is not a FixedLenFeature"));
}

TEST_F(ServableTest, OutputsSayWhatIsWrong) {
  const auto said = [](const auto& make) { return error_of([&] { make(); }).message(); };
  const Tensor two = torch::zeros({1, 2});
  EXPECT_THAT(said([] { PredictOutput({{"a", Tensor()}}); }), HasSubstr("\"a\" is undefined"));
  EXPECT_THAT(said([&] { ClassificationOutput(two, {"one"}); }), HasSubstr("1 classes"));
  EXPECT_THAT(said([] { ClassificationOutput(torch::zeros({2})); }), HasSubstr("float32[2]"));
  EXPECT_THAT(said([] { RegressionOutput(torch::zeros({})); }), HasSubstr("value is"));
  EXPECT_EQ(ClassificationOutput(two).classes, (std::vector<std::string>{"0", "1"}));
}

TEST_F(ServableTest, DamagedFoldersAreNamed) {
  EXPECT_EQ(error_of([&] { Servable(directory_ / "none"); }).kind(), ErrorKind::kNotFound);
  const std::string folder = write();
  const std::string path = folder + "/signatures.json";
  FileSystem& files = local_file_system();
  // Without digests, as older ones are.
  auto old = nlohmann::json::parse(files.read_file(path).value());
  old.erase("files");
  old.erase("seal");
  const std::string text = old.dump();
  const auto with = [&](const std::string& changed) {
    files.write_atomically(path, changed).value();
    return error_of([&] { Servable{folder}; });
  };
  EXPECT_EQ(with("{").kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(with("{}").kind(), ErrorKind::kCorrupt);
  auto newer = nlohmann::json::parse(text);
  newer["format_version"] = 99;
  EXPECT_EQ(with(newer.dump()).kind(), ErrorKind::kInvalidArgument);
  auto other = nlohmann::json::parse(text);
  other["signatures"]["sum"]["method"] = "guess";
  EXPECT_THAT(with(other.dump()).message(), HasSubstr("unknown method \"guess\""));
  const auto shaped = [&](const nlohmann::json& shape) {
    auto changed = nlohmann::json::parse(text);
    changed["signatures"]["sum"]["inputs"]["x"]["shape"] = shape;
    return with(changed.dump());
  };
  EXPECT_THAT(shaped(nlohmann::json::array()).message(), HasSubstr("\"x\" has no batch axis"));
  EXPECT_THAT(shaped({-1, -2}).message(), HasSubstr("\"x\" has an axis of length -2"));
  auto unknown = nlohmann::json::parse(text);
  unknown["signatures"]["serving_default"]["outputs"]["logits"]["key"] = "none";
  EXPECT_EQ(with(unknown.dump()).kind(), ErrorKind::kCorrupt);
  files.write_atomically(path, text).value();
  files.write_atomically(folder + "/model.pt", std::string_view("no module")).value();
  EXPECT_EQ(error_of([&] { Servable{folder}; }).kind(), ErrorKind::kCorrupt);
}

TEST_F(ServableTest, AByteThatChangedIsFoundInEveryFile) {
  const std::string folder = write();
  FileSystem& files = local_file_system();
  for (const std::string& name : files.list_directory(folder).value()) {
    const std::string path = join_path(folder, name);
    const std::string good = files.read_file(path).value();
    const size_t step = good.size() / 50 + 1;
    for (size_t at = 0; at < good.size(); at += step) {
      std::string bad = good;
      bad[at] ^= 1 << (at % 7);
      files.write_atomically(path, bad).value();
      const Error error = error_of([&] { Servable{folder}; });
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << name << ", byte " << at;
      EXPECT_THAT(error.message(), HasSubstr(path));
    }
    for (const std::string& other : {good.substr(0, good.size() - 1), good + "\n"}) {
      files.write_atomically(path, other).value();
      EXPECT_EQ(error_of([&] { Servable{folder}; }).kind(), ErrorKind::kCorrupt) << name;
    }
    files.write_atomically(path, good).value();
    (void)Servable(folder);
  }
  // A file that is not there is named as well.
  files.remove(folder + "/model.safetensors").value();
  EXPECT_THAT(error_of([&] { Servable{folder}; }).message(),
              HasSubstr("model.safetensors' is missing"));
}

// Opening a pipe would wait for its other end for ever.
TEST_F(ServableTest, APipeIsNoFileOfAModel) {
  const std::string folder = write();
  FileSystem& files = local_file_system();
  for (const std::string& name : files.list_directory(folder).value()) {
    const std::string path = join_path(folder, name), aside = directory_ / "aside";
    files.rename(path, aside).value();
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(error_of([&] { Servable{folder}; }).message(), HasSubstr(path));
    files.rename(aside, path).value();
  }
  (void)Servable(folder);
}

TEST_F(ServableTest, AnOlderExportHasNoDigestsAndSaysSo) {
  const std::string folder = write(), path = folder + "/signatures.json";
  FileSystem& files = local_file_system();
  auto old = nlohmann::json::parse(files.read_file(path).value());
  old.erase("files");
  old.erase("seal");
  files.write_atomically(path, old.dump(2)).value();
  testing::internal::CaptureStderr();
  (void)Servable(folder);
  log::flush();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("has no checksums"));
}

// The factor of a matrix of zeros does not exist.
TEST_F(ServableTest, AModelNeedNotTakeZeros) {
  const Tensor example = torch::eye(2).repeat({4, 1, 1});
  source_.receiver = raw_serving_input_receiver({{"x", {.shape = {2, 2}, .example = example}}});
  source_.function = [](const Tensors& features) {
    return std::map<std::string, ExportOutput>{
        {"serving_default", PredictOutput({{"factor", torch::linalg_cholesky(features.at("x"))}})}};
  };
  const Servable model(write());
  EXPECT_TRUE(model.run("serving_default", {{"x", example * 4}})["factor"].equal(example * 2));
  EXPECT_EQ(error_of([&] {
              model.run("serving_default", {{"x", example * 0}});
            }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST_F(ServableTest, VersionsAreWholeNumbers) {
  EXPECT_TRUE(model_versions(directory_ / "none").empty());
  EXPECT_EQ(newest_version(directory_.path()), std::nullopt);
  for (const char* name : {"9", "10", "007", "x", ".temp-11-1", "-3"})
    local_file_system().make_directories(directory_ / name).value();
  // Neither a file nor a pipe is a folder.
  local_file_system().write_atomically(directory_ / "11", std::string_view("x")).value();
  ASSERT_EQ(mkfifo((directory_ / "12").c_str(), 0600), 0);
  EXPECT_EQ(model_versions(directory_.path()), (std::vector<int64_t>{9, 10}));
  EXPECT_EQ(newest_version(directory_.path()), 10);
}

TEST_F(ServableTest, AnswersSeveralThreads) {
  const Servable model(write());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const torch::NoGradGuard no_grad;
      const Tensor x = torch::full({t + 1, 2, 2}, 0.1 * t);
      const Tensor expected = logits_of(x);
      for (int i = 0; i < 50; ++i) {
        if (!model.run("serving_default", {{"x", x}})["logits"].allclose(expected, 1e-5, 1e-6))
          ++wrong;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ServableTest, AProgramOfLibTorchLoadsTheModule) {
  const std::string folder = write(), printed = directory_ / "printed";
  const std::string command = std::string(EXPORT_READER) + " " + folder + "/model.pt logits 2 2 2";
  ASSERT_EQ(std::system((command + " > " + printed).c_str()), 0);
  std::ifstream lines(printed);
  std::vector<double> numbers;
  for (double number; lines >> number;) numbers.push_back(number);
  const Tensor expected = logits_of(torch::ones({2, 2, 2})).detach().to(kFloat64).flatten();
  EXPECT_TRUE(torch::tensor(numbers, at::kDouble).allclose(expected, 1e-4, 1e-5));
}

// This test is not linked with feature columns.
TEST(RequestColumnsTest, InAProgramWithoutThemTheErrorSaysWhichPartToLink) {
  const Error error = error_of([] { read_request_columns(nlohmann::json::array()); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.hint(), HasSubstr("find_package(muster COMPONENTS tabular)"));
}

TEST_F(ServableTest, WeightsAreACheckpoint) {
  const Checkpoint weights = read_checkpoint(local_file_system(), write() + "/model.safetensors");
  EXPECT_EQ(weights.global_step, 7);
  EXPECT_TRUE(weights.tensors.at("net/dense/kernel").equal(weight_));
}

TEST_F(ServableTest, PythonLoadsTheModule) {
  if (std::system("/usr/bin/python3 -c 'import torch' 2>/dev/null") != 0)
    GTEST_SKIP() << "needs PyTorch: install python3-torch";
  const std::string folder = write();
  const std::string script = directory_ / "check.py";
  local_file_system()
      .write_atomically(script, std::string_view(R"(
import sys, torch
model = torch.jit.load(sys.argv[1] + "/model.pt")
state = model.state_dict()
assert set(state) == {"net.dense.kernel", "net.dense.bias"}, state.keys()
# While PyTorch 2.6 records gradients, a call fails when the number of rows changes for the second time. The same module
# written in Python fails too.
torch.set_grad_enabled(False)
for rows in (1, 3, 17):
    x = torch.rand(rows, 2, 2)
    want = x.reshape(rows, 4) @ state["net.dense.kernel"] + state["net.dense.bias"]
    got = model(x)
    assert torch.allclose(got["logits"], want, rtol=1e-5), (got, want)
    assert torch.allclose(got["outputs"], want.sum(-1), rtol=1e-4)
assert torch.allclose(model(x=x)["logits"], want, rtol=1e-5)
)"))
      .value();
  EXPECT_EQ(std::system(("/usr/bin/python3 " + script + " " + folder).c_str()), 0);
}

// The part that has a format registers it.
TEST_F(ServableTest, AFormatThatIsNotLinkedIsNamed) {
  source_.formats = {"onnx"};
  const Error error = write_error();
  EXPECT_THAT(error.message(), HasSubstr("the format \"onnx\""));
  EXPECT_THAT(error.hint(), HasSubstr("muster::onnx"));
  source_.formats = {"savedmodel"};
  EXPECT_THAT(write_error().message(), HasSubstr("not supported: export_model: the format"));
}

TEST_F(ServableTest, AFormatWritesFilesThatAreChecked) {
  register_model_format(
      {.name = "words",
       .file = "model.words",
       .write = [](FileSystem& files, const ExportedModel& model, const std::string& path) {
         files.write_atomically(path, model.arguments.at(0)).value();
         return std::vector<std::string>{"model.words"};
       }});
  source_.formats = {"words"};
  const std::string folder = write();
  const std::string path = folder + "/model.words";
  EXPECT_EQ(local_file_system().read_file(path).value(), "x");
  EXPECT_EQ(read_export(local_file_system(), folder).outputs.at("sum").size(), 1u);
  local_file_system().write_atomically(path, std::string_view("y")).value();
  EXPECT_EQ(error_of([&] { (void)read_export(local_file_system(), folder); }).kind(),
            ErrorKind::kCorrupt);
  EXPECT_EQ(error_of([&] { (void)Servable(folder); }).kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1
