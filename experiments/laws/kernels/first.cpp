// The first set: kernels in C++.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace {

// Labels of pixels, joined as pairs of neighbours are found.
class Labels {
public:
    std::uint32_t fresh() {
        parents.push_back(static_cast<std::uint32_t>(parents.size()));
        return parents.back();
    }
    std::uint32_t root(std::uint32_t label) {
        while (parents[label] != label)
            label = parents[label] = parents[parents[label]];
        return label;
    }
    void join(std::uint32_t a, std::uint32_t b) { parents[root(a)] = root(b); }

private:
    std::vector<std::uint32_t> parents;
};

// A window of a length is computed once in a process.
const std::vector<double> &window(std::size_t length) {
    static std::map<std::size_t, std::vector<double>> known;
    auto &found = known[length];
    if (found.empty())
        for (std::size_t i = 0; i < length; i++)
            found.push_back(0.5 - 0.5 * std::cos(2 * M_PI * double(i) / double(length)));
    return found;
}

} // namespace

extern "C" {

// The numbers by what they round to: each bin grows as numbers come.
double count_by_bin(const double *numbers, std::size_t rows, std::size_t columns) {
    std::vector<std::vector<double>> bins(64);
    for (std::size_t i = 0; i < rows * columns; i++)
        bins[std::size_t(numbers[i] * 64)].push_back(numbers[i]);
    double product = 0;
    for (const auto &bin : bins)
        product += bin.empty() ? 0 : std::log(double(bin.size())) * bin.back();
    return product;
}

// How many connected components the numbers above one half have, and how large the largest is.
double label_components(const double *numbers, std::size_t rows, std::size_t columns) {
    std::vector<std::uint32_t> image(rows * columns);
    Labels labels;
    labels.fresh();
    for (std::size_t i = 0; i < rows; i++)
        for (std::size_t j = 0; j < columns; j++) {
            std::size_t at = i * columns + j;
            if (numbers[at] <= 0.5)
                continue;
            std::uint32_t left = j ? image[at - 1] : 0, above = i ? image[at - columns] : 0;
            image[at] = left ? left : above ? above : labels.fresh();
            if (left && above)
                labels.join(left, above);
        }
    std::unordered_map<std::uint32_t, std::size_t> sizes;
    for (auto label : image)
        if (label)
            sizes[labels.root(label)]++;
    std::size_t largest = 0;
    for (const auto &[label, size] : sizes)
        largest = std::max(largest, size);
    return double(sizes.size()) + double(largest);
}

// Water from the border fills the landscape: the lowest open cell first.
double flood(const double *numbers, std::size_t rows, std::size_t columns) {
    using Cell = std::tuple<double, std::size_t>;
    std::priority_queue<Cell, std::vector<Cell>, std::greater<>> open;
    std::vector<bool> seen(rows * columns);
    std::vector<double> level(numbers, numbers + rows * columns);
    auto visit = [&](std::size_t at, double least) {
        if (seen[at])
            return;
        seen[at] = true;
        level[at] = std::max(level[at], least);
        open.emplace(level[at], at);
    };
    for (std::size_t i = 0; i < rows; i++)
        for (std::size_t j = 0; j < columns; j++)
            if (i == 0 || j == 0 || i + 1 == rows || j + 1 == columns)
                visit(i * columns + j, 0);
    while (!open.empty()) {
        auto [height, at] = open.top();
        open.pop();
        std::size_t i = at / columns, j = at % columns;
        if (i > 0)
            visit(at - columns, height);
        if (i + 1 < rows)
            visit(at + columns, height);
        if (j > 0)
            visit(at - 1, height);
        if (j + 1 < columns)
            visit(at + 1, height);
    }
    double water = 0;
    for (std::size_t i = 0; i < rows * columns; i++)
        water += level[i] - numbers[i];
    return water;
}

// Lines under a window, kept one by one until they are stacked.
double windowed(const double *numbers, std::size_t rows, std::size_t columns) {
    const auto &taper = window(columns);
    std::vector<std::unique_ptr<float[]>> lines;
    for (std::size_t i = 0; i < rows; i++) {
        lines.push_back(std::make_unique<float[]>(columns));
        for (std::size_t j = 0; j < columns; j++)
            lines.back()[j] = float(numbers[i * columns + j] * taper[j]);
    }
    std::vector<double> stack(columns);
    for (const auto &line : lines)
        for (std::size_t j = 0; j < columns; j++)
            stack[j] += line[j];
    return stack[columns / 2];
}
}
