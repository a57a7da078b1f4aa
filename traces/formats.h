/* traces/formats.h - the foreign formats that can be imported: one list, and the choice by content.
 *
 * To add one: write traces/NAME.c with a const asim_importer, add it to the list in formats.c and to
 * traces/meson.build. traces/README.md says how an importer is written.
 */
#ifndef ASIM_TRACES_FORMATS_H
#define ASIM_TRACES_FORMATS_H

#include "sim/source.h"

/* Every importer, in the order of help texts; ends with NULL. */
extern const asim_importer *const asim_importers[];

/* The importer called name, or NULL. */
const asim_importer *asim_importer_named(const char *name);

/* The one that is most certain to know a file that begins with these bytes (the first of several), or NULL.
 */
const asim_importer *asim_importer_for(const uint8_t *head, size_t length);

#endif
