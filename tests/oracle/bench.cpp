#include "tests/oracle/oracle.hpp"

#include "tests/oracle/fake_cudart.h"
#include "tests/oracle/release.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

namespace oracle
{

double bench(const std::string &path, u64 *operations)
{
    struct Operation {
        u64 id, bytes;
    };
    constexpr u64 kFree = ~0ull;
    std::ifstream file(path);
    if (!file)
        die("cannot open " + path);
    std::vector<Operation> all;
    u64 largest = 0;
    for (std::string line; std::getline(file, line);) {
        std::istringstream in(line);
        std::string word;
        Operation operation{0, kFree};
        in >> word >> operation.id;
        if (word == "a")
            in >> operation.bytes;
        else if (word != "f")
            die("expected `a ID BYTES STREAM` or `f ID`, found `" + line + "`");
        largest = std::max(largest, operation.id);
        all.push_back(operation);
    }
    std::vector<void *> live(largest + 1);
    const u64 capacity = 1ull << 50;
    fake_configure(1, &capacity);
    native::init(1);
    auto start = std::chrono::steady_clock::now();
    for (const Operation &operation : all) {
        if (operation.bytes == kFree)
            native::raw_delete(live[operation.id]);
        else
            live[operation.id] = native::raw_alloc_with_stream(operation.bytes, nullptr);
    }
    std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    *operations = all.size();
    return all.empty() ? 0 : spent.count() / static_cast<double>(all.size());
}

} // namespace oracle
