/* Moves, pauses, pieces, resizes, accesses and foresight of a policy, as the engine books them. The policy
 * under test has one segment of 16 MiB and does what each request's size in MiB tells it; the numbers are
 * calculated by hand. */
#include "sim/engine.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB UINT64_C(1048576)

enum {
    BLOCKS = 16,
    SEGMENT_MIB = 16,
};

typedef struct test_block {
    uint64_t at, pieces; /* in MiB, from the segment's start */
    bool live;
} test_block;

/* Blocks are placed one after another and never reused; a request of 3 MiB first slides all live blocks down.
 */
struct asim_policy_state {
    asim_policy_env env;
    asim_region region;
    uint64_t next; /* MiB */
    test_block blocks[BLOCKS];
    uint64_t sizes[BLOCKS]; /* MiB */
    uint32_t count;
    uint64_t accessed, prefixed, foreseen;
    bool skips; /* moves a block that does not live */
};

static asim_code slide_init(asim_policy_state *state, const asim_policy_env *env, const void *params,
                            asim_err *err)
{
    (void)params;
    (void)err;
    state->env = *env;
    state->foreseen = env->future ? env->future->event_count : 0;
    return ASIM_OK;
}

static bool open_segment(asim_policy_state *state)
{
    const asim_device *device = &state->env.device;
    return state->region.size ||
           device->ops->alloc(device->ctx, 0, SEGMENT_MIB * MIB, 0, &state->region) == ASIM_DEVICE_OK;
}

static void slide(asim_policy_state *state)
{
    const asim_listener *listener = state->env.listener;
    const asim_device *device = &state->env.device;
    uint64_t end = 0;
    listener->pause(listener->ctx, true);
    for (uint32_t i = 0; i < state->count; i++) {
        test_block *block = &state->blocks[i];
        if (!block->live)
            continue;
        if (block->at != end) {
            uint64_t to = state->region.address + end * MIB;
            device->ops->copy(device->ctx, 0, to, state->region.address + block->at * MIB,
                              state->sizes[i] * MIB);
            listener->moved(listener->ctx, i, state->region.index, to);
            block->at = end;
        }
        end += state->sizes[i];
    }
    state->next = end;
    if (state->skips)
        listener->moved(listener->ctx, BLOCKS - 1, state->region.index, state->region.address);
    listener->pause(listener->ctx, false);
}

static asim_alloc_result slide_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    uint64_t size = event->size / MIB;
    if (!open_segment(state) || state->count == BLOCKS)
        return ASIM_BROKEN;
    if (size == 3)
        slide(state);
    uint32_t word = state->count++;
    state->blocks[word] = (test_block){state->next, 0, true};
    state->sizes[word] = size;
    state->next += size;
    *ret_placement = (asim_placement){state->region.address + state->blocks[word].at * MIB, event->size,
                                      event->size, state->region.index, word};
    return ASIM_PLACED;
}

static asim_free_result slide_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    (void)completion_follows;
    state->blocks[word].live = false;
    return ASIM_FREED;
}

static asim_code slide_check(const asim_policy_state *state, asim_err *err)
{
    (void)state;
    (void)err;
    return ASIM_OK;
}

static void slide_walk(const asim_policy_state *state, const asim_walker *walker)
{
    (void)state;
    (void)walker;
}

static void slide_fini(asim_policy_state *state)
{
    (void)state;
}

static void slide_access(asim_policy_state *state, uint32_t word, const asim_event *event)
{
    (void)word;
    state->accessed += event->size;
}

static void slide_prefix(asim_policy_state *state, uint32_t word, const asim_event *event)
{
    state->prefixed += event->size + word;
}

static void slide_metrics(const asim_policy_state *state,
                          void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "accessed", state->accessed);
    emit(ctx, "prefixed", state->prefixed);
    emit(ctx, "foreseen", state->foreseen);
}

#define SLIDE                                                                                                \
    .version = ASIM_POLICY_VERSION, .name = "slide", .summary = "test", .source = "test",                    \
    .state_size = sizeof(asim_policy_state), .init = slide_init, .check = slide_check, .walk = slide_walk,   \
    .fini = slide_fini, .access = slide_access, .prefix = slide_prefix, .metrics = slide_metrics

static const asim_policy slides = {SLIDE, .flags = ASIM_POLICY_MOVES, .alloc = slide_alloc,
                                   .free = slide_free};

static const asim_policy foresees = {SLIDE, .flags = ASIM_POLICY_CLAIRVOYANT, .alloc = slide_alloc,
                                     .free = slide_free};

static asim_code skip_init(asim_policy_state *state, const asim_policy_env *env, const void *params,
                           asim_err *err)
{
    state->skips = true;
    return slide_init(state, env, params, err);
}

/* Allocations are made of pieces of 1 MiB, from the segment's start upwards; the last one is partly used. */
static void take(asim_policy_state *state, uint32_t word, uint64_t pieces)
{
    const asim_listener *listener = state->env.listener;
    test_block *block = &state->blocks[word];
    for (; block->pieces < pieces; block->pieces++)
        listener->piece(listener->ctx, state->region.index,
                        state->region.address + (block->at + block->pieces) * MIB, MIB, true);
    for (; block->pieces > pieces; block->pieces--)
        listener->piece(listener->ctx, state->region.index,
                        state->region.address + (block->at + block->pieces - 1) * MIB, MIB, false);
}

static asim_alloc_result piece_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    if (!open_segment(state) || state->count == BLOCKS)
        return ASIM_BROKEN;
    uint32_t word = state->count++;
    state->blocks[word] = (test_block){word * UINT64_C(4), 0, true};
    take(state, word, (event->size + MIB - 1) / MIB);
    *ret_placement = (asim_placement){state->region.address + state->blocks[word].at * MIB, 0,
                                      state->blocks[word].pieces * MIB, ASIM_NO_INDEX, word};
    return ASIM_PLACED;
}

static asim_free_result piece_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    (void)completion_follows;
    take(state, word, 0);
    return ASIM_FREED;
}

static asim_alloc_result piece_resize(asim_policy_state *state, uint32_t word, const asim_event *event,
                                      asim_placement *ret_placement)
{
    uint64_t pieces = (event->size + MIB - 1) / MIB;
    if (pieces == 3)
        return ASIM_NOTHING;
    if (pieces > 4) {
        state->env.listener->refusal(state->env.listener->ctx, 0, event->size, event->size, 0);
        return ASIM_REFUSED;
    }
    take(state, word, pieces);
    *ret_placement = (asim_placement){state->region.address + state->blocks[word].at * MIB, 0, pieces * MIB,
                                      ASIM_NO_INDEX, word};
    return ASIM_PLACED;
}

static const asim_policy scatters = {SLIDE, .flags = ASIM_POLICY_SCATTERS, .alloc = piece_alloc,
                                     .free = piece_free, .resize = piece_resize};

static const asim_lane lanes[] = {{.stream = 0}};
static const asim_trace_device devices[] = {{.name = ASIM_NO_INDEX}};
static asim_run_record record;
static asim_profile profile;

static asim_code run(const asim_policy *policy, const asim_event *events, size_t count, asim_err *err)
{
    const asim_trace trace = {.events = events,
                              .event_count = count,
                              .slot_count = 8,
                              .lanes = lanes,
                              .lane_count = 1,
                              .devices = devices,
                              .device_count = 1};
    asim_profile_builtin("generic-80g", &profile);
    const asim_run_config config = {.trace = &trace,
                                    .policy = policy,
                                    .profile = &profile,
                                    .check = ASIM_CHECK_PLACEMENTS,
                                    .capacity = 64 * MIB};
    asim_engine *engine = NULL;
    asim_code code = asim_engine_new(&config, asim_hostmem_libc(), &engine, err);
    if (!code)
        code = asim_engine_run(engine, err);
    if (!code)
        asim_engine_record(engine, &record);
    asim_engine_free(engine);
    return code;
}

static void must_run(const asim_policy *policy, const asim_event *events, size_t count)
{
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(run(policy, events, count, &err), ASIM_OK, "%s", err.message);
}

#define METRIC(name) record.metrics[ASIM_METRIC_##name]
#define COUNT(list)  (sizeof(list) / sizeof(list)[0])
#define ALLOC(slot, bytes)                                                                                   \
    {                                                                                                        \
        .kind = ASIM_EV_ALLOC, .id = (slot), .size = (bytes)                                                 \
    }
#define FREE(slot)                                                                                           \
    {                                                                                                        \
        .kind = ASIM_EV_FREE, .id = (slot)                                                                   \
    }
#define RESIZE(slot, bytes)                                                                                  \
    {                                                                                                        \
        .kind = ASIM_EV_RESIZE, .id = (slot), .size = (bytes)                                                \
    }

/* 4, 2 and 1 MiB; the first goes, and the request of 3 makes the others slide down by 4: 3 MiB in two moves.
 */
Test(engine_pieces, moves_are_booked_and_their_pause_measured)
{
    static const asim_event events[] = {ALLOC(0, 4 * MIB), ALLOC(1, 2 * MIB), ALLOC(2, MIB), FREE(0),
                                        ALLOC(3, 3 * MIB), FREE(1),           FREE(2),       FREE(3)};
    must_run(&slides, events, COUNT(events));
    const uint64_t pause = 2 * profile.move_ns + 2 * MIB * 1000 / profile.copy_bytes_per_us +
                           MIB * 1000 / profile.copy_bytes_per_us;
    cr_assert_eq(METRIC(compactions), 1);
    cr_assert_eq(METRIC(moved_bytes), 3 * MIB);
    cr_assert_eq(METRIC(pause_ns), pause);
    cr_assert_eq(METRIC(max_pause_ns), pause);
    cr_assert_eq(METRIC(peak_allocated_bytes), 7 * MIB);
    cr_assert_eq(METRIC(allocated_bytes), 0);
    cr_assert_eq(METRIC(reserved_bytes), SEGMENT_MIB * MIB);
}

/* Growing the second block from 2 to 3 MiB slides it while it is being replaced: the copy that follows is
 * from where it then lies. */
Test(engine_pieces, a_block_that_is_being_replaced_can_move)
{
    static const asim_event events[] = {ALLOC(0, 4 * MIB), ALLOC(1, 2 * MIB), FREE(0), RESIZE(1, 3 * MIB),
                                        FREE(1)};
    must_run(&slides, events, COUNT(events));
    cr_assert_eq(METRIC(moved_bytes), 2 * MIB + 2 * MIB);
    cr_assert_eq(METRIC(peak_allocated_bytes), 6 * MIB);
    cr_assert_eq(METRIC(allocated_bytes), 0);
}

Test(engine_pieces, a_move_of_nothing_is_a_fault_of_the_policy)
{
    static const asim_event events[] = {ALLOC(0, MIB), ALLOC(1, 3 * MIB)};
    asim_policy skips = slides;
    skips.init = skip_init;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(run(&skips, events, COUNT(events), &err), ASIM_E_BUG);
    cr_assert(strstr(err.message, "moved the block 15, which does not live"), "%s", err.message);
}

Test(engine_pieces, a_move_without_the_flag_is_a_fault_of_the_policy)
{
    static const asim_event events[] = {ALLOC(0, 2 * MIB), ALLOC(1, MIB), FREE(0), ALLOC(2, 3 * MIB)};
    asim_policy undeclared = slides;
    undeclared.flags = 0;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(run(&undeclared, events, COUNT(events), &err), ASIM_E_BUG);
    cr_assert(strstr(err.message, "which does not live"), "%s", err.message);
}

/* 2.5 MiB take three pieces; grown to 3.5 MiB, four; shrunk to 1 MiB, one. */
Test(engine_pieces, pieces_are_booked_once)
{
    static const asim_event events[] = {ALLOC(0, 2 * MIB + MIB / 2), ALLOC(1, MIB),
                                        RESIZE(0, 3 * MIB + MIB / 2), RESIZE(0, MIB), FREE(1)};
    must_run(&scatters, events, COUNT(events));
    cr_assert_eq(METRIC(peak_allocated_bytes), 5 * MIB);
    cr_assert_eq(METRIC(peak_active_bytes), 5 * MIB);
    cr_assert_eq(METRIC(peak_requested_bytes), 4 * MIB + MIB / 2);
    cr_assert_eq(METRIC(lower_bound_bytes), 5 * MIB);
    cr_assert_eq(METRIC(peak_internal_frag_bytes), MIB / 2);
    cr_assert_eq(METRIC(allocated_bytes), MIB);
    cr_assert_eq(METRIC(requested_bytes), MIB);
    cr_assert_eq(METRIC(moved_bytes), 0);
    cr_assert_eq(METRIC(allocs), 2);
}

/* To 5 MiB is refused and leaves the 2 MiB; to 3 MiB the policy leaves to the engine, which copies them. */
Test(engine_pieces, a_resize_may_be_refused_or_left_to_the_engine)
{
    static const asim_event events[] = {ALLOC(0, 2 * MIB), RESIZE(0, 5 * MIB), RESIZE(0, 3 * MIB), FREE(0)};
    must_run(&scatters, events, COUNT(events));
    cr_assert_eq(METRIC(ooms), 1);
    cr_assert_eq(record.oom.event, 1);
    cr_assert_eq(record.oom.requested_bytes, 5 * MIB);
    cr_assert_eq(METRIC(peak_allocated_bytes), 5 * MIB); /* 2 and 3 while they are copied */
    cr_assert_eq(METRIC(moved_bytes), 2 * MIB);
    cr_assert_eq(METRIC(allocated_bytes), 0);
}

Test(engine_pieces, a_piece_without_the_flag_is_a_fault_of_the_policy)
{
    static const asim_event events[] = {ALLOC(0, MIB)};
    asim_policy undeclared = scatters;
    undeclared.flags = 0;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(run(&undeclared, events, COUNT(events), &err), ASIM_E_BUG);
    cr_assert(strstr(err.message, "took a piece"), "%s", err.message);
}

Test(engine_pieces, accesses_prefixes_and_the_future_reach_the_policy)
{
    static const asim_event events[] = {ALLOC(0, MIB),
                                        ALLOC(1, MIB),
                                        {.kind = ASIM_EV_ACCESS, .id = 0, .size = 100},
                                        {.kind = ASIM_EV_ACCESS, .id = 1, .size = 23},
                                        {.kind = ASIM_EV_PREFIX, .id = 1, .size = 1000}};
    must_run(&foresees, events, COUNT(events));
    cr_assert_eq(record.own_count, 3);
    cr_assert_str_eq(record.own[0].name, "accessed");
    cr_assert_eq(record.own[0].value, 123);
    cr_assert_eq(record.own[1].value, 1001); /* and the word of the second block */
    cr_assert_eq(record.own[2].value, 5);
    must_run(&slides, events, COUNT(events));
    cr_assert_eq(record.own[2].value, 0);
}
