// Exports that take serialized tf.Examples, texts and the features of columns, with requests and
// the numbers that they give, for tests of other formats. Thread safety: free functions; one
// thread.
#pragma once

#include <string>
#include <vector>

namespace muster::inline v0_1 {

// The names of the models. A wide and deep model of the census is among them if the folder
// `census` has its CSV files.
std::vector<std::string> request_models(const std::string& census);

// Exports one to the folder, which is made, and writes requests next to it:
//   examples.tfrecord, examples.safetensors   raw tf.Examples, and "out/<signature>/<output>"
//   features.json, features.safetensors       the same requests by feature: {"city": [["Bern"]]}
// A model that does not take one of them has no such files.
void export_with_requests(const std::string& name, const std::string& folder,
                          const std::string& census);

}  // namespace muster::inline v0_1
