/* npu against torch_npu's own tests (test/npu/test_allocator_envs.py), what its documentation says of
 * PYTORCH_NPU_ALLOC_CONF, and hand calculations by its source; named at each test. */
#include "tests/unit/policy_run.h"

/* test_huge_memory_alloc_20M, _512B, _512B_by_vm: what was allocated grows by ceil((bytes + 32) / 512) * 512,
 * or by ceil(bytes / 512) * 512 on chips that need no padding. The tensors: 40 Mi and 1024 floats. */
Test(npu, padding)
{
    static const struct {
        const char *params;
        uint64_t bytes, allocated;
    } cases[] = {
        {"", 4 * 40 * MIB, 4 * 40 * MIB + 512},
        {"padding=0", 4 * 40 * MIB, 4 * 40 * MIB},
        {"expandable_segments=false", 4096, 4608},
        {"expandable_segments=true", 4096, 4608},
        {"expandable_segments=true,padding=0", 4096, 4096},
        {"", 1, 512},
        {"", 480, 512},
        {"", 481, 1024},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pr_run run = pr_start(&asim_policy_npu, cases[i].params, GIB);
        pr_alloc(&run, 0, cases[i].bytes, 0);
        cr_expect_eq(pr_stat(&run, "allocated_bytes.all.current"), (int64_t)cases[i].allocated, "%s, %llu",
                     cases[i].params, (unsigned long long)cases[i].bytes);
        pr_end(&run);
    }
}

/* test_max_non_split_rounding_mb: 100 MiB, freed; then 75 MiB. With 20 a new segment, with 30 none. */
Test(npu, max_non_split_rounding)
{
    static const char *const params[] = {"max_split_size_mb=50,max_non_split_rounding_mb=20",
                                         "max_split_size_mb=50,max_non_split_rounding_mb=30"};
    for (unsigned i = 0; i < 2; i++) {
        pr_run run = pr_start(&asim_policy_npu, params[i], GIB);
        pr_alloc(&run, 0, 100 * MIB, 0);
        pr_free(&run, 0);
        const int64_t before = pr_stat(&run, "reserved_bytes.all.current");
        pr_alloc(&run, 1, 75 * MIB, 0);
        const int64_t grown = pr_stat(&run, "reserved_bytes.all.current") - before;
        cr_expect(i == 0 ? grown >= (int64_t)(70 * MIB) : grown == 0);
        pr_end(&run);
    }
}

/* The source's constants: up to 1 MiB, padding and all, from segments of 2 MiB; below 10 MiB from 20 MiB;
 * else its own size in steps of 2 MiB, so that 10 MiB with its padding take 12. */
Test(npu, segments)
{
    static const uint64_t sizes[] = {MIB - 32, MIB - 31, 10 * MIB - 512, 10 * MIB};
    static const uint64_t segments[] = {2 * MIB, 20 * MIB, 10 * MIB, 12 * MIB};
    for (unsigned i = 0; i < 4; i++) {
        pr_run run = pr_start(&asim_policy_npu, "", GIB);
        pr_alloc(&run, 0, sizes[i], 0);
        cr_expect_eq(run.book->sizes[0], segments[i], "%u: %llu", i, (unsigned long long)run.book->sizes[0]);
        pr_end(&run);
    }
}

/* large_segment_size_mb: "controls the segment size of requests of 1 to 10 MB" without expandable segments.
 */
Test(npu, large_segments)
{
    pr_run run = pr_start(&asim_policy_npu, "large_segment_size_mb=64", GIB);
    pr_alloc(&run, 0, 2 * MIB, 0);
    cr_expect_eq(run.book->sizes[0], 64 * MIB);
    pr_end(&run);
}

/* The documentation of segment_size_mb, page_size and large_segment_size_mb: which of them counts, and for
 * what. What is reserved for 4 MiB, which with the padding need 4 MiB and 512 bytes. */
Test(npu, pages_of_expandable_segments)
{
    static const struct {
        const char *params;
        uint64_t reserved;
    } cases[] = {
        {"", 20 * MIB},
        {",segment_size_mb=128", 128 * MIB},
        {",large_segment_size_mb=64", 64 * MIB},
        {",large_segment_size_mb=64,segment_size_mb=128", 64 * MIB},
        {",page_size=1g,segment_size_mb=128", GIB},
        {",page_size=1g,large_segment_size_mb=64", GIB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char params[128];
        snprintf(params, sizeof params, "expandable_segments=true%s", cases[i].params);
        pr_run run = pr_start(&asim_policy_npu, params, 4 * GIB);
        pr_alloc(&run, 0, 4 * MIB, 0);
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), cases[i].reserved, "%s", params);
        pr_alloc(&run, 1, 1, 0); /* the small pool: "2 MB, not configurable" */
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), cases[i].reserved + 2 * MIB, "%s", params);
        pr_end(&run);
    }
}

/* page_size: "less than 1 GB is rounded up to 1 GB, always a multiple of it". */
Test(npu, pages_of_one_gib)
{
    pr_run run = pr_start(&asim_policy_npu, "page_size=1g", 4 * GIB);
    pr_alloc(&run, 0, 2 * MIB, 0);
    pr_alloc(&run, 1, GIB, 0); /* and 32 bytes */
    pr_alloc(&run, 2, 1000, 0);
    cr_expect_eq(run.book->sizes[0], GIB);
    cr_expect_eq(run.book->sizes[1], 2 * GIB);
    cr_expect_eq(run.book->sizes[2], 2 * MIB);
    pr_end(&run);
}

/* base_addr_aligned_kb: with 16, requests of 2 MiB and more begin at multiples of 16 KiB where that is
 * possible; with 0, at multiples of 512 bytes. A block of 3 MiB + 512 lies before it. */
Test(npu, base_addresses)
{
    static const char *const params[] = {"expandable_segments=true",
                                         "expandable_segments=true,base_addr_aligned_kb=0",
                                         "expandable_segments=true,base_addr_aligned_kb=4"};
    static const uint64_t offsets[] = {3 * MIB + 16 * KIB, 3 * MIB + 512, 3 * MIB + 4 * KIB};
    for (unsigned i = 0; i < 3; i++) {
        pr_run run = pr_start(&asim_policy_npu, params[i], GIB);
        const uint64_t base = pr_alloc(&run, 0, 3 * MIB, 0);
        cr_expect_eq(pr_alloc(&run, 1, 3 * MIB, 0) - base, offsets[i]);
        cr_expect_eq(pr_alloc(&run, 2, MIB, 0) - base,
                     offsets[i] + 3 * MIB + 512); /* too small to be aligned */
        pr_free(&run, 1);
        pr_free(&run, 0); /* merges over the gap */
        cr_expect_eq(pr_alloc(&run, 3, 6 * MIB, 0), base);
        pr_end(&run);
    }
    pr_run run = pr_start(&asim_policy_npu, "", GIB); /* without expandable segments: never */
    const uint64_t base = pr_alloc(&run, 0, 3 * MIB, 0);
    cr_expect_eq(pr_alloc(&run, 1, 3 * MIB, 0) - base, 3 * MIB + 512);
    pr_end(&run);
}

/* multi_stream_lazy_reclaim, as documented and in test_multi_stream_lazy_reclaim_trigger_event: a request
 * takes what is free; events are looked at where nothing is, or above 512 of them. */
Test(npu, lazy_reclaim)
{
    for (unsigned lazy = 0; lazy < 2; lazy++) {
        pr_run run = pr_start(&asim_policy_npu, lazy ? "multi_stream_lazy_reclaim=true" : "", GIB);
        pr_alloc(&run, 0, 20 * MIB, 0);
        pr_alloc(&run, 1, 16 * MIB, 0);
        pr_use(&run, 1, 1);
        pr_free(&run, 1);
        pr_free(&run, 0);
        pr_sync(&run, 1);
        pr_alloc(&run, 2, 20 * MIB, 0);
        cr_expect_eq(run.book->completed, lazy ? 0 : 1);
        const uint64_t allocs = run.book->allocs;
        pr_alloc(&run, 3, 16 * MIB, 0); /* none is free but that one */
        cr_expect_eq(run.book->completed, 1);
        cr_expect_eq(run.book->allocs, allocs);
        pr_end(&run);
    }
    pr_run run = pr_start(&asim_policy_npu, "multi_stream_lazy_reclaim=true", GIB);
    for (uint32_t i = 0; i < 600; i++)
        pr_alloc(&run, i, 512, 0);
    for (uint32_t i = 0; i < 513; i++) {
        pr_use(&run, i, 1);
        pr_free(&run, i);
        if (i == 511) {
            pr_sync(&run, 1);
            pr_alloc(&run, 1000, 512, 0);
            cr_expect_eq(run.book->completed, 0); /* 512 of them */
        }
    }
    pr_sync(&run, 1);
    pr_alloc(&run, 1001, 512, 0);
    cr_expect_eq(run.book->completed, 513);
    pr_end(&run);
}

/* per_process_memory_fraction: "requests beyond the limit trigger OOM"; it takes precedence over
 * throw_on_npumalloc_oom, which refuses without a retry and counts num_oom_rejections. */
Test(npu, limits)
{
    pr_run run =
        pr_start(&asim_policy_npu, "per_process_memory_fraction=0.5,throw_on_npumalloc_oom=true", 80 * MIB);
    pr_alloc(&run, 0, 30 * MIB, 0);
    cr_expect(pr_refuses(&run, 1, 20 * MIB, 0));
    cr_expect_eq(pr_stat(&run, "num_oom_rejections"), 0);
    cr_expect_eq(pr_stat(&run, "num_ooms"), 1);
    pr_end(&run);
    run = pr_start(&asim_policy_npu, "throw_on_npumalloc_oom=true", 80 * MIB);
    pr_alloc(&run, 0, 30 * MIB, 0);
    pr_free(&run, 0);
    cr_expect(pr_refuses(&run, 1, 60 * MIB, 0)); /* 32 MiB are cached and stay */
    cr_expect_eq(pr_stat(&run, "num_oom_rejections"), 1);
    cr_expect_eq(pr_stat(&run, "num_alloc_retries"), 0);
    pr_end(&run);
}

/* Before anything cached goes back the device is waited for, as the source's calls of npuSynchronizeDevice.
 * In nanoseconds, with the costs of generic-80g: a segment of 32 MiB 116000; one of 62 MiB is refused 131000;
 * the wait 5000, which PyTorch doesn't make; the first goes back 109600; 62 MiB 131000. */
Test(npu, waits_before_it_releases)
{
    const uint64_t calls = 116000 + 131000 + 109600 + 131000;
    pr_run run = pr_start_by_clock(&asim_policy_npu, "", 80 * MIB);
    pr_alloc(&run, 0, 30 * MIB, 0);
    pr_free(&run, 0);
    pr_alloc(&run, 1, 60 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_alloc_retries), 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns), calls + 5000);
    pr_end(&run);
    run = pr_start_by_clock(&asim_policy_torchcache, "", 80 * MIB);
    pr_alloc(&run, 0, 32 * MIB, 0);
    pr_free(&run, 0);
    pr_alloc(&run, 1, 62 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns), calls);
    pr_end(&run);
}

/* "max_split_size_mb or garbage_collection_threshold cannot be enabled with expandable_segments"; bounds. */
Test(npu, conflicts)
{
    pr_usage(&asim_policy_npu, "expandable_segments=true,max_split_size_mb=50", "max_split_size_mb");
    pr_usage(&asim_policy_npu, "expandable_segments=true,garbage_collection_threshold=0.8",
             "garbage_collection_threshold");
    pr_usage(&asim_policy_npu, "base_addr_aligned_kb=17", "base_addr_aligned_kb");
    pr_usage(&asim_policy_npu, "segment_size_mb=19", "segment_size_mb");
    pr_usage(&asim_policy_npu, "segment_size_mb=513", "segment_size_mb");
    pr_usage(&asim_policy_npu, "page_size=2g", "page_size");
    pr_usage(&asim_policy_npu, "large_segment_size_mb=64,max_split_size_mb=32", "max_split_size_mb");
}

/* The examples of the documentation of PYTORCH_NPU_ALLOC_CONF, and what its source refuses. */
Test(npu, option_string)
{
    static const char *const examples[] = {"max_split_size_mb:32,garbage_collection_threshold:0.6",
                                           "expandable_segments:True,base_addr_aligned_kb:16",
                                           "page_size:1g",
                                           "expandable_segments:True,segment_size_mb:40",
                                           "roundup_power2_divisions:4",
                                           "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
                                           "multi_stream_lazy_reclaim:True",
                                           "pinned_use_background_threads:True",
                                           "pin_memory_expandable_segments:True",
                                           "pinned_mem_register:True"};
    char params[160];
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        snprintf(params, sizeof params, "conf=[%s]", examples[i]);
        pr_run run = pr_start(&asim_policy_npu, params, 4 * GIB);
        pr_alloc(&run, 0, 4 * MIB, 0);
        const uint64_t reserved = i == 2 ? GIB : i == 3 ? 40 * MIB : 20 * MIB;
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), reserved, "%s", examples[i]);
        pr_end(&run);
    }
    static const char *const refused[] = {"base_addr_aligned_kb:17",
                                          "base_addr_aligned_kb:x",
                                          "page_size:2g",
                                          "segment_size_mb:19",
                                          "segment_size_mb:513",
                                          "backend:native",
                                          "throw_on_cudamalloc_oom:True",
                                          "expandable_segments:True,max_split_size_mb:32"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(params, sizeof params, "conf=[%s]", refused[i]);
        const char *const last = strrchr(refused[i], ',') ? strrchr(refused[i], ',') + 1 : refused[i];
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(last, ":"), last);
        pr_usage(&asim_policy_npu, params, key);
    }
    pr_usage(&asim_policy_torchcache, "conf=[base_addr_aligned_kb:16]", "base_addr_aligned_kb");
}

/* "Tried to allocate more than 1EB memory"; no bytes get no memory. */
Test(npu, zero_and_huge)
{
    pr_run run = pr_start(&asim_policy_npu, "", GIB);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 1, UINT64_C(1) << 60, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_MAX, 0));
    cr_expect(pr_refuses(&run, 1, (UINT64_C(1) << 60) - 1, 0));
    pr_end(&run);
}
