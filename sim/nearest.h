/* sim/nearest.h - what a misspelt word was meant to be, for messages that say "did you mean". */
#ifndef ASIM_SIM_NEAREST_H
#define ASIM_SIM_NEAREST_H

/* The word of names (ended by NULL) that is nearest to text, or NULL when none is near. Letters to insert,
 * remove, replace or swap are counted; at most a third of text's letters, and one more, may be wrong. Of
 * equally near words the first wins. Cost: the product of the lengths, for each name. */
const char *asim_nearest(const char *text, const char *const *names);

#endif
