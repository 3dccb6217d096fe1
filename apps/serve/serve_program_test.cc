// `muster serve` as users start it: a model that was exported, requests, a newer version, a signal.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/serve/servable_model.h"
#include "apps/serve/serve_flags.h"
#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/data/example.h"
#include "muster/export/write_servable.h"
#include "muster/formats/example.h"
#include "muster/formats/protobuf.h"
#include "muster/launch/child_process.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/raw_connection.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr const char* kJson = "application/json";

// Writes version `number`: y = number * x, with its rows' sums and shares.
void write_version(const std::string& folder, int number) {
  const Tensor factor = torch::full({1}, static_cast<float>(number));
  ServableSource source;
  source.receiver = parsing_serving_input_receiver({{"x", data::FixedLenFeature{.shape = {2}}}});
  source.weights = {{"factor", factor}};
  source.function = [factor](const ServableSource::Tensors& features) {
    const Tensor y = features.at("x") * factor;
    return std::map<std::string, ExportOutput>{
        {"serving_default", PredictOutput({{"y", y}})},
        {"share", ClassificationOutput(y / y.sum(-1, true), {"left", "right"})},
        {"sum", RegressionOutput(y.sum(-1))}};
  };
  const std::string aside = join_path(folder, "temp");
  local_file_system().make_directories(aside).value();
  write_servable(local_file_system(), aside, source);
  std::filesystem::rename(aside, join_path(folder, std::to_string(number)));
}

using formats::internal::Builder;
enum class ModelField : uint32_t { k1 = 1, k2, k3, k4, k5, k7 = 7, k8, k11 = 11, k12 };
using ModelMessage = Builder<ModelField>;

std::string field_of(ModelField field, const std::string& bytes) {
  ModelMessage to;
  to.put_bytes(field, bytes);
  return to.take();
}
std::string number_of(ModelField field, int64_t number) {
  ModelMessage to;
  to.put_varint(field, number);
  return to.take();
}

// The bytes of an ONNX model (onnx.proto).
std::string onnx_relu() {
  using enum ModelField;
  const std::string shape = field_of(k1, field_of(k2, "rows")) + field_of(k1, number_of(k1, 2));
  const std::string type = field_of(k1, number_of(k1, 1) + field_of(k2, shape));
  const auto info = [&](const char* name) { return field_of(k1, name) + field_of(k2, type); };
  const std::string node = field_of(k1, "x") + field_of(k2, "y") + field_of(k4, "Relu");
  const std::string graph =
      field_of(k1, node) + field_of(k11, info("x")) + field_of(k12, info("y"));
  return number_of(k1, 8) + field_of(k7, graph) + field_of(k8, number_of(k2, 17));
}

// The bytes of a SavedModel (saved_model.proto).
std::string saved_relu() {
  using enum ModelField;
  const std::string x = field_of(k1, "x") + field_of(k2, "Placeholder");
  const std::string y = field_of(k1, "y") + field_of(k2, "Relu") + field_of(k3, "x");
  const std::string shape = field_of(k2, number_of(k1, -1)) + field_of(k2, number_of(k1, 2));
  const auto info = [&](const std::string& name) {
    return field_of(k1, name) +
           field_of(k2, field_of(k1, name + ":0") + number_of(k2, 1) + field_of(k3, shape));
  };
  const std::string signature = field_of(k1, info("x")) + field_of(k2, info("y")) +
                                field_of(k3, "tensorflow/serving/predict");
  const std::string meta = field_of(k2, field_of(k1, x) + field_of(k1, y)) +
                           field_of(k5, field_of(k1, "serving_default") + field_of(k2, signature));
  return number_of(k1, 1) + field_of(k2, meta);
}

// A server in a process of its own.
class Server {
 public:
  explicit Server(const std::vector<std::string>& words, int port = 0) {
    const int log = open(log_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    launch::ChildSpec spec;
    spec.argv = {std::string(std::getenv("MUSTER_BIN_DIR")) + "/muster", "serve",
                 "--port=" + std::to_string(port), "--threads=1", "--poll-time=0.05"};
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    spec.out = spec.err = log;
    spec.dies_with_parent = true;
    child_.emplace(spec);
    close(log);
  }

  std::string log() const { return local_file_system().read_file(log_).value(); }

  // Waits until it listens, and returns the port; 0 when it ended.
  int port() {
    const std::string mark = "http://127.0.0.1:";
    int port = 0;
    (void)comes_true([&] {
      const std::string text = log();
      const size_t at = text.find(mark);
      if (at != std::string::npos && text.find('\n', at) != std::string::npos)
        port = std::atoi(text.c_str() + at + mark.size());
      return port != 0 || child_->status();
    });
    if (port == 0) ADD_FAILURE() << log();
    return port;
  }

  launch::ChildProcess& child() { return *child_; }

 private:
  const TempDirectory folder_;
  const std::string log_ = folder_ / "log";
  std::optional<launch::ChildProcess> child_;
};

class ServeProgramTest : public ::testing::Test {
 protected:
  static std::string answer(httplib::Client& client, const std::string& verb,
                            const std::string& body) {
    const auto got = client.Post("/v1/models/m:" + verb, body, kJson);
    return got ? got->body : to_string(got.error());
  }

  const TempDirectory folder_;
};

TEST_F(ServeProgramTest, AnswersEveryVerb) {
  write_version(folder_.path(), 3);
  Server server({"--name=m", folder_.path()});
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(60s);  // the answer of a busy machine
  EXPECT_EQ(answer(client, "predict", R"({"instances": [[1, 2], [3, 4]]})"),
            "{\"predictions\": [[3.0, 6.0], [9.0, 12.0]]}\n");
  EXPECT_EQ(answer(client, "classify", R"({"examples": [{"x": [1, 3]}]})"),
            "{\"results\": [[[\"left\", 0.25], [\"right\", 0.75]]]}\n");
  EXPECT_EQ(answer(client, "regress", R"({"examples": [{"x": [1, 3]}]})"),
            "{\"results\": [12.0]}\n");
  // A serialized tf.Example with x = [1, 2].
  EXPECT_EQ(
      answer(client, "predict", R"({"instances": [{"b64": "ChMKEQoBeBIMEgoKCAAAgD8AAABA"}]})"),
      "{\"predictions\": [[3.0, 6.0]]}\n");
  EXPECT_THAT(answer(client, "predict", R"({"instances": [{"b64": "AAAA"}]})"),
              HasSubstr("{\"error\": \"instances[0]: 3 bytes are not a tf.Example"));
  EXPECT_THAT(answer(client, "predict", R"({"instances": [[1, 2, 3]]})"),
              HasSubstr("instances[0] has 3 values, expected 2; input 'x' is float32[-1, 2]"));
  const auto metadata = nlohmann::json::parse(client.Get("/v1/models/m/metadata")->body);
  EXPECT_EQ(metadata["model_spec"]["version"], "3");
  server.child().signal(SIGTERM);
  EXPECT_EQ(server.child().wait_for(60s)->code, 0) << server.log();
}

// Models of other libraries: y = relu(x) of two numbers, as an ONNX file and as a SavedModel.
TEST_F(ServeProgramTest, ServesOnnxFilesAndSavedModels) {
  local_file_system().write_atomically(folder_ / "m.onnx", onnx_relu()).value();
  local_file_system().make_directories(folder_ / "m").value();
  local_file_system().write_atomically(folder_ / "m/saved_model.pb", saved_relu()).value();
  for (const char* model : {"m.onnx", "m"}) {
    SCOPED_TRACE(model);
    Server server({folder_ / model});
    httplib::Client client("127.0.0.1", server.port());
    client.set_read_timeout(60s);  // the answer of a busy machine
    EXPECT_EQ(answer(client, "predict", R"({"instances": [[1, -2], [-3, 4]]})"),
              "{\"predictions\": [[1.0, 0.0], [0.0, 4.0]]}\n");
    EXPECT_THAT(answer(client, "predict", R"({"instances": [[1, 2, 3]]})"),
                HasSubstr("input 'x' is float32[-1, 2]"));
  }
}

TEST_F(ServeProgramTest, AnAddressOfIpv6StandsInBracketsInAUrl) {
  write_version(folder_.path(), 3);
  for (const char* host : {"::1", "[::1]"}) {
    Server server({"--name=m", std::string("--host=") + host, folder_.path()});
    EXPECT_TRUE(comes_true([&] {
      return server.log().find("listening at ") != std::string::npos || server.child().status();
    }));
    if (server.log().find("cannot listen at [::1]:0") != std::string::npos)
      GTEST_SKIP() << "this machine has no IPv6";
    EXPECT_THAT(server.log(), HasSubstr("listening at http://[::1]:"));
  }
}

TEST_F(ServeProgramTest, ANewerVersionLosesNoRequestAndSigtermNone) {
  write_version(folder_.path(), 1);
  Server server({"--name=m", "--batch-timeout=1", folder_.path()});
  const int port = server.port();
  std::atomic<int> wrong{0}, first{0}, second{0};
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      httplib::Client client("127.0.0.1", port);
      client.set_read_timeout(60s);  // the answer of a busy machine
      client.set_keep_alive(true);
      while (true) {
        const auto got = client.Post("/v1/models/m:predict", R"({"inputs": [[1, 2]]})", kJson);
        // Once it stops, it takes no more connections.
        if (!got && stopping.load()) return;
        const std::string body = got ? got->body : to_string(got.error());
        (body == "{\"outputs\": [[1.0, 2.0]]}\n"   ? first
         : body == "{\"outputs\": [[2.0, 4.0]]}\n" ? second
                                                   : wrong)
            .fetch_add(1);
      }
    });
  }
  const auto wait_for = [&](const std::atomic<int>& count) {
    await([&] { return count.load() >= 20 || wrong.load() != 0; });
  };
  wait_for(first);
  write_version(folder_.path(), 2);
  wait_for(second);
  stopping.store(true);
  server.child().signal(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.child().wait_for(60s)->code, 0) << server.log();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_THAT(server.log(), HasSubstr("all requests are answered"));
}

// A request that never ends is open when the server stops.
TEST_F(ServeProgramTest, RequestsThatAreCutAreInTheExitCode) {
  write_version(folder_.path(), 1);
  for (const bool second_signal : {false, true}) {
    Server server({"--name=m", second_signal ? "--drain-time=3600" : "--drain-time=0.1",
                   "--request-time=3600", folder_.path()});
    RawConnection open(server.port());
    open.send_all("POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\n");
    httplib::Client client("127.0.0.1", server.port());
    // The connection that was made before this one is accepted.
    EXPECT_TRUE(client.Get("/healthz"));
    server.child().signal(SIGTERM);
    if (second_signal) {
      await([&] {
        return server.log().find("SIGTERM: accepting no more connections") != std::string::npos;
      });
      server.child().signal(SIGTERM);
    }
    const auto end = server.child().wait_for(60s);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->shell_code(), second_signal ? 128 + SIGTERM : 1) << server.log();
  }
}

// A newer version of which a byte changed does not take the place of the one before.
TEST_F(ServeProgramTest, ADamagedVersionIsNotServed) {
  write_version(folder_.path(), 1);
  write_version(folder_.path(), 2);
  const std::string path = folder_ / "2/model.pt";
  std::string bytes = local_file_system().read_file(path).value();
  bytes[bytes.size() / 2] ^= 1;
  local_file_system().write_atomically(path, bytes).value();
  Server server({"--name=m", folder_.path()});
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(60s);  // the answer of a busy machine
  EXPECT_EQ(answer(client, "predict", R"({"instances": [[1, 2]]})"),
            "{\"predictions\": [[1.0, 2.0]]}\n");
  EXPECT_THAT(client.Get("/v1/models/m")->body, HasSubstr("2/model.pt' is damaged"));
}

TEST_F(ServeProgramTest, ModelsThatCannotBeServedAreReported) {
  const auto fault = [](const std::string& directory, int port = 0) {
    Server server({"--name=m", directory}, port);
    EXPECT_EQ(server.child().wait_for(60s)->code, 2);
    return server.log();
  };
  EXPECT_THAT(fault(folder_.path()), HasSubstr("error: there is no exported model in "));
  std::filesystem::create_directory(folder_ / "export");
  EXPECT_THAT(fault(folder_ / "exprot"),
              AllOf(HasSubstr("error: there is no folder "), HasSubstr("did you mean 'export'?")));
  std::filesystem::remove(folder_ / "export");
  std::filesystem::create_directory(folder_ / "4");
  EXPECT_THAT(fault(folder_.path()), HasSubstr("the newest, 4, cannot because: "));
  std::filesystem::remove(folder_ / "4");
  write_version(folder_.path(), 5);
  EXPECT_THAT(fault(folder_ / "5"),
              HasSubstr("hint: it is the folder of a version: name its parent folder"));
  Server first({"--name=m", folder_.path()});
  EXPECT_THAT(fault(folder_.path(), first.port()), HasSubstr("hint: take another --port"));
}

TEST_F(ServeProgramTest, TextsAndNothingAreTaken) {
  ServableSource source;
  source.receiver = raw_serving_input_receiver(
      {{"town", {.dtype = kInt64, .texts = TextInput{{"Rome", "Oslo"}, 2}}},
       {"age", {.dtype = kFloat32, .may_be_missing = true}}});
  source.function = [](const ServableSource::Tensors& features) {
    return std::map<std::string, ExportOutput>{
        {"serving_default",
         RegressionOutput(features.at("town") * 10 + features.at("age").nan_to_num(5.0))}};
  };
  local_file_system().make_directories(folder_ / "1").value();
  write_servable(local_file_system(), folder_ / "1", source);
  Server server({"--name=m", folder_.path()});
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(60s);  // the answer of a busy machine
  EXPECT_EQ(answer(client, "regress",
                   R"({"examples": [{"town": "Oslo", "age": 2}, {"town": "?", "age": null}]})"),
            "{\"results\": [12.0, 25.0]}\n");
  EXPECT_THAT(answer(client, "predict", R"({"instances": [{"town": 1, "age": 2}]})"),
              HasSubstr("a text or"));
  EXPECT_EQ(nlohmann::json::parse(client.Get("/v1/models/m/metadata")->body)
                .at("metadata")
                .at("signature_def")
                .at("signature_def")
                .at("serving_default")
                .at("inputs")
                .at("town")
                .at("dtype"),
            "DT_STRING");
}

// Writes version 1: the mean of the steps of x, and x twice.
void write_any_length(const std::string& folder) {
  ServableSource source;
  source.receiver = raw_serving_input_receiver({{"x", {kFloat32, {-1, 2}}}});
  source.function = [](const ServableSource::Tensors& features) {
    const Tensor& x = features.at("x");
    return std::map<std::string, ExportOutput>{
        {"serving_default", PredictOutput({{"mean", x.mean(1)}, {"twice", x * 2}})}};
  };
  local_file_system().make_directories(folder + "/1").value();
  write_servable(local_file_system(), folder + "/1", source);
}

// Rows of halves, one for each length, [length, 2].
nlohmann::json rows_of_lengths(const std::vector<int>& lengths, int first = 0) {
  nlohmann::json rows = nlohmann::json::array();
  for (const int length : lengths) {
    nlohmann::json row = nlohmann::json::array();
    for (int step = 0; step < length; ++step) row.push_back({(first + step) * 0.5, step * 1.0});
    rows.push_back(row);
  }
  return rows;
}

void expect_answer(const nlohmann::json& rows, const std::string& body) {
  const auto predictions = nlohmann::json::parse(body).at("predictions");
  ASSERT_EQ(predictions.size(), rows.size()) << body;
  for (size_t i = 0; i < rows.size(); ++i) {
    double sums[2] = {0, 0};
    ASSERT_EQ(predictions[i]["twice"].size(), rows[i].size());
    for (size_t step = 0; step < rows[i].size(); ++step) {
      for (size_t at : {0, 1}) {
        sums[at] += rows[i][step][at].get<double>();
        EXPECT_EQ(predictions[i]["twice"][step][at], 2 * rows[i][step][at].get<double>());
      }
    }
    for (size_t at : {0, 1}) {
      EXPECT_NEAR(predictions[i]["mean"][at].get<double>(),
                  sums[at] / static_cast<double>(rows[i].size()), 1e-4);
    }
  }
}

TEST_F(ServeProgramTest, RequestsChooseTheLengthOfAFreeAxis) {
  write_any_length(folder_.path());
  Server server({"--name=m", "--batch-timeout=2", folder_.path()});
  const int port = server.port();
  // Requests of several lengths wait at the same time; those of one length share a batch.
  std::vector<std::thread> clients;
  for (const int length : {1, 2, 7, 50}) {
    clients.emplace_back([port, length] {
      httplib::Client client("127.0.0.1", port);
      client.set_read_timeout(60s);
      for (const int rows : {1, 3, 8, 1, 3, 8}) {
        const auto sent =
            rows_of_lengths(std::vector<int>(static_cast<size_t>(rows), length), rows);
        expect_answer(sent, answer(client, "predict", nlohmann::json{{"instances", sent}}.dump()));
      }
    });
  }
  for (std::thread& client : clients) client.join();

  httplib::Client client("127.0.0.1", port);
  client.set_read_timeout(60s);
  EXPECT_EQ(
      answer(client, "predict", R"({"instances": [[[1, 2], [3, 4]], [[1, 2]]]})"),
      "{\"error\": \"instances[1] has 1 value, expected 2, as in the lists before; input 'x' is "
      "float32[-1, -1, 2]; pad the rows of a request to one length, or send rows of other "
      "lengths in requests of their own\"}\n");
  EXPECT_THAT(
      answer(client, "predict", R"({"instances": [[], []]})"),
      HasSubstr(R"(axis 1 of the input \"x\" has the length 0, the model takes 1 or more)"));
  EXPECT_THAT(
      answer(client, "predict", R"({"instances": [[[1, 2, 3]]]})"),
      HasSubstr("instances[0][0] has 3 values, expected 2; input 'x' is float32[-1, -1, 2]"));
  const auto signature =
      nlohmann::json::parse(client.Get("/v1/models/m/metadata")->body)
          .at("/metadata/signature_def/signature_def/serving_default"_json_pointer);
  const auto dims = [&](const std::string& kind, const std::string& name) {
    std::string all;
    for (const auto& dim : signature.at(kind).at(name).at("tensor_shape").at("dim"))
      all += dim.at("size").get<std::string>() + " ";
    return all;
  };
  EXPECT_EQ(dims("inputs", "x"), "-1 -1 2 ");
  EXPECT_EQ(dims("outputs", "twice"), "-1 -1 2 ");
  EXPECT_EQ(dims("outputs", "mean"), "-1 2 ");
}

// Rows of random lengths, some with a step of another width: numbers, or an error that names the
// input.
TEST_F(ServeProgramTest, RowsOfEveryShapeAreAnsweredOrRefused) {
  write_any_length(folder_.path());
  Server server({"--name=m", folder_.path()});
  httplib::Client client("127.0.0.1", server.port());
  client.set_read_timeout(60s);
  int answered = 0, refused = 0;
  for (int seed = 0; seed < 200; ++seed) {
    Random random(derive_key(static_cast<uint64_t>(seed), {}));
    const auto below = [&](int limit) {
      return static_cast<int>(random.uniform_below(static_cast<uint64_t>(limit)));
    };
    std::vector<int> lengths(static_cast<size_t>(below(4)), below(5));
    if (below(3) == 0 && !lengths.empty()) lengths.back() = below(5);
    nlohmann::json rows = rows_of_lengths(lengths);
    const bool odd = below(4) == 0 && !lengths.empty() && lengths[0] > 0;
    if (odd) rows[0][0] = nlohmann::json::array({1, 2, 3});
    if (odd && below(2) == 0) rows[0][0] = 5;
    const bool fits = !odd && !lengths.empty() && lengths[0] > 0 &&
                      std::ranges::all_of(lengths, [&](int each) { return each == lengths[0]; });
    const std::string got = answer(client, "predict", nlohmann::json{{"instances", rows}}.dump());
    if (fits) {
      expect_answer(rows, got);
      ++answered;
    } else {
      EXPECT_THAT(got, AllOf(HasSubstr("{\"error\": \""), Not(HasSubstr("internal"))));
      ++refused;
    }
  }
  EXPECT_GT(answered, 30);
  EXPECT_GT(refused, 30);
}

TEST_F(ServeProgramTest, TheNameIsTheLastWordOfTheFolders) {
  const auto name_of = [](const std::string& directory, const std::string& name = "") {
    ServeFlags flags;
    flags.directory = directory;
    flags.name = name;
    return model_name(flags);
  };
  EXPECT_EQ(name_of("models/ring"), "ring");
  EXPECT_EQ(name_of("models/ring/"), "ring");
  EXPECT_EQ(name_of("models/ring", "other-1.0"), "other-1.0");
  for (const char* bad : {"a/b", "a b", "a:predict", "\n"}) {
    EXPECT_EQ(error_of([&] { name_of("models/ring", bad); }).kind(), ErrorKind::kInvalidArgument);
  }
}

TEST_F(ServeProgramTest, RowsAreThoseOfTheModel) {
  write_version(folder_.path(), 2);
  ServableModel model(folder_ / "2");
  EXPECT_EQ(model.signatures().at("share").classes, (std::vector<std::string>{"left", "right"}));
  EXPECT_TRUE(model.signatures().at("serving_default").takes_examples);
  EXPECT_TRUE(model.signatures().at("serving_default").joins());
  const std::vector<float> x = {1, 2, 3, 4, 5, 6};
  const serve::Arrays outputs =
      model.run("sum", {{"x", make_array(serve::ElementType::kFloat32, {3, 2}, x)}});
  EXPECT_EQ(outputs.at("outputs"),
            make_array(serve::ElementType::kFloat32, {3}, std::vector<float>{6, 14, 22}));
}

}  // namespace
}  // namespace muster::app
