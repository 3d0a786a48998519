// The third set: kernels in C++.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

// A square is divided as long as its numbers differ much and it is wide enough.
struct Node {
    double mean = 0;
    std::array<std::unique_ptr<Node>, 4> parts;
};

struct Image {
    const double *numbers;
    std::size_t columns;
};

std::unique_ptr<Node> divided(Image image, std::size_t top, std::size_t left, std::size_t high,
                              std::size_t wide) {
    auto node = std::make_unique<Node>();
    double least = 1, most = 0;
    for (std::size_t i = top; i < top + high; i++)
        for (std::size_t j = left; j < left + wide; j++) {
            double x = image.numbers[i * image.columns + j];
            node->mean += x / double(high * wide);
            least = std::min(least, x);
            most = std::max(most, x);
        }
    if (most - least > 0.3 && high > 3 && wide > 3) {
        std::size_t h = high / 2, w = wide / 2;
        node->parts[0] = divided(image, top, left, h, w);
        node->parts[1] = divided(image, top, left + w, h, wide - w);
        node->parts[2] = divided(image, top + h, left, high - h, w);
        node->parts[3] = divided(image, top + h, left + w, high - h, wide - w);
    }
    return node;
}

std::size_t leaves(const Node &node) {
    if (!node.parts[0])
        return 1;
    std::size_t count = 0;
    for (const auto &part : node.parts)
        count += leaves(*part);
    return count;
}

// Tables of weights by length: the process keeps those of the last four.
std::vector<float> &weights(std::size_t length) {
    static std::deque<std::pair<std::size_t, std::vector<float>>> kept;
    for (auto &[known, table] : kept)
        if (known == length)
            return table;
    if (kept.size() == 4)
        kept.pop_front();
    kept.emplace_back(length, std::vector<float>(length * 64));
    auto &table = kept.back().second;
    for (std::size_t i = 0; i < table.size(); i++)
        table[i] = 1.0f / float(i % 64 + 1 + i / 64);
    return table;
}

} // namespace

extern "C" {

// Where each of 1,000 levels occurs.
double by_level(const double *numbers, std::size_t rows, std::size_t columns) {
    std::map<int, std::vector<std::uint32_t>> places;
    for (std::size_t i = 0; i < rows * columns; i++)
        places[int(numbers[i] * 1000)].push_back(std::uint32_t(i));
    double sum = 0;
    for (const auto &[level, of_level] : places)
        sum += level * double(of_level.size());
    return sum;
}

// The largest of 31 neighbours in each column, from a queue of falling numbers per column.
double running_maximum(const double *numbers, std::size_t rows, std::size_t columns) {
    std::vector<std::deque<std::size_t>> queues(columns);
    std::vector<double> result;
    for (std::size_t i = 0; i < rows; i++)
        for (std::size_t j = 0; j < columns; j++) {
            auto &queue = queues[j];
            auto value = [&](std::size_t row) { return numbers[row * columns + j]; };
            while (!queue.empty() && value(queue.back()) <= value(i))
                queue.pop_back();
            queue.push_back(i);
            if (queue.front() + 31 <= i)
                queue.pop_front();
            result.push_back(value(queue.front()));
        }
    return result[result.size() / 2];
}

// Pairs of rounded neighbours whose distance was computed once are looked up.
double distances(const double *numbers, std::size_t rows, std::size_t columns) {
    std::unordered_map<std::uint64_t, double> known;
    double sum = 0;
    for (std::size_t i = 0; i + 1 < rows * columns; i++) {
        auto a = std::uint64_t(numbers[i] * 4096), b = std::uint64_t(numbers[i + 1] * 4096);
        auto [found, fresh] = known.try_emplace(a << 32 | b, 0.0);
        if (fresh)
            found->second = std::hypot(double(a), double(b));
        sum += found->second;
    }
    const auto &table = weights(columns);
    return sum + table[columns];
}

double quadtree(const double *numbers, std::size_t rows, std::size_t columns) {
    return double(leaves(*divided({numbers, columns}, 0, 0, rows, columns)));
}
}
