// A field is smoothed in steps, each on a padded copy of it.
#include <cstdio>
#include <vector>

using Field = std::vector<double>;
constexpr int SIDE = 1500;

[[gnu::noinline]] static Field padded(const Field &field) {
    Field wide((SIDE + 200) * (SIDE + 200)); // most bytes at the peak
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            wide[(row + 100) * (SIDE + 200) + column + 100] = field[row * SIDE + column];
    return wide;
}

[[gnu::noinline]] static Field smoothed(const Field &field) {
    const Field wide = padded(field);
    Field result(field.size());
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            double sum = 0;
            for (int y = -1; y <= 1; y++)
                for (int x = -1; x <= 1; x++) sum += wide[(row + 100 + y) * (SIDE + 200) + column + 100 + x];
            result[row * SIDE + column] = sum / 9;
        }
    return result;
}

int main() {
    Field field(SIDE * SIDE);
    for (size_t n = 0; n < field.size(); n++) field[n] = double(n % 97);
    for (int step = 0; step < 8; step++) field = smoothed(field);
    std::printf("%g\n", field[SIDE]);
}
