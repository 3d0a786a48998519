// Rows of one table joined with those of another by a sorted index, and summed by group.
//     joins ROUNDS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  const std::uint32_t orders = 1 << 21, customers = 1 << 20, groups = 1 << 19;
  std::vector<std::uint64_t> index(customers);
  std::vector<std::uint64_t> keys(orders);
  std::vector<float> amounts(orders);
  std::vector<std::uint32_t> group_of(customers);
  std::vector<double> sums(groups);
  std::uint64_t state = 13;
  auto drawn = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 24; };
  for (std::uint32_t at = 0; at < customers; at++) index[at] = 3 * std::uint64_t(at), group_of[at] = drawn() % groups;
  for (std::uint32_t at = 0; at < orders; at++) keys[at] = 3 * (drawn() % customers), amounts[at] = float(at % 9);
  for (int round = 0; round < rounds; round++)
    for (std::uint32_t at = 0; at < orders; at++) {
      std::uint32_t low = 0, high = customers;
      while (high - low > 1) {
        std::uint32_t middle = (low + high) / 2;
        if (index[middle] <= keys[at]) low = middle;
        else high = middle;
      }
      sums[group_of[low]] += amounts[at];
    }
  std::printf("%g\n", sums[groups / 2]);
}
