/*
 * What differs between releases of PyTorch in the interface of the allocator library, and the numbers by
 * which the oracle names streams and pools to it. Where releases differ in a member, the code asks the type;
 * where they differ in a type, it asks ORACLE_TORCH (20600 for 2.6.0).
 */
#pragma once

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#if ORACLE_TORCH >= 20200
#include <c10/cuda/CUDAAllocatorConfig.h>
#endif

#if __has_include(<c10/cuda/PeerToPeerAccess.h>)
#include <c10/cuda/PeerToPeerAccess.h>
#define ORACLE_HAS_PEER_CACHE 1
#endif

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if ORACLE_TORCH >= 20100
namespace c10::cuda::_internal
{
/* Defined by the library; its headers leave it out. */
void setHasPrimaryContext(bool (*answer)(c10::DeviceIndex));
} // namespace c10::cuda::_internal
#endif

namespace oracle
{

namespace native = c10::cuda::CUDACachingAllocator;

using u64 = std::uint64_t;

constexpr int kRelease = ORACLE_TORCH;
constexpr int kStreams = 4, kPools = 4, kDevices = 3;

/* ---- names the allocator knows things by, chosen so that its hash tables go through them in our order ----
 */

/* The place of a hash in PyTorch's tables, as a fraction of the table: they multiply and take the top bits.
 */
inline double place(u64 hash)
{
    return static_cast<double>(hash * 11400714819323198485ull) / 18446744073709551616.0;
}

inline u64 stream_hash(int device, u64 handle)
{
    return 1ull << 56 | static_cast<u64>(device) << 48 | (handle & ((1ull << 48) - 1));
}

/* The next value above `after`, a multiple of `step`, whose place lies in [low, high). */
inline u64 next_placed(u64 after, u64 step, u64 base, double low, double high)
{
    for (u64 value = after + step;; value += step) {
        double at = place(base + value);
        if (at >= low && at < high)
            return value;
    }
}

/*
 * Stream handles. They ascend with the stream's number, and the events of one device are looked at in the
 * order of device and stream. Stream 0 is one handle on all devices, so its places on them follow from the
 * first: 0.02, 0.50 and 0.99. The other streams lie between, in different slots of a table of four if there
 * is one device, of eight if there are two, and of 128 if there are three; for that the tables are made to
 * grow first (see kWarmStreams).
 */
class Handles
{
  public:
    Handles()
    {
        constexpr u64 step = 4096;
        static const double low[kDevices][kStreams] = {{0.016, 0.27, 0.52, 0.77}, {0, 0.76}, {0, 0.995}};
        u64 common = next_placed(1ull << 20, step, stream_hash(0, 0), low[0][0], low[0][0] + 0.006);
        for (int device = 0; device < kDevices; device++) {
            u64 last = handles_[device][0] = common;
            for (int stream = 1; stream < kStreams && low[device][stream] > 0; stream++) {
                double start = low[device][stream];
                last = next_placed(last, step, stream_hash(device, 0), start, start + 0.004);
                handles_[device][stream] = last;
            }
        }
    }
    u64 get(int device, int stream) const
    {
        return handles_[device][stream];
    }
    cudaStream_t handle(int device, int stream) const
    {
        return reinterpret_cast<cudaStream_t>(handles_[device][stream]);
    }
    c10::cuda::CUDAStream stream(int device, int stream) const
    {
        return c10::cuda::getStreamFromExternal(handle(device, stream),
                                                static_cast<c10::DeviceIndex>(device));
    }
    int number(const void *handle) const
    {
        for (int device = 0; device < kDevices; device++)
            for (int stream = 0; stream < kStreams; stream++)
                if (handles_[device][stream] != 0 &&
                    handles_[device][stream] == reinterpret_cast<u64>(handle))
                    return stream;
        return -1;
    }

  private:
    u64 handles_[kDevices][kStreams] = {};
};

using PoolId = std::pair<unsigned long long, unsigned long long>;

/* As many streams with pending events make a table grow to 128 slots, and it never shrinks. */
constexpr int kWarmStreams = 40;

inline PoolId pool_id(int pool)
{
    static const auto ids = [] {
        std::vector<PoolId> made;
        for (int i = 0; i < kPools; i++)
            made.emplace_back(0, next_placed(100, 1, 0, 0.25 * i + 0.05, 0.25 * i + 0.20));
        return made;
    }();
    return ids[static_cast<size_t>(pool)];
}

inline int pool_number(const PoolId &id)
{
    for (int i = 0; i < kPools; i++)
        if (pool_id(i) == id)
            return i;
    return -1;
}

/*
 * What parts of PyTorch that are not loaded would do for the library: answer whether a device is in use,
 * which it wants to know to restore the current one, and prepare the table of peers.
 */
inline void start_library(int devices)
{
    (void)devices;
#ifdef ORACLE_HAS_PEER_CACHE
    if constexpr (requires { c10::cuda::detail::init_p2p_access_cache(devices); })
        c10::cuda::detail::init_p2p_access_cache(devices);
#endif
#if ORACLE_TORCH >= 20100
    c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
#endif
}

/* ---- what differs between releases in a member ---- */

using Streams = std::vector<cudaStream_t>;

/*
 * Up to 2.2 a pool is filled stream by stream, and each beginning counts as a use: all but one are given
 * back, so that the pool has the uses that later releases give it.
 */
template <class A>
void begin_pool(A *allocator, int device, PoolId id, const Streams &streams,
                std::function<bool(cudaStream_t)> filter)
{
    auto index = static_cast<c10::DeviceIndex>(device);
    if constexpr (requires { allocator->beginAllocateToPool(index, id, filter); }) {
        allocator->beginAllocateToPool(index, id, std::move(filter));
    } else if constexpr (requires { allocator->beginAllocateStreamToPool(index, nullptr, id); }) {
        for (cudaStream_t stream : streams)
            allocator->beginAllocateStreamToPool(index, stream, id);
        for (size_t i = 1; i < streams.size(); i++)
            allocator->releasePool(index, id);
    } else {
        throw std::runtime_error("this release has no pools that the oracle can drive");
    }
}

template <class A> void end_pool(A *allocator, int device, PoolId id, const Streams &streams)
{
    auto index = static_cast<c10::DeviceIndex>(device);
    if constexpr (requires { allocator->endAllocateToPool(index, id); })
        allocator->endAllocateToPool(index, id);
    else if constexpr (requires { allocator->endAllocateStreamToPool(index, nullptr); })
        for (cudaStream_t stream : streams)
            allocator->endAllocateStreamToPool(index, stream);
}

template <class A> void create_pool(A *allocator, int device, PoolId id)
{
    auto index = static_cast<c10::DeviceIndex>(device);
    if constexpr (requires { allocator->createOrIncrefPool(index, id); }) {
        allocator->createOrIncrefPool(index, id);
    } else if constexpr (requires { allocator->ensureExistsAndIncrefPool(index, id); }) {
        allocator->ensureExistsAndIncrefPool(index, id);
    } else {
        const Streams unused = {reinterpret_cast<cudaStream_t>(std::uintptr_t{1} << 12)};
        begin_pool(allocator, device, id, unused, [](cudaStream_t) { return false; });
        end_pool(allocator, device, id, unused);
    }
}

template <class A> void release_pool(A *allocator, int device, PoolId id)
{
    if constexpr (requires { allocator->releasePool(0, id); })
        allocator->releasePool(static_cast<c10::DeviceIndex>(device), id);
}

/* Two marks that a pool of a user can bear: it helps out when memory runs out, and its blocks are not split.
 */
template <class A> void mark_pool(A *allocator, int device, PoolId id, bool use_on_oom)
{
    auto index = static_cast<c10::DeviceIndex>(device);
    if (use_on_oom) {
        if constexpr (requires { allocator->setUseOnOOM(index, id, true); }) {
            allocator->setUseOnOOM(index, id, true);
            return;
        } else if constexpr (requires { allocator->setUseOnOOM(index, id); }) {
            allocator->setUseOnOOM(index, id);
            return;
        }
    } else if constexpr (requires { allocator->setNoSplit(index, id); }) {
        allocator->setNoSplit(index, id);
        return;
    }
    throw std::runtime_error("this release has no such mark for pools");
}

/* From 2.13 on the allocator is told of a capture apart from the pool it fills. */
template <class A> constexpr bool kMarksCaptures = requires(A *allocator)
{
    allocator->markCaptureBegin(0);
};

template <class A> void mark_capture(A *allocator, int device, bool begin)
{
    if constexpr (kMarksCaptures<A>) {
        if (begin)
            allocator->markCaptureBegin(static_cast<c10::DeviceIndex>(device));
        else
            allocator->markCaptureEnd(static_cast<c10::DeviceIndex>(device));
    }
}

template <class A> void empty_cache(A *allocator, PoolId active)
{
    if constexpr (requires { allocator->emptyCache(active); })
        allocator->emptyCache(active);
    else
        native::emptyCache();
}

template <class A> auto take_snapshot(A *allocator, PoolId active)
{
    if constexpr (requires { allocator->snapshot(active, false); })
        return allocator->snapshot(active, false);
    else if constexpr (requires { allocator->snapshot(active); })
        return allocator->snapshot(active);
    else
        return native::snapshot();
}

template <class S> const auto &segments_of(const S &snapshot)
{
    if constexpr (requires { snapshot.segments; })
        return snapshot.segments;
    else
        return snapshot;
}

using OutOfMemory = c10::OutOfMemoryError;

inline void set_settings(const std::string &text)
{
#if ORACLE_TORCH >= 21000
    c10::CachingAllocator::setAllocatorSettings(text);
#else
    native::setAllocatorSettings(text);
#endif
}

/* The active pool of 2.5 to 2.7: an object of a class of its own, which only lends its number here. */
#if ORACLE_TORCH >= 20500 && ORACLE_TORCH < 20800
struct ActivePool {
    explicit ActivePool(int pool)
    {
        object()->id_ = pool_id(pool);
        context_.emplace(object());
    }
    c10::cuda::MemPool *object()
    {
        return reinterpret_cast<c10::cuda::MemPool *>(storage_);
    }
    alignas(c10::cuda::MemPool) unsigned char storage_[sizeof(c10::cuda::MemPool)] = {};
    std::optional<c10::cuda::MemPoolContext> context_;
};
#else
struct ActivePool {
    explicit ActivePool(int)
    {
        if (kRelease < 20500)
            throw std::runtime_error("this release knows no active pool");
    }
};
#endif

} // namespace oracle
