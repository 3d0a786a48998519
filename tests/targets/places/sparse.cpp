// A sparse matrix, assembled from triplets by two threads, then sorted and compressed.
#include <algorithm>
#include <cstdio>
#include <future>
#include <random>
#include <tuple>
#include <vector>

using Triplet = std::tuple<int, int, double>;

static std::vector<Triplet> assemble(unsigned seed, int entries, int size) {
    std::mt19937 random(seed);
    std::vector<Triplet> triplets;
    for (int entry = 0; entry < entries; entry++)
        triplets.emplace_back(random() % size, random() % size, entry);
    return triplets;
}

struct Compressed {
    std::vector<int> starts, columns;
    std::vector<double> values;
};

static Compressed compress(std::vector<Triplet> triplets, int size) {
    std::sort(triplets.begin(), triplets.end());
    Compressed matrix;
    matrix.starts.resize(size + 1);
    for (auto &[row, column, value] : triplets) {
        matrix.starts[row + 1]++;
        matrix.columns.push_back(column);
        matrix.values.push_back(value);
    }
    return matrix;
}

int main() {
    auto first = std::async(std::launch::async, assemble, 1, 100000, 5000);
    auto second = std::async(std::launch::async, assemble, 2, 100000, 5000);
    auto triplets = first.get(), more = second.get();
    triplets.insert(triplets.end(), more.begin(), more.end());
    Compressed matrix = compress(triplets, 5000);
    std::printf("%zu\n", matrix.values.size());
}
