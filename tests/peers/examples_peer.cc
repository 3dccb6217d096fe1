// tf.io.parse_example and its likes, and files of TFRecords: tools/peers/cases/examples.py.
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/temp_directory.h"
#include "muster/data/dataset.h"
#include "muster/data/example.h"
#include "muster/data/sequence_example.h"
#include "muster/data/tfrecord.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/peer_case.h"
#include "tests/peers/peer_values.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

data::FeatureDType feature_dtype(const std::string& name) {
  if (name == "string") return data::kString;
  return name == "int64" ? kInt64 : kFloat32;
}

void flatten(const Json& nest, Json& values) {
  if (!nest.is_array()) return values.push_back(nest);
  for (const Json& part : nest) flatten(part, values);
}

Value default_of(const Json& nest, const std::string& dtype, const Shape& shape) {
  PeerArray array{dtype, shape, Json::array()};
  flatten(nest, array.values);
  return peer_value(array);
}

data::FeatureSpec spec_of(const Json& given) {
  data::FeatureSpec spec;
  for (const auto& [name, one] : given.items()) {
    const std::string type = one.at("type");
    const std::string dtype = one.at("dtype");
    const Shape shape = one.value("shape", Shape{});
    if (type == "var") {
      spec[name] = data::VarLenFeature{feature_dtype(dtype)};
    } else if (type == "fixed") {
      data::FixedLenFeature feature{shape, feature_dtype(dtype)};
      if (one.contains("default"))
        feature.default_value = default_of(one.at("default"), dtype, shape);
      spec[name] = feature;
    } else {
      data::FixedLenSequenceFeature feature{shape, feature_dtype(dtype), one.at("allow_missing")};
      if (one.contains("padding")) feature.padding_value = default_of(one.at("padding"), dtype, {});
      spec[name] = feature;
    }
  }
  return spec;
}

void add_parts(const Element& dict, const std::string& prefix, PeerArrays& arrays) {
  for (int64_t i = 0; i < dict.size(); ++i)
    arrays[prefix + dict.structure().keys.at(static_cast<size_t>(i))] =
        peer_array(dict.part(i).value());
}

PeerArrays run_records(const PeerCase& a_case) {
  const TempDirectory folder;
  const std::string path = folder.path() + "/records";
  std::ofstream(path, std::ios::binary) << bytes_of_hex(a_case.inputs.at("file").texts().at(0));
  const auto iterator = Dataset::from_files({path}, data::tfrecord_format()).iterator();
  std::vector<std::string> found;
  try {
    while (const auto record = iterator->next())
      found.push_back(hex_of_bytes(record->value().strings()[0]));
  } catch (const std::exception&) {
    found.emplace_back("error");
  }
  const std::vector<std::string> whole = a_case.program.at("records");
  if (a_case.program.at("compression") != "" && !found.empty() && found.back() == "error") {
    // The records before the damage equal the written ones; the peer does not say how many.
    for (size_t i = 0; i + 1 < found.size(); ++i) {
      if (found[i] != hex_of_bytes(whole.at(i)))
        throw std::runtime_error("record " + std::to_string(i) + " is another one");
    }
    found = {"error"};
  }
  return {{"records", PeerArray::of(found)}};
}

PeerArrays run_examples(const PeerCase& a_case) {
  const Json& program = a_case.program;
  if (program.at("what") == "records") return run_records(a_case);
  std::vector<std::string> serialized;
  for (const std::string& hex : a_case.inputs.at("serialized").texts())
    serialized.push_back(bytes_of_hex(hex));
  const Element element =
      program.value("single", false) ? Element(serialized.at(0)) : Element(Strings(serialized));
  PeerArrays arrays;
  if (program.at("what") == "examples") {
    add_parts(data::ExampleParser(spec_of(program.at("context")))(element), "", arrays);
  } else {
    const Element parsed = data::SequenceExampleParser(spec_of(program.at("context")),
                                                       spec_of(program.at("sequences")))(element);
    add_parts(parsed.part(0), "", arrays);
    add_parts(parsed.part(1), "steps/", arrays);
  }
  return arrays;
}

const PeerKind kExamples("examples", run_examples);

}  // namespace
}  // namespace muster::inline v0_1
