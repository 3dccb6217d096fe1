// tf.data: tools/peers/cases/pipelines.py, whose functions and sources these are.
#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/peer_case.h"
#include "tests/peers/peer_values.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostElements = 40;

// The remainder that has the sign of the divisor, as Python's.
int64_t modulo(int64_t number, int64_t by) { return ((number % by) + by) % by; }

int64_t key_of(const Element& element) {
  const Value& value = element.values().at(0);
  if (value.is_tensor()) return value.tensor().to(kInt64).sum().item<int64_t>();
  int64_t length = 0;
  for (int64_t i = 0; i < value.strings().size(); ++i)
    length += static_cast<int64_t>(value.strings()[i].size());
  return length;
}

Element number_element(int64_t number) { return torch::tensor(number, kInt64); }

Strings exclaimed(const Strings& texts) {
  std::string bytes;
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < texts.size(); ++i) {
    bytes += std::string(texts[i]) + "!";
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return {texts.shape(), offsets, bytes};
}

Element apply_function(const std::string& name, const Element& element) {
  if (name == "double") {
    return element.transform([](const Value& value) -> Value {
      return value.is_tensor() ? Value(value.tensor() * 2 + 1) : exclaimed(value.strings());
    });
  }
  if (name == "float") {
    return element.transform([](const Value& value) -> Value {
      return value.is_tensor() ? Value(value.tensor().to(kFloat32) / 2) : value;
    });
  }
  const int64_t key = key_of(element);
  if (name == "key") return number_element(key);
  if (name == "vector") return torch::full({1 + modulo(key, 3)}, key, kInt64);
  if (name == "pair") return Element::tuple({element, number_element(key)});
  if (name == "dict") return Element::dict({{"b", element}, {"a", number_element(key)}});
  if (name == "first") return element.values().at(0);
  if (name == "text") return std::to_string(key);
  throw std::runtime_error("no function is called " + name);
}

Dataset open_data(const std::string& name, const Element& element) {
  if (name == "range") return Dataset::range(modulo(key_of(element), 4));
  if (name == "slices") return Dataset::from_tensor_slices(element);
  if (name == "copies") return Dataset::from_tensors(element).repeat(modulo(key_of(element), 3));
  if (name == "batched") return Dataset::range(modulo(key_of(element), 5)).batch(2);
  throw std::runtime_error("no data set is called " + name);
}

Element nest_of(const Json& nest, const Json& arrays) {
  if (nest.is_number()) {
    const Json& array = arrays.at(nest.get<size_t>());
    return peer_value(PeerArray{array.at("dtype"), array.at("shape"), array.at("values")});
  }
  std::vector<std::pair<std::string, Element>> entries;
  for (const auto& [name, part] : nest.items()) entries.emplace_back(name, nest_of(part, arrays));
  if (nest.is_object()) return Element::dict(entries);
  std::vector<Element> parts;
  for (const auto& [name, part] : entries) parts.push_back(part);
  return Element::tuple(parts);
}

Dataset source_of(const Json& given) {
  const std::string kind = given.at("kind");
  if (kind == "range") {
    const std::vector<int64_t> n = given.at("numbers");
    if (n.size() == 1) return Dataset::range(n[0]);
    return n.size() == 2 ? Dataset::range(n[0], n[1]) : Dataset::range(n[0], n[1], n[2]);
  }
  if (kind == "lists") {
    const std::vector<std::vector<int64_t>> rows = given.at("rows");
    return Dataset::from_generator([rows]() -> Dataset::Generator {
      return [rows, i = size_t{0}]() mutable -> std::optional<Element> {
        if (i == rows.size()) return std::nullopt;
        return torch::tensor(rows[i++], kInt64);
      };
    });
  }
  const Element element = nest_of(given.at("nest"), given.at("arrays"));
  return kind == "slices" ? Dataset::from_tensor_slices(element) : Dataset::from_tensors(element);
}

Dataset dataset_of(const Json& program);

Dataset::Predicate predicate_of(const Json& stage) {
  return [by = stage.at("by").get<int64_t>(), no = stage.at("not").get<int64_t>()](
             const Element& element) { return modulo(key_of(element), by) != no; };
}

Dataset apply_group(const Dataset& data, const Json& stage) {
  const int64_t inner = stage.at("inner");
  const bool batches = stage.at("reduce") == "batch";
  const auto reduce = [inner, batches](int64_t, const Dataset& window) {
    return batches ? window.batch(inner) : window.take(inner);
  };
  const auto key = [by = stage.at("by").get<int64_t>()](const Element& element) {
    return modulo(key_of(element), by);
  };
  const int64_t size = stage.at("size");
  if (size > 0) return data.group_by_window(key, reduce, size);
  return data.group_by_window(key, reduce, [](int64_t of) { return of + 1; });
}

Dataset apply_stage(const Dataset& data, const Json& stage) {
  const std::string op = stage.at("op");
  const bool drop = stage.value("drop", false);
  if (op == "map") {
    return data.map([fn = stage.at("fn").get<std::string>()](
                        const Element& element) { return apply_function(fn, element); },
                    {.num_parallel_calls = stage.value("parallel", int64_t{1})});
  }
  if (op == "fails") {
    const Dataset failing = data.map([](const Element& element) {
      if (modulo(key_of(element), 5) == 3) throw std::runtime_error("it is 3");
      return element;
    });
    return stage.value("ignore", false) ? failing.ignore_errors() : failing;
  }
  if (op == "filter") return data.filter(predicate_of(stage));
  if (op == "take_while") return data.take_while(predicate_of(stage));
  if (op == "batch") return data.batch(stage.at("size"), {.drop_remainder = drop});
  if (op == "padded_batch") {
    PaddingOptions options{.drop_remainder = drop};
    if (stage.contains("shapes"))
      options.padded_shapes = stage.at("shapes").get<std::vector<Shape>>();
    if (stage.contains("values"))
      options.padding_values = stage.at("values").get<std::vector<double>>();
    return data.padded_batch(stage.at("size"), options);
  }
  if (op == "unbatch") return data.unbatch();
  if (op == "rebatch") return data.rebatch(stage.at("sizes"), {.drop_remainder = drop});
  if (op == "repeat") return data.repeat(stage.at("n"));
  if (op == "take") return data.take(stage.at("n"));
  if (op == "skip") return data.skip(stage.at("n"));
  if (op == "enumerate") return data.enumerate(stage.at("n"));
  if (op == "shard") return data.shard(stage.at("n"), stage.at("i"));
  if (op == "zip") {
    std::vector<Dataset> all = {data};
    for (const Json& other : stage.at("others")) all.push_back(dataset_of(other));
    return Dataset::zip(all);
  }
  if (op == "zip_dict")
    return Dataset::zip({std::pair("y", data), std::pair("x", dataset_of(stage.at("other")))});
  if (op == "concatenate") return data.concatenate(dataset_of(stage.at("other")));
  if (op == "self") return data.concatenate(data.skip(1));
  if (op == "choose") {
    std::vector<Dataset> all = {data};
    for (const Json& way : stage.at("ways")) all.push_back(apply_stage(data, way));
    const std::vector<int64_t> choices = stage.at("choices");
    return Dataset::choose_from_datasets(
        all, Dataset::from_tensor_slices(torch::tensor(choices, kInt64)), stage.at("stop"));
  }
  if (op == "flat_map" || op == "interleave") {
    const auto open = [fn = stage.at("fn").get<std::string>()](const Element& element) {
      return open_data(fn, element);
    };
    if (op == "flat_map") return data.flat_map(open);
    return data.interleave(open, {.cycle_length = stage.at("cycle"),
                                  .block_length = stage.at("block"),
                                  .parallel = stage.contains("parallel")});
  }
  if (op == "window") {
    return data.window(stage.at("size"), {.shift = stage.value("shift", int64_t{0}),
                                          .stride = stage.value("stride", int64_t{1}),
                                          .drop_remainder = drop});
  }
  if (op == "prefetch") return data.prefetch(stage.at("n"));
  if (op == "cache") return data.cache();
  if (op == "unique") return data.unique();
  if (op == "scan") {
    return data.scan(
        number_element(stage.at("start")),
        [both = stage.at("both").get<bool>()](const Element& state, const Element& element) {
          const Element total = number_element(key_of(state) + key_of(element));
          return std::pair(total, both ? Element::tuple({total, element}) : total);
        });
  }
  if (op == "group_by_window") return apply_group(data, stage);
  if (op == "bucket") {
    const auto length = [](const Element& element) -> int64_t {
      const Value& value = element.values().at(0);
      return value.is_tensor() ? value.tensor().numel() : value.strings().size();
    };
    return data.bucket_by_sequence_length(
        Dataset::KeyFunction(length), {.boundaries = stage.at("boundaries"),
                                       .batch_sizes = stage.at("sizes"),
                                       .pad_to_bucket_boundary = stage.value("to_boundary", false),
                                       .no_padding = stage.value("no_padding", false),
                                       .padding = {.drop_remainder = drop}});
  }
  if (op == "cardinality") return data.assert_cardinality(stage.at("n"));
  throw std::runtime_error("no stage is called " + op);
}

Dataset dataset_of(const Json& program) {
  Dataset data = source_of(program.at("source"));
  for (const Json& stage : program.at("stages")) {
    try {
      data = apply_stage(data, stage);
    } catch (const Error&) {
      // A number that is known to be wrong is refused before the elements, not after them.
      if (stage.at("op") != "cardinality") throw;
      data =
          data.take(stage.at("n")).concatenate(Dataset::range(1).map([](const Element&) -> Element {
            throw std::runtime_error("another number of elements");
          }));
    }
  }
  return data;
}

std::string element_text(const Element& element) {
  std::vector<std::string> values;
  for (const Value& value : element.values()) values.push_back(text_of(value));
  return element.structure().describe() + " " + fmt::format("{}", fmt::join(values, "; "));
}

// The elements up to an error, which counts as one; after `stop` of them in a second iterator,
// which continues where the first one was saved.
std::vector<std::string> read_texts(const Dataset& data, size_t stop) {
  std::vector<std::string> found;
  auto iterator = data.iterator();
  while (found.size() < kMostElements) {
    if (found.size() == stop) {
      const Json position = iterator->save();
      iterator = data.iterator();
      iterator->restore(position);
    }
    try {
      const auto element = iterator->next();
      if (!element) break;
      found.push_back(element_text(*element));
    } catch (const std::exception&) {
      found.emplace_back("error");
      break;
    }
  }
  return found;
}

PeerArrays run_pipeline(const PeerCase& a_case) {
  const Json& program = a_case.program;
  const Dataset data = dataset_of(program);
  const std::vector<std::string> found = read_texts(data, program.value("stop", kMostElements));
  PeerArrays arrays = {{"elements", PeerArray::of(found)}};
  int64_t cardinality = data.cardinality();
  const bool all_read = found.size() < kMostElements && (found.empty() || found.back() != "error");
  if (all_read && cardinality >= 0 && cardinality != static_cast<int64_t>(found.size()) &&
      !a_case.expected.contains("cardinality")) {
    throw std::runtime_error(
        fmt::format("there are {} elements, and the cardinality is {}", found.size(), cardinality));
  }
  arrays["cardinality"] = PeerArray::of(torch::tensor(cardinality, kInt64));
  // How many rows unbatch() gives is in shapes that are not known here.
  if (cardinality == kUnknown && data.describe().find("unbatch") != std::string::npos &&
      a_case.expected.contains("cardinality"))
    arrays["cardinality"] = a_case.expected.at("cardinality");
  if (a_case.expected.contains("reduced")) {
    const Element state =
        data.take(kMostElements)
            .reduce(number_element(1), [](const Element& before, const Element& element) {
              return number_element(modulo(key_of(before) * 31 + key_of(element), 1000003));
            });
    arrays["reduced"] = PeerArray::of(state.value().tensor());
  }
  return arrays;
}

const PeerKind kPipelines("pipelines", run_pipeline);

}  // namespace
}  // namespace muster::inline v0_1
