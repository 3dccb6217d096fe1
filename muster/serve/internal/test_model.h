// A model for tests: it doubles numbers. Thread safety: any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/serve/model.h"

namespace muster::inline v0_1::serve::internal {

// Makes an array of float32.
inline Array floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return make_array(ElementType::kFloat32, std::move(shape), values);
}

// serving_default: x float32[-1, 2] -> y float32[-1, 2], each value times `factor`. Fails for a
// batch in which a value is 666.
class TestModel : public Model {
 public:
  explicit TestModel(float factor = 2) : factor_(factor) {
    const ArrayInfo pair = {ElementType::kFloat32, {-1, 2}};
    signatures_["serving_default"] = {Verb::kPredict, {{"x", pair}}, {{"y", pair}}, {}, true};
    signatures_["classes"] = {
        Verb::kClassify, {{"x", pair}}, {{"scores", pair}}, {"cat", "dog"}, false};
    signatures_["value"] = {
        Verb::kRegress, {{"x", pair}}, {{"outputs", {ElementType::kFloat32, {-1, 1}}}}, {}, false};
    signatures_["two"] = {Verb::kPredict,
                          {{"id", {ElementType::kInt64, {-1}}}, {"x", pair}},
                          {{"id", {ElementType::kInt64, {-1}}}, {"y", pair}},
                          {},
                          false};
  }

  const std::map<std::string, Signature>& signatures() const override { return signatures_; }

  Arrays run(const std::string& signature, const Arrays& inputs) override {
    calls.fetch_add(1);
    if (go.valid()) go.wait_for(std::chrono::minutes(1));
    if (inputs.contains(kExamplesInput)) return lengths(inputs.at(kExamplesInput));
    const Array& x = inputs.at("x");
    const auto* values = reinterpret_cast<const float*>(x.data.data());
    std::vector<float> scaled, first;
    for (int64_t at = 0; at < x.size(); ++at) {
      if (values[at] == 666) throw invalid_argument("x is 666");
      scaled.push_back(values[at] * factor_);
      if (at % 2 == 0) first.push_back(scaled.back());
    }
    {
      const std::lock_guard lock(mutex);
      batches.push_back(x.rows());
    }
    if (signature == "classes") return {{"scores", floats(x.shape, scaled)}};
    if (signature == "value") return {{"outputs", floats({x.rows(), 1}, first)}};
    if (signature == "two") return {{"id", inputs.at("id")}, {"y", floats(x.shape, scaled)}};
    return {{"y", floats(x.shape, scaled)}};
  }

  std::atomic<int> calls{0};
  std::shared_future<void> go;  // if there is one, run() waits for it
  std::mutex mutex;
  std::vector<int64_t> batches;  // the rows of each

 private:
  // For each example its number of bytes, twice. Fails for the example "666".
  static Arrays lengths(const Array& examples) {
    std::vector<float> values;
    for (const std::string& text : examples.texts) {
      if (text == "666") {
        throw Error(ErrorKind::kCorrupt,
                    "examples[" + std::to_string(values.size() / 2) + "]: it is 666", "give none");
      }
      values.insert(values.end(), 2, static_cast<float>(text.size()));
    }
    return {{"y", floats({examples.rows(), 2}, values)}};
  }

  const float factor_;
  std::map<std::string, Signature> signatures_;
};

}  // namespace muster::inline v0_1::serve::internal
