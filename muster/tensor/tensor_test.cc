#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "muster/base/error_of.h"
#include "muster/tensor/element.h"
#include "muster/tensor/features.h"
#include "muster/tensor/input_context.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// This source has LibTorch's operators as well, as a program may that includes <torch/torch.h>.
template <typename Ours, typename Theirs>
void expect_same_operator(Ours ours, Theirs theirs, bool of_whole_numbers = true) {
  const Tensor a = torch::arange(1, 7, at::kFloat).reshape({2, 3}), b = a.flip(1);
  for (const Tensor& x : {a, a.t().contiguous().t(), a.to(at::kLong)}) {
    if (x.scalar_type() == at::kLong && !of_whole_numbers) continue;
    EXPECT_TRUE(ours(x, b).equal(theirs(x, b)));
    for (const at::Scalar& number : {at::Scalar(2), at::Scalar(1.5)}) {
      const Tensor left = ours(number, x), right = ours(x, number);
      EXPECT_TRUE(left.equal(theirs(number, x))) << number;
      EXPECT_TRUE(right.equal(theirs(x, number))) << number;
      EXPECT_EQ(left.dtype(), theirs(number, x).dtype());
      EXPECT_EQ(left.strides(), theirs(number, x).strides());
    }
  }
}

TEST(OperatorsTest, AreThoseOfLibTorch) {
#define EXPECT_OPERATOR(op, ...)                                                                  \
  expect_same_operator(                                                                           \
      []<typename X, typename Y>(const X& x, const Y& y) { return at::operator op<X, Y>(x, y); }, \
      [](const auto& x, const auto& y) { return x op y; } __VA_OPT__(, ) __VA_ARGS__)
  EXPECT_OPERATOR(+);
  EXPECT_OPERATOR(-);
  EXPECT_OPERATOR(*);
  EXPECT_OPERATOR(/, /*of_whole_numbers=*/false);  // LibTorch refuses 2 / tensor of these
  EXPECT_OPERATOR(%);
  EXPECT_OPERATOR(<);
  EXPECT_OPERATOR(<=);
  EXPECT_OPERATOR(>);
  EXPECT_OPERATOR(>=);
  EXPECT_OPERATOR(==);
  EXPECT_OPERATOR(!=);
#undef EXPECT_OPERATOR
  const Tensor bits = torch::arange(8);
  EXPECT_TRUE((at::operator&<Tensor, int>(bits, 5)).equal(bits.bitwise_and(5)));
  EXPECT_TRUE((at::operator|<int, Tensor>(5, bits)).equal(bits.bitwise_or(5)));
  EXPECT_TRUE((at::operator^<Tensor, Tensor>(bits, bits)).equal(torch::zeros({8}, at::kLong)));
  const Features features(Element(torch::ones({2})));
  EXPECT_TRUE((bits.slice(0, 0, 2) + features).equal(torch::tensor({1.0f, 2.0f})));
}

TEST(OperatorsTest, GradientsFlowThroughThem) {
  const Tensor x = torch::full({2}, 2.0f).requires_grad_(true);
  (at::operator/<double, Tensor>(1.0, x)).sum().backward();
  EXPECT_TRUE(x.grad().allclose(torch::full({2}, -0.25f)));
}

TEST(StringsTest, HoldsBytesOfAnyLength) {
  const Strings strings({"ab", "", std::string("\0c", 2)});
  EXPECT_EQ(strings.size(), 3);
  EXPECT_EQ(strings[0], "ab");
  EXPECT_EQ(strings[1], "");
  EXPECT_EQ(strings[2], std::string_view("\0c", 2));
}

TEST(StringsTest, OffsetsMustFitTheShape) {
  EXPECT_THROW(Strings({2}, {0, 1}, "a"), Error);
  EXPECT_THROW(Strings({1}, {0, 2}, "a"), Error);
  EXPECT_THROW(Strings({2}, {0, 2, 1}, "a"), Error);
}

TEST(StringsTest, ATextIsAScalar) {
  const Element row = Element::dict({{"name", "ann"}, {"city", std::string("Bonn\0", 5)}});
  EXPECT_EQ(row.at("name").value().strings().shape(), Shape{});
  EXPECT_EQ(row.at("city").value().strings()[0], std::string_view("Bonn\0", 5));
  const Element batch = Element::stack({row, Element::dict({{"name", ""}, {"city", "Ulm"}})});
  EXPECT_EQ(batch.describe(), "{city: string[2], name: string[2]}");
  EXPECT_EQ(batch.at("city").value().strings()[1], "Ulm");
  EXPECT_EQ(Element::tuple({"a", "b"}).part(1).value().strings()[0], "b");
}

TEST(ValueTest, GatherEqualsRowByRow) {
  const Tensor all = torch::arange(24, at::kFloat).reshape({6, 2, 2});
  const std::vector<int64_t> indices{5, 0, 0, 3};
  const Value gathered = Value(all).gather(indices);
  for (size_t i = 0; i < indices.size(); ++i) {
    EXPECT_TRUE(gathered.tensor()[static_cast<int64_t>(i)].equal(all[indices[i]]));
  }
  const Value strided = Value(all.transpose(1, 2)).gather(indices);
  EXPECT_TRUE(strided.tensor()[0].equal(all[5].t()));
  EXPECT_THROW((void)Value(all).gather(std::vector<int64_t>{6}), Error);
}

TEST(ValueTest, StringsSliceRowStackAndConcatenate) {
  const Value value(Strings({"a", "bb", "ccc"}));
  EXPECT_EQ(value.slice(1, 3).strings()[0], "bb");
  EXPECT_EQ(value.row(2).strings().shape(), Shape{});
  const Value stacked = Value::stack({value, value});
  EXPECT_EQ(stacked.describe(), "string[2, 3]");
  EXPECT_EQ(stacked.row(1).strings()[2], "ccc");
  EXPECT_EQ(Value::concatenate({value, value.slice(0, 1)}).strings()[3], "a");
  EXPECT_EQ(value.gather(std::vector<int64_t>{2, 0}).strings()[0], "ccc");
}

TEST(ValueTest, StackShowsBothShapes) {
  const Error error = error_of([] {
    (void)Value::stack({Value(torch::zeros({2, 3})), Value(torch::zeros({2, 4}))});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("float32[2, 3]"));
  EXPECT_THAT(error.message(), HasSubstr("float32[2, 4]"));
}

TEST(ElementTest, DictsAreSortedAndPartsAreFound) {
  const Element element = Element::tuple(
      {Element::dict({{"y", torch::zeros({4})}, {"x", torch::ones({4, 2})}}), torch::arange(4)});
  EXPECT_EQ(element.describe(), "({x: float32[4, 2], y: float32[4]}, int64[4])");
  EXPECT_EQ(element.part(0).at("y").describe(), "float32[4]");
  EXPECT_EQ(element.part(1).value().rows(), 4);
  EXPECT_EQ(element.rows(), 4);
  EXPECT_EQ(element.slice(1, 3).describe(), "({x: float32[2, 2], y: float32[2]}, int64[2])");
  EXPECT_THROW((void)element.part(2), Error);
  EXPECT_THROW((void)Element::dict({{"x", torch::zeros({1})}, {"x", torch::zeros({1})}}), Error);
}

TEST(ElementTest, StackNeedsOneStructure) {
  const Element a = Element::dict({{"x", torch::zeros({2})}});
  const Element b = Element::dict({{"z", torch::zeros({2})}});
  EXPECT_EQ(Element::stack({a, a}).describe(), "{x: float32[2, 2]}");
  EXPECT_THROW((void)Element::stack({a, b}), Error);
  const auto text = Element(Strings(std::vector<std::string>{"a", "b"})).value().strings()[1];
  EXPECT_EQ(text, "b");  // its own: the strings are gone
}

TEST(FeaturesTest, AMissingKeyListsWhatThereIs) {
  const Features features(
      Element::dict({{"age", torch::zeros({4})}, {"name", Value(Strings({"a"}))}}));
  EXPECT_EQ(features["age"].size(0), 4);
  const Error missing = error_of([&] { (void)features["image"]; });
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("age: float32[4]"));
  const Error wrong_kind = error_of([&] { (void)features["name"]; });
  EXPECT_THAT(wrong_kind.message(), HasSubstr("string[1]"));
  EXPECT_THAT(features.keys(), ElementsAre("age", "name"));
}

TEST(FeaturesTest, ASingleTensorNeedsNoName) {
  const Labels labels((Element(torch::ones({3}))));
  const Tensor& tensor = labels;
  EXPECT_EQ(tensor.size(0), 3);
  EXPECT_FALSE(Labels().defined());
  EXPECT_THROW((void)Labels().tensor(), Error);
}

TEST(InputContextTest, BatchSizeMustDivide) {
  EXPECT_EQ((InputContext{.num_replicas_in_sync = 4}).per_replica_batch_size(8), 2);
  EXPECT_THROW((void)(InputContext{.num_replicas_in_sync = 2}).per_replica_batch_size(7), Error);
}

TEST(ThreadsTest, TheCountReachesTheCallingThread) {
  EXPECT_EQ(set_threads(1), 1);
  EXPECT_EQ(at::get_num_threads(), 1);
}

TEST(ThreadsTest, AVariableThatIsNoNumberIsRefused) {
  const char* before = std::getenv("MUSTER_THREADS");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("MUSTER_THREADS", "x", 1);
  EXPECT_THROW(set_threads(0), Error);
  EXPECT_EQ(set_threads(1), 1);  // a program that gives a count does not ask
  ::setenv("MUSTER_THREADS", kept.c_str(), 1);
}

// Variables of this process, put back in the end.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      const char* before = std::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST(ThreadsTest, ProcessesThatALauncherStartedShareTheCores) {
  const int alone = [] {
    const Variables none({{"MUSTER_THREADS", ""}, {"OMP_NUM_THREADS", ""}});
    return set_threads(0);
  }();
  const Variables launcher({{"MUSTER_THREADS", ""},
                            {"OMP_NUM_THREADS", ""},
                            {"RANK", "1"},
                            {"WORLD_SIZE", "2"},
                            {"GROUP_RANK", "0"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "2"}});
  // A process that is bound to some cores has them for itself.
  const bool bound = alone < static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_EQ(set_threads(0), bound ? alone : std::max(1, alone / 2));
  EXPECT_EQ(set_threads(1), 1);
}

// A usual line of a program: the parts of an element are made on the way, and gone at the end of
// the line.
TEST(ElementTest, ValuesOfATemporaryOutliveIt) {
  const Element batch = Element::dict(
      {{"name", Value(Strings(std::vector<std::string>{"a rather long name, on the heap", "b"}))},
       {"x", torch::arange(3)}});
  const Strings& names = batch.at("name").value().strings();
  const Tensor& x = batch.at("x").value().tensor();
  const std::vector<Value>& values = batch.at("name").values();
  EXPECT_EQ(names[0], "a rather long name, on the heap");
  EXPECT_EQ(x.numel(), 3);
  EXPECT_EQ(values.front().strings()[1], "b");
  for (const Value& value : batch.at("name").values()) EXPECT_EQ(value.strings().size(), 2);
}

}  // namespace
}  // namespace muster::inline v0_1
