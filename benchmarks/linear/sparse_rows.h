// The first part of the benchmark of linear models: rows of a few ids out of 123, as a9a has them,
// until the model is good enough on rows it has not seen. Thread safety: one call in a process.
#pragma once

#include <string>

namespace muster::bench {

// The files of a folder, in the format of LIBSVM, and the requested loss.
struct SparseRows {
  std::string train{};
  std::string test{};
  double target = 0;  // mean log-loss on the test part
  bool real = false;
};

// a9a of MUSTER_TEST_DATA; without it, rows of the same shape that are written into `directory`.
SparseRows find_or_write_sparse_rows(const std::string& directory);

// Contestants, each of which trains the model again in every step. They throw unless it reaches the
// target.
void fit_by_estimator(const SparseRows& rows);  // ids, as the file has them
void fit_by_dense_estimator(const SparseRows& rows);
void fit_by_hand(const SparseRows& rows);

// A contestant whose step is a batch of this size by Ftrl, in the order of the file, without end.
void train_on_batches(const SparseRows& rows, int64_t batch);

}  // namespace muster::bench
