#include "traces/formats.h"

#include "traces/buffers.h"
#include "traces/text.h"
#include "traces/torch_snapshot.h"

#include <string.h>

const asim_importer *const asim_importers[] = {
    &asim_importer_torch_snapshot,
    &asim_importer_buffers,
    &asim_importer_text,
    NULL,
};

const asim_importer *asim_importer_named(const char *name)
{
    for (size_t i = 0; asim_importers[i]; i++)
        if (strcmp(asim_importers[i]->name, name) == 0)
            return asim_importers[i];
    return NULL;
}

const asim_importer *asim_importer_for(const uint8_t *head, size_t length)
{
    const asim_importer *best = NULL;
    int most = 0;
    for (size_t i = 0; asim_importers[i]; i++) {
        int certainty = asim_importers[i]->probe(head, length);
        if (certainty > most) {
            best = asim_importers[i];
            most = certainty;
        }
    }
    return best;
}
