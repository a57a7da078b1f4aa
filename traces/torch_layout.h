/* traces/torch_layout.h - which release of PyTorch first wrote which key of a snapshot.
 *
 * Specification, sections 20.3 and 21. A release is a number: 206 is 2.6. Keys were only ever added, so the
 * newest key that a snapshot has tells the releases it can come from: from that key's release to the one
 * before the next key's. Where a key comes from a change between two releases, the later one is named.
 */
#ifndef ASIM_TRACES_TORCH_LAYOUT_H
#define ASIM_TRACES_TORCH_LAYOUT_H

enum {
    ASIM_TORCH_SINCE_DICT = 200,          /* a dict, not a list of segments; history; requested_size */
    ASIM_TORCH_SINCE_ADDRESSES = 201,     /* a block's address */
    ASIM_TORCH_SINCE_TIMES = 202,         /* an entry's time_us */
    ASIM_TORCH_SINCE_SETTINGS = 203,      /* allocator_settings */
    ASIM_TORCH_SINCE_ANNOTATIONS = 205,   /* external_annotations */
    ASIM_TORCH_SINCE_CONTEXTS = 208,      /* an entry's compile_context */
    ASIM_TORCH_SINCE_REUSE_SETTING = 209, /* graph_capture_record_stream_reuse */
    ASIM_TORCH_SINCE_METADATA = 210,      /* an entry's user_metadata */
    ASIM_TORCH_SINCE_POOL_IDS = 212,      /* an entry's pool_id */
    ASIM_TORCH_SINCE_HOST = 214,          /* host_segments, host_traces */
    ASIM_TORCH_NEWEST = 299,              /* a release after all that are known */
};

#endif
