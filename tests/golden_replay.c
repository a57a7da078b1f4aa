#include "tests/golden_replay.h"

#include "sim/device_model.h"
#include "tests/golden_watch.h"

#include <stdio.h>

enum {
    LANES_MAX = GOLDEN_DEVICES * GOLDEN_STREAMS * (GOLDEN_POOLS + 1),
};

typedef struct replay {
    const golden_case *c;
    const golden_options *options;
    golden_watch watch;
    golden_text line, map; /* what came out, as the file writes it */
    asim_lane lanes[LANES_MAX];
    asim_trace_device devices[GOLDEN_DEVICES];
    asim_profile profile;
    asim_string *strings;
    asim_trace trace;
    void *params;
    asim_engine *engine;
    uint8_t *slot_devices; /* device of each live ID + 1; 0: not live */
    uint8_t active[GOLDEN_DEVICES][GOLDEN_NESTED];
    uint32_t active_count[GOLDEN_DEVICES];
    uint32_t device; /* the current one */
    asim_err engine_err;
    golden_text *difference;
    bool equal;
} replay;

/* pool: 0 for none, otherwise the file's number + 1. */
static uint16_t lane_of(const replay *r, uint32_t device, uint32_t stream, uint32_t pool)
{
    return (uint16_t)((pool * r->c->device_count + device) * GOLDEN_STREAMS + stream);
}

static void differ(replay *r, const char *where, const char *operation, const char *expected, const char *got)
{
    golden_text *text = r->difference;
    r->equal = false;
    golden_text_string(text, "  case ");
    golden_text_string(text, r->c->name);
    golden_text_string(text, ", ");
    golden_text_string(text, where);
    golden_text_string(text, operation);
    golden_text_string(text, "\n    expected: ");
    golden_text_string(text, expected);
    golden_text_string(text, "\n    got:      ");
    golden_text_string(text, got);
    golden_text_string(text, "\n");
}

static void differ_at(replay *r, const golden_op *op, const char *expected, const char *got)
{
    char where[96];
    snprintf(where, sizeof where, "operation %zu of %zu, ", (size_t)(op - r->c->ops) + 1, r->c->op_count);
    differ(r, where, golden_at(r->c, op->text), expected, got);
}

/* One event. A failure of the engine is a difference at this operation. */
static bool step(replay *r, const golden_op *op, asim_event event, asim_alloc_result *ret_result,
                 asim_placement *ret_placement)
{
    if (asim_engine_step(r->engine, &event, ret_result, ret_placement, &r->engine_err) == ASIM_OK)
        return true;
    if (op)
        differ_at(r, op, golden_at(r->c, op->expected), r->engine_err.message);
    else
        differ(r, "before the first operation", "", "no error", r->engine_err.message);
    return false;
}

static asim_event event_of(asim_event_kind kind, uint16_t lane, uint32_t id, uint64_t size)
{
    return (asim_event){.kind = (uint8_t)kind, .lane = lane, .id = id, .size = size};
}

static bool replay_alloc(replay *r, const golden_op *op)
{
    asim_alloc_result result = ASIM_BROKEN;
    asim_placement placement = {0};
    asim_event event = event_of(ASIM_EV_ALLOC, lane_of(r, r->device, op->stream, 0), op->slot, op->size);
    if (!step(r, op, event, &result, &placement))
        return false;
    if (result == ASIM_PLACED) {
        golden_text_string(&r->line, "A");
        golden_position(&r->watch, &r->line, ' ', placement.address, placement.region);
        golden_text_field(&r->line, ' ', placement.size);
        r->slot_devices[op->slot] = (uint8_t)(r->device + 1);
    } else {
        golden_text_string(&r->line, result == ASIM_REFUSED   ? "O"
                                     : result == ASIM_NOTHING ? "N"
                                                              : "(broken)");
    }
    return true;
}

static bool replay_block(replay *r, const golden_op *op)
{
    uint32_t owner = r->slot_devices[op->slot];
    if (!owner) {
        golden_text_string(&r->line, "-");
        return true;
    }
    golden_text_string(&r->line, ".");
    if (op->kind == GOLDEN_FREE) {
        r->slot_devices[op->slot] = 0;
        return step(r, op, event_of(ASIM_EV_FREE, lane_of(r, owner - 1, 0, 0), op->slot, 0), NULL, NULL);
    }
    uint32_t device = op->device < GOLDEN_DEVICES ? op->device : owner - 1;
    return step(r, op, event_of(ASIM_EV_USE, lane_of(r, device, op->stream, 0), op->slot, 0), NULL, NULL);
}

static void write_statistic(void *ctx, const char *name, int64_t value)
{
    static const char pools[] = "reserved_bytes_by_private_pools.";
    golden_text *text = ctx;
    if (!strcmp(name, "num_oom_rejections") || !strncmp(name, pools, strlen(pools)))
        return; /* from 2.13 on; the files hold what every release has */
    if (value < 0) {
        golden_text_string(text, " -");
        golden_text_number(text, 0 - (uint64_t)value);
    } else {
        golden_text_field(text, ' ', (uint64_t)value);
    }
}

/* Releases up to 2.2 keep no counts of device calls, release 1.13 no requested sizes either. */
static void write_statistic_2_1(void *ctx, const char *name, int64_t value)
{
    static const char *const later[] = {"num_sync_all_streams", "num_device_alloc", "num_device_free"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (!strcmp(name, later[i]))
            return;
    write_statistic(ctx, name, value);
}

static void write_statistic_1_13(void *ctx, const char *name, int64_t value)
{
    static const char later[] = "requested_bytes";
    if (strncmp(name, later, strlen(later)) != 0)
        write_statistic_2_1(ctx, name, value);
}

typedef void statistic_writer(void *ctx, const char *name, int64_t value);

static statistic_writer *writer_of(const golden_case *c)
{
    return c->statistics == GOLDEN_STATISTICS_1_13  ? write_statistic_1_13
           : c->statistics == GOLDEN_STATISTICS_2_1 ? write_statistic_2_1
                                                    : write_statistic;
}

typedef struct statistic_name {
    char name[64]; /* the one given lives only as long as the call */
    size_t index, wanted;
    statistic_writer *write;
} statistic_name;

static void find_name(void *ctx, const char *name, int64_t value)
{
    statistic_name *find = ctx;
    golden_text written = {0};
    find->write(&written, name, value);
    if (written.length && find->index++ == find->wanted)
        snprintf(find->name, sizeof find->name, "%s", name);
    golden_text_fini(&written);
}

/* Appends which of the two lines of statistics differs first, by name. */
static void name_statistic(replay *r, uint32_t device, const char *expected, const char *got)
{
    statistic_name find = {.write = writer_of(r->c)};
    for (; *expected && *expected == *got; expected++, got++)
        find.wanted += *got == ' ';
    if (find.wanted == 0)
        return;
    find.wanted--;
    asim_engine_report(r->engine, device, find_name, &find);
    golden_text_string(r->difference, "    first at: ");
    golden_text_string(r->difference, find.name[0] ? find.name : "a statistic that the policy does not have");
    golden_text_string(r->difference, "\n");
}

static void write_statistics(replay *r, uint32_t device)
{
    golden_text_string(&r->line, "Q");
    asim_engine_report(r->engine, device, writer_of(r->c), &r->line);
}

static void write_counts(replay *r, uint32_t device)
{
    asim_device_counts n;
    asim_engine_device_counts(r->engine, device, &n);
    const uint64_t all[] = {n.allocs,   n.failed_allocs, n.frees,
                            n.pages,    n.failed_pages,  n.released_pages,
                            n.reserves, n.event_records, n.event_queries};
    const uint64_t old[] = {n.allocs, n.failed_allocs, n.frees, n.event_records, n.event_queries};
    bool is_old = r->c->format == GOLDEN_RELEASE_1_13;
    golden_text_string(&r->line, "D");
    for (size_t i = 0; i < (is_old ? 5 : 9); i++)
        golden_text_field(&r->line, ' ', is_old ? old[i] : all[i]);
}

static size_t write_map(replay *r, uint32_t device)
{
    uint32_t nested = r->active_count[device];
    r->map.length = 0;
    return golden_map(r->engine, &r->watch, device, nested ? r->active[device][nested - 1] + 1u : 0, &r->map);
}

/* The expected lines begin at offset, a zero behind each. Describes the first that differs. */
static bool same_map(replay *r, const golden_op *op, size_t offset, size_t expected_lines, size_t got_lines)
{
    const char *expected = golden_at(r->c, offset), *got = r->map.bytes;
    for (size_t i = 0; i < expected_lines || i < got_lines; i++) {
        const char *wanted = i < expected_lines ? expected : "(no line)";
        const char *found = i < got_lines ? got : "(no line)";
        if (strcmp(wanted, found)) {
            char where[96];
            snprintf(where, sizeof where, "line %zu of the map, after ", i + 1);
            differ(r, where, op ? golden_at(r->c, op->text) : "the last operation", wanted, found);
            return false;
        }
        expected += strlen(wanted) + 1;
        got += strlen(found) + 1;
    }
    return true;
}

static bool replay_begin(replay *r, const golden_op *op)
{
    asim_event event = event_of(ASIM_EV_POOL_BEGIN, lane_of(r, r->device, op->stream, op->pool + 1u), 0, 0);
    uint32_t streams = op->streams;
    if (op->kind == GOLDEN_CAPTURE) {
        event.flags = ASIM_POOL_CAPTURE;
        streams = 1u << op->stream;
    } else if (!streams) {
        event.flags = ASIM_POOL_ALL;
    }
    if (!step(r, op, event, NULL, NULL))
        return false;
    for (uint32_t i = 0; i < GOLDEN_STREAMS; i++)
        if (streams >> i & 1 &&
            !step(r, op, event_of(ASIM_EV_POOL_JOIN, lane_of(r, r->device, i, op->pool + 1u), 0, 0), NULL,
                  NULL))
            return false;
    return true;
}

static bool replay_plain(replay *r, const golden_op *op)
{
    uint16_t here = lane_of(r, r->device, 0, 0), pool = lane_of(r, r->device, op->stream, op->pool + 1u);
    asim_event event;
    switch (op->kind) {
    case GOLDEN_TRIM:
        event = event_of(ASIM_EV_TRIM, ASIM_LANE_ALL, 0, 0);
        break;
    case GOLDEN_SYNC:
        event = op->stream == GOLDEN_STREAMS
                    ? event_of(ASIM_EV_SYNC, ASIM_LANE_ALL, ASIM_SYNC_ALL, 0)
                    : event_of(ASIM_EV_SYNC, lane_of(r, r->device, op->stream, 0), ASIM_SYNC_STREAM, 0);
        break;
    case GOLDEN_FRACTION:
        event = event_of(ASIM_EV_FRACTION, here, 0, op->size);
        break;
    case GOLDEN_SETTINGS:
        event = event_of(ASIM_EV_SETTINGS, ASIM_LANE_ALL, op->string, 0);
        break;
    case GOLDEN_RESET:
        event = event_of(ASIM_EV_STATS_RESET, here, op->slot, 0);
        break;
    case GOLDEN_RETAIN:
        event = event_of(ASIM_EV_POOL_RETAIN, pool, 0, 0);
        break;
    case GOLDEN_END:
    case GOLDEN_CAPTURED:
        event = event_of(ASIM_EV_POOL_END, pool, 0, 0);
        break;
    case GOLDEN_RELEASE:
        event = event_of(ASIM_EV_POOL_RELEASE, pool, 0, 0);
        break;
    case GOLDEN_JOIN:
        event = event_of(ASIM_EV_POOL_JOIN, pool, 0, 0);
        break;
    case GOLDEN_ENTER:
        r->active[r->device][r->active_count[r->device]++] = op->pool;
        event = event_of(ASIM_EV_POOL_ENTER, pool, 0, 0);
        break;
    default: /* GOLDEN_LEAVE */
        r->active_count[r->device]--;
        event = event_of(ASIM_EV_POOL_LEAVE, here, 0, 0);
        break;
    }
    return step(r, op, event, NULL, NULL);
}

static bool replay_op(replay *r, const golden_op *op)
{
    size_t map_lines = 0;
    bool done = true;
    r->line.length = r->watch.tokens.length = 0;
    switch (op->kind) {
    case GOLDEN_ALLOC:
        done = replay_alloc(r, op);
        break;
    case GOLDEN_FREE:
    case GOLDEN_USE:
        done = replay_block(r, op);
        break;
    case GOLDEN_QUERY:
        write_statistics(r, r->device);
        break;
    case GOLDEN_MAP:
        map_lines = write_map(r, r->device);
        golden_text_string(&r->line, "M");
        golden_text_field(&r->line, ' ', map_lines);
        break;
    case GOLDEN_DEVICE:
        r->device = op->device;
        golden_text_string(&r->line, ".");
        break;
    default:
        golden_text_string(&r->line, ".");
        done = op->kind == GOLDEN_BEGIN || op->kind == GOLDEN_CAPTURE ? replay_begin(r, op)
                                                                      : replay_plain(r, op);
    }
    if (!done)
        return false;
    const char *expected = golden_at(r->c, op->expected);
    golden_text_append(&r->line, r->watch.tokens.bytes, r->watch.tokens.length);
    golden_text_append(&r->line, "", 1);
    if (r->line.refused || r->watch.tokens.refused || r->map.refused)
        return false;
    if (strcmp(r->line.bytes, expected)) {
        differ_at(r, op, expected, r->line.bytes);
        if (op->kind == GOLDEN_QUERY)
            name_statistic(r, r->device, expected, r->line.bytes);
        return false;
    }
    size_t first = op->expected + strlen(expected) + 1;
    return op->kind != GOLDEN_MAP || same_map(r, op, first, (size_t)op->size, map_lines);
}

static bool same_end_line(replay *r, size_t offset, const char *what)
{
    golden_text_append(&r->line, "", 1);
    if (r->line.refused)
        return false;
    const char *expected = golden_at(r->c, offset);
    if (!strcmp(r->line.bytes, expected))
        return true;
    differ(r, "after the last operation, ", what, expected, r->line.bytes);
    return false;
}

static void compare_ends(replay *r)
{
    for (uint32_t device = 0; r->equal && device < r->c->device_count; device++) {
        const golden_end *end = &r->c->ends[device];
        r->line.length = 0;
        write_statistics(r, device);
        if (!same_end_line(r, end->statistics, "statistics")) {
            if (!r->line.refused)
                name_statistic(r, device, golden_at(r->c, end->statistics), r->line.bytes);
            return;
        }
        size_t lines = write_map(r, device);
        if (r->map.refused || !same_map(r, NULL, end->map, end->map_lines, lines))
            return;
        r->line.length = 0;
        write_counts(r, device);
        if (!same_end_line(r, end->counts, "device calls"))
            return;
    }
}

static bool has_param(const asim_param_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->params[i].name, name))
            return true;
    return false;
}

/* The options of the case and the release, for a policy that knows them. */
static asim_code set_params(replay *r, asim_err *err)
{
    const asim_param_table *table = &r->options->policy->params;
    r->params = asim_mem_new(asim_hostmem_libc(), 1, table->block_size ? table->block_size : 1);
    if (!r->params)
        return asim_fail_memory(err, table->block_size);
    asim_params_default(table, r->params);
    const char *release = r->options->release                          ? r->options->release
                          : r->c->statistics == GOLDEN_STATISTICS_1_13 ? "1.13"
                          : r->c->statistics == GOLDEN_STATISTICS_2_1  ? "2.1"
                                                                       : "2.6";
    asim_code code;
    if (has_param(table, "torch") && (code = asim_params_set(table, r->params, "torch", release, err)))
        return code;
    if (!strcmp(r->c->conf, "-"))
        return ASIM_OK;
    char conf[ASIM_PARAM_TEXT_MAX]; /* in brackets: a bare comma would end the parameter */
    if (snprintf(conf, sizeof conf, "[%s]", r->c->conf) >= (int)sizeof conf)
        return asim_fail(err, ASIM_E_INPUT, "the options are longer than %zu characters", sizeof conf - 3);
    return asim_params_set(table, r->params, "conf", conf, err) ? ASIM_E_INPUT : ASIM_OK;
}

static void build_trace(replay *r)
{
    const golden_case *c = r->c;
    uint32_t pools = c->has_pools ? GOLDEN_POOLS + 1 : 1, lanes = 0;
    for (uint32_t pool = 0; pool < pools; pool++)
        for (uint32_t device = 0; device < c->device_count; device++)
            for (uint32_t stream = 0; stream < GOLDEN_STREAMS; stream++)
                r->lanes[lanes++] =
                    (asim_lane){golden_stream_handle(device, stream), (uint16_t)device, (uint16_t)pool};
    for (uint32_t i = 0; i < c->device_count; i++)
        r->devices[i] = (asim_trace_device){ASIM_NO_INDEX, c->capacities[i]};
    for (size_t i = 0; i < c->string_count; i++) {
        const char *text = golden_at(c, c->strings[i]);
        r->strings[i] = (asim_string){text, (uint32_t)strlen(text)};
    }
    r->trace = (asim_trace){
        .slot_count = c->slot_count,
        .lanes = r->lanes,
        .lane_count = lanes,
        .devices = r->devices,
        .device_count = c->device_count,
        .strings = r->strings,
        .string_count = (uint32_t)c->string_count,
        .source = ASIM_NO_INDEX,
        .settings = ASIM_NO_INDEX,
    };
    r->profile = (asim_profile){
        .name = "golden",
        .origin = "estimated: capacity and granule of the recordings; time plays no part",
        .capacity_bytes = c->capacities[0],
        .granule_bytes = UINT64_C(2) << 20,
        .copy_bytes_per_us = 1 << 20,
    };
    r->watch.format = c->format;
    r->watch.lanes = r->lanes;
}

static asim_code start(replay *r, asim_err *err)
{
    const asim_hostmem *mem = asim_hostmem_libc();
    const golden_case *c = r->c;
    r->strings = asim_mem_new(mem, c->string_count + 1, sizeof *r->strings);
    r->slot_devices = asim_mem_new(mem, (size_t)c->slot_count + 1, 1);
    if (!r->strings || !r->slot_devices)
        return asim_fail_memory(err, c->slot_count);
    build_trace(r);
    asim_code code = set_params(r, err);
    if (code)
        return code;
    golden_watch *watch = &r->watch;
    asim_observer_use use = {&golden_observer, &watch};
    asim_run_config config = {
        .trace = &r->trace,
        .policy = r->options->policy,
        .params = r->params,
        .profile = &r->profile,
        .capacities = c->capacities,
        .check = r->options->check,
        .completion = ASIM_COMPLETION_SYNC,
        .observers = &use,
        .observer_count = 1,
    };
    code = asim_engine_new(&config, mem, &r->engine, err);
    return code == ASIM_E_USAGE ? ASIM_E_INPUT : code; /* the options stand in the file */
}

static void finish(replay *r)
{
    const asim_hostmem *mem = asim_hostmem_libc();
    size_t block_size = r->options->policy->params.block_size;
    asim_engine_free(r->engine);
    asim_mem_free(mem, r->params, 1, block_size ? block_size : 1);
    asim_mem_free(mem, r->strings, r->c->string_count + 1, sizeof *r->strings);
    asim_mem_free(mem, r->slot_devices, (size_t)r->c->slot_count + 1, 1);
    golden_watch_fini(&r->watch);
    golden_text_fini(&r->line);
    golden_text_fini(&r->map);
}

static void replay_all(replay *r)
{
    if (r->c->has_fraction)
        for (uint32_t i = 0; i < r->c->device_count; i++) {
            uint64_t bits;
            memcpy(&bits, &r->c->fraction, sizeof bits);
            if (!step(r, NULL, event_of(ASIM_EV_FRACTION, lane_of(r, i, 0, 0), 0, bits), NULL, NULL))
                return;
        }
    for (size_t i = 0; i < r->c->op_count; i++)
        if (!replay_op(r, &r->c->ops[i]))
            return;
    compare_ends(r);
}

asim_code golden_replay(const golden_case *c, const golden_options *options, bool *ret_equal,
                        golden_text *difference, asim_err *err)
{
    replay *r = asim_mem_new(asim_hostmem_libc(), 1, sizeof *r);
    if (!r)
        return asim_fail_memory(err, sizeof *r);
    r->c = c;
    r->options = options;
    r->difference = difference;
    r->equal = true;
    asim_code code = start(r, err);
    if (!code) {
        replay_all(r);
        if (r->line.refused || r->map.refused || r->watch.tokens.refused || difference->refused)
            code = asim_fail_memory(err, r->line.length);
        *ret_equal = r->equal;
    }
    finish(r);
    asim_mem_free(asim_hostmem_libc(), r, 1, sizeof *r);
    return code;
}
