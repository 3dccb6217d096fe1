// Open MPI as a contestant: MPI_Allreduce in place, of float32.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include "benchmarks/all_reduce/commands.h"

int main(int argc, char** argv) {
  using namespace muster::bench;
  if (argc != 2) return 2;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  stay_on_core(rank);
  std::vector<float> buffer(kLargest / sizeof(float));
  try {
    obey(argv[1], rank, [&](int64_t bytes) {
      MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(bytes / 4), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
