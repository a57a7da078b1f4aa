/* The parts of the oracle: reading cases, playing one, and putting the simulated device under the allocator
 * library. */
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace oracle
{

/* One case of a golden set without its answers. */
struct Case {
    std::string name, settings = "-", fraction = "-";
    std::vector<std::uint64_t> capacity;
    std::vector<std::string> operations;
};

/* Writes a message to standard error and ends the process with status 1. */
[[noreturn]] void die(const std::string &what);

/*
 * Plays the case in this process and returns its text with answers. The allocator is a global of the library,
 * so a process plays one case. Settings must already be in the environment. Throws std::exception on any
 * error but out of memory.
 */
std::string play(const Case &c);

/* Replays a sequence of allocations and frees; returns nanoseconds an operation. */
double bench(const std::string &path, std::uint64_t *operations);

/* Puts the simulated device in place of the runtime inside the allocator library. */
void redirect_static_runtime();

/* True when the allocator library was built with a runtime inside. */
bool has_static_runtime();

} // namespace oracle
