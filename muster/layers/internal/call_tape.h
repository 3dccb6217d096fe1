// A CallTape holds the values that a context gave to the layers of one call, so that the call can
// be made again: with the same weights and random keys, and with state as it was before. Thread
// safety: belongs to the thread of its context.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "muster/base/random.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

struct CallTape {
  struct Value {
    Tensor tensor;
    bool is_state = false;  // a copy, made before the call wrote the variable
  };
  std::vector<Value> values;
  // Without ids, if all of the variable `rows` is read.
  std::vector<Variable::RowUse> row_uses;
  std::vector<RandomKey> keys;
  bool training = false;
  bool mixed_precision = false;

  void note(const Tensor& value, bool is_state);
  void append(const CallTape& inner);
  // Returns the weights and rows that get gradients, each once.
  std::vector<Tensor> leaves() const;
};

// Returns the values on a tape, in order. A layer that asks for more, or for less, is refused with
// InvalidArgument: it did not repeat its call.
class CallTapeReader {
 public:
  // `tape` outlives the reader.
  explicit CallTapeReader(const CallTape& tape) : tape_(tape) {}

  // State comes as a copy that the layer may write. The reference lives as long as the reader.
  const CallTape::Value& next_value();
  const Variable::RowUse& next_row_use();
  RandomKey next_key();
  // Is called when the call has ended.
  void check_all_read() const;

  bool training() const { return tape_.training; }
  bool mixed_precision() const { return tape_.mixed_precision; }

 private:
  const CallTape& tape_;
  size_t value_ = 0;
  size_t row_use_ = 0;
  size_t key_ = 0;
  std::deque<CallTape::Value> copies_;
};

// Returns the rows `ids` of a variable as `use` noted them.
Tensor rows_of(const Variable::RowUse& use, const Tensor& ids);
// Likewise, as Variable::placed_rows() does.
Variable::PlacedRows placed_rows_of(const Variable::RowUse& use, const Tensor& ids);

}  // namespace muster::inline v0_1::internal
