// Lists of tensors, and nodes with functions: loops and branches.
#include <algorithm>
#include <memory>

#include "muster/imports/internal/graph_run.h"
#include "muster/imports/internal/tensorflow_kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

using onnx::internal::ImportedGraph;

constexpr int64_t kMostElements = int64_t{1} << 24;

const ImportedGraph& function_of(const NodeRun& call, const char* name) {
  const auto& graph = call.attribute(name).graph;
  call.require(graph != nullptr, "its attribute is no function");
  return *graph;
}

Results repeat_while(NodeRun& call) {
  const ImportedGraph &condition = function_of(call, "cond"), &body = function_of(call, "body");
  std::vector<RunValue> values;
  for (size_t i = 0; i < call.inputs(); ++i) values.push_back(call.value(i));
  call.require(condition.outputs.size() == 1 && body.outputs.size() == values.size(),
               "its functions do not have its results");
  while (true) {
    const Tensor more = call.graph().run(condition, values).front().tensor;
    call.require(more.defined() && more.numel() == 1, "its condition is not one number");
    if (!more.to(at::kBool).item<bool>()) break;
    values = call.graph().run(body, values);
  }
  call.give(std::move(values));
  return {};
}

Results choose_branch(NodeRun& call) {
  const ImportedGraph& graph =
      function_of(call, call.number(0) != 0 ? "then_branch" : "else_branch");
  std::vector<RunValue> values;
  for (size_t i = 1; i < call.inputs(); ++i) values.push_back(call.value(i));
  call.give(call.graph().run(graph, values));
  return {};
}

using ListElements = std::vector<Tensor>;

const ListElements& list_in(const NodeRun& call, size_t input) {
  const auto& list = call.value(input).list;
  call.require(list != nullptr, "an input is no list of tensors");
  return *list;
}

RunValue list_value(ListElements elements) {
  return {.list = std::make_shared<const ListElements>(std::move(elements))};
}

Results give_list(NodeRun& call, ListElements elements) {
  call.give({list_value(std::move(elements))});
  return {};
}

size_t place_in(const NodeRun& call, const ListElements& list) {
  const int64_t place = call.integer(1);
  call.require(place >= 0 && place < static_cast<int64_t>(list.size()),
               "a place is out of the list");
  return static_cast<size_t>(place);
}

// Elements that nobody set are zeros, of the shape that the node or another element says.
Tensor element_of(NodeRun& call, const ListElements& list, size_t place, size_t shape_input) {
  if (list[place].defined()) return list[place];
  const DType dtype = dtype_attribute(call, "element_dtype", at::kFloat);
  const auto other = std::ranges::find_if(list, [](const Tensor& each) { return each.defined(); });
  if (other != list.end()) return at::zeros_like(*other);
  Shape shape = call.has(shape_input) ? call.integers(shape_input) : Shape{-1};
  if (std::ranges::any_of(shape, [](int64_t size) { return size < 0; }))
    call.refuse("reads an element of a list that was never set, and whose shape is unknown");
  return at::zeros(shape, at::TensorOptions(dtype).device(call.graph().device()));
}

Results make_list(NodeRun& call) {
  const int64_t count = call.node().operation == "EmptyTensorList" ? 0 : call.integer(1);
  call.require(count >= 0 && count <= kMostElements, "its number of elements is impossible");
  return give_list(call, ListElements(static_cast<size_t>(count)));
}

Results list_of_rows(NodeRun& call) { return give_list(call, call.in(0).unbind(0)); }

Results read_element(NodeRun& call) {
  const ListElements& list = list_in(call, 0);
  return {element_of(call, list, place_in(call, list), 2)};
}

Results set_element(NodeRun& call) {
  ListElements list = list_in(call, 0);
  const size_t place = place_in(call, list);
  list[place] = call.in(2);
  return give_list(call, std::move(list));
}

Results stack_elements(NodeRun& call) {
  const ListElements& list = list_in(call, 0);
  if (list.empty()) {
    Shape shape = call.has(1) ? call.integers(1) : Shape{-1};
    if (std::ranges::any_of(shape, [](int64_t size) { return size < 0; }))
      call.refuse("stacks a list without elements, whose shape is unknown");
    shape.insert(shape.begin(), 0);
    const DType dtype = dtype_attribute(call, "element_dtype", at::kFloat);
    return {at::zeros(shape, at::TensorOptions(dtype).device(call.graph().device()))};
  }
  std::vector<Tensor> all;
  for (size_t i = 0; i < list.size(); ++i) all.push_back(element_of(call, list, i, 1));
  return {at::stack(all)};
}

Results count_of_list(NodeRun& call) {
  const auto count = static_cast<int64_t>(list_in(call, 0).size());
  const RunValue value{
      .tensor = integers_of({count}, at::kInt).squeeze(0), .known = true, .follows_size = true};
  call.give({value});
  return {};
}

Results push_element(NodeRun& call) {
  ListElements list = list_in(call, 0);
  call.require(static_cast<int64_t>(list.size()) < kMostElements, "its list is too long");
  list.push_back(call.in(1));
  return give_list(call, std::move(list));
}

Results pop_element(NodeRun& call) {
  ListElements list = list_in(call, 0);
  call.require(!list.empty(), "its list has no element");
  const Tensor last = element_of(call, list, list.size() - 1, 1);
  list.pop_back();
  call.give({list_value(std::move(list)), {.tensor = last}});
  return {};
}

}  // namespace

void add_tensorflow_lists(KernelMap& map) {
  for (const char* name : {"While", "StatelessWhile"})
    map[name] = {.run = repeat_while, .least_inputs = 0, .has_graphs = true};
  for (const char* name : {"If", "StatelessIf"})
    map[name] = {.run = choose_branch, .least_inputs = 1, .has_graphs = true};
  // Their results are lists, which are never known.
  const auto list = [](onnx::internal::RunKernel run, size_t inputs) {
    return Kernel{.run = run, .least_inputs = inputs, .has_graphs = true};
  };
  map["EmptyTensorList"] = list(make_list, 2);
  map["TensorListFromTensor"] = list(list_of_rows, 2);
  map["TensorListGetItem"] = list(read_element, 2);
  map["TensorListLength"] = list(count_of_list, 1);
  map["TensorListPopBack"] = list(pop_element, 1);
  map["TensorListPushBack"] = list(push_element, 2);
  map["TensorListReserve"] = list(make_list, 2);
  map["TensorListSetItem"] = list(set_element, 3);
  map["TensorListStack"] = list(stack_elements, 1);
}

}  // namespace muster::inline v0_1::imports
