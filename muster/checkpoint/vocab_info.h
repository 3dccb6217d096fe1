// VocabInfo says how the rows of a variable, an embedding's, say, belong to the words of a
// vocabulary, and how they did in the checkpoint a warm start takes them from.
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

// Row i belongs to line i of a vocabulary file, counted from 0. A word of both vocabularies keeps
// its row, whatever line it stands on; the others get rows of `backup_initializer`, and so do those
// of unknown words.
struct MUSTER_EXPORT VocabInfo {
  std::string new_vocab{};  // a file with a word on each line: a path or URI
  // The words of it that count, from the first line on; -1: all of them. The variable has this many
  // rows and num_oov_buckets.
  int64_t new_vocab_size = -1;
  int64_t num_oov_buckets = 0;  // rows of unknown words, behind those of the vocabulary
  std::string old_vocab{};      // the file of the checkpoint's variable
  // The words of it that count. That variable has as many rows, or more: what is more is not taken.
  int64_t old_vocab_size = -1;
  // Makes the rows that are not taken, as part of a value of the variable's whole shape; zeros when
  // unset.
  Initializer backup_initializer = {};
  // 0 where rows belong to words; 1 where columns do, as in the last layer of a classifier.
  int64_t axis = 0;
  // The rows of unknown words stand before those of the vocabulary, in the checkpoint too, as in
  // what StringLookup numbers: num_oov_buckets then counts its num_oov_indices and its mask token.
  bool oov_first = false;

  // Throws InvalidArgument naming the field, its value and what is allowed.
  void validate() const;
};

}  // namespace muster::inline v0_1
