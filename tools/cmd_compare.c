/* allocsim compare: two runs, two stores, two settings, two ranks: what differs, and why. */
#include "tools/compare.h"
#include "tools/json.h"
#include "tools/load.h"
#include "tools/units.h"
#include "traces/native.h"

#include <inttypes.h>
#include <string.h>

extern const asim_verb asim_verb_compare;

enum {
    FORMAT_TABLE,
    FORMAT_JSON,
};

typedef struct run_options {
    const char *policy, *max_split, *conf, *torch, *device;
    uint64_t capacity, seed;
} run_options;

typedef struct options {
    run_options both, b;
    uint64_t top;
    int format;
} options;

static const options defaults = {.b = {.seed = UINT64_MAX}, .both = {.seed = UINT64_MAX}, .top = 8};
static const char *const formats[] = {"table", "json", NULL};

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "policy",
     .letter = 'p',
     .type = ASIM_OPTION_TEXT,
     .offset = AT(both.policy),
     .argument = "NAME[,KEY=V...]",
     .help = "policy and parameters of both [torchcache]"},
    {.name = "max-split",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(both.max_split),
     .argument = "MIB|none",
     .help = "the parameter max_split_size_mb"},
    {.name = "conf",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(both.conf),
     .argument = "STRING",
     .help = "as PYTORCH_CUDA_ALLOC_CONF [the recording's]"},
    {.name = "torch",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(both.torch),
     .argument = "VERSION",
     .help = "PyTorch release to follow"},
    {.name = "capacity",
     .type = ASIM_OPTION_SIZE,
     .offset = AT(both.capacity),
     .argument = "SIZE",
     .help = "device memory, as in 40GiB",
     .min = 1,
     .max = INT64_MAX},
    {.name = "device",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(both.device),
     .argument = "PROFILE",
     .help = "device profile, by name or file [generic-80g]"},
    {.name = "seed",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(both.seed),
     .argument = "N",
     .help = "of randomised policies [0]",
     .max = INT64_MAX},
    {.name = "policy-b",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(b.policy),
     .argument = "NAME",
     .help = "of B alone; so with all: --conf-b, --torch-b"},
    {.name = "max-split-b", .type = ASIM_OPTION_TEXT, .offset = AT(b.max_split), .argument = "MIB|none"},
    {.name = "conf-b", .type = ASIM_OPTION_TEXT, .offset = AT(b.conf), .argument = "STRING"},
    {.name = "torch-b", .type = ASIM_OPTION_TEXT, .offset = AT(b.torch), .argument = "VERSION"},
    {.name = "capacity-b",
     .type = ASIM_OPTION_SIZE,
     .offset = AT(b.capacity),
     .argument = "SIZE",
     .min = 1,
     .max = INT64_MAX},
    {.name = "device-b", .type = ASIM_OPTION_TEXT, .offset = AT(b.device), .argument = "PROFILE"},
    {.name = "seed-b", .type = ASIM_OPTION_NUMBER, .offset = AT(b.seed), .argument = "N", .max = INT64_MAX},
    {.name = "top",
     .letter = 'n',
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(top),
     .argument = "N",
     .help = "rows of each part of the table [8]",
     .min = 1,
     .max = 1000000},
    {.name = "format",
     .letter = 'f',
     .type = ASIM_OPTION_CHOICE,
     .offset = AT(format),
     .argument = "FORMAT",
     .help = "table, or json with all rows",
     .choices = formats},
};

/* --- what is compared --- */

typedef struct operand {
    const char *path;
    bool stored;
    char file[ASIM_COMPARE_TEXT];
    int64_t run; /* 0: the whole store */
} operand;

static void read_operand(const char *path, operand *ret_operand)
{
    ret_operand->path = path;
    ret_operand->stored = asim_compare_names_store(path, ret_operand->file, &ret_operand->run);
}

static bool any_given(const run_options *o)
{
    return o->policy || o->max_split || o->conf || o->torch || o->device || o->capacity ||
           o->seed != UINT64_MAX;
}

static asim_compare_request request_of(const options *o, unsigned which)
{
    const run_options *both = &o->both, *own = which ? &o->b : &o->both;
    uint64_t seed = own->seed != UINT64_MAX ? own->seed : both->seed;
    return (asim_compare_request){
        .setup = {.policy = own->policy ? own->policy : both->policy,
                  .max_split = own->max_split ? own->max_split : both->max_split,
                  .conf = own->conf ? own->conf : both->conf,
                  .torch = own->torch ? own->torch : both->torch,
                  .device = own->device ? own->device : both->device},
        .capacity = own->capacity ? own->capacity : both->capacity,
        .seed = seed == UINT64_MAX ? 0 : seed,
    };
}

static asim_code check_operands(const options *o, const operand *a, const operand *b, bool single,
                                asim_err *err)
{
    if (a->stored && single)
        return asim_fail(err, ASIM_E_USAGE, "%s: compared with what? Name a second store, run or trace",
                         a->path);
    if (single && !any_given(&o->b))
        return asim_fail(err, ASIM_E_USAGE,
                         "compared with what? Name a second trace, or what differs: --torch-b 2.9, --conf-b "
                         "STRING, --policy-b NAME; see 'allocsim compare --help'");
    if (a->stored && b->stored && (any_given(&o->both) || any_given(&o->b)))
        return asim_fail(err, ASIM_E_USAGE,
                         "options of a run are for traces: what is in a store has its settings already");
    if (b->stored && any_given(&o->b))
        return asim_fail(err, ASIM_E_USAGE,
                         "B is in a store and has its settings already: no option with -b");
    bool whole_a = a->stored && a->run == 0, whole_b = b->stored && b->run == 0;
    if (whole_a != whole_b)
        return asim_fail(
            err, ASIM_E_USAGE,
            "%s is a whole store, the other is one run; write %s:N for its run N ('allocsim db ls "
            "%s' lists them)",
            whole_a ? a->path : b->path, whole_a ? a->path : b->path, whole_a ? a->path : b->path);
    return ASIM_OK;
}

/* --- two stores --- */

typedef struct listing {
    asim_json json;
    asim_comparison pair; /* borrowed by the printers of one pair */
    bool as_json;
} listing;

static void list_name(const asim_compare_side *side, const char *what)
{
    char capacity[ASIM_UNITS_MAX];
    printf("%s%s  %s%s%s, %s, %s", what, side->name, side->policy, side->params[0] ? "," : "", side->params,
           side->device, asim_human_bytes(side->kept.record.capacity, capacity));
    if (side->seed)
        printf(", seed %" PRIu64, side->seed);
    printf(", %s\n", side->trace_path);
}

static void list_pair(listing *l, const asim_compare_side *a, const asim_compare_side *b)
{
    uint64_t pair[2];
    const char *name;
    asim_comparison *c = &l->pair;
    c->sides[0] = *a;
    c->sides[1] = *b;
    if (!l->as_json)
        printf("  placements %016" PRIx64 " -> %016" PRIx64 "\n", a->kept.record.placement_digest,
               b->kept.record.placement_digest);
    for (size_t i = 0; (name = asim_compare_metric(c, i, pair)); i++) {
        if (pair[0] == pair[1])
            continue;
        if (!l->as_json) {
            printf("  %-26s %16" PRIu64 " -> %16" PRIu64 "\n", name, pair[0], pair[1]);
            continue;
        }
        asim_json_begin(&l->json, name, '{');
        asim_json_number(&l->json, "a", pair[0]);
        asim_json_number(&l->json, "b", pair[1]);
        asim_json_integer(&l->json, "difference", (int64_t)(pair[1] - pair[0]));
        asim_json_end(&l->json, '}');
    }
    memset(c->sides, 0, sizeof c->sides);
}

/* Not before there is something to say: a store that can't be read leaves nothing on standard output. */
static void list_begin(listing *l)
{
    if (l->json.depth)
        return;
    asim_json_begin(&l->json, NULL, '{');
    asim_json_begin(&l->json, "runs", '[');
}

static void list_run(void *ctx, const asim_compare_side *a, const asim_compare_side *b)
{
    listing *l = ctx;
    const asim_compare_side *side = a ? a : b;
    if (!l->as_json) {
        list_name(side, a && b ? "differs: " : a ? "only in A: " : "only in B: ");
        if (a && b)
            list_pair(l, a, b);
        return;
    }
    list_begin(l);
    asim_json_begin(&l->json, NULL, '{');
    asim_json_text(&l->json, "result", a && b ? "different" : a ? "only_a" : "only_b");
    asim_json_text(&l->json, "trace", side->trace_path);
    asim_json_text(&l->json, "policy", side->policy);
    asim_json_text(&l->json, "params", side->params);
    asim_json_text(&l->json, "device", side->device);
    asim_json_number(&l->json, "capacity_bytes", side->kept.record.capacity);
    asim_json_number(&l->json, "seed", side->seed);
    if (a)
        asim_json_integer(&l->json, "run_a", a->kept.run_id);
    if (b)
        asim_json_integer(&l->json, "run_b", b->kept.run_id);
    if (a && b) {
        asim_json_digest(&l->json, "placement_digest_a", a->kept.record.placement_digest);
        asim_json_digest(&l->json, "placement_digest_b", b->kept.record.placement_digest);
        asim_json_begin(&l->json, "metrics", '{');
        list_pair(l, a, b);
        asim_json_end(&l->json, '}');
    }
    asim_json_end(&l->json, '}');
}

static int compare_stores(const asim_cli *cli, const options *o, const operand *a, const operand *b)
{
    asim_err err = ASIM_ERR_INIT;
    asim_compare_counts counts;
    listing *l = asim_mem_new(cli->mem, 1, sizeof *l);
    if (!l) {
        asim_fail_memory(&err, sizeof *l);
        return asim_say_error(&err);
    }
    l->json.out = stdout;
    l->as_json = o->format == FORMAT_JSON;
    asim_compare_sink sink = {list_run, l};
    asim_code code = asim_compare_stores(cli, a->file, b->file, &sink, &counts, &err);
    if (l->as_json && !code) {
        list_begin(l);
        asim_json_end(&l->json, ']');
        asim_json_number(&l->json, "same", counts.same);
        asim_json_number(&l->json, "different", counts.differing);
        asim_json_number(&l->json, "only_a", counts.only_a);
        asim_json_number(&l->json, "only_b", counts.only_b);
        asim_json_end(&l->json, '}');
    } else if (!code) {
        printf("%" PRIu64 " runs are the same, %" PRIu64 " differ, %" PRIu64 " only in A, %" PRIu64
               " only in B\n",
               counts.same, counts.differing, counts.only_a, counts.only_b);
    }
    asim_mem_free(cli->mem, l, 1, sizeof *l);
    if (code)
        return asim_say_error(&err);
    return counts.differing || counts.only_a || counts.only_b ? ASIM_EXIT_NO : 0;
}

/* --- two runs --- */

typedef struct replaying {
    asim_trace *traces[2]; /* the second is NULL where it is the first */
    asim_compare_request requests[2];
    asim_watch watches[2];
} replaying;

static asim_code check_conf(const asim_cli *cli, const asim_compare_request *request, const char *option,
                            asim_err *err)
{
    asim_setup trial;
    asim_code code = asim_setup_policy(cli, &request->setup, NULL, &trial, err);
    if (code)
        return code;
    code = asim_setup_check_conf(&trial, request->setup.conf, err);
    if (!code && trial.torch_named)
        asim_setup_warn_conf(&trial, request->setup.conf, option);
    asim_setup_fini(&trial, cli->mem);
    return code;
}

static asim_code load(const asim_cli *cli, const operand *from, asim_trace **ret_trace, asim_err *err)
{
    const char *imported = NULL;
    asim_code code = asim_load_trace(cli, from->path, ret_trace, &imported, err);
    if (!code && imported)
        asim_note(cli, "%s: a %s recording, imported in memory; 'allocsim import %s -o TRACE.zst' keeps it",
                  from->path, imported, from->path);
    return code;
}

static asim_code first_pass(const asim_cli *cli, replaying *r, const operand *operands[2], asim_comparison *c,
                            asim_err *err)
{
    asim_code code = ASIM_OK;
    const asim_trace *traces[2] = {NULL, NULL};
    for (unsigned i = 0; i < 2 && !code; i++) {
        if (operands[i]->stored)
            continue;
        if (i == 1 && traces[0] && strcmp(operands[0]->path, operands[1]->path) == 0) {
            traces[1] = traces[0];
            continue;
        }
        code = load(cli, operands[i], &r->traces[i], err);
        traces[i] = r->traces[i];
    }
    c->replayed = traces[0] && traces[1];
    c->same_trace = c->replayed && traces[0]->digest == traces[1]->digest;
    for (unsigned i = 0; i < 2 && !code; i++) {
        asim_compare_side *side = &c->sides[i];
        if (operands[i]->stored) {
            code = asim_compare_load(cli, operands[i]->file, operands[i]->run, side, err);
            continue;
        }
        snprintf(side->name, sizeof side->name, "%s", operands[i]->path);
        snprintf(side->trace_path, sizeof side->trace_path, "%s", operands[i]->path);
        code = asim_watch_init(&r->watches[i], traces[i], c->same_trace,
                               i && c->replayed ? &r->watches[0] : NULL, cli->mem, err);
        if (!code)
            code = asim_compare_replay(cli, &r->requests[i], traces[i], &r->watches[i], side, err);
    }
    if (!code && !c->replayed)
        c->same_trace = c->sides[0].trace_digest == c->sides[1].trace_digest;
    return code;
}

static asim_code second_pass(const asim_cli *cli, replaying *r, asim_comparison *c, asim_err *err)
{
    asim_code code = ASIM_OK;
    if (c->replayed) {
        c->parted = r->watches[1].part_event != ASIM_WATCH_NEVER;
        c->part_event = r->watches[1].part_event;
        c->differs = c->differs || c->parted;
        if (c->parted && !c->same_trace && c->part_event != ASIM_WATCH_OPENING) {
            const asim_trace *a = c->sides[0].trace, *b = c->sides[1].trace;
            c->part_requests = c->part_event >= a->event_count || c->part_event >= b->event_count ||
                               asim_watch_request(a, c->part_event) != asim_watch_request(b, c->part_event);
        }
    }
    c->has_views = c->replayed || (c->sides[0].has_layout && c->sides[1].has_layout);
    c->has_sites = c->replayed;
    if (!c->differs || !c->has_views) {
        c->has_views = false;
        return ASIM_OK;
    }
    for (unsigned i = 0; i < 2 && !code; i++)
        code = c->replayed ? asim_compare_explain(cli, &r->requests[i], c, i, err)
                           : asim_compare_add_layout(c, i, err);
    for (unsigned view = 0; view < ASIM_VIEWS; view++)
        asim_rows_sort(&c->views[view]);
    return code;
}

static int compare_runs(const asim_cli *cli, const options *o, const operand *a, const operand *b)
{
    asim_err err = ASIM_ERR_INIT;
    const operand *operands[2] = {a, b};
    replaying r = {.requests = {request_of(o, 0), request_of(o, 1)}};
    asim_comparison *c = asim_mem_new(cli->mem, 1, sizeof *c);
    if (!c) {
        asim_fail_memory(&err, sizeof *c);
        return asim_say_error(&err);
    }
    asim_comparison_init(c, cli->mem);
    c->rows_max = o->top;
    asim_code code = ASIM_OK;
    for (unsigned i = 0; i < 2 && !code; i++)
        if (!operands[i]->stored)
            code = check_conf(cli, &r.requests[i], i && o->b.conf ? "--conf-b" : "--conf", &err);
    if (!code)
        code = first_pass(cli, &r, operands, c, &err);
    if (!code) {
        c->differs = asim_compare_results_differ(&c->sides[0], &c->sides[1]);
        code = second_pass(cli, &r, c, &err);
    }
    int status = code ? asim_say_error(&err) : c->differs ? ASIM_EXIT_NO : 0;
    if (!code && o->format == FORMAT_JSON)
        asim_compare_print_json(stdout, c);
    else if (!code)
        asim_compare_print_table(stdout, c, cli->colour);
    for (unsigned i = 0; i < 2; i++)
        asim_watch_fini(&r.watches[i]);
    asim_comparison_fini(c, cli->mem);
    asim_mem_free(cli->mem, c, 1, sizeof *c);
    for (unsigned i = 0; i < 2; i++)
        if (r.traces[i])
            asim_trace_release(r.traces[i]);
    return status;
}

static int run(asim_cli *cli, const void *values, char **paths, size_t count)
{
    const options *o = values;
    asim_err err = ASIM_ERR_INIT;
    operand a, b;
    read_operand(paths[0], &a);
    read_operand(paths[count - 1], &b);
    if (check_operands(o, &a, &b, count == 1, &err))
        return asim_say_error(&err);
    return a.stored && a.run == 0 ? compare_stores(cli, o, &a, &b) : compare_runs(cli, o, &a, &b);
}

const asim_verb asim_verb_compare = {
    .name = "compare",
    .operands = "A [B]",
    .summary = "Says what differs between two runs or stores, and why",
    .text = "Each is a trace, a store, or STORE:N for its run N; no B: the trace A again.\n"
            "Exit status 1: they differ.",
    .example = "compare --torch 2.9 --torch-b 2.11 trace.zst",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .defaults = &defaults,
    .min_operands = 1,
    .max_operands = 2,
    .run = run,
};
