// A model that Estimator::export_model() wrote, ready to answer requests. It needs neither the
// model function nor the Estimator.
//
//   Servable model("export/1732400000");
//   auto outputs = model.run("serving_default", {{"x", x}});  // {"logits": …}
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/export/signature.h"
#include "muster/tensor/element.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1 {

// A loaded model. Later changes of its folder do not affect it. Thread safety: all members may be
// called from several threads at once. A computation uses the threads that muster/tensor/threads.h
// gives the calling thread.
class MUSTER_EXPORT Servable {
 public:
  // Inputs or outputs by name.
  using Tensors = std::map<std::string, Tensor>;

  // Loads the folder of a version, by default from the local file system, and runs the model once.
  // Throws NotFound if it holds no exported model, Corrupt if a byte of its files has changed since
  // it was written (early exports of Muster 0.1 have no checksums; the log then says so), and
  // InvalidArgument if a newer Muster wrote it. A program that links muster::onnx may also give an
  // .onnx file, or a folder that has model.onnx and no export: see muster/imports/onnx_import.h
  // for its errors.
  explicit Servable(const std::string& directory, FileSystem* files = nullptr);
  ~Servable();
  Servable(Servable&&) noexcept;
  Servable& operator=(Servable&&) noexcept;

  // Returns all signatures by name, including kServingDefault.
  const std::map<std::string, Signature>& signatures() const;
  // Throws InvalidArgument for an unknown name, with the known ones.
  const Signature& signature(const std::string& name) const;

  // Answers one batch, of 0 rows or more. `inputs` holds exactly the inputs of the signature, on
  // the CPU; axis 0 of outputs is that of the inputs, unless their shape says otherwise. Throws
  // InvalidArgument for an unknown signature, for an input that is missing, unknown, or of another
  // dtype or shape than in the signature, for inputs with different numbers of rows, and, naming
  // the input and the axis, for a length of an axis of -1 that the model does not take.
  Tensors run(const std::string& signature, const Tensors& inputs) const;
  // Returns the ids, int64 in the shape of the texts, that run() takes for an input of texts: the
  // id of each known word, and the id of unknown words. Throws InvalidArgument for an input that
  // takes no texts, with those that do.
  Tensor text_ids(const std::string& input, const Strings& texts) const;
  // Like run(), for a batch of the features that the signature lists, as a dict of texts and
  // numbers for the feature columns before the model. If it lists none, the features are the
  // inputs. Throws the errors of run(), and InvalidArgument with the feature or the column for a
  // feature that is missing, unknown, of another kind or shape, or has more values per example than
  // the model takes.
  Tensors run_features(const std::string& signature, const Element& features) const;
  // Like run(), for serialized tf.Examples, one for each row. Throws the errors of run();
  // InvalidArgument for a signature that takes none, and, with the example, for a missing feature
  // without a default and a feature of another kind or size; Corrupt for a damaged example.
  Tensors run_examples(const std::string& signature,
                       const std::vector<std::string>& examples) const;

  // Returns the shape of the smallest batch of an input: one row, and the least length that the
  // model takes of each axis of -1. Throws InvalidArgument for an unknown signature or input.
  Shape smallest_batch(const std::string& signature, const std::string& input) const;

  // Returns the folder it was loaded from.
  const std::string& directory() const;
  // Returns the folder's name as a number; nothing if it is not a number.
  std::optional<int64_t> version() const;
  // Returns the training step of its weights.
  int64_t global_step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the versions in a folder of exported models, in rising order: its folders whose names are
// decimal numbers ("1732400000", not "007" or "temp-1"). Empty if there is no such folder. In a
// store, where a folder is not made in one step, only complete versions: those with
// signatures.json, which is written last. Throws the errors of reading a directory.
MUSTER_EXPORT std::vector<int64_t> model_versions(const std::string& directory,
                                                  FileSystem* files = nullptr);
// Returns the greatest of them; nothing if there is none. Its folder is join_path(directory,
// std::to_string(version)).
MUSTER_EXPORT std::optional<int64_t> newest_version(const std::string& directory,
                                                    FileSystem* files = nullptr);

}  // namespace muster::inline v0_1
