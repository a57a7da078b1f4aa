/* tools/tune.h - what `tune` searches: one setting of PyTorch's allocator, and what it is worth.
 *
 * A setting is what a user can really set: options of PYTORCH_CUDA_ALLOC_CONF, a call of empty_cache at a
 * mark, a block that is allocated and freed early so that its segment is cached. The search begins with the
 * baseline (the user's option string, or the recording's, or the defaults), changes one thing at a time, and
 * then goes on from the best of what it found. No two runs of one search are the same.
 *
 * max_split_size_mb together with expandable_segments:True is never proposed: free blocks of the maximum and
 * more are kept from smaller requests, which map new memory instead (pytorch issue 123548); tune_trap.h shows
 * it. A memory fraction is proposed only as what the collection threshold needs (0.99): a smaller one lowers
 * the peak as a smaller device does, by refusing what would exceed it, and `fit` answers that.
 */
#ifndef ASIM_TOOLS_TUNE_H
#define ASIM_TOOLS_TUNE_H

#include "policies/torchcache_conf.h"
#include "sim/event.h"
#include "sim/params.h"
#include "sim/profile.h"
#include "tools/cli.h"

#include <stdatomic.h>

enum {
    ASIM_TUNE_PLACES_MAX = 24,      /* marks that are looked at */
    ASIM_TUNE_GIVEN = 0xFFFF,       /* divisions: as the user's option string has them */
    ASIM_TUNE_TEXT_MAX = 2048,      /* a setting in words */
    ASIM_TUNE_FRACTION_PERCENT = 99 /* what a collection threshold gets where no fraction is set */
};

/* Things that can be searched, and forbidden: bits. */
typedef enum asim_tune_knob {
    ASIM_KNOB_MAX_SPLIT,
    ASIM_KNOB_GC,
    ASIM_KNOB_DIVISIONS,
    ASIM_KNOB_EXPANDABLE,
    ASIM_KNOB_LARGE_SEGMENT,
    ASIM_KNOB_EMPTY_CACHE,
    ASIM_KNOB_PREALLOCATION,
    ASIM_KNOB_PHASE_SETTINGS,
    ASIM_KNOBS
} asim_tune_knob;

extern const char *const asim_tune_knobs[]; /* their names, ended by NULL */

typedef struct asim_tune_setting {
    uint64_t max_split_mib;     /* 0: unlimited */
    uint64_t large_segment_mib; /* 0: the release's own */
    uint32_t gc;                /* garbage_collection_threshold in ten-thousandths; 0: off */
    uint32_t divisions;         /* roundup_power2_divisions; 0: off */
    uint32_t trim_place;        /* empty_cache: 1 + index of a place; 0: none */
    uint32_t block_percent;     /* block allocated early, of what the trace needs at its peak; 0: none */
    uint32_t block_place;       /* 1 + index of a place; 0: the start */
    uint32_t switch_place; /* from this mark on expandable_segments is the other way: 1 + index; 0: not */
    bool expandable;
    bool trim_each; /* at each such mark; otherwise at the first alone */
} asim_tune_setting;

typedef struct asim_tune_place { /* a kind of mark; the text is the trace's */
    const char *label;
    uint8_t flags;  /* of the mark */
    uint64_t count; /* in the trace where it was found */
} asim_tune_place;

typedef struct asim_tune_base { /* where the search begins */
    const asim_tc_release *release;
    const char *given;                   /* option string that the baseline has; "": none */
    bool from_recording;                 /* given is the recording's */
    bool limited;                        /* given sets a memory fraction */
    asim_tc_options options;             /* what given means */
    asim_tune_setting setting;           /* the same as a setting */
    char rest[ASIM_PARAM_TEXT_MAX];      /* options of given that are not searched, "a:1,b:2" */
    char divisions[ASIM_PARAM_TEXT_MAX]; /* given's roundup_power2_divisions, or "" */
    asim_tune_place places[ASIM_TUNE_PLACES_MAX];
    size_t place_count;
} asim_tune_base;

/* Reads an option string that the release takes. */
asim_code asim_tune_base_make(const asim_tc_release *release, const char *given, asim_tune_base *ret_base,
                              asim_err *err);
/* The distinct marks of a trace, the first ASIM_TUNE_PLACES_MAX of them. */
void asim_tune_find_places(const asim_trace *trace, asim_tune_base *base);
bool asim_tune_at_place(const asim_trace *trace, const asim_event *event, const asim_tune_place *place);

bool asim_tune_equal(const asim_tune_setting *a, const asim_tune_setting *b);
/* How many knobs differ. */
unsigned asim_tune_changes(const asim_tune_setting *a, const asim_tune_setting *b);

/* The setting's option string, "" where it needs none. */
void asim_tune_conf(const asim_tune_base *base, const asim_tune_setting *setting,
                    char ret_text[ASIM_PARAM_TEXT_MAX]);
/* What is set at the mark of a setting that has a switch_place. */
void asim_tune_switch_conf(const asim_tune_base *base, const asim_tune_setting *setting,
                           char ret_text[ASIM_PARAM_TEXT_MAX]);
/* Whether a memory fraction must be set beside it. */
bool asim_tune_needs_fraction(const asim_tune_base *base, const asim_tune_setting *setting);
/* In words on one line: "max_split_size_mb:64 + empty_cache at each 'step'"; "defaults" for no setting. */
void asim_tune_words(const asim_tune_base *base, const asim_tune_setting *setting,
                     char ret_text[ASIM_TUNE_TEXT_MAX]);

#endif
