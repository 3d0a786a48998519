// Containers of the C++ library: nodes, growth, strings, shared ownership, exceptions with text.
#include <algorithm>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

static size_t words() {
    std::map<std::string, std::vector<int>> index;
    for (int i = 0; i < 4000; i++) index["a word of some length, number " + std::to_string(i % 701)].push_back(i);
    std::unordered_map<int, std::shared_ptr<std::string>> owners;
    for (int i = 0; i < 3000; i++) owners.emplace(i * 31, std::make_shared<std::string>(100 + i % 50, 'x'));
    for (int i = 0; i < 3000; i += 2) owners.erase(i * 31);
    std::list<std::vector<double>> parts;
    for (int i = 1; i < 300; i++) parts.emplace_back(i * 10, 1.5);
    parts.sort([](const auto &a, const auto &b) { return a.size() > b.size(); });
    std::ostringstream text;
    for (const auto &[word, lines] : index) text << word << ' ' << lines.size() << '\n';
    return text.str().size() + owners.size() + parts.size();
}

static size_t thrown(int depth) {
    std::vector<char> held(5000);
    if (depth == 0) throw std::runtime_error("thrown through frames that hold memory");
    return thrown(depth - 1) + held.size();
}

int main() {
    size_t sum = words();
    for (int i = 0; i < 50; i++) {
        try {
            sum += thrown(20);
        } catch (const std::exception &error) {
            sum += std::string(error.what()).size();
        }
    }
    std::cout << sum << std::endl;
}
