// The second part of the benchmark of linear models: rows as logs of clicks have them, 13 numbers
// and 26 categories. Thread safety: one call in a process.
#pragma once

#include <cstdint>
#include <string>

namespace muster::bench {

inline constexpr int64_t kClickRows = 1 << 18;
inline constexpr int64_t kClickNumbers = 13, kClickCategories = 26;
inline constexpr int64_t kClickBuckets = 10'000;  // of each category

// Writes the rows into this folder, for peers that read arrays: "numbers", float32 [rows, 13];
// "ids", int64 [rows, 26]; "labels", float32 [rows].
void write_clicks(const std::string& folder);

// Contestants that train on the same batches, in the order of the rows, by Ftrl.
void train_clicks_by_estimator(int64_t batch);
void train_clicks_by_hand(int64_t batch);

}  // namespace muster::bench
