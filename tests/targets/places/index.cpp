// An inverted index: words to the documents that have them, in containers of the standard library.
#include <cstdio>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

struct Index {
    std::unordered_map<std::string, std::vector<int>> postings;
    std::map<int, std::string> documents;

    void add(int number, const std::string &text) {
        documents[number] = text;
        std::size_t begin = 0;
        while (begin < text.size()) {
            std::size_t end = text.find(' ', begin);
            if (end == std::string::npos) end = text.size();
            postings[text.substr(begin, end - begin)].push_back(number);
            begin = end + 1;
        }
    }
};

int main() {
    Index index;
    for (int number = 0; number < 4000; number++) {
        std::string text;
        for (int word = 0; word < 30; word++)
            text += "a rather long word " + std::to_string(number * 31 % 977 + word) + " ";
        index.add(number, text);
    }
    std::printf("%zu\n", index.postings.size());
}
