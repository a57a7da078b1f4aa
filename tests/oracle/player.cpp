#include "tests/oracle/oracle.hpp"

#include "tests/oracle/fake_cudart.h"
#include "tests/oracle/release.hpp"
#include "tests/oracle/text.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <unordered_map>

namespace oracle
{

bool has_static_runtime()
{
    return ORACLE_STATIC_RUNTIME != 0;
}

namespace
{

/* Families whose maps name the owner of a segment and whose last lines come once for each device. */
bool is_extended(const std::string &name)
{
    for (const char *family : {"pools-", "graphs-", "mempool-", "pool-oom-", "pool-expand-", "devices-",
                               "maps-", "user-cases-", "serve-growth-"})
        if (name.rfind(family, 0) == 0)
            return true;
    return false;
}

c10::DeviceIndex index_of(int device)
{
    return static_cast<c10::DeviceIndex>(device);
}

class Player
{
  public:
    explicit Player(const Case &c);
    std::string play();

  private:
    struct Live {
        void *pointer;
        int device;
    };
    struct Capture {
        int pool, device, stream;
    };

    void operate(const std::string &operation);
    void allocate(std::istringstream &in);
    void free_block(std::istringstream &in);
    void record_stream(std::istringstream &in);
    void pool_operation(const std::string &word, std::istringstream &in);
    void capture_operation(const std::string &word, std::istringstream &in);
    void set_current_stream(int stream);
    void finish(std::istringstream &in);
    template <class Entry> void token(const Entry &entry);
    void warm(int devices);
    void listen();
    void collect();
    void position(char before, u64 address);
    std::string statistics(int device);
    std::string map(int device, int *lines);
    std::string calls(int device);
    PoolId active_id() const
    {
        return active_.empty() ? PoolId{0, 0} : pool_id(active_.back().first);
    }

    const Case &case_;
    bool extended_;
    decltype(native::get()) allocator_;
    Handles handles_;
    int device_ = 0, asking_ = 0; /* current device; stream of the latest request */
    std::unordered_map<u64, Live> live_;
    std::vector<std::pair<int, std::unique_ptr<ActivePool>>> active_;
    int member_[kDevices][kStreams] = {}; /* the capture a stream takes part in; 0 none */
    std::vector<Capture> captures_{{}};
    std::map<std::pair<int, PoolId>, Streams> filled_; /* by device and pool, the streams that fill it */
    std::string out_, tokens_;
};

Player::Player(const Case &c) : case_(c), extended_(is_extended(c.name)), allocator_(nullptr)
{
    int devices = static_cast<int>(c.capacity.size());
    fake_configure(devices, c.capacity.data());
    start_library(devices);
    allocator_ = native::get();
    native::init(devices);
    if (devices > 2)
        warm(devices);
    if (c.fraction != "-")
        for (int i = 0; i < devices; i++)
            native::setMemoryFraction(std::stod(c.fraction), index_of(i));
    listen();
}

/* Makes the devices' tables of streams with events grow, and leaves no other trace. */
void Player::warm(int devices)
{
    for (int device = 0; device < devices; device++) {
        cudaSetDevice(device);
        void *pointer = native::raw_alloc_with_stream(1, handles_.handle(device, 0));
        c10::DataPtr data(pointer, pointer, allocator_->raw_deleter(),
                          c10::Device(c10::DeviceType::CUDA, index_of(device)));
        for (u64 i = 1; i <= kWarmStreams; i++)
            native::recordStream(data, c10::cuda::getStreamFromExternal(
                                           reinterpret_cast<cudaStream_t>(i << 32), index_of(device)));
    }
    cudaSetDevice(0);
    native::emptyCache();
    for (int device = 0; device < devices; device++) {
        native::resetAccumulatedStats(index_of(device));
        native::resetPeakStats(index_of(device));
    }
    fake_forget();
}

/* ---- what the allocator reports while it works ---- */

void Player::position(char before, u64 address)
{
    std::uint32_t region = 0;
    u64 offset = 0;
    if (!fake_locate(address, &region, &offset))
        throw std::runtime_error("an address outside every region");
    tokens_ += before + std::to_string(region) + before + std::to_string(offset);
}

template <class Entry> void Player::token(const Entry &entry)
{
    auto address = static_cast<u64>(entry.addr_);
    auto size = std::to_string(entry.size_);
    std::uint32_t region = 0;
    u64 offset = 0;
    auto stream = [&] { return ":" + std::to_string(handles_.number(entry.stream_)); };
    switch (entry.action_) {
    case Entry::FREE_COMPLETED:
        tokens_ += " fc";
        position(':', address);
        break;
    case Entry::SEGMENT_ALLOC:
        fake_locate(address, &region, &offset);
        tokens_ += " sa:" + std::to_string(region) + ":" + size + stream();
        break;
    case Entry::SEGMENT_FREE:
        fake_locate(address, &region, &offset);
        tokens_ += " sf:" + std::to_string(region) + ":" + size;
        break;
    case Entry::SEGMENT_MAP:
        tokens_ += " sm";
        position(':', address);
        tokens_ += ":" + size + stream();
        break;
    case Entry::SEGMENT_UNMAP:
        tokens_ += " su";
        position(':', address);
        tokens_ += ":" + size;
        break;
    case Entry::OOM:
        tokens_ += " oom:" + std::to_string(address) + ":" + size;
        break;
    default:
        break;
    }
}

/*
 * From 2.2 on the allocator calls a listener with each entry. 2.1 keeps entries in a history that a snapshot
 * shows and that turning it on again clears. Before, the simulated device tells of segments, and nothing
 * tells of frees.
 */
void Player::listen()
{
#if ORACLE_TORCH >= 20200
    native::attachAllocatorTraceTracker([this](const native::TraceEntry &entry) { token(entry); });
#elif ORACLE_TORCH >= 20100
    native::recordHistory(true, nullptr, 1 << 20, native::RecordContext::NEVER);
#else
    fake_set_segment_hook(
        [](void *user, bool freed, std::uint32_t region, u64 size) {
            auto *player = static_cast<Player *>(user);
            player->tokens_ +=
                (freed ? " sf:" : " sa:") + std::to_string(region) + ":" + std::to_string(size);
            if (!freed)
                player->tokens_ += ":" + std::to_string(player->asking_);
        },
        this);
#endif
}

void Player::collect()
{
#if ORACLE_TORCH >= 20100 && ORACLE_TORCH < 20200
    auto snapshot = native::snapshot();
    for (const auto &trace : snapshot.device_traces)
        for (const auto &entry : trace)
            token(entry);
    native::recordHistory(true, nullptr, 1 << 20, native::RecordContext::NEVER);
#endif
}

/* ---- statistics, maps, calls ---- */

std::string Player::statistics(int device)
{
    return statistics_text(native::getDeviceStats(index_of(device)));
}

std::string Player::map(int device, int *lines)
{
    std::string text;
    *lines = 0;
    auto snapshot = take_snapshot(allocator_, active_id());
    auto owner = [](const auto &id) {
        return id.first == 0 && id.second == 0 ? std::string("-") : std::to_string(pool_number(id));
    };
    std::map<u64, std::string> sorted;
    for (const auto &segment : segments_of(snapshot)) {
        if (segment.device != device)
            continue;
        append_segment(sorted[static_cast<u64>(segment.address)], segment, handles_.number(segment.stream),
                       extended_, owner);
        *lines += 1 + static_cast<int>(segment.blocks.size());
    }
    for (const auto &[address, segment] : sorted)
        text += segment;
    return text;
}

std::string Player::calls(int device)
{
    const struct fake_counts *c = ::fake_counts(device);
    std::string text = "D";
    for (u64 count : {c->allocations, c->failed_allocations, c->frees})
        text += " " + std::to_string(count);
    if (kRelease >= 20100)
        for (u64 count : {c->pages, c->failed_pages, c->released_pages, c->reservations})
            text += " " + std::to_string(count);
    for (u64 count : {c->events, c->queries})
        text += " " + std::to_string(count);
    return text + "\n";
}

/* ---- operations ---- */

/* Which stream is current matters to releases that tell captures from filled pools, and to no other. */
void Player::set_current_stream(int stream)
{
    if constexpr (kMarksCaptures<std::remove_pointer_t<decltype(allocator_)>>)
        c10::cuda::setCurrentCUDAStream(handles_.stream(device_, stream));
}

void Player::allocate(std::istringstream &in)
{
    u64 id = 0, bytes = 0;
    int stream = 0;
    in >> id >> bytes >> stream;
    set_current_stream(stream);
    asking_ = stream;
    auto before = native::getDeviceStats(index_of(device_)).allocated_bytes[0].current;
    void *pointer = nullptr;
    try {
        pointer = native::raw_alloc_with_stream(bytes, handles_.handle(device_, stream));
    } catch (const OutOfMemory &error) {
        if (std::getenv("ORACLE_MESSAGES"))
            std::fprintf(stderr, "a %llu: %s\n", static_cast<unsigned long long>(id),
                         error.what_without_backtrace());
        out_ += "O";
        return;
    }
    if (!pointer) {
        out_ += "N";
        return;
    }
    live_[id] = {pointer, device_};
    auto after = native::getDeviceStats(index_of(device_)).allocated_bytes[0].current;
    std::uint32_t region = 0;
    u64 offset = 0;
    fake_locate(reinterpret_cast<u64>(pointer), &region, &offset);
    out_ +=
        "A " + std::to_string(region) + " " + std::to_string(offset) + " " + std::to_string(after - before);
}

void Player::free_block(std::istringstream &in)
{
    u64 id = 0;
    in >> id;
    auto found = live_.find(id);
    if (found == live_.end()) {
        out_ += "-";
        return;
    }
    native::raw_delete(found->second.pointer);
    live_.erase(found);
    out_ += ".";
}

void Player::record_stream(std::istringstream &in)
{
    u64 id = 0;
    int stream = 0;
    in >> id >> stream;
    auto found = live_.find(id);
    if (found == live_.end()) {
        out_ += "-";
        return;
    }
    int device = found->second.device;
    in >> device;
    if (!in)
        device = found->second.device;
    void *pointer = found->second.pointer;
    c10::DataPtr data(pointer, pointer, allocator_->raw_deleter(),
                      c10::Device(c10::DeviceType::CUDA, index_of(found->second.device)));
    native::recordStream(data, handles_.stream(device, stream));
    data.release_context();
    out_ += ".";
}

void Player::pool_operation(const std::string &word, std::istringstream &in)
{
    std::string name, list;
    in >> name >> list;
    if (word == "pc") {
        if (name == "-")
            active_.pop_back();
        else
            active_.emplace_back(std::stoi(name), std::make_unique<ActivePool>(std::stoi(name)));
        return;
    }
    PoolId id = pool_id(std::stoi(name));
    if (word == "pi") {
        create_pool(allocator_, device_, id);
    } else if (word == "pb") {
        Streams streams;
        std::istringstream numbers(list);
        for (std::string part; list != "*" && std::getline(numbers, part, ',');)
            streams.push_back(handles_.handle(device_, std::stoi(part)));
        for (int i = 0; list == "*" && i < kStreams; i++)
            streams.push_back(handles_.handle(device_, i));
        begin_pool(allocator_, device_, id, streams, [streams, all = list == "*"](cudaStream_t stream) {
            return all || std::find(streams.begin(), streams.end(), stream) != streams.end();
        });
        filled_[{device_, id}] = streams;
    } else if (word == "po" || word == "pn") {
        mark_pool(allocator_, device_, id, word == "po");
    } else if (word == "pe") {
        end_pool(allocator_, device_, id, filled_[{device_, id}]);
    } else {
        release_pool(allocator_, device_, id);
    }
}

void Player::capture_operation(const std::string &word, std::istringstream &in)
{
    int stream = 0, other = 0;
    in >> stream >> other;
    int device = device_;
    if (word == "gb") {
        int capture = static_cast<int>(captures_.size());
        captures_.push_back({other, device, stream});
        member_[device][stream] = capture;
        fake_capture_stream(device, handles_.get(device, stream), true);
        set_current_stream(stream);
        begin_pool(allocator_, device, pool_id(other), {handles_.handle(device, stream)},
                   [this, device, capture](cudaStream_t handle) {
                       for (int i = 0; i < kStreams; i++)
                           if (handles_.handle(device, i) == handle)
                               return member_[device][i] == capture;
                       return false;
                   });
        mark_capture(allocator_, device, true);
    } else if (word == "gj") {
        if (kRelease < 20300)
            throw std::runtime_error("in this release a stream that joins a capture fills no pool");
        member_[device][other] = member_[device][stream];
        fake_capture_stream(device, handles_.get(device, other), true);
    } else {
        int capture = member_[device][stream];
        for (int i = 0; i < kStreams; i++)
            if (member_[device][i] == capture) {
                member_[device][i] = 0;
                fake_capture_stream(device, handles_.get(device, i), false);
            }
        mark_capture(allocator_, device, false);
        const Capture &ended = captures_[static_cast<size_t>(capture)];
        end_pool(allocator_, device, pool_id(ended.pool), {handles_.handle(device, ended.stream)});
    }
}

void Player::finish(std::istringstream &in)
{
    int stream = 0;
    if (in >> stream)
        fake_finish_stream(device_, handles_.get(device_, stream));
    else
        fake_finish_all();
}

void Player::operate(const std::string &operation)
{
    std::istringstream in(operation);
    std::string word;
    in >> word;
    out_ += operation + "\t";
    tokens_.clear();
    if (word == "a") {
        allocate(in);
    } else if (word == "f") {
        free_block(in);
    } else if (word == "r") {
        record_stream(in);
    } else if (word == "q") {
        out_ += statistics(device_);
    } else if (word == "m") {
        int lines = 0;
        std::string text = map(device_, &lines);
        out_ += "M " + std::to_string(lines) + "\n" + text;
        tokens_.clear();
        out_.pop_back(); /* the line break that every operation ends with */
        collect();
        return;
    } else {
        if (word == "e") {
            empty_cache(allocator_, active_id());
        } else if (word == "s") {
            finish(in);
        } else if (word == "x") {
            double fraction = 0;
            in >> fraction;
            native::setMemoryFraction(fraction, index_of(device_));
        } else if (word == "c") {
            set_settings(operation.size() > 2 ? operation.substr(2) : "");
        } else if (word == "kp") {
            native::resetPeakStats(index_of(device_));
        } else if (word == "ka") {
            native::resetAccumulatedStats(index_of(device_));
        } else if (word == "d") {
            in >> device_;
            cudaSetDevice(device_);
        } else if (word[0] == 'p' && word.size() == 2) {
            pool_operation(word, in);
        } else if (word[0] == 'g' && word.size() == 2) {
            capture_operation(word, in);
        } else {
            throw std::runtime_error("unknown operation: " + operation);
        }
        out_ += ".";
    }
    collect();
    out_ += tokens_;
}

std::string Player::play()
{
    out_ = "case " + case_.name + "\nconf " + case_.settings + "\ncapacity";
    for (u64 bytes : case_.capacity)
        out_ += " " + std::to_string(bytes);
    out_ += "\nfraction " + case_.fraction + "\nops " + std::to_string(case_.operations.size()) + "\n";
    for (const std::string &operation : case_.operations) {
        operate(operation);
        out_ += "\n";
    }
    while (!active_.empty())
        active_.pop_back();
    int lines = 0;
    for (int device = 0; device < static_cast<int>(case_.capacity.size()); device++)
        out_ += statistics(device) + "\n" + map(device, &lines) + calls(device);
    return out_ + "end\n";
}

} // namespace

std::string play(const Case &c)
{
    Player player(c);
    return player.play();
}

} // namespace oracle
