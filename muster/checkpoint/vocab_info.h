// VocabInfo says which row of a variable, such as an embedding, belongs to which word of a
// vocabulary, in this model and in the checkpoint that a warm start reads.
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

// Row i belongs to line i of a vocabulary file, counted from 0. A word of both vocabularies keeps
// its values, even if its line changed. Other words, and unknown words, get rows of
// `backup_initializer`.
struct MUSTER_EXPORT VocabInfo {
  std::string new_vocab{};  // a file with a word on each line: a path or URI
  // How many words of it count, from the first line on; -1: all. The variable has this many rows,
  // plus num_oov_buckets.
  int64_t new_vocab_size = -1;
  int64_t num_oov_buckets = 0;  // rows of unknown words, after those of the vocabulary
  std::string old_vocab{};      // the vocabulary file of the checkpoint's variable
  // How many words of it count; -1: all. The checkpoint's variable has at least this many rows;
  // further rows are not read.
  int64_t old_vocab_size = -1;
  // Makes the values of rows that are not in the checkpoint, as part of a value of the variable's
  // whole shape. Unset: zeros.
  Initializer backup_initializer = {};
  // The axis of the words: 0, rows; 1, columns, as in the last layer of a classifier.
  int64_t axis = 0;
  // Whether the rows of unknown words come before those of the vocabulary, in the checkpoint too,
  // as StringLookup numbers them: num_oov_buckets then counts its num_oov_indices and its mask
  // token.
  bool oov_first = false;

  // Throws InvalidArgument with the field, its value and the allowed range.
  void validate() const;
};

}  // namespace muster::inline v0_1
