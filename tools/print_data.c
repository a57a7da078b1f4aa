/* The forms for programs: JSON, CSV, and PyTorch's summary. */
#include "tools/json.h"
#include "tools/outcome.h"

#include <string.h>

static const char *status_name(asim_run_status status)
{
    switch (status) {
    case ASIM_RUN_OK:
        return "ok";
    case ASIM_RUN_OOM:
        return "oom";
    case ASIM_RUN_ERROR:
        return "error";
    }
    return "error";
}

static uint64_t events_per_second(const asim_outcome *outcome)
{
    uint64_t ns = outcome->run.wall_ns ? outcome->run.wall_ns : 1;
    return (uint64_t)((double)outcome->run.trace_events * 1e9 / (double)ns);
}

static void json_oom(asim_json *json, const asim_outcome *outcome)
{
    const asim_run_record *record = &outcome->run.record;
    if (!record->has_oom) {
        asim_json_null(json, "oom");
        return;
    }
    const asim_oom *oom = &record->oom;
    asim_json_begin(json, "oom", '{');
    asim_json_number(json, "event", oom->event);
    asim_json_number(json, "requested_bytes", oom->requested_bytes);
    asim_json_number(json, "segment_bytes", oom->segment_bytes);
    asim_json_number(json, "allocated_bytes", oom->allocated_bytes);
    asim_json_number(json, "reserved_bytes", oom->reserved_bytes);
    asim_json_number(json, "device_free_bytes", oom->device_free_bytes);
    asim_json_number(json, "largest_free_bytes", oom->largest_free_bytes);
    asim_json_number(json, "device", oom->device);
    const char *message = asim_outcome_message(outcome);
    if (message)
        asim_json_text(json, "message", message);
    else
        asim_json_null(json, "message");
    asim_json_end(json, '}');
}

static void json_mismatch(asim_json *json, const asim_outcome *outcome)
{
    if (!outcome->run.record.has_mismatch) {
        asim_json_null(json, "mismatch");
        return;
    }
    const asim_mismatch *mismatch = &outcome->run.record.mismatch;
    asim_json_begin(json, "mismatch", '{');
    asim_json_number(json, "event", mismatch->event);
    asim_json_text(json, "what", mismatch->is_call ? "driver call" : "allocation");
    asim_json_number(json, "stream", outcome->run.mismatch_stream);
    asim_json_number(json, "size", mismatch->size);
    asim_json_number(json, "recorded_address", mismatch->recorded_address);
    asim_json_number(json, "address", mismatch->address);
    asim_json_end(json, '}');
}

void asim_json_run(asim_json *json, const asim_stored_run *run)
{
    asim_json_begin(json, "trace", '{');
    asim_json_text(json, "path", run->trace_path);
    asim_json_digest(json, "digest", run->trace_digest);
    asim_json_number(json, "events", run->trace_events);
    asim_json_end(json, '}');
    asim_json_begin(json, "policy", '{');
    asim_json_text(json, "name", run->policy);
    asim_json_number(json, "version", run->policy_version);
    asim_json_text(json, "params", run->params);
    asim_json_end(json, '}');
    asim_json_text(json, "device", run->device);
    asim_json_number(json, "capacity_bytes", run->record.capacity);
    asim_json_number(json, "seed", run->seed);
    asim_json_text(json, "status", status_name(run->record.status));
    asim_json_digest(json, "placement_digest", run->record.placement_digest);
    asim_json_begin(json, "metrics", '{');
    for (unsigned i = 0; i < ASIM_METRIC_COUNT; i++)
        asim_json_number(json, asim_metric_name((asim_metric)i), run->record.metrics[i]);
    for (uint32_t i = 0; i < run->record.own_count; i++)
        asim_json_number(json, run->record.own[i].name, run->record.own[i].value);
    asim_json_end(json, '}');
}

void asim_print_json(FILE *out, const asim_outcome *outcome)
{
    const asim_stored_run *run = &outcome->run;
    asim_json json = {.out = out};
    asim_json_begin(&json, NULL, '{');
    asim_json_run(&json, run);
    if (outcome->setup.torch[0])
        asim_json_text(&json, "torch", outcome->setup.torch);
    json_oom(&json, outcome);
    json_mismatch(&json, outcome);
    asim_json_begin(&json, "about", '{');
    asim_json_number(&json, "wall_ns", run->wall_ns);
    asim_json_number(&json, "events_per_second", events_per_second(outcome));
    asim_json_text(&json, "host", run->host);
    asim_json_text(&json, "program", run->program);
    if (outcome->db) {
        asim_json_text(&json, "db", outcome->db);
        asim_json_number(&json, "run_id", (uint64_t)outcome->run_id);
    }
    asim_json_end(&json, '}');
    asim_json_end(&json, '}');
}

/* RFC 4180. */
static void csv_text(FILE *out, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

void asim_print_csv_header(FILE *out)
{
    fputs("trace,trace_digest,policy,params,device,device_digest,capacity_bytes,seed,status,placement_digest",
          out);
    for (unsigned i = 0; i < ASIM_METRIC_COUNT; i++)
        fprintf(out, ",%s", asim_metric_name((asim_metric)i));
    fputc('\n', out);
}

void asim_print_csv(FILE *out, const asim_stored_run *run)
{
    csv_text(out, run->trace_path);
    fprintf(out, ",%016" PRIx64 ",", run->trace_digest);
    csv_text(out, run->policy);
    fputc(',', out);
    csv_text(out, run->params);
    fputc(',', out);
    csv_text(out, run->device);
    fprintf(out, ",%016" PRIx64 ",%" PRIu64 ",%" PRIu64 ",%s,%016" PRIx64, run->device_digest,
            run->record.capacity, run->seed, status_name(run->record.status), run->record.placement_digest);
    for (unsigned i = 0; i < ASIM_METRIC_COUNT; i++)
        fprintf(out, ",%" PRIu64, run->record.metrics[i]);
    fputc('\n', out);
}

asim_code asim_print_summary(FILE *out, const asim_outcome *outcome, bool abbreviated, asim_err *err)
{
    bool old_release = strcmp(outcome->setup.torch, "1.13") == 0;
    char name[64];
    for (uint32_t device = 0; device < outcome->run.trace_devices; device++) {
        const asim_memory_stats *stats = &outcome->stats[device];
        if (asim_memory_stats_missing(stats, old_release, name))
            return asim_fail(
                err, ASIM_E_USAGE,
                "--format summary is PyTorch's text and needs its statistics; the policy %s does not "
                "keep %s (torchcache does)",
                outcome->run.policy, name);
        asim_memory_summary(out, stats, device, old_release, abbreviated);
    }
    return ASIM_OK;
}

void asim_print_torch_stats(FILE *out, const asim_outcome *outcome)
{
    asim_json json = {.out = out};
    asim_json_begin(&json, NULL, '{');
    for (uint32_t device = 0; outcome->all_stats && device < outcome->run.trace_devices; device++) {
        char key[16];
        snprintf(key, sizeof key, "%" PRIu32, device);
        asim_torch_stats_print(&json, key, &outcome->all_stats[device]);
    }
    asim_json_end(&json, '}');
}
