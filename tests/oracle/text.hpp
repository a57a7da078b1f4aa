/* Statistics and segments of any release as the lines of a golden file (tests/golden/README.md). */
#pragma once

#include "tests/oracle/fake_cudart.h"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace oracle
{

template <class Stat> void append(std::string &text, const Stat &stat)
{
    for (auto value : {stat.current, stat.peak, stat.allocated, stat.freed})
        text += " " + std::to_string(value);
}

template <class Array> void append_array(std::string &text, const Array &array)
{
    for (const auto &stat : array)
        append(text, stat);
}

template <class Stats> std::string statistics_text(const Stats &stats)
{
    std::string text = "Q";
    append_array(text, stats.allocation);
    append_array(text, stats.segment);
    append_array(text, stats.active);
    append_array(text, stats.inactive_split);
    append_array(text, stats.allocated_bytes);
    append_array(text, stats.reserved_bytes);
    append_array(text, stats.active_bytes);
    append_array(text, stats.inactive_split_bytes);
    if constexpr (requires { stats.requested_bytes; })
        append_array(text, stats.requested_bytes);
    append(text, stats.oversize_allocations);
    append(text, stats.oversize_segments);
    auto single = [&](auto value) { text += " " + std::to_string(value); };
    single(stats.num_alloc_retries);
    single(stats.num_ooms);
    if constexpr (requires { stats.num_device_free; }) {
        single(stats.num_sync_all_streams);
        single(stats.num_device_alloc);
        single(stats.num_device_free);
    }
    single(stats.max_split_size);
    return text;
}

template <class Segment, class Owner>
void append_segment(std::string &text, const Segment &segment, int stream, bool extended, Owner owner)
{
    std::uint32_t region = 0;
    std::uint64_t offset = 0;
    if (!fake_locate(static_cast<std::uint64_t>(segment.address), &region, &offset))
        throw std::runtime_error("a segment outside every region");
    auto field = [&](auto value) { text += " " + std::to_string(value); };
    text += "G";
    field(region);
    field(offset);
    field(segment.total_size);
    field(stream);
    field(segment.is_large ? 1 : 0);
    if constexpr (requires { segment.is_expandable; })
        field(segment.is_expandable ? 1 : 0);
    field(segment.allocated_size);
    field(segment.active_size);
    if constexpr (requires { segment.requested_size; })
        field(segment.requested_size);
    field(segment.blocks.size());
    if constexpr (requires { segment.owner_private_pool_id; })
        if (extended)
            text += " " + owner(segment.owner_private_pool_id);
    text += "\n";
    for (const auto &block : segment.blocks) {
        text += "B";
        field(block.size);
        if constexpr (requires { block.requested_size; })
            field(block.requested_size);
        field(block.allocated ? 1 : 0);
        field(block.active ? 1 : 0);
        text += "\n";
    }
}

} // namespace oracle
