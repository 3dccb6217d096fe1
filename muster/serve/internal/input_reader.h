// One input of a request: it collects the values of its rows into one array, and checks them.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/serve/internal/json_body.h"
#include "muster/serve/model.h"

namespace muster::inline v0_1::serve::internal {

class InputReader {
 public:
  // The arguments must outlive the reader.
  InputReader(const std::string& name, const ArrayInfo& info);

  // Reads `value`, which has all axes. `place` is its place, for messages. Throws InvalidArgument
  // for a value of another type, and lists whose length differs from the signature, or from the
  // lists before.
  void read_rows(JsonValue value, const std::string& place);
  // Reads the value of one more row: all axes but the batch.
  void read_row(JsonValue value, const std::string& place);
  // Reads the feature of one more example: as read_row(), but a list of one may be a bare value,
  // and a value of several axes may be a flat list, as in a tf.Example.
  void read_feature(JsonValue value, const std::string& place);

  // Returns the array of all that was read.
  Array take();

 private:
  void read_axis(JsonValue value, size_t axis);
  void read_list(JsonValue value, size_t axis);
  void read_leaf(JsonValue value);
  void append_bytes(JsonValue value);
  template <typename T>
  void append_float(JsonValue value);
  template <typename T>
  void append_integer(JsonValue value);
  // The elements of a row where the signature says them all, else -1.
  int64_t row_elements() const;
  // Throws InvalidArgument: "instances[2][0] is a text; input 'x' is float32[-1, 3]".
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = "") const;

  const std::string& name_;
  const ArrayInfo& info_;
  Array array_;
  std::vector<int64_t> lengths_;  // by axis; -1: not known yet
  std::vector<bool> stated_;      // by axis: whether the signature says the length
  std::string place_;
  std::vector<int64_t> path_;  // below place_
};

}  // namespace muster::inline v0_1::serve::internal
