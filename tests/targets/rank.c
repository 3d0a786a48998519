/* One rank of many, each with a block of its own size: told by its launcher, and by MPI, which agree. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int rank, told = atoi(getenv("OMPI_COMM_WORLD_RANK"));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t bytes = (size_t)(rank + 10) << 22;
    char *block = malloc(bytes);
    memset(block, 1, 1 << 16);
    free(block);
    MPI_Finalize();
    return rank != told;
}
