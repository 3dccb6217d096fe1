// Writes an exported model as a SavedModel of TensorFlow: TensorFlow, TensorFlow Serving and the
// converters of TensorFlow.js and TensorFlow Lite read it. A program that links muster::onnx may
// also export with the format "saved_model": ExportModelOptions::formats.
// Thread safety: free functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/export/model_format.h"

namespace muster::inline v0_1::saved_model {

// Writes `model` into `folder`, which is made if needed, and returns the names of the files in it:
//   saved_model.pb                           the graph and its signatures, with the tag "serve"
//   variables/variables.index                the weights under their own names, as a checkpoint of
//   variables/variables.data-00000-of-00001  TensorFlow; missing if the model has none
//   assets/<key>.txt                         the words of a vocabulary, a word on each line
// The graph has the operations of the ONNX graph of the model, in those of TensorFlow 2.4 and
// newer. saved_model.pb is written last.
// Signatures have the names of the export. One for each form of requests:
//   "<name>"           serialized tf.Examples, string [-1], if the export takes them: the input is
//                      "inputs" for the methods classify and regress, "examples" for predict
//   "features:<name>"  what feature columns read, by key, with texts as strings; and, without
//                      columns, the tensors with texts instead of ids. Missing next to tf.Examples
//                      if a cross hashes dense features in another order
//   "tensors:<name>"   the tensors that forward() of the TorchScript module takes
// The first of them that the export has is the plain "<name>", except that texts instead of ids
// stay "features:<name>". Forms with a prefix have the method predict.
// A signature of the method classify gives "classes" too, string [-1, classes]: the names of the
// classes for each row. A signature of the method predict with the output "class_ids", of a head
// with a signature "classification", gives "classes" too, the names of these ids.
// Throws InvalidArgument ("not supported: ...") for an operation without a counterpart, the errors
// of write_onnx(), and the errors of writing files.
MUSTER_EXPORT std::vector<std::string> write_saved_model(FileSystem& files,
                                                         const ExportedModel& model,
                                                         const std::string& folder);

// The same for the folder of a version that export_model() made. Throws also what read_export()
// throws.
MUSTER_EXPORT std::vector<std::string> export_saved_model(FileSystem& files,
                                                          const std::string& version,
                                                          const std::string& folder);

}  // namespace muster::inline v0_1::saved_model
