// A box blur over all three axes of a volume, as an operator that memtrace sees.
//
//     g++ -O2 -I ../include blur.cpp -o blur
//     memtrace -- ./blur 100 120 140
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "memtrace.h"

using Volume = std::vector<float>;

// The mean of three neighbours along an axis, whose cells lie `step` apart; the ends stay as they are.
static void along(const std::vector<double> &from, std::vector<double> &to, size_t step, size_t length) {
    for (size_t at = 0; at < from.size(); at++) {
        size_t place = at / step % length;
        bool inside = place > 0 && place + 1 < length;
        to[at] = inside ? (from[at - step] + from[at] + from[at + step]) / 3 : from[at];
    }
}

static Volume blur(const Volume &volume, const uint64_t *shape) {
    memtrace_array input = {"volume", "<f4", 3, shape, volume.data()};
    uint64_t span = memtrace_span_begin("blur", &input, 1, nullptr, 0);
    Volume result;
    {
        std::vector<double> one(volume.begin(), volume.end()), other(volume.size());
        size_t step = volume.size();
        for (int axis = 0; axis < 3; axis++) {
            step /= shape[axis];
            along(one, other, step, shape[axis]);
            std::swap(one, other);
        }
        result.assign(one.begin(), one.end());
    }
    memtrace_array output = {"result", "<f4", 3, shape, result.data()};
    memtrace_span_end(span, &output, 1);
    return result;
}

int main(int argc, char **argv) {
    uint64_t shape[3] = {100, 120, 140};
    for (int axis = 0; axis < 3 && axis + 1 < argc; axis++) shape[axis] = strtoull(argv[axis + 1], nullptr, 10);
    Volume volume(shape[0] * shape[1] * shape[2], 1.0f);
    if (volume.empty()) {
        fprintf(stderr, "blur: needs three positive lengths\n");
        return 1;
    }
    double sum = 0;
    for (int repeat = 0; repeat < 2; repeat++)
        for (float value : blur(volume, shape)) sum += value;
    printf("mean %.4f\n", sum / 2 / volume.size());
}
